//! What a disk model keeps of commands on their way out: events by time, and completions that wait
//! to be taken.
//!
//! Events of one instant come in the order of their numbers. The same numbers name commands, so
//! that a command is older than another exactly if its number is smaller.

use crate::disk::Completion;
use iopace_core::request::Outcome;
use iopace_core::time::Instant;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Events to come, and completions.
#[derive(Debug)]
pub(crate) struct Due<E> {
    events: BinaryHeap<Reverse<(Instant, u64, E)>>,
    sequence: u64,
    done: VecDeque<(Instant, Completion)>,
    depth: u32,
    outstanding: u32,
}

impl<E: Ord> Due<E> {
    /// Nothing, for a disk that holds `depth` commands.
    pub(crate) fn new(depth: u32) -> Due<E> {
        let (events, done) = (BinaryHeap::new(), VecDeque::new());
        Due { events, sequence: 0, done, depth, outstanding: 0 }
    }

    /// The number of a command that comes in.
    ///
    /// # Panics
    /// If it is one more than the disk holds.
    pub(crate) fn enter(&mut self) -> u64 {
        self.outstanding += 1;
        assert!(self.outstanding <= self.depth, "more commands than the disk holds");
        self.number()
    }

    fn number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Something happens at an instant, behind all that was said of that instant before.
    pub(crate) fn at(&mut self, time: Instant, event: E) {
        let number = self.number();
        self.at_turn(time, number, event);
    }

    /// Something happens at an instant, in the turn of a number that was given out.
    pub(crate) fn at_turn(&mut self, time: Instant, number: u64, event: E) {
        self.events.push(Reverse((time, number, event)));
    }

    /// When the first event comes; [`Instant::NEVER`] if none does.
    pub(crate) fn next_event(&self) -> Instant {
        self.events.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at)
    }

    /// Takes the first event if it comes by then.
    pub(crate) fn pop_event(&mut self, by: Instant) -> Option<(Instant, E)> {
        self.events.peek().filter(|Reverse((at, ..))| *at <= by)?;
        let Reverse((at, _, event)) = self.events.pop()?;
        Some((at, event))
    }

    /// A command has been carried out.
    pub(crate) fn done(&mut self, now: Instant, id: u64) {
        self.done.push_back((now, Completion { id, outcome: Outcome::Ok }));
    }

    /// When the first completion that was not taken came.
    pub(crate) fn first_done(&self) -> Option<Instant> {
        self.done.front().map(|(at, _)| *at)
    }

    /// Takes the first completion.
    pub(crate) fn take(&mut self) -> Option<Completion> {
        let (_, completion) = self.done.pop_front()?;
        self.outstanding -= 1;
        Some(completion)
    }

    /// Whether commands have come whose completions were not taken.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.outstanding > 0
    }
}
