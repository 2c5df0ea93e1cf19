//! A slot of the request table: a request from its arrival to its end.

use super::list::Links;
use super::{Request, RequestState, VACANT};
use crate::flush::Run;
use crate::request::{Op, Queued, Space, StageTimes, Submit};
use crate::stats::TaskPlace;
use crate::time::{Instant, Nanos};

/// A slot: it is filled in and read where it is.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Entry {
    pub(crate) request: Request,
    /// Where its time went until it came to where it stands; none of it in stage pace.
    pub(crate) times: StageTimes,
    /// When it was admitted, then when it started.
    pub(crate) started: Instant,
    /// Readings of the clocks of queued time at admission.
    pub(crate) queued: Queued,
    /// For how long it had to wait for write-back, before it arrived here: flushes only.
    pub(crate) written: Nanos,
    /// The pages that it writes back, if it does.
    pub(crate) run: Option<Run>,
    /// Its number in the shadow's line; 0 for none.
    pub(crate) followed: u64,
    /// Its place in the scheduler's list, if it is in one.
    pub(super) links: Links,
    /// Which scheduler popped it.
    pub(crate) epoch: u32,
    /// How many the device had when it started, with itself.
    pub(crate) beside: u32,
    /// Its task's account, if there are accounts.
    pub(crate) account: TaskPlace,
    /// Whether write-back failed that it had to wait for.
    pub(crate) is_lost: bool,
}

const _: () = assert!(size_of::<Entry>() == 256);

impl Entry {
    /// A place that no request has used yet; its first is to be this one.
    pub(super) fn new(submit: Submit) -> Entry {
        let (sequence, state, reserved) = (VACANT, RequestState::Waiting, false);
        let (arrived, space) = (Instant::ZERO, Space::DISK);
        let request = Request { sequence, submit, arrived, space, state, reserved };
        Entry {
            request,
            times: StageTimes::default(),
            started: arrived,
            queued: Queued::default(),
            written: Nanos::ZERO,
            run: None,
            followed: 0,
            links: Links::default(),
            epoch: 0,
            beside: 0,
            account: TaskPlace::NONE,
            is_lost: false,
        }
    }

    /// A request arrives here. What is known of it later, from its admission and its start on, is
    /// that of the last one until then.
    #[inline]
    pub(super) fn begin(&mut self, sequence: u64, now: Instant, submit: &Submit) {
        let (space, state, reserved) = (Space::DISK, RequestState::Waiting, false);
        let (submit, arrived) = (*submit, now);
        self.request = Request { sequence, submit, arrived, space, state, reserved };
        self.run = None;
        (self.written, self.is_lost) = (Nanos::ZERO, false);
        self.followed = 0;
    }

    /// It has its slot: whether a guarantee pays for it, and how much of its wait was for a limit.
    pub(crate) fn admit(&mut self, now: Instant, reserved: bool, budget: Nanos) {
        let admit = now.behind(self.request.arrived);
        let budget = budget.min(admit);
        (self.times.slot, self.times.budget) = (admit.without(budget), budget);
        (self.request.reserved, self.started) = (reserved, now);
    }

    /// The same when it arrives; it goes into the scheduler.
    #[inline(always)]
    pub(crate) fn pass(&mut self, now: Instant) {
        (self.times.slot, self.times.budget) = (Nanos::ZERO, Nanos::ZERO);
        (self.request.state, self.started) = (RequestState::Queued, now);
    }

    /// It starts; the clocks of queued time stand there. The parts sum to the time that it was
    /// queued exactly, as none is longer than what it is of.
    #[inline(always)]
    pub(crate) fn start(&mut self, now: Instant, clocks: Queued) {
        let (queued, mark) = (now.behind(self.started), self.queued);
        let (full, own) = (clocks.full.without(mark.full), clocks.own.without(mark.own));
        let window = own.min(full).min(queued);
        let sched = queued.without(window);
        let anticipation = clocks.anticipation.without(mark.anticipation).min(sched);
        self.times.turn = sched.without(anticipation);
        (self.times.anticipation, self.times.window) = (anticipation, window);
        self.started = now;
    }

    /// It is done: its time in all.
    #[inline(always)]
    pub(crate) fn end(&mut self, now: Instant) -> Nanos {
        // Waiting for write-back is waiting for the disk.
        self.times.disk = now.behind(self.started).with(self.written);
        now.behind(self.request.arrived).with(self.written)
    }

    /// Where it stands.
    pub(crate) fn state(&self) -> RequestState {
        self.request.state
    }

    /// Where it stands with its slot: in the scheduler, or, if it is a flush, held.
    #[inline]
    pub(crate) fn stand(&self) -> RequestState {
        if self.request.submit.op == Op::Flush { RequestState::Held } else { RequestState::Queued }
    }

    /// Whether it moves no bytes and is no flush: an operation that only limits count.
    #[inline]
    pub(crate) fn is_nothing_for_the_disk(&self) -> bool {
        let Submit { op, extent, .. } = self.request.submit;
        extent.is_empty() && op != Op::Flush && self.run.is_none()
    }
}
