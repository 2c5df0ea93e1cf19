//! Serves the newest request first: the smallest scheduler, to show what it takes to add one.
//!
//! # Model
//! One stack; what came last goes next.
//!
//! # Properties
//! 1. The newest request starts first.
//! 2. It is work-conserving: as long as it holds a request it never says "later".
//!
//! # When it does not know
//! There is nothing to know.
//!
//! # Limits
//! Starvation: what is at the bottom waits for as long as others keep coming, without bound.
//!
//! # Sources
//! None; nobody should run it.

use super::{Algorithm, Profile, Scheduler};
use crate::request::RequestId;
use crate::table::Table;
use crate::time::Instant;
use crate::verdict::Pop;

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "lifo",
    summary: "the newest first: it starves, and is here to be seen",
    params: &[],
    counters: &[],
    profile: Profile::PLAIN,
    build: |_| Box::new(Lifo::default()),
};

/// The stack.
#[derive(Debug, Default)]
pub struct Lifo(Vec<RequestId>);

impl Scheduler for Lifo {
    fn push(&mut self, _now: Instant, id: RequestId, _table: &Table) {
        self.0.push(id);
    }

    fn pop(&mut self, _now: Instant, _table: &Table) -> Pop {
        self.0.pop().map_or(Pop::Empty, Pop::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Extent, GroupId, Op, Submit, Tag, TaskId};

    fn push(lifo: &mut Lifo, table: &mut Table, tag: u64) {
        let (tag, task, op, extent) = (Tag(tag), TaskId(0), Op::Read, Extent::EMPTY);
        let submit = Submit { tag, task, group: GroupId::ROOT, op, extent, fua: false, sync: true };
        let id = table.queue(Instant::ZERO, submit);
        lifo.push(Instant::ZERO, id, table);
    }

    fn pop(lifo: &mut Lifo, table: &mut Table) -> Option<Tag> {
        match lifo.pop(Instant::ZERO, table) {
            Pop::Ready(id) => {
                let tag = table[id].submit.tag;
                table.end(id);
                Some(tag)
            }
            Pop::At(..) => panic!("it never waits"),
            Pop::Empty => None,
        }
    }

    #[test]
    fn p1_the_newest_starts_first() {
        let (mut lifo, mut table) = (Lifo::default(), Table::default());
        (0..50).for_each(|tag| push(&mut lifo, &mut table, tag));
        let order: Vec<Tag> = std::iter::from_fn(|| pop(&mut lifo, &mut table)).collect();
        assert_eq!(order, (0..50).rev().map(Tag).collect::<Vec<_>>());
    }

    #[test]
    fn p2_it_is_work_conserving() {
        let (mut lifo, mut table) = (Lifo::default(), Table::default());
        for tag in 0..20 {
            push(&mut lifo, &mut table, tag);
            push(&mut lifo, &mut table, tag + 100);
            assert!(pop(&mut lifo, &mut table).is_some());
        }
        assert_eq!(std::iter::from_fn(|| pop(&mut lifo, &mut table)).count(), 20);
    }
}
