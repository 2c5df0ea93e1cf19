//! Time accounting: where the queued time of a request goes, and what each task did. Nothing here
//! decides anything.
//!
//! # Queued time
//! Clocks run while nothing more can start: one while the window is full, one while a task is
//! anticipated. A request reads them when it is admitted and when it starts, so that its own time
//! costs two readings, however long the queue is.
//!
//! A full window alone does not say what a request waits for: with a window of one request, every
//! other task waits in front of a full window for its turn. So the time with a full window between
//! two starts belongs to the task of the later one: for that task the window was what was missing,
//! and for all others it was not their turn. A request that comes between two starts finds a part
//! of that time gone; its share of `window` is too large by at most this part, and never larger
//! than the time that it was queued with a full window.

use crate::request::{GroupId, Queued, StageTimes, TaskId};
use crate::stats::{Finished, TaskAccount, TaskPlace, Tasks};
use crate::table::Entry;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;
use core::ops::Range;

/// The clocks and the accounts of the tasks.
#[derive(Debug)]
pub(super) struct Accounting {
    is_on: bool,
    full: Nanos,
    anticipation: Nanos,
    /// `full` when something last started.
    last_start: Nanos,
    tasks: Tasks,
}

impl Accounting {
    /// With `is_on` false there are no tasks, histograms and reasons, only what stages need.
    pub(super) fn new(is_on: bool) -> Accounting {
        let (full, anticipation, last_start) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        Accounting { is_on, full, anticipation, last_start, tasks: Tasks::default() }
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Time has passed in which nothing more could start, for the reason.
    pub(super) fn passed(&mut self, reason: Reason, time: Nanos) {
        match reason {
            Reason::Window => self.full += time,
            Reason::Anticipation => self.anticipation += time,
            _ => {}
        }
    }

    /// A request or a buffered write of a task comes.
    pub(super) fn arrived(&mut self, now: Instant, task: TaskId, group: GroupId) -> TaskPlace {
        if self.is_on { self.tasks.arrived(now, task, group) } else { TaskPlace::default() }
    }

    /// A request is queued from now on: the readings of the clocks.
    pub(super) fn queued(&self, place: TaskPlace) -> Queued {
        let own = if self.is_on { self.tasks.own(place) } else { self.full };
        Queued { full: self.full, own, anticipation: self.anticipation }
    }

    /// A request starts: what has passed on the clocks.
    pub(super) fn started(&mut self, entry: &mut Entry) {
        let since_last = self.full.saturating_sub(self.last_start);
        self.last_start = self.full;
        let place = entry.request.account;
        let own = if self.is_on { self.tasks.started(place, since_last) } else { self.full };
        let mark = entry.queued;
        entry.queued = Queued {
            full: self.full.saturating_sub(mark.full),
            own: own.saturating_sub(mark.own),
            anticipation: self.anticipation.saturating_sub(mark.anticipation),
        };
    }

    /// A request has ended.
    #[inline]
    pub(super) fn finished(&mut self, now: Instant, place: TaskPlace, finished: &Finished<'_>) {
        if self.is_on {
            self.tasks.finished(now, place, finished);
        }
    }

    /// A portion of a buffered write is in memory.
    pub(super) fn buffered(&mut self, now: Instant, place: TaskPlace, size: Bytes) {
        if self.is_on {
            self.tasks.buffered(now, place, size);
        }
    }

    /// A buffered write is over.
    pub(super) fn paced(&mut self, now: Instant, place: TaskPlace, waited: &StageTimes) {
        if self.is_on {
            self.tasks.paced(now, place, waited);
        }
    }

    /// The tasks with something here, and those that had something here at `since` or later.
    pub(super) fn tasks(&self, since: Instant) -> impl Iterator<Item = &TaskAccount> {
        self.tasks.since(since)
    }

    /// The same of those in these places, and how many places there are.
    pub(super) fn tasks_in(
        &self,
        places: Range<usize>,
        since: Instant,
    ) -> (impl Iterator<Item = &TaskAccount>, usize) {
        (self.tasks.since_in(places, since), self.tasks.places_count())
    }
}
