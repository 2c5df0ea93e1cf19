//! The queued requests, by task: in order of arrival, on a disk with a head by position.
//!
//! All requests are in one table; a task's form a doubly linked list through it in order of
//! arrival, which costs no allocation. Those that come while the disk is known to have a head are
//! also in their task's index by position (C-LOOK: upwards from the end of the task's last request,
//! then from the lowest).

use crate::request::Request;
use crate::sched::tasks::TaskStats;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use std::collections::BTreeMap;

/// No place.
const NONE: u32 = u32::MAX;

/// The age of a task's requests is looked at again after this long at the soonest, as serving by
/// age costs a seek each (as in `rr`).
const AGES_AGAIN: Nanos = Nanos::from_secs(1);

/// A queued request and its neighbours by arrival.
#[derive(Debug)]
struct Slot {
    request: Option<Request>,
    before: u32,
    after: u32,
    is_indexed: bool,
}

/// The requests of one task.
#[derive(Debug)]
pub(super) struct Line {
    first: u32,
    last: u32,
    by_offset: BTreeMap<(Bytes, u64), u32>,
    /// Where the task's last request ended.
    position: Bytes,
    /// Before then none can have been passed over for too long.
    ages_at: Instant,
    pub(super) stats: TaskStats,
    /// Requests at the device.
    pub(super) in_flight: u32,
    /// Requests that a guarantee pays for, which wait elsewhere.
    pub(super) reserved: u32,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            first: NONE,
            last: NONE,
            by_offset: BTreeMap::new(),
            position: Bytes::ZERO,
            ages_at: Instant::ZERO,
            stats: TaskStats::default(),
            in_flight: 0,
            reserved: 0,
        }
    }
}

impl Line {
    /// Whether it has no queued request.
    pub(super) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Whether nothing of the task is queued or at the device.
    pub(super) fn is_unused(&self) -> bool {
        self.is_empty() && self.in_flight == 0 && self.reserved == 0
    }
}

/// All queued requests.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Table {
    /// Takes a request in at the end of its task's line.
    pub(super) fn push(&mut self, line: &mut Line, request: Request, is_indexed: bool) {
        let key = (request.extent().offset(), request.id().sequence());
        let slot = Slot { request: Some(request), before: line.last, after: NONE, is_indexed };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        };
        match line.last {
            NONE => line.first = at,
            last => self.slots[last as usize].after = at,
        }
        line.last = at;
        if is_indexed {
            line.by_offset.insert(key, at);
        }
    }

    /// The task's next request: the nearest upwards, or the first to come if there is no index or
    /// others have gone before it for `expire`.
    pub(super) fn pop(&mut self, line: &mut Line, now: Instant, expire: Nanos) -> Option<Request> {
        let first = self.slots.get(line.first as usize)?;
        let mut at = line.first;
        if first.is_indexed && !is_due(first, line, now, expire) {
            let above = line.by_offset.range((line.position, 0)..).next();
            at = above.or_else(|| line.by_offset.first_key_value()).map_or(at, |(_, &at)| at);
        }
        self.take(line, at)
    }

    fn take(&mut self, line: &mut Line, at: u32) -> Option<Request> {
        let slot = &mut self.slots[at as usize];
        let request = slot.request.take()?;
        let Slot { before, after, is_indexed, .. } = *slot;
        match before {
            NONE => line.first = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => line.last = before,
            after => self.slots[after as usize].before = before,
        }
        if is_indexed {
            line.by_offset.remove(&(request.extent().offset(), request.id().sequence()));
        }
        line.position = request.extent().end();
        self.free.push(at);
        Some(request)
    }

    /// Moves out all requests of a task.
    pub(super) fn drain(&mut self, line: &mut Line, into: &mut Vec<Request>) {
        while line.first != NONE {
            into.extend(self.take(line, line.first));
        }
    }
}

/// Whether the first of the line has been passed over for `expire`; at most once a second.
fn is_due(first: &Slot, line: &mut Line, now: Instant, expire: Nanos) -> bool {
    let Some(request) = first.request.as_ref().filter(|_| now >= line.ages_at) else {
        return false;
    };
    let due = request.arrived() + expire;
    line.ages_at = due.max(now + AGES_AGAIN);
    due <= now
}
