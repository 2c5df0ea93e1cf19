//! Where the queued time of a request goes. Nothing here decides anything.
//!
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

use crate::engine::context::Context;
use crate::request::Queued;
use crate::stats::TaskPlace;
use crate::time::Nanos;
use crate::verdict::Reason;

/// The clocks of all tasks; each task's own is in its account.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    full: Nanos,
    anticipation: Nanos,
    /// `full` when something last started.
    last_start: Nanos,
}

impl Clocks {
    /// Time has passed in which nothing more could start, for the reason.
    #[inline]
    pub(super) fn passed(&mut self, reason: Reason, time: Nanos) {
        match reason {
            Reason::Window => self.full = self.full.with(time),
            Reason::Anticipation => self.anticipation = self.anticipation.with(time),
            _ => {}
        }
    }

    /// A request is queued from now on: the readings of the clocks, with that of its own task.
    #[inline(always)]
    pub(super) fn queued(&self, own: Nanos) -> Queued {
        Queued { full: self.full, own, anticipation: self.anticipation }
    }

    /// A request of the task starts: the readings of the clocks.
    #[inline(always)]
    pub(super) fn started(&mut self, cx: &mut Context, place: TaskPlace) -> Queued {
        let since_last = self.full.without(self.last_start);
        self.last_start = self.full;
        let own = if cx.is_accounting { cx.tasks.started(place, since_last) } else { self.full };
        self.queued(own)
    }
}
