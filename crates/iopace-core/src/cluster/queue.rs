//! A host's part in the queue of a volume, from the records of all hosts.
//!
//! # Model
//! A volume that serves all in order of arrival serves each host in proportion to its requests in
//! the volume's queue. All hosts know the same records and compute the same numbers:
//! ```text
//!   all requests that are to be in the queue    W = L_target x rate of all + BETA
//!   those of a host                             w = W x n / sum of n,  n = due / yield
//! ```
//! L_target x rate are those that are answered within the target (Little's law); [`BETA`] more keep
//! the queue from being shorter than pays, and are the betas of all hosts, so that a host in the
//! dark, which follows PARDA's law, and those that see each other come to the same shares. A window
//! that is larger than a host makes use of shares nothing: so W is no more than is in the queue
//! now, as long as that is answered in half of the target or more. *due* is
//! what is due to a host by weights ([`super::weights`]), and *yield* what it gets per request in
//! the queue: the same for all at a volume that serves in order of arrival, and measured, as no
//! volume does so exactly.
//!
//! A host that wants less than is due to it has a window as if it wanted all: when it begins it has
//! its share at once, and the others make room when they have seen it.

use super::Allowance;
use super::demand::{ClusterGroup, GroupDemand, HostRecord};
use super::weights::{OwnWeight, dues};
use crate::group::Weight;
use crate::time::Nanos;
use crate::units::scaled;
use crate::window::{HostShare, TARGET_TIMES, WindowSize};

/// The betas of all hosts together: those of sixteen hosts of default weight that nobody coordinates.
const BETA: WindowSize = WindowSize::requests(32);

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
    /// The latency at which the queue is long enough; none: 32 times the least that requests of a
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
    let (real, weights) = dues(&hosts, own);
    wants_all(&mut hosts[own]);
    let (dues, _) = dues(&hosts, own);
    let whole = Whole::of(&hosts);
    let needs = hosts.iter().zip(&dues).map(|(host, due)| whole.need(host, *due));
    let needs: Vec<u64> = needs.collect();
    let all_needs = needs.iter().fold(0u64, |sum, need| sum.saturating_add(*need));
    let least_alone = hosts.iter().filter_map(|host| host.alone).min();
    let target = terms.target.or(least_alone.map(|alone| alone.times(TARGET_TIMES)));
    let line = longer(whole.line(target), &hosts, &needs, all_needs);
    let own_due = dues[own];
    let all_dues: u64 = dues.iter().fold(0, |sum, due| sum.saturating_add(*due));
    let others = |sum: u64, (at, host): (usize, &HostRecord)| match at == own {
        true => sum,
        false => sum.saturating_add(host.in_flight.0),
    };
    let others = hosts.iter().enumerate().fold(0, others);
    let share = HostShare {
        beta: WindowSize(scaled(BETA.0, own_due, all_dues).max(1)),
        target,
        size: Some(WindowSize(scaled(line, needs[own], all_needs).max(WindowSize::ONE.0))),
        held_for: terms.look.times(LOOKS_LOST),
        is_quiet: others < QUIET.0,
    };
    let all_real = real.iter().fold(0u64, |sum, due| sum.saturating_add(*due));
    let due_permille = u16::try_from(scaled(1_000, real[own], all_real)).unwrap_or(1_000);
    OwnPart { share, weights, due_permille }
}

/// A host that wants no more than it has is looked at as if it did.
fn wants_all(host: &mut HostRecord) {
    if host.is_backlogged() {
        return;
    }
    if host.groups.is_empty() {
        let (group, weight) = (ClusterGroup(u32::MAX), Weight::DEFAULT);
        let (used, wanted) = (Allowance(0), Allowance(0));
        host.groups.push(GroupDemand { group, weight, tasks_count: 1, used, wanted });
    }
    host.groups.iter_mut().for_each(|group| group.wanted = Allowance(u64::MAX));
}

/// All hosts together: the sums of what their records say.
#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    used: u64,
    in_flight: u64,
    done: u64,
    windows: u64,
}

impl Whole {
    fn of(hosts: &[HostRecord]) -> Whole {
        hosts.iter().fold(Whole::default(), |sum, host| Whole {
            used: sum.used.saturating_add(host.used()),
            in_flight: sum.in_flight.saturating_add(host.in_flight.0),
            done: sum.done.saturating_add(host.done.0),
            windows: sum.windows.saturating_add(host.window.0),
        })
    }

    /// The requests that a host needs in the queue for what is due to it, in a unit that all hosts
    /// have in common: its due by its yield, over that of all.
    fn need(&self, host: &HostRecord, due: u64) -> u64 {
        let Whole { used, in_flight, done, .. } = *self;
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

    /// All requests that are to be in the queue, in 256ths. Without a target: as many as now.
    fn line(&self, target: Option<Nanos>) -> u64 {
        let Some(target) = target else { return self.windows };
        // Both the rate and the queue are in 256ths.
        let paid = scaled(self.done, target.0, 1_000_000_000);
        let (most, least) = (paid.saturating_add(BETA.0), (paid / 2).saturating_add(BETA.0));
        self.in_flight.clamp(least, most)
    }
}

/// The queue is longer if the host that needs least, of those that want more than they have, had
/// less than one request in it.
fn longer(line: u64, hosts: &[HostRecord], needs: &[u64], all_needs: u64) -> u64 {
    let backlogged = hosts.iter().zip(needs).filter(|(host, _)| host.is_backlogged());
    let Some(least) = backlogged.map(|(_, need)| *need).min() else { return line };
    let wanted = scaled(WindowSize::ONE.0, all_needs, least);
    line.max(wanted.min(line.saturating_mul(LONGER_TIMES)))
}
