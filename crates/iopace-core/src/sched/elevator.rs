//! Serves requests in the order of their position, in one direction, around and around (C-LOOK).
//!
//! # Model
//! One queue for all tasks, sorted by offset. The head goes up, serves what it passes, and jumps to
//! the lowest request when nothing is left above it:
//! ```text
//!   offset ▲      ╱│      ╱│
//!          │    ╱  │    ╱  │      served only on the way up
//!          │  ╱    │  ╱    │
//!          │╱      │╱      │
//!          └──────────────────► time
//! ```
//! It is what "no scheduler" means on a system whose disk driver sorts its queue, and the baseline
//! called `none` in the tables.
//!
//! # Properties
//! 1. The next request is the first at or above the end of the last one, else the lowest.
//! 2. Requests at the same offset start in the order of their arrival.
//! 3. It is work-conserving: as long as it holds a request it never says "later".
//!
//! # When it does not know
//! It assumes that a near offset is near on the medium. Bad for flash, harmless there.
//!
//! # Limits
//! Starvation: requests that keep arriving just above the head are served before one below it,
//! without bound. A sequential writer with many requests queued thus locks out everybody else; that
//! is the row dd-write+cvs of the table, and what `deadline` and `rr` are for.
//!
//! # Sources
//! FreeBSD `bioq_disksort` (subr_disk.c); the order of each queue in gsched_rr.

use super::sorted::Sorted;
use super::{Algorithm, Pop, Profile, Scheduler};
use crate::request::RequestId;
use crate::table::Table;
use crate::time::{Instant, Nanos};

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "elevator",
    summary: "by position, upwards and around (C-LOOK), one queue: the plain disk driver's order",
    params: &[],
    counters: &[],
    profile: Profile {
        // It has this bound only because whoever is passed over does not submit again, so that few
        // are left to pass: the time of 111 requests.
        closed_loop_wait: Some(&|_, _| Nanos::from_secs(1)),
        // See Limits.
        stream_wait: None,
        ..Profile::PLAIN
    },
    build: &|_| Box::new(Elevator::default()),
};

/// The queue.
#[derive(Debug, Default)]
pub struct Elevator(Sorted);

impl Scheduler for Elevator {
    fn push(&mut self, _now: Instant, id: RequestId, table: &Table) {
        self.0.push(id, table);
    }

    fn pop(&mut self, _now: Instant, table: &Table) -> Pop {
        self.0.pop(table).map_or(Pop::Empty, Pop::Ready)
    }

    fn join(&mut self, _now: Instant, id: RequestId, _lead: RequestId, table: &Table) -> bool {
        self.0.join(id, table)
    }

    fn learns(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
    use crate::units::Bytes;

    #[derive(Default)]
    struct Bench {
        elevator: Elevator,
        table: Table,
    }

    impl Bench {
        /// A request at that offset, named by a tag.
        fn enter(&mut self, tag: u64, offset: u64) -> RequestId {
            let submit = Submit {
                tag: Tag(tag),
                task: TaskId(0),
                group: GroupId::ROOT,
                op: Op::Read,
                extent: Extent::new(Bytes(offset), Bytes(10)).expect("small"),
                fua: false,
                sync: true,
            };
            self.table.queue(Instant::ZERO, submit)
        }

        fn push(&mut self, tag: u64, offset: u64) {
            let id = self.enter(tag, offset);
            self.elevator.push(Instant::ZERO, id, &self.table);
        }

        /// Offset and tag of the next.
        fn pop(&mut self) -> Option<(u64, u64)> {
            match self.elevator.pop(Instant::ZERO, &self.table) {
                Pop::Ready(id) => {
                    let submit = self.table[id].submit;
                    self.table.end(id);
                    Some((submit.extent.offset().get(), submit.tag.0))
                }
                Pop::At(..) | Pop::Last(..) => panic!("it never waits"),
                Pop::Empty => None,
            }
        }
    }

    #[test]
    fn p1_upwards_from_the_head_then_around() {
        let mut bench = Bench::default();
        for (tag, offset) in [(0, 500), (1, 100), (2, 900), (3, 110)] {
            bench.push(tag, offset);
        }
        assert_eq!(bench.pop(), Some((100, 1)));
        assert_eq!(bench.pop(), Some((110, 3)));
        bench.push(4, 50);
        bench.push(5, 200);
        let rest: Vec<u64> = std::iter::from_fn(|| bench.pop().map(|at| at.0)).collect();
        assert_eq!(rest, [200, 500, 900, 50]);
    }

    #[test]
    fn p2_equal_offsets_keep_their_order() {
        let mut bench = Bench::default();
        let [one, two, three] = [1, 2, 3].map(|tag| bench.enter(tag, 700));
        for id in [three, one, two] {
            bench.elevator.push(Instant::ZERO, id, &bench.table);
        }
        assert_eq!(bench.pop(), Some((700, 1)));
        let rest: Vec<u64> = std::iter::from_fn(|| bench.pop().map(|at| at.1)).collect();
        assert_eq!(rest, [2, 3]);
    }

    #[test]
    fn p3_it_is_work_conserving() {
        let mut bench = Bench::default();
        for tag in 0..100 {
            bench.push(tag, tag * 7919 % 1000);
        }
        assert_eq!(std::iter::from_fn(|| bench.pop()).count(), 100);
    }
}
