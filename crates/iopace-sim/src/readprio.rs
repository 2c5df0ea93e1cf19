//! Serves reads in order of arrival, and few writes between many reads: the disk queue of the
//! NetBSD of 2006 (`readprio`), as a baseline of the table [`crate::tables::congestion`].
//!
//! # Model
//! ```text
//!   reads   ▪ ▪ ▪ ▪ ▪ ─────────► 48 of them ─┐
//!                                            ├─► disk      while both wait; who is alone is served
//!   writes  ▪ ▪ ▪ by position ─► 16 of them ─┘             at once, and the count begins anew
//! ```
//!
//! # Properties
//! 1. Reads are served in order of arrival, writes upwards by position and around.
//! 2. While both wait, 48 reads are served, then 16 writes, and so on.
//! 3. When only one kind waits, it is served, and the next count begins with reads.
//!
//! # Limits
//! A synchronous reader alone never has a read waiting when its last one ends, so every gap between
//! two of its reads lets a write go: the count is of use only with several readers. It is not one
//! of the schedulers that a device can have: nobody would want it.
//!
//! # Sources
//! The published description of `bufq_readprio` of NetBSD: two queues, PRIO_READ_BURST of 48 and
//! PRIO_WRITE_REQ of 16.

use iopace_core::request::RequestId;
use iopace_core::sched::sorted::Sorted;
use iopace_core::sched::{Algorithm, Pop, Profile, Scheduler};
use iopace_core::table::Table;
use iopace_core::time::Instant;
use std::collections::VecDeque;

/// As a scenario that is made in code takes it.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "readprio",
    summary: "reads in order of arrival, 16 writes after 48 of them (NetBSD, 2006)",
    params: &[],
    counters: &[],
    profile: Profile::PLAIN,
    build: &|_| Box::new(ReadPrio::default()),
};

/// Reads that are served in a row while writes wait.
const READS: u32 = 48;

/// Writes that follow them.
const WRITES: u32 = 16;

/// The two queues.
#[derive(Debug, Default)]
struct ReadPrio {
    reads: VecDeque<RequestId>,
    writes: Sorted,
    /// Requests served since both kinds wait, around and around.
    served: u32,
}

impl Scheduler for ReadPrio {
    fn push(&mut self, _now: Instant, id: RequestId, table: &Table) {
        match table[id].op().is_write() {
            true => self.writes.push(id, table),
            false => self.reads.push_back(id),
        }
    }

    fn pop(&mut self, _now: Instant, table: &Table) -> Pop {
        let is_read = match (self.reads.is_empty(), self.writes.is_empty()) {
            (false, false) => {
                let place = self.served;
                self.served = (place + 1) % (READS + WRITES);
                place < READS
            }
            (has_no_read, _) => {
                self.served = 0;
                !has_no_read
            }
        };
        let next = if is_read { self.reads.pop_front() } else { self.writes.pop(table) };
        next.map_or(Pop::Empty, Pop::Ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
    use iopace_core::units::Bytes;

    #[derive(Default)]
    struct Bench(ReadPrio, Table);

    impl Bench {
        fn push(&mut self, op: Op, offset: u64) {
            let (tag, task, group) = (Tag(offset), TaskId(1), GroupId::ROOT);
            let extent = Extent::new(Bytes(offset), Bytes(10)).expect("small");
            let submit = Submit { tag, task, group, op, extent, fua: false, sync: true };
            let id = self.1.queue(Instant::ZERO, submit);
            self.0.push(Instant::ZERO, id, &self.1);
        }

        fn pop(&mut self) -> Option<(bool, u64)> {
            let Pop::Ready(id) = self.0.pop(Instant::ZERO, &self.1) else { return None };
            let request = &self.1[id];
            let popped = (request.op().is_write(), request.extent().offset().0);
            self.1.end(id);
            Some(popped)
        }
    }

    #[test]
    fn p1_reads_as_they_come_and_writes_by_position() {
        let mut bench = Bench::default();
        for offset in [500, 100, 900, 110] {
            bench.push(Op::Read, offset);
        }
        let reads: Vec<_> = std::iter::from_fn(|| bench.pop()).collect();
        assert_eq!(reads, [500, 100, 900, 110].map(|offset| (false, offset)));
        for offset in [500, 100, 900] {
            bench.push(Op::Write, offset);
        }
        assert_eq!(bench.pop(), Some((true, 100)));
        bench.push(Op::Write, 50);
        let writes: Vec<_> = std::iter::from_fn(|| bench.pop()).collect();
        assert_eq!(writes, [500, 900, 50].map(|offset| (true, offset)));
    }

    #[test]
    fn p2_sixteen_writes_follow_48_reads() {
        let mut bench = Bench::default();
        for offset in 0..200 {
            bench.push(Op::Write, offset * 100);
            bench.push(Op::Read, offset * 100);
        }
        for _ in 0..3 {
            let kinds: Vec<bool> = (0..64).map(|_| bench.pop().expect("both wait").0).collect();
            assert!(kinds[..48].iter().all(|is_write| !is_write), "{kinds:?}");
            assert!(kinds[48..].iter().all(|is_write| *is_write), "{kinds:?}");
        }
    }

    #[test]
    fn p3_who_is_alone_is_served_and_the_count_begins_anew() {
        let mut bench = Bench::default();
        for offset in 0..47 {
            bench.push(Op::Read, offset);
        }
        bench.push(Op::Write, 1_000);
        (0..47).for_each(|_| assert!(!bench.pop().expect("a read").0));
        assert_eq!(bench.pop(), Some((true, 1_000)));
        assert_eq!(bench.pop(), None);
        for offset in 0..49 {
            bench.push(Op::Read, offset);
        }
        bench.push(Op::Write, 1_000);
        (0..48).for_each(|_| assert!(!bench.pop().expect("a read").0));
        assert_eq!(bench.pop(), Some((true, 1_000)));
    }
}
