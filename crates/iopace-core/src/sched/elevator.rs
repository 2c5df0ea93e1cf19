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

use super::sorted::{Sorted, by_arrival};
use super::{Algorithm, Scheduler};
use crate::request::Request;
use crate::time::Instant;
use crate::verdict::Pop;

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "elevator",
    summary: "by position, upwards and around (C-LOOK), one queue: the plain disk driver's order",
    params: &[],
    counters: &[],
    build: |_| Box::new(Elevator::default()),
};

/// The queue.
#[derive(Debug, Default)]
pub struct Elevator(Sorted);

impl Scheduler for Elevator {
    fn push(&mut self, _now: Instant, request: Request) {
        self.0.push(request);
    }

    fn pop(&mut self, _now: Instant) -> Pop {
        self.0.pop().map_or(Pop::Empty, Pop::Ready)
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn drain(&mut self, into: &mut Vec<Request>) {
        self.0.drain(into);
        by_arrival(into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Extent, GroupId, Op, RequestId, Submit, Tag, TaskId};
    use crate::units::Bytes;

    fn push(elevator: &mut Elevator, sequence: u64, offset: u64) {
        let submit = Submit {
            tag: Tag(sequence),
            task: TaskId(0),
            group: GroupId::ROOT,
            op: Op::Read,
            extent: Extent::new(Bytes(offset), Bytes(10)).expect("small"),
            fua: false,
            sync: true,
        };
        elevator
            .push(Instant::ZERO, Request::new(RequestId::forge(sequence), submit, Instant::ZERO));
    }

    fn pop(elevator: &mut Elevator) -> Option<(u64, u64)> {
        match elevator.pop(Instant::ZERO) {
            Pop::Ready(request) => {
                let at = (request.extent().offset().get(), request.id().sequence());
                request.abandon();
                Some(at)
            }
            Pop::At(..) => panic!("it never waits"),
            Pop::Empty => None,
        }
    }

    #[test]
    fn p1_upwards_from_the_head_then_around() {
        let mut elevator = Elevator::default();
        for (sequence, offset) in [(0, 500), (1, 100), (2, 900), (3, 110)] {
            push(&mut elevator, sequence, offset);
        }
        assert_eq!(pop(&mut elevator), Some((100, 1)));
        assert_eq!(pop(&mut elevator), Some((110, 3)));
        push(&mut elevator, 4, 50);
        push(&mut elevator, 5, 200);
        let rest: Vec<u64> = std::iter::from_fn(|| pop(&mut elevator).map(|at| at.0)).collect();
        assert_eq!(rest, [200, 500, 900, 50]);
    }

    #[test]
    fn p2_equal_offsets_keep_their_order() {
        let mut elevator = Elevator::default();
        for sequence in [3, 1, 2] {
            push(&mut elevator, sequence, 700);
        }
        assert_eq!(pop(&mut elevator), Some((700, 1)));
        let rest: Vec<u64> = std::iter::from_fn(|| pop(&mut elevator).map(|at| at.1)).collect();
        assert_eq!(rest, [2, 3]);
    }

    #[test]
    fn p3_it_is_work_conserving() {
        let mut elevator = Elevator::default();
        for sequence in 0..100 {
            push(&mut elevator, sequence, sequence * 7919 % 1000);
        }
        assert_eq!(std::iter::from_fn(|| pop(&mut elevator)).count(), 100);
    }
}
