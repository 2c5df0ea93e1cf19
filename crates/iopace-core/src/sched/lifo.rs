//! Serves the newest request, and every fourth time the oldest.
//!
//! # Model
//! One list in the order of arrival, served from its end; one request of four is taken from its
//! beginning, so that none waits for ever. No parameters.
//!
//! # Properties
//! 1. Three of four requests that start are the newest ones, the fourth is the oldest.
//!
//! # When it does not know
//! There is nothing to know.
//!
//! # Limits
//! It seeks between tasks all the time and knows neither tasks nor groups.
//!
//! # Sources
//! None: it shows what a scheduler takes.

use super::{Algorithm, Profile, Scheduler};
use crate::request::RequestId;
use crate::table::Table;
use crate::time::Instant;
use crate::verdict::Pop;
use std::collections::VecDeque;

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "lifo",
    summary: "the newest request first, every fourth time the oldest",
    params: &[],
    counters: &[],
    profile: Profile {
        // Four times all others, and as many flushes, which go before.
        closed_loop_wait: Some(|_, load| load.serving(8 * load.requests)),
        stream_wait: Some(|_, load| load.serving(4 * load.requests)),
        ..Profile::PLAIN
    },
    build: |_| Box::new(Lifo::default()),
};

/// The list, and how many times it was asked.
#[derive(Debug, Default)]
pub struct Lifo {
    queue: VecDeque<RequestId>,
    asked_count: u32,
}

impl Scheduler for Lifo {
    fn push(&mut self, _now: Instant, id: RequestId, _table: &Table) {
        self.queue.push_back(id);
    }

    fn pop(&mut self, _now: Instant, _table: &Table) -> Pop {
        self.asked_count = self.asked_count.wrapping_add(1);
        let oldest = self.asked_count.is_multiple_of(4);
        let next = if oldest { self.queue.pop_front() } else { self.queue.pop_back() };
        next.map_or(Pop::Empty, Pop::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
    use crate::units::Bytes;

    #[test]
    fn p1_the_newest_go_first_and_every_fourth_is_the_oldest() {
        let (mut table, mut lifo) = (Table::default(), Lifo::default());
        for tag in 0..8 {
            let extent = Extent::new(Bytes(tag * 4096), Bytes(4096)).expect("small");
            let (tag, task, group) = (Tag(tag), TaskId(1), GroupId::ROOT);
            let submit = Submit { tag, task, group, op: Op::Read, extent, fua: false, sync: true };
            let id = table.queue(Instant(0), submit);
            lifo.push(Instant(0), id, &table);
        }
        let order = std::iter::from_fn(|| match lifo.pop(Instant(0), &table) {
            Pop::Ready(id) => Some(id.sequence()),
            _ => None,
        });
        assert_eq!(order.collect::<Vec<_>>(), [7, 6, 5, 0, 4, 3, 2, 1]);
    }
}
