//! The records of many hosts as one: for more hosts than can read the records of all.
//!
//! # Model
//! Hosts are in *cells*. In its cell each host reads the records of all; those of all other cells
//! it reads as one record, which has the sums. A host's part comes out as with the records of all:
//! exactly where hosts that want less than all have less than their share of a group, nearly where
//! not.
//! ```text
//!   cell 1: host host host ... ─► its record ─┐
//!   cell 2: host host host ... ─► its record ─┼─► for each cell the record of all others
//!   cell 3: host host host ... ─► its record ─┘
//! ```

use super::Allowance;
use super::demand::{GroupDemand, HostRecord};

/// One record for all of these: records of hosts, or such sums. A group is in it twice if some want
/// all there is and others less, as these leave the rest to hosts anywhere.
pub fn merged(records: &[HostRecord]) -> HostRecord {
    let mut sum = HostRecord::default();
    for record in records {
        sum.window.0 = sum.window.0.saturating_add(record.window.0);
        sum.in_flight.0 = sum.in_flight.0.saturating_add(record.in_flight.0);
        sum.done.0 = sum.done.0.saturating_add(record.done.0);
        sum.alone = sum.alone.into_iter().chain(record.alone).min();
        sum.groups.extend(record.groups.iter().map(|group| GroupDemand {
            // Zero counts as one, in the sum as well.
            tasks_count: group.tasks_count.max(1),
            ..*group
        }));
    }
    let key = |group: &GroupDemand| (group.group, group.wanted.0 == u64::MAX);
    sum.groups.sort_by_key(key);
    let alike = sum.groups.chunk_by(|one, other| key(one) == key(other));
    sum.groups = alike.map(added).collect();
    sum
}

/// Several of a group as one.
fn added(alike: &[GroupDemand]) -> GroupDemand {
    let sum = |of: fn(&GroupDemand) -> u64| alike.iter().map(of).fold(0, u64::saturating_add);
    let tasks_count = u32::try_from(sum(|one| u64::from(one.tasks_count))).unwrap_or(u32::MAX);
    GroupDemand {
        tasks_count,
        used: Allowance(sum(|one| one.used.0)),
        wanted: Allowance(sum(|one| one.wanted.0)),
        // A host's guarantee is of no use to another one.
        least: Allowance(sum(|one| one.least.0.min(one.wanted.0))),
        ..alike[0]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClusterGroup, QueueTerms, own_part};
    use super::*;
    use crate::group::Weight;
    use crate::time::Nanos;
    use crate::window::WindowSize;

    /// Hosts at a volume that serves in order of arrival, each with two of ten groups; a third of
    /// them want little in one of them.
    fn hosts(count: u64) -> Vec<HostRecord> {
        let mut number = 11u64;
        let mut below = |bound: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % bound
        };
        let mut host = |at: u64| {
            let in_flight = 512 + below(2_048);
            let done = in_flight * 10;
            let little = below(3) == 0;
            let group = |number: u64, used: u64, wanted: u64, tasks_count: u64| GroupDemand {
                group: ClusterGroup((number % 10) as u32),
                weight: Weight::new((number % 10) as u32 * 100 + 50).expect("legal"),
                tasks_count: tasks_count as u32,
                used: Allowance(used),
                wanted: Allowance(wanted),
                least: Allowance(0),
            };
            let some = done / 50;
            let first = group(at, some, if little { some } else { u64::MAX }, 1 + below(4));
            let second = group(at + 3, done - some, u64::MAX, below(3));
            HostRecord {
                window: WindowSize(in_flight),
                in_flight: WindowSize(in_flight),
                done: Allowance(done),
                alone: Some(Nanos(100_000 + at)),
                groups: vec![first, second],
            }
        };
        (0..count).map(&mut host).collect()
    }

    #[test]
    fn cells_come_to_the_parts_that_the_records_of_all_give() {
        let hosts = hosts(1_024);
        let terms = QueueTerms { target: None, look: Nanos::from_millis(500) };
        let cells: Vec<HostRecord> = hosts.chunks(64).map(merged).collect();
        for own in [0, 63, 500, 1_023] {
            let flat = own_part(&hosts, own, &terms);
            let cell = own / 64;
            let others: Vec<HostRecord> =
                cells[..cell].iter().chain(&cells[cell + 1..]).cloned().collect();
            let mut seen = hosts[cell * 64..(cell + 1) * 64].to_vec();
            seen.push(merged(&others));
            let by_cells = own_part(&seen, own % 64, &terms);
            let [one, other] =
                [&flat, &by_cells].map(|part| part.share.size.expect("a size is told").0);
            assert!(one.abs_diff(other) * 100 <= one, "{own}: {one} and {other}");
            assert_eq!(flat.share.target.is_some(), by_cells.share.target.is_some());
            for (one, other) in flat.weights.iter().zip(&by_cells.weights) {
                let (one, other) = (one.weight.get(), other.weight.get());
                assert!(one.abs_diff(other) * 50 <= one, "{own}: {one} and {other}");
            }
        }
    }

    #[test]
    fn a_sum_has_at_most_two_of_a_group() {
        let sum = merged(&hosts(300));
        assert!(sum.groups.len() <= 20, "{}", sum.groups.len());
        let whole = sum.groups.iter().map(|group| group.used.0).sum::<u64>();
        assert_eq!(whole, hosts(300).iter().map(HostRecord::used).sum::<u64>());
        assert_eq!(merged(&[sum.clone(), HostRecord::default()]), sum);
        assert_eq!(merged(&[]), HostRecord::default());
    }
}
