//! Outputs of an engine in the order in which they arose, until the caller has taken them.

use super::{Finish, Output, Resume};
use crate::request::Area;
use crate::trace::Event;
use std::collections::VecDeque;

/// An output that waits. It is copied once, to where the caller reads it.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Waiting {
    Finish(Finish),
    Resume(Resume),
    Cleaned(Area),
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
    pub(super) fn finish(&mut self, finish: Finish) {
        self.push(Waiting::Finish(finish));
    }

    pub(super) fn resume(&mut self, resume: Resume) {
        self.push(Waiting::Resume(resume));
    }

    pub(super) fn cleaned(&mut self, area: Area) {
        self.push(Waiting::Cleaned(area));
    }

    pub(super) fn event(&mut self, event: Event) {
        self.push(Waiting::Event);
        self.events.push_back(Box::new(event));
    }

    /// Whether the next one is a finish.
    #[inline(always)]
    pub(super) fn is_finish(&self) -> bool {
        matches!(self.waiting.get(self.taken_count), Some(Waiting::Finish(_)))
    }

    /// The next one, if it is a finish.
    #[inline(always)]
    pub(super) fn take_finish(&mut self) -> Option<&Finish> {
        let Some(Waiting::Finish(finish)) = self.waiting.get(self.taken_count) else {
            return None;
        };
        self.taken_count += 1;
        Some(finish)
    }

    /// The next one.
    pub(super) fn take(&mut self) -> Option<Output> {
        let output = match *self.waiting.get(self.taken_count)? {
            Waiting::Finish(finish) => Output::Finish(finish),
            Waiting::Resume(resume) => Output::Resume(resume),
            Waiting::Cleaned(area) => Output::Cleaned(area),
            Waiting::Event => Output::Event(self.events.pop_front().expect("one for each mark")),
        };
        self.taken_count += 1;
        Some(output)
    }
}
