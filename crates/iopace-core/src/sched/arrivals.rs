//! Shared mechanism: requests in order of arrival, which leave in another order.
//!
//! A request that has left the scheduler stays in the queue until it is first in it, or until there
//! are twice as many entries as requests: the engine's table says which ones are queued. So one
//! that leaves costs nothing here, and O(1) amortised.

use crate::request::RequestId;
use crate::table::Table;
use std::collections::VecDeque;

/// Entries of requests that have left that are not looked for: 64 of them are some cache lines.
const LEFT_MAX: usize = 64;

/// Requests in order of arrival, each with what was known of it when it came.
#[derive(Debug, Default)]
pub(super) struct Arrivals<T>(VecDeque<(RequestId, T)>);

impl<T: Copy> Arrivals<T> {
    /// Takes a request in; mostly it is the last to have arrived.
    pub(super) fn push(&mut self, id: RequestId, known: T, table: &Table) {
        if self.0.len() >= 2 * table.queued_count() + LEFT_MAX {
            self.0.retain(|(id, _)| table.is_queued(*id));
        }
        match self.0.back() {
            Some((last, _)) if last.sequence > id.sequence => {
                let at = self.0.partition_point(|(other, _)| other.sequence < id.sequence);
                self.0.insert(at, (id, known));
            }
            _ => self.0.push_back((id, known)),
        }
    }

    /// The first one that is still queued.
    pub(super) fn first(&mut self, table: &Table) -> Option<(RequestId, T)> {
        while let Some(first) = self.0.front() {
            if table.is_queued(first.0) {
                return Some(*first);
            }
            self.0.pop_front();
        }
        None
    }

    /// All that are still queued.
    pub(super) fn iter<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = RequestId> + 'a {
        self.0.iter().map(|(id, _)| *id).filter(|id| table.is_queued(*id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
    use crate::time::Instant;

    #[test]
    fn they_are_in_order_and_few_whatever_leaves() {
        let (mut arrivals, mut table) = (Arrivals::default(), Table::default());
        let (tag, task, group) = (Tag(0), TaskId(0), GroupId::ROOT);
        let (op, extent) = (Op::Read, Extent::EMPTY);
        let submit = Submit { tag, task, group, op, extent, fua: false, sync: true };
        let mut queued = Vec::<RequestId>::new();
        for step in 0..10_000usize {
            let [one, two] = [0, 1].map(|_| table.queue(Instant(0), submit));
            for id in if step % 5 == 0 { [two, one] } else { [one, two] } {
                arrivals.push(id, step, &table);
            }
            queued.extend([one, two]);
            while queued.len() > 20 {
                // The first one of all stays.
                let place = 1 + step * 7 % (queued.len() - 1);
                table.end(queued.remove(place));
            }
            assert_eq!(arrivals.first(&table), Some((queued[0], 0)));
            assert!(arrivals.0.len() <= 2 * 22 + LEFT_MAX + 2, "{}", arrivals.0.len());
            assert!(arrivals.iter(&table).eq(queued.iter().copied()));
        }
        queued.iter().for_each(|id| table.end(*id));
        assert!(arrivals.first(&table).is_none() && arrivals.0.is_empty());
    }
}
