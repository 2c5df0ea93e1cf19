//! The amount that is due to each host by the weights of its groups, which hold for all hosts.
//!
//! # Model
//! The amount that all hosts together get is shared twice, each time by weight and so that nobody
//! has more than he wants as long as another one wants it ([`shares`]): among the groups, by their
//! weights and the sums of what they want; then the share of each group among its hosts, by the
//! number of its tasks there. What is guaranteed to a group on a host it has before that. A host is
//! due the sum over its groups.
//! ```text
//!              all ─┬─ group "db"  ─┬─ host A (3 tasks)   A is due 3/4 of the share of db
//!                   │               └─ host B (1 task)
//!                   └─ group "web" ─── host A             and all of that of web
//! ```
//! The scheduler of a host has to share by the same amounts what the host gets. So it is given the
//! part of each group's weight that is the host's own: that of its tasks, or that of its due if
//! that is more, as others leave theirs.

use super::Allowance;
use super::demand::{ClusterGroup, GroupDemand, HostRecord};
use super::share::{Demand, shares};
use crate::group::Weight;
use crate::limits::{GROUP_WEIGHT_MAX, GROUP_WEIGHT_MIN};
use crate::units::scaled;

/// A group of one host: the host's place in the view, and how the group stands there.
type Member = (usize, GroupDemand);

/// The weight of a group for the scheduler of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnWeight {
    /// The group.
    pub group: ClusterGroup,
    /// Its weight among the groups of the host: the largest has the most that there is.
    pub weight: Weight,
}

/// The dues of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dues {
    /// The amount that is due to each host in a second, in the order of the view.
    pub(super) hosts: Vec<u64>,
    /// The sum of the weights of all groups that want something.
    pub(super) weights: u64,
    /// For each group of the host itself the part of the group's weight that is the host's own.
    pub(super) own: Vec<OwnWeight>,
}

/// The dues of the hosts of a view, as the host `own` looks at it.
pub(super) fn dues(hosts: &[HostRecord], own: usize) -> Dues {
    let mut members: Vec<Member> = Vec::new();
    for (host, record) in hosts.iter().enumerate() {
        members.extend(record.groups.iter().map(|group| (host, *group)));
    }
    members.sort_by_key(|(host, member)| (member.group, *host));
    let groups: Vec<&[Member]> =
        members.chunk_by(|(_, one), (_, other)| one.group == other.group).collect();
    // Where nobody has had anything yet any amount shows the shares.
    let used = hosts.iter().fold(0u64, |sum, host| sum.saturating_add(host.used()));
    let all = if used == 0 { 1 << 32 } else { used };
    let demands: Vec<Demand> = groups.iter().map(|members| of_group(members)).collect();
    let mut dues = vec![0u64; hosts.len()];
    let mut parts = Vec::new();
    for (members, share) in groups.iter().zip(shares(Allowance(all), &demands)) {
        let among: Vec<Demand> = members.iter().map(|(_, member)| of_host(member)).collect();
        let had = shares(share, &among);
        for ((host, _), had) in members.iter().zip(&had) {
            dues[*host] = dues[*host].saturating_add(had.0);
        }
        if let Some(place) = members.iter().position(|(host, _)| *host == own) {
            let member = &members[place].1;
            parts.push((member.group, own_part(member, &among, had[place].0, share.0)));
        }
    }
    let wanted = demands.iter().filter(|demand| demand.wanted > Allowance(0));
    let weights = wanted.map(|demand| u64::from(demand.weight)).sum();
    Dues { hosts: dues, weights, own: legal(&parts) }
}

/// How a group stands on all hosts together.
fn of_group(members: &[Member]) -> Demand {
    let wanted = members.iter().fold(0u64, |sum, (_, one)| sum.saturating_add(one.wanted.0));
    let weight = members.iter().map(|(_, one)| one.weight.get()).max();
    // A host's guarantee is of no use to another one that wants more than its own.
    let least = |one: &GroupDemand| one.least.0.min(one.wanted.0);
    let least = members.iter().fold(0u64, |sum, (_, one)| sum.saturating_add(least(one)));
    let weight = weight.unwrap_or_default();
    Demand { wanted: Allowance(wanted), least: Allowance(least), weight }
}

/// How a group stands on one host.
fn of_host(member: &GroupDemand) -> Demand {
    Demand { wanted: member.wanted, least: member.least, weight: member.tasks_count.max(1) }
}

/// The host's part of a group's weight, in 2^20ths.
fn own_part(member: &GroupDemand, among: &[Demand], had: u64, share: u64) -> u64 {
    let own = u64::from(member.tasks_count.max(1));
    let wants = |demand: &&Demand| demand.wanted > Allowance(0);
    let others: u64 = among.iter().filter(wants).map(|demand| u64::from(demand.weight)).sum();
    let tasks_count = if member.wanted > Allowance(0) { others } else { others + own };
    let (by_tasks, by_due) = (scaled(own, 1 << 20, tasks_count), scaled(had, 1 << 20, share));
    by_tasks.max(by_due) * u64::from(member.weight.get())
}

/// Parts as legal weights: they stand to each other as before, and the largest has the most that
/// there is, so that small ones are told apart.
fn legal(parts: &[(ClusterGroup, u64)]) -> Vec<OwnWeight> {
    let most = parts.iter().map(|(_, part)| *part).max().unwrap_or_default();
    let weight = |part: u64| {
        let scaled = scaled(part, u64::from(GROUP_WEIGHT_MAX), most);
        let number = u32::try_from(scaled).unwrap_or(GROUP_WEIGHT_MAX);
        Weight::new(number.clamp(GROUP_WEIGHT_MIN, GROUP_WEIGHT_MAX)).unwrap_or_default()
    };
    parts.iter().map(|(group, part)| OwnWeight { group: *group, weight: weight(*part) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::demand::GroupDemand;
    use super::*;

    const ALL: u64 = u64::MAX;

    /// A host with groups: number, weight, tasks, used and wanted.
    fn host(groups: &[(u32, u32, u32, u64, u64)]) -> HostRecord {
        let group =
            |(number, weight, tasks_count, used, wanted): &(u32, u32, u32, u64, u64)| GroupDemand {
                group: ClusterGroup(*number),
                weight: Weight::new(*weight).expect("legal"),
                tasks_count: *tasks_count,
                used: Allowance(*used),
                wanted: Allowance(*wanted),
                least: Allowance(0),
            };
        HostRecord { groups: groups.iter().map(group).collect(), ..HostRecord::default() }
    }

    fn weights(own: &[OwnWeight]) -> Vec<(u32, u32)> {
        own.iter().map(|one| (one.group.0, one.weight.get())).collect()
    }

    #[test]
    fn groups_share_by_weight_and_hosts_of_a_group_by_tasks() {
        let hosts = [
            host(&[(1, 100, 3, 500, ALL), (2, 300, 1, 500, ALL)]),
            host(&[(1, 100, 1, 1_000, ALL)]),
        ];
        let Dues { hosts: dues, own, .. } = dues(&hosts, 0);
        assert_eq!(dues, [1_500 + 375, 125], "500 are of group 1");
        // Three quarters of 100, and all of 300.
        assert_eq!(weights(&own), [(1, 2_500), (2, 10_000)]);
    }

    #[test]
    fn who_wants_little_has_it_and_the_others_share_the_rest() {
        let hosts = [
            host(&[(1, 900, 1, 100, 100)]),
            host(&[(2, 100, 1, 700, ALL)]),
            host(&[(3, 200, 1, 1_200, ALL)]),
        ];
        let Dues { hosts: dues, weights, .. } = dues(&hosts, 1);
        assert_eq!(weights, 1_200);
        assert!(dues[0].abs_diff(100) <= 1, "{dues:?}");
        assert!(dues[1].abs_diff(633) <= 1 && dues[2].abs_diff(1_267) <= 1, "{dues:?}");
    }

    #[test]
    fn a_guarantee_goes_before_the_weights_of_other_hosts() {
        let mut hosts = [
            host(&[(1, 400, 8, 1_200, ALL)]),
            host(&[(2, 100, 1, 200, ALL), (3, 100, 1, 100, ALL)]),
        ];
        hosts[1].groups[0].least = Allowance(500);
        let Dues { hosts: dues, .. } = dues(&hosts, 1);
        assert_eq!(dues, [800, 700], "500 are guaranteed, the rest is 4 to 1");
        // The part of the guarantee that the group does not want goes to others.
        hosts[1].groups[0].wanted = Allowance(250);
        let Dues { hosts: dues, .. } = super::dues(&hosts, 1);
        assert_eq!(dues, [1_000, 500]);
    }

    #[test]
    fn a_host_has_the_part_that_others_of_its_group_leave() {
        // Group 1 has 3/4 of 4000; host 1 wants 300 of it, so host 0 has 9/10.
        let hosts = [
            host(&[(1, 300, 1, 2_700, ALL), (2, 100, 1, 1_000, ALL)]),
            host(&[(1, 300, 5, 300, 300)]),
        ];
        let Dues { hosts: dues, own, .. } = dues(&hosts, 0);
        assert!(dues[0].abs_diff(3_700) <= 2, "{dues:?}");
        let own = weights(&own);
        assert!(own[0] == (1, 10_000) && own[1].1.abs_diff(3_703) <= 2, "{own:?}");
    }

    #[test]
    fn a_group_that_wants_nothing_here_has_a_weight_for_when_it_does() {
        let hosts =
            [host(&[(1, 100, 0, 0, 0), (2, 100, 1, 500, ALL)]), host(&[(1, 100, 3, 500, ALL)])];
        let Dues { hosts: dues, own, .. } = dues(&hosts, 0);
        assert_eq!(dues, [500, 500]);
        assert_eq!(weights(&own), [(1, 2_500), (2, 10_000)], "one task beside three");
    }

    #[test]
    fn all_hosts_compute_the_same_and_give_out_what_there_is() {
        let mut number = 7u64;
        let mut below = |bound: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % bound
        };
        for _ in 0..200 {
            let mut hosts = Vec::new();
            for _ in 0..1 + below(9) {
                let mut groups = Vec::new();
                for group in 0..below(5) as u32 {
                    let used = below(5_000);
                    let wanted = [used, used + below(9_000), ALL][below(3) as usize];
                    let weight = 1 + group * 997;
                    groups.push((group, weight, below(4) as u32, used, wanted));
                }
                hosts.push(host(&groups));
            }
            let used: u64 = hosts.iter().map(HostRecord::used).sum();
            let first = dues(&hosts, 0);
            for own in 0..hosts.len() {
                let same = dues(&hosts, own);
                assert_eq!((&same.hosts, same.weights), (&first.hosts, first.weights));
                assert_eq!(same.own.len(), hosts[own].groups.len());
            }
            if used > 0 {
                let sum: u64 = first.hosts.iter().sum();
                assert!(sum <= used && sum + 200 > used, "{sum} of {used}");
            }
        }
    }
}
