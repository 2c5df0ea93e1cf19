//! The amount that is due to each host by the weights of its groups, which hold for all hosts.
//!
//! # Model
//! The amount that all hosts together get is shared twice, each time by weight and so that nobody
//! has more than he wants as long as another one wants it ([`shares`]): among the groups, by their
//! weights and the sums of what they want; then the share of each group among its hosts, by the
//! number of its tasks there. A host is due the sum over its groups.
//! ```text
//!              all ─┬─ group "db"  ─┬─ host A (3 tasks)   A is due 3/4 of the share of db
//!                   │               └─ host B (1 task)
//!                   └─ group "web" ─── host A             and all of that of web
//! ```
//! The scheduler of a host has to share by the same amounts what the host gets. So it is given the
//! part of each group's weight that is the host's own: that of its tasks, or that of its due if that
//! is more, as others leave theirs.

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

/// The amount that is due to each host in a second, in the order of the view; and for each group of
/// the host `own` the part of the group's weight that is its own.
pub(super) fn dues(hosts: &[HostRecord], own: usize) -> (Vec<u64>, Vec<OwnWeight>) {
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
    (dues, legal(&parts))
}

/// How a group stands on all hosts together.
fn of_group(members: &[Member]) -> Demand {
    let wanted = members.iter().fold(0u64, |sum, (_, one)| sum.saturating_add(one.wanted.0));
    let weight = members.iter().map(|(_, one)| one.weight.get()).max();
    Demand { wanted: Allowance(wanted), weight: weight.unwrap_or_default() }
}

/// How a group stands on one host.
fn of_host(member: &GroupDemand) -> Demand {
    Demand { wanted: member.wanted, weight: member.tasks_count.max(1) }
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
