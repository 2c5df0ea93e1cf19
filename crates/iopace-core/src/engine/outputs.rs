//! Outputs of an engine in the order in which they arose, until the caller has taken them.

use super::{Finish, Output, Resume, Start};
use crate::request::{Area, Outcome};
use crate::trace::Event;
use std::collections::VecDeque;

/// An output that waits.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Waiting {
    /// The request that has left this slot of the table, which has the rest of its finish.
    Ended(u32, Outcome),
    /// That of one that has no slot: it was refused.
    Finish(Finish),
    Resume(Resume),
    Cleaned(Area),
    /// A part of a command of several requests.
    Start(Start),
    /// The first one of `events`.
    Event,
}

/// All that wait.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    waiting: Vec<Waiting>,
    /// How many of `waiting` were taken; both begin anew when all were.
    taken_count: usize,
    events: VecDeque<Box<Event>>,
}

impl Outputs {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.taken_count >= self.waiting.len()
    }

    #[inline(always)]
    fn push(&mut self, output: Waiting) {
        if self.is_empty() {
            self.waiting.clear();
            self.taken_count = 0;
        }
        self.waiting.push(output);
    }

    #[inline(always)]
    pub(super) fn ended(&mut self, slot: u32, outcome: Outcome) {
        self.push(Waiting::Ended(slot, outcome));
    }

    pub(super) fn finish(&mut self, finish: Finish) {
        self.push(Waiting::Finish(finish));
    }

    pub(super) fn resume(&mut self, resume: Resume) {
        self.push(Waiting::Resume(resume));
    }

    pub(super) fn cleaned(&mut self, area: Area) {
        self.push(Waiting::Cleaned(area));
    }

    pub(super) fn start(&mut self, start: Start) {
        self.push(Waiting::Start(start));
    }

    pub(super) fn event(&mut self, event: Event) {
        self.push(Waiting::Event);
        self.events.push_back(Box::new(event));
    }

    /// Whether the next one is that of a request of the table that has ended.
    #[inline(always)]
    pub(super) fn is_end(&self) -> bool {
        matches!(self.waiting.get(self.taken_count), Some(Waiting::Ended(..)))
    }

    /// Its slot, and how it ended.
    #[inline(always)]
    pub(super) fn take_ended(&mut self) -> Option<(u32, Outcome)> {
        let Some(&Waiting::Ended(slot, outcome)) = self.waiting.get(self.taken_count) else {
            return None;
        };
        self.taken_count += 1;
        Some((slot, outcome))
    }

    /// The next one, if it is another.
    pub(super) fn take(&mut self) -> Option<Output> {
        let output = match *self.waiting.get(self.taken_count)? {
            Waiting::Ended(..) => return None,
            Waiting::Finish(finish) => Output::Finish(finish),
            Waiting::Resume(resume) => Output::Resume(resume),
            Waiting::Cleaned(area) => Output::Cleaned(area),
            Waiting::Start(start) => Output::Start(start),
            Waiting::Event => Output::Event(self.events.pop_front().expect("one for each mark")),
        };
        self.taken_count += 1;
        Some(output)
    }
}
