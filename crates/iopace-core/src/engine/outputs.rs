//! Outputs of an engine in the order in which they arose, until the caller has taken them.

use super::{Finish, Output, Resume, Start};
use crate::request::{Area, Outcome};
use crate::trace::Event;
use std::collections::VecDeque;

/// The request that has left this slot of the table, which has the rest of its finish.
type Ended = (u32, Outcome);

/// An output that waits.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum WaitingOutput {
    Ended(Ended),
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
    /// The first one, if it is an end: mostly it is the only one.
    ended: Option<Ended>,
    waiting: Vec<WaitingOutput>,
    /// How many of `waiting` were taken; both begin anew when all were.
    taken_count: usize,
    events: VecDeque<Box<Event>>,
}

impl Outputs {
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.ended.is_none() && self.taken_count >= self.waiting.len()
    }

    #[inline(never)]
    fn push(&mut self, output: WaitingOutput) {
        if self.taken_count >= self.waiting.len() {
            self.waiting.clear();
            self.taken_count = 0;
        }
        self.waiting.push(output);
    }

    #[inline(always)]
    pub(super) fn ended(&mut self, slot: u32, outcome: Outcome) {
        match self.is_empty() {
            true => self.ended = Some((slot, outcome)),
            false => self.push(WaitingOutput::Ended((slot, outcome))),
        }
    }

    pub(super) fn finish(&mut self, finish: Finish) {
        self.push(WaitingOutput::Finish(finish));
    }

    pub(super) fn resume(&mut self, resume: Resume) {
        self.push(WaitingOutput::Resume(resume));
    }

    pub(super) fn cleaned(&mut self, area: Area) {
        self.push(WaitingOutput::Cleaned(area));
    }

    pub(super) fn start(&mut self, start: Start) {
        self.push(WaitingOutput::Start(start));
    }

    pub(super) fn event(&mut self, event: Event) {
        self.push(WaitingOutput::Event);
        self.events.push_back(Box::new(event));
    }

    /// Whether the next one is that of a request of the table that has ended.
    #[inline(always)]
    pub(super) fn is_end(&self) -> bool {
        self.ended.is_some()
    }

    /// Its slot, and how it ended.
    #[inline(always)]
    pub(super) fn take_ended(&mut self) -> Option<Ended> {
        let ended = self.ended.take();
        if let Some(&WaitingOutput::Ended(next)) = self.waiting.get(self.taken_count) {
            self.ended = Some(next);
            self.taken_count += 1;
        }
        ended
    }

    /// The next one; `None` if it is such an end.
    pub(super) fn take(&mut self) -> Option<Output> {
        if self.is_end() {
            return None;
        }
        let waiting = *self.waiting.get(self.taken_count)?;
        self.taken_count += 1;
        Some(match waiting {
            WaitingOutput::Ended(ended) => {
                self.ended = Some(ended);
                return None;
            }
            WaitingOutput::Finish(finish) => Output::Finish(finish),
            WaitingOutput::Resume(resume) => Output::Resume(resume),
            WaitingOutput::Cleaned(area) => Output::Cleaned(area),
            WaitingOutput::Start(start) => Output::Start(start),
            WaitingOutput::Event => {
                Output::Event(self.events.pop_front().expect("one for each mark"))
            }
        })
    }
}
