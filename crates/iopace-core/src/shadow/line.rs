//! What has happened live and the shadow has not met yet, in order of arrival.

use crate::limits::SHADOW_LINE_MAX;
use crate::request::{Area, Cover, Space, StageTimes, Submit};
use crate::shadow::disk::Served;
use crate::time::{Instant, Nanos};
use std::collections::VecDeque;

/// What came.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Item {
    /// A request for the disk, and the owner of its extent.
    Request(Submit, Space),
    /// A buffered write, and whose pages it dirties.
    Write(Submit, Space),
    /// A flush, and what it covers.
    Flush(Submit, Cover),
    /// Content is void.
    Void(Area),
}

/// How a live request went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ended {
    /// Where its time went.
    pub(crate) times: StageTimes,
    /// How the disk served it.
    pub(crate) served: Served,
    /// Its place in the recording that is replayed.
    pub(crate) place: u32,
}

#[derive(Debug)]
struct WaitingItem {
    at: Instant,
    item: Item,
    /// Live requests of its task when it came, with itself.
    depth: u32,
    /// How it went, once it has ended; what does not end is known at once.
    ended: Option<Ended>,
}

impl WaitingItem {
    fn is_known(&self) -> bool {
        self.ended.is_some() || matches!(self.item, Item::Flush(..) | Item::Void(_))
    }
}

/// The line.
#[derive(Debug, Default)]
pub(super) struct ShadowLine {
    waiting: VecDeque<WaitingItem>,
    /// The number of the first.
    first: u64,
}

impl ShadowLine {
    /// An empty one, whose first is to have that number; not 0.
    pub(super) fn from(first: u64) -> ShadowLine {
        ShadowLine { waiting: VecDeque::new(), first }
    }

    /// The number of the next one.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.waiting.len() as u64
    }

    /// One more; its number, never 0.
    pub(super) fn push(&mut self, at: Instant, item: Item, depth: u32) -> u64 {
        let number = self.next_number();
        self.waiting.push_back(WaitingItem { at, item, depth, ended: None });
        number
    }

    /// That one has ended. It may have been left out.
    pub(super) fn ended(&mut self, number: u64, ended: Ended) {
        let place = number.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        if let Some(waiting) = place.and_then(|place| self.waiting.get_mut(place)) {
            waiting.ended = Some(ended);
        }
    }

    /// When the first one came, and whether it is known how it went. An empty line: nothing comes
    /// until now.
    pub(super) fn next(&self, now: Instant) -> (Instant, bool) {
        match self.waiting.front() {
            Some(waiting) => (waiting.at, waiting.is_known()),
            None => (now + Nanos(1), false),
        }
    }

    /// The first one, if it came by then and it is known how it went.
    pub(super) fn pop(&mut self, by: Instant) -> Option<(Item, u32, Option<Ended>)> {
        self.waiting.front().filter(|waiting| waiting.at <= by && waiting.is_known())?;
        let WaitingItem { item, depth, ended, .. } = self.waiting.pop_front()?;
        self.first += 1;
        Some((item, depth, ended))
    }

    /// Leaves out the first ones while there are too many; how many.
    pub(super) fn give_up(&mut self) -> u64 {
        let excess = self.waiting.len().saturating_sub(SHADOW_LINE_MAX);
        self.waiting.drain(..excess);
        self.first += excess as u64;
        excess as u64
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Leaves out all; how many.
    pub(super) fn clear(&mut self) -> u64 {
        let count = self.waiting.len() as u64;
        self.first += count;
        self.waiting.clear();
        count
    }
}
