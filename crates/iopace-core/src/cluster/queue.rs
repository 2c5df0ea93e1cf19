//! A host's part in the queue of a volume, from the records of all hosts.
//!
//! # Model
//! A volume that serves all in order of arrival serves each host in proportion to its requests in
//! the volume's queue. All hosts know the same records and compute the same numbers:
//! ```text
//!   all requests that are to be in the queue    W = L_target x rate of all + BETA
//!   those of a host                             w = W x n / sum of n,  n = due / yield
//! ```
//! L_target x rate are those that are answered within the target (Little's law). BETA more are
//! there by the weights of all groups that want something, as each host by itself has by its own
//! weight ([`BETA_DEFAULT`]): so a host in the dark, which follows PARDA's law, and those that see
//! each other come to the same shares. *due* is what is due to a host by weights
//! ([`super::weights`]), and *yield* what it gets per request in the queue: the same for all at a
//! volume that serves in order of arrival, and measured, as no volume does so exactly.
//!
//! A host that wants less than is due to it has a window as if it wanted all: when it begins it has
//! its share at once, and the others make room when they have seen it.

use super::Allowance;
use super::demand::{ClusterGroup, GroupDemand, HostRecord};
use super::weights::{Dues, OwnWeight, dues};
use crate::group::Weight;
use crate::limits::GROUP_WEIGHT_DEFAULT;
use crate::time::Nanos;
use crate::units::scaled;
use crate::window::{BETA_DEFAULT, HostShare, SHARED_TARGET_TIMES, WindowSize};

/// The betas of all hosts together are not more than this, however many hosts and groups there are:
/// as many requests as a disk holds by the older standards (31 or 32), twice.
const BETA_MAX: WindowSize = WindowSize::requests(64);

/// The host to which least is due is to have one request at least; for that the queue may be longer
/// than the target lets it be by so many times.
const LONGER_TIMES: u64 = 8;

/// The yield of a host is known by so many requests of its own as well as by those of all.
const YIELD_COUNT: u64 = 16;

/// And never taken for more than so many times that of all, or so small a part.
const YIELD_TIMES: u64 = 8;

/// Others have so few requests at the device, together, that one of the host's is alone there.
const QUIET: WindowSize = WindowSize(64);

/// The host's part from the records of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPart {
    /// To be told to the engine: [`crate::engine::Control::HostShare`].
    pub share: HostShare,
    /// The weights of its groups, for its scheduler.
    pub weights: Vec<OwnWeight>,
    /// The part of all that is due to the host now, in thousandths.
    pub due_permille: u16,
}

/// The terms on which all hosts share the queue of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTerms {
    /// The latency at which the queue is long enough; none: 16 times the least that requests of a
    /// host take alone.
    pub target: Option<Nanos>,
    /// Each host looks at the records of all so often.
    pub look: Nanos,
}

/// A host goes on with its part for so many looks that bring nothing.
const LOOKS_LOST: u64 = 4;

/// The part of the host `own` of those in the view. Every host has to be in it; one that has no
/// session any more is not.
///
/// # Panics
/// If there is no host `own`.
pub fn own_part(hosts: &[HostRecord], own: usize, terms: &QueueTerms) -> OwnPart {
    let mut hosts = hosts.to_vec();
    let real = dues(&hosts, own);
    wants_all(&mut hosts[own]);
    let Dues { hosts: dues, weights, .. } = dues(&hosts, own);
    let beta = scaled(BETA_DEFAULT.0, weights, u64::from(GROUP_WEIGHT_DEFAULT)).min(BETA_MAX.0);
    let whole = HostSums::of(&hosts);
    let needs = hosts.iter().zip(&dues).map(|(host, due)| whole.need(host, *due));
    let needs: Vec<u64> = needs.collect();
    let all_needs = needs.iter().fold(0u64, |sum, need| sum.saturating_add(*need));
    let least_alone = hosts.iter().filter_map(|host| host.alone).min();
    let target = terms.target.or(least_alone.map(|alone| alone.times(SHARED_TARGET_TIMES)));
    let own_due = dues[own];
    let all_dues: u64 = dues.iter().fold(0, |sum, due| sum.saturating_add(*due));
    let line = longer(whole.line(target, beta), &hosts, &dues, all_dues);
    let others = |sum: u64, (at, host): (usize, &HostRecord)| match at == own {
        true => sum,
        false => sum.saturating_add(host.in_flight.0),
    };
    let others = hosts.iter().enumerate().fold(0, others);
    let share = HostShare {
        beta: WindowSize(scaled(beta, own_due, all_dues).max(1)),
        target,
        size: Some(WindowSize(scaled(line, needs[own], all_needs).max(WindowSize::ONE.0))),
        held_for: terms.look.times(LOOKS_LOST),
        is_quiet: others < QUIET.0,
    };
    let all_real = real.hosts.iter().fold(0u64, |sum, due| sum.saturating_add(*due));
    let due_permille = u16::try_from(scaled(1_000, real.hosts[own], all_real)).unwrap_or(1_000);
    OwnPart { share, weights: real.own, due_permille }
}

/// A host that wants no more than it has is looked at as if it did.
fn wants_all(host: &mut HostRecord) {
    if host.is_backlogged() {
        return;
    }
    if host.groups.is_empty() {
        let (group, weight) = (ClusterGroup(u32::MAX), Weight::DEFAULT);
        let [used, wanted, least] = [Allowance(0); 3];
        host.groups.push(GroupDemand { group, weight, tasks_count: 1, used, wanted, least });
    }
    host.groups.iter_mut().for_each(|group| group.wanted = Allowance(u64::MAX));
}

/// All hosts together: the sums of what their records say.
#[derive(Clone, Copy, Debug, Default)]
struct HostSums {
    used: u64,
    in_flight: u64,
    done: u64,
}

impl HostSums {
    fn of(hosts: &[HostRecord]) -> HostSums {
        hosts.iter().fold(HostSums::default(), |sum, host| HostSums {
            used: sum.used.saturating_add(host.used()),
            in_flight: sum.in_flight.saturating_add(host.in_flight.0),
            done: sum.done.saturating_add(host.done.0),
        })
    }

    /// The requests that a host needs in the queue for what is due to it, in a unit that all hosts
    /// have in common: its due by its yield, over that of all.
    fn need(&self, host: &HostRecord, due: u64) -> u64 {
        let HostSums { used, in_flight, done } = *self;
        if used == 0 || in_flight == 0 || done == 0 {
            return due;
        }
        // As if YIELD_COUNT requests a second of the mean of all were the host's own as well.
        let mean = |sum: u64| scaled(sum, YIELD_COUNT * 256, done);
        let own_used = host.used().saturating_add(mean(used));
        let own_in_flight = host.in_flight.0.saturating_add(mean(in_flight));
        // In 2^16ths.
        let all_yield = scaled(used, 1 << 16, in_flight);
        let (least, most) = (all_yield / YIELD_TIMES, all_yield.saturating_mul(YIELD_TIMES));
        let own_yield = scaled(own_used, 1 << 16, own_in_flight).clamp(least, most);
        scaled(due, all_yield, own_yield)
    }

    /// All requests that are to be in the queue, in 256ths. Without a target a few more than there
    /// are: as many as programs have, and still the window of who has too many holds.
    fn line(&self, target: Option<Nanos>, beta: u64) -> u64 {
        let Some(target) = target else { return self.in_flight.saturating_add(2 * beta) };
        // Both the rate and the queue are in 256ths.
        scaled(self.done, target.0, 1_000_000_000).saturating_add(beta)
    }
}

/// The queue is longer if the host to which least is due, of those that want more than they have,
/// had less than one request in it. This goes by dues alone, as what a host needs is known less
/// well when loads have just changed. Nothing is due to a host beside guarantees for all there is.
fn longer(line: u64, hosts: &[HostRecord], dues: &[u64], all_dues: u64) -> u64 {
    let backlogged = hosts.iter().zip(dues).filter(|(host, _)| host.is_backlogged());
    let dues = backlogged.map(|(_, due)| *due).filter(|due| *due > 0);
    let Some(least) = dues.min() else { return line };
    let wanted = scaled(WindowSize::ONE.0, all_dues, least);
    line.max(wanted.min(line.saturating_mul(LONGER_TIMES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: QueueTerms =
        QueueTerms { target: Some(Nanos::from_millis(2)), look: Nanos::from_millis(250) };

    /// A host with a group of its own, that wants all or what it uses.
    struct Modelled {
        weight: u32,
        /// Requests that it has at a time if it may.
        wants: u64,
        /// Its yield per request, in thousandths of others.
        yields: u64,
        window: u64,
    }

    /// A volume that does 40 000 requests a second as long as 16 are there, in order of arrival.
    fn look(hosts: &mut [Modelled], terms: &QueueTerms) -> Vec<OwnPart> {
        let in_flight = |host: &Modelled| host.window.min(host.wants * 256);
        let served = |host: &Modelled| in_flight(host) * host.yields / 1_000;
        let all: u64 = hosts.iter().map(served).sum::<u64>().max(16 * 256);
        let record = |(number, host): (usize, &Modelled)| {
            let done = served(host) * 40_000 * 256 / all;
            let is_held = host.window <= host.wants * 256;
            let group = GroupDemand {
                group: ClusterGroup(number as u32),
                weight: Weight::new(host.weight).expect("legal"),
                tasks_count: 1,
                used: Allowance(done),
                wanted: Allowance(if is_held { u64::MAX } else { done }),
                least: Allowance(0),
            };
            HostRecord {
                window: WindowSize(host.window),
                in_flight: WindowSize(in_flight(host)),
                done: Allowance(done),
                alone: Some(Nanos::from_micros(100)),
                groups: vec![group],
            }
        };
        let records: Vec<HostRecord> = hosts.iter().enumerate().map(record).collect();
        let parts: Vec<OwnPart> =
            (0..hosts.len()).map(|own| own_part(&records, own, terms)).collect();
        for (host, part) in hosts.iter_mut().zip(&parts) {
            host.window = part.share.size.expect("a size is told").0;
        }
        parts
    }

    fn hosts(weights: &[u32]) -> Vec<Modelled> {
        let host = |(at, weight): (usize, &u32)| Modelled {
            weight: *weight,
            wants: 500,
            yields: 1_000,
            window: 256 * (1 + 60 * (at as u64 % 3)),
        };
        weights.iter().enumerate().map(host).collect()
    }

    /// Whether windows stand to each other as the weights, within a hundredth.
    fn assert_by_weight(hosts: &[Modelled]) {
        let sum: u64 = hosts.iter().map(|host| host.window).sum();
        let weights: u64 = hosts.iter().map(|host| u64::from(host.weight)).sum();
        for host in hosts {
            let due = sum * u64::from(host.weight) / weights;
            assert!(host.window.abs_diff(due) * 100 <= due + 100, "{} of {due}", host.window);
        }
    }

    #[test]
    fn two_looks_are_enough_whatever_the_windows_were() {
        let mut hosts = hosts(&[100, 200, 300, 400, 50]);
        look(&mut hosts, &TERMS);
        let parts = look(&mut hosts, &TERMS);
        assert_by_weight(&hosts);
        // 80 requests are answered within the target, and 21 are there beyond them.
        let sum: u64 = hosts.iter().map(|host| host.window).sum();
        assert!(sum.abs_diff(101 * 256) < 256, "{sum}");
        let dues: u32 = parts.iter().map(|part| u32::from(part.due_permille)).sum();
        assert!((995..=1_000).contains(&dues), "{dues}");
        let betas: u64 = parts.iter().map(|part| part.share.beta.0).sum();
        assert!(betas.abs_diff(21 * 256) <= 5, "{betas}");
    }

    #[test]
    fn a_host_that_begins_has_its_share_at_once_and_the_others_make_room() {
        let mut hosts = hosts(&[100, 100, 200]);
        hosts[2].wants = 0;
        (0..5).for_each(|_| _ = look(&mut hosts, &TERMS));
        let [first, second, idle] = [0, 1, 2].map(|at| hosts[at].window);
        assert!(first.abs_diff(second) <= 2, "{first} {second}");
        assert!(idle.abs_diff(first) * 20 <= first, "half of all: {idle} beside {first}");
        hosts[2].wants = 500;
        look(&mut hosts, &TERMS);
        look(&mut hosts, &TERMS);
        assert_by_weight(&hosts);
    }

    #[test]
    fn who_wants_little_is_not_held() {
        let mut hosts = hosts(&[100, 100, 100, 100]);
        hosts[0].wants = 3;
        (0..8).for_each(|_| _ = look(&mut hosts, &TERMS));
        assert!(hosts[0].window > 3 * 256, "{}", hosts[0].window);
        let rest: u64 = hosts[1..].iter().map(|host| host.window).sum();
        assert!(rest + 3 * 256 >= 84 * 250, "{rest}");
    }

    #[test]
    fn a_host_that_gets_less_per_request_has_more_of_them() {
        let mut hosts = hosts(&[100, 100, 100]);
        hosts[1].yields = 500;
        (0..6).for_each(|_| _ = look(&mut hosts, &TERMS));
        let times = hosts[1].window * 100 / hosts[0].window;
        assert!((195..=205).contains(&times), "{times}");
    }

    #[test]
    fn the_host_of_the_least_weight_has_a_request() {
        let mut hosts = hosts(&[1, 100, 200, 300]);
        (0..4).for_each(|_| _ = look(&mut hosts, &TERMS));
        assert_by_weight(&hosts);
        assert!(hosts[0].window >= 256);
        // But not at any price.
        hosts[0].weight = 1;
        hosts[3].weight = 10_000;
        hosts[3].wants = 5_000;
        (0..4).for_each(|_| _ = look(&mut hosts, &TERMS));
        let sum: u64 = hosts.iter().map(|host| host.window).sum();
        assert!(sum <= (144 * LONGER_TIMES + 1) * 256, "{sum}");
    }

    #[test]
    fn without_a_target_the_least_latency_alone_makes_one() {
        let mut hosts = hosts(&[100, 200]);
        let parts = look(&mut hosts, &QueueTerms { target: None, ..TERMS });
        assert_eq!(parts[0].share.target, Some(Nanos::from_micros(1_600)));
        let part = own_part(&[HostRecord::default()], 0, &QueueTerms { target: None, ..TERMS });
        assert_eq!(part.share.target, None, "nobody has had a request");
        assert_eq!(part.share.size, Some(WindowSize(1_024)), "twice its beta");
        assert!(part.share.is_quiet && part.weights.is_empty());
    }
}
