//! The first machine: requests on their way to the device and back (stages admit, sched, window).
//!
//! ```text
//!  enter ─► slots ──────► scheduler ─► window ─► start ═► complete ─► Finish, or a run for memory
//!             │ flushes                  ▲
//!             └──────────► barriers ─────┘
//! ```
//! It knows nothing of the other machine, [`super::memory`], and is told by it:
//! - [`Queue::enter`]: write-back, and flushes whose write-back is done, stand in line like others;
//!   [`Queue::admit_waiting`] lets them go on as far as they may;
//! - [`Queue::is_closed`], [`Queue::may_write_back`], [`Queue::is_waiting`]: whether a limit or the
//!   window holds one back;
//! - [`Queue::buffered`], [`Queue::forget_buffered`]: limits of reads and writes together count
//!   buffered writes that have passed the door;
//! - [`Queue::read_at`]: when a task last waited for the disk.
//!
//! Its answers to memory are values: [`Admitted`], and the run that [`Queue::complete`] returns.

use super::context::Context;
use super::{Config, Finish, Start};
use crate::admit::{self, Admit, Ask, Total};
use crate::flush::Run;
use crate::request::{Area, DiskError, GroupId, Lane, Op, Outcome, RequestId, Submit};
use crate::sched::Pop;
use crate::sched::guard::Guard;
use crate::table::{Entry, List, RequestState, Table};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;
use crate::window::{self, AnyWindow};
use clocks::Clocks;
use merge::Merge;

mod audit;
mod clocks;
mod control;
mod merge;
#[cfg(test)]
mod tests;

/// The requests of a device.
#[derive(Debug)]
pub(super) struct Queue {
    table: Table,
    admit: admit::AnySlots,
    /// When admission has to be asked again, and why it waits.
    admit_again: (Instant, Reason),
    sched: Guard,
    inserted: bool,
    /// Counts the schedulers: a completion is reported only to the one that popped it.
    epoch: u32,
    /// Since when work was held back on an idle device.
    held_since: Option<Instant>,
    /// When it is looked at next whether the scheduler has lost a request.
    audit_at: Instant,
    /// Flushes that have a slot, in arrival order.
    barriers: List,
    window: AnyWindow,
    /// When a task last began to wait for the disk.
    read_at: Option<Instant>,
    /// Why nothing more started after the last drain.
    reason: Reason,
    /// What all that is queued waits for, if nothing but a completion can change it.
    after_done: Option<Reason>,
    clocks: Clocks,
    /// The merging of requests, where that is on.
    merge: Option<Box<Merge>>,
}

/// The answer of stages sched and window.
pub(super) enum Dispatch {
    /// This request goes to the device: [`Queue::start`] follows.
    Start(RequestId),
    /// Several go in one command: [`Queue::start_parts`] follows.
    Parts,
    /// Nothing does before the instant, for the reason.
    Wait(Instant, Reason),
}

/// A request that waited was admitted: the part of it that memory has to know.
#[derive(Debug)]
pub(super) struct Admitted {
    /// Charges of limits of reads and writes together, each with its group.
    pub(super) totals: Vec<(GroupId, Total)>,
    /// If it is write-back: the request, its group and its size.
    pub(super) run: Option<(RequestId, GroupId, Bytes)>,
}

impl Queue {
    pub(super) fn new(config: &Config) -> Queue {
        Queue {
            table: Table::default(),
            admit: config.slots.build(config.nr_requests),
            admit_again: (Instant::NEVER, Reason::Idle),
            sched: Guard::new(config.base, config.base.defaults(), config.rotational),
            inserted: false,
            epoch: 0,
            held_since: None,
            audit_at: audit::next(Instant::ZERO, config.base),
            barriers: List::default(),
            window: Queue::build_window(Instant::ZERO, config),
            read_at: None,
            reason: Reason::Idle,
            after_done: None,
            clocks: Clocks::default(),
            merge: Merge::up_to(config.merge_max),
        }
    }

    // Stage 2: admit.

    /// A request comes, or one of memory; `fill` completes its entry.
    #[inline]
    pub(super) fn enter(
        &mut self,
        cx: &mut Context,
        submit: &Submit,
        fill: impl FnOnce(&mut Entry),
    ) -> RequestId {
        let (id, entry) = self.table.enter(cx.now, submit);
        fill(entry);
        let Submit { task, group, sync, .. } = *submit;
        let own;
        (entry.account, own) = cx.arrived(task, group, sync);
        if !self.admit.pass(group, submit.limit_bytes(), &cx.groups.table) {
            let lane = if entry.run.is_some() { Lane::WriteBack } else { Lane::of(submit.op) };
            let ask = Ask { lane, ..Ask::new(id, submit) };
            self.table.entered(RequestState::Waiting);
            self.admit.enqueue(cx.now, ask, &cx.groups.table);
            cx.look();
        } else if submit.op == Op::Flush || submit.extent.is_empty() {
            self.table.entered(RequestState::Waiting);
            self.admitted(cx, id, false, Nanos::ZERO);
        } else {
            entry.queued = self.clocks.queued(own);
            entry.pass(cx.now);
            self.table.entered(RequestState::Queued);
            self.push(cx, id);
        }
        id
    }

    /// A request comes and there are too many already.
    #[cold]
    pub(super) fn refuse(&mut self, cx: &mut Context, submit: &Submit) {
        self.table.refuse();
        cx.refuse(submit);
    }

    /// Moves on whatever waits and may go on now; `tell` what memory has to know of it.
    #[inline]
    pub(super) fn admit_waiting(&mut self, cx: &mut Context, tell: &mut dyn FnMut(Admitted)) {
        self.admit_again = (Instant::NEVER, Reason::Idle);
        if self.table.count(RequestState::Waiting) > 0 {
            self.admit_some(cx, tell);
        }
    }

    #[inline(never)]
    fn admit_some(&mut self, cx: &mut Context, tell: &mut dyn FnMut(Admitted)) {
        loop {
            match self.admit.admit(cx.now, &cx.groups.table) {
                Admit::Ready { id, reserved, budget, totals } => {
                    let entry = self.table.entry(id).expect("who is admitted exists");
                    let run = entry.run.as_ref();
                    let run = run.map(|run| (id, run.owner.group, run.area.extent.len()));
                    self.admitted(cx, id, reserved, budget);
                    if run.is_some() || !totals.is_empty() {
                        tell(Admitted { totals, run });
                    }
                }
                Admit::At(at, reason) => return self.admit_again = (at, reason),
                Admit::Empty => return,
            }
        }
    }

    /// Moves on what has a slot: a request into the scheduler, a flush to the barriers. So much of
    /// its wait was for a limit.
    fn admitted(&mut self, cx: &mut Context, id: RequestId, reserved: bool, budget: Nanos) {
        let entry = self.table.entry(id).expect("who is admitted exists");
        if entry.is_nothing_for_the_disk() {
            return self.end_admitted(cx, id, budget);
        }
        let stand = entry.stand();
        let entry = self.table.advance(id, stand);
        entry.admit(cx.now, reserved, budget);
        entry.queued = self.clocks.queued(cx.own(entry.account));
        match stand {
            RequestState::Held => self.barriers.push(id, &self.table),
            _ => self.push(cx, id),
        }
    }

    /// A request goes into the scheduler.
    #[inline(always)]
    fn push(&mut self, cx: &mut Context, id: RequestId) {
        if let Some(merge) = &mut self.merge {
            merge.enter(id, &self.table);
        }
        if let Err(fault) = self.sched.push(cx.now, id, &self.table) {
            self.fail_over(cx, fault);
        }
    }

    // Stages 3 and 4: sched and window.

    /// Whether one more may be at the device.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.window.has_room(self.table.in_flight())
    }

    /// What has to happen before anything more can start, if that is known without asking.
    #[inline(always)]
    pub(super) fn is_closed_for(&self) -> Option<Reason> {
        match self.has_room() {
            false => Some(Reason::Window),
            true => self
                .after_done
                .filter(|_| self.table.count(RequestState::Queued) > 0 && self.barriers.is_empty()),
        }
    }

    /// The next request for the device; `None` if the scheduler failed. With nothing here it waits
    /// for [`Reason::Idle`].
    #[inline]
    pub(super) fn dispatch(&mut self, cx: &mut Context) -> Option<Dispatch> {
        match self.has_room() {
            true => self.dispatch_next(cx),
            false => Some(Dispatch::Wait(Instant::NEVER, Reason::Window)),
        }
    }

    /// The same where the window has room.
    #[inline(always)]
    pub(super) fn dispatch_next(&mut self, cx: &mut Context) -> Option<Dispatch> {
        if let Some(id) = self.barriers.first(&self.table) {
            return self.dispatch_flush(cx, id);
        }
        let (id, after_done) = match self.sched.pop(cx.now, &self.table) {
            Ok(Pop::Ready(id)) => (id, None),
            Ok(Pop::Last(id, reason)) => (id, Some(reason)),
            other => return self.nothing_goes(cx, other),
        };
        if !self.table.start(id, RequestState::Queued) {
            return self.nothing_goes(cx, Ok(Pop::Ready(id)));
        }
        self.after_done = after_done;
        match self.merge {
            None => Some(Dispatch::Start(id)),
            Some(_) => Some(self.gather(cx, id)),
        }
    }

    /// A request was popped, where requests are merged: it goes, with those that adjoin it.
    #[inline(never)]
    fn gather(&mut self, cx: &mut Context, lead: RequestId) -> Dispatch {
        let Queue { merge, sched, table, window, .. } = self;
        let merge = merge.as_mut().expect("it is on");
        let is_told = window.learning().is_some();
        let gathered = merge.gather(cx.now, lead, sched, table, is_told);
        let is_single = merge.is_single();
        if let Err(fault) = gathered {
            self.fail_over(cx, fault);
        }
        if is_single { Dispatch::Start(lead) } else { Dispatch::Parts }
    }

    /// The parts of a command leave for the device, in order of position.
    #[inline(never)]
    pub(super) fn start_parts(&mut self, cx: &mut Context) {
        while let Some((id, more)) = self.merge.as_mut().and_then(|merge| merge.take_part()) {
            let start = self.start(cx, id);
            cx.outputs.start(Start { more, ..start });
        }
    }

    /// A flush goes to the device; `None` if the scheduler failed.
    #[inline(never)]
    fn dispatch_flush(&mut self, cx: &mut Context, id: RequestId) -> Option<Dispatch> {
        if let Err(fault) = self.sched.on_flush(cx.now, id, &self.table) {
            self.fail_over(cx, fault);
            return None;
        }
        self.barriers.pop(&self.table);
        assert!(self.table.start(id, RequestState::Held), "the barriers are held");
        Some(Dispatch::Start(id))
    }

    /// A request that was dispatched leaves for the device.
    #[inline(always)]
    pub(super) fn start(&mut self, cx: &mut Context, id: RequestId) -> Start {
        let now = cx.now;
        let entry = self.table.at_device(id);
        self.held_since = None;
        entry.start(now, self.clocks.started(cx, entry.account));
        entry.epoch = self.epoch;
        let Submit { group, op, sync, .. } = entry.request.submit;
        let class = cx.groups.started(now, group, sync);
        if let Some(window) = self.window.learning()
            && let Some(size) = Merge::size_told(&self.merge, id, entry)
        {
            window.on_start(now, &window::Started { op, size, sync });
        }
        if sync && op != Op::Flush {
            self.read_at = Some(now);
        }
        let (Area { space, extent }, write_back) = (entry.request.area(), entry.run.is_some());
        let Submit { tag, task, op, fua, .. } = entry.request.submit;
        Start { id, tag, task, op, extent, space, fua, class, write_back, more: false }
    }

    /// The device has finished a request. If it was write-back: the run, and whether it is on the
    /// disk.
    #[inline]
    pub(super) fn complete(
        &mut self,
        cx: &mut Context,
        id: RequestId,
        outcome: Outcome,
    ) -> Option<(Run, bool)> {
        let now = cx.now;
        self.after_done = None;
        let entry = self.table.leave(id, RequestState::InFlight);
        let total = entry.end(now);
        // A flush whose write-back failed has not made everything durable.
        let lost = entry.is_lost && outcome == Outcome::Ok;
        let outcome = if lost { Outcome::Failed(DiskError::Io) } else { outcome };
        let Submit { group, sync, .. } = entry.request.submit;
        self.admit.release(now, group, sync, &cx.groups.table);
        cx.finished(entry, outcome, total);
        cx.observers.ended(now, entry);
        if sync && !cx.targets.is_empty() {
            cx.targets.finished(&cx.groups.table, group, total);
            cx.look();
        }
        let ok = outcome == Outcome::Ok;
        if let Some(window) = self.window.learning() {
            let done = entry.request.done(id, entry.started, ok);
            let is_joined = entry.state() == RequestState::Joined;
            Merge::tell_done(&mut self.merge, window, now, is_joined, done);
        }
        let (is_own, request) = (entry.epoch == self.epoch, &entry.request);
        let told = if is_own { self.sched.on_done(now, id, request, ok) } else { Ok(()) };
        let run = entry.run.map(|run| (run, ok));
        match run {
            Some(_) => _ = self.table.free(id.slot),
            None => cx.outputs.ended(id.slot, outcome),
        }
        if let Err(fault) = told {
            self.fail_over(cx, fault);
        }
        run
    }

    /// The finish that is told next, if one is: the slot of the request is free then.
    #[inline(always)]
    pub(super) fn take_finish(&mut self, cx: &mut Context) -> Option<Finish> {
        let (slot, outcome) = cx.outputs.take_ended()?;
        let Entry { request, times, .. } = self.table.free(slot);
        let Submit { tag, task, op, extent, .. } = request.submit;
        Some(Finish { tag, task, op, extent, outcome, times: *times })
    }

    // The drive contract.

    /// Time has passed since the last drain.
    #[inline]
    pub(super) fn passed(&mut self, time: Nanos) {
        self.clocks.passed(self.reason, time);
    }

    /// Nothing more starts, for the reason. False if the laws have to be looked at.
    #[inline(always)]
    pub(super) fn stays_closed(&mut self, now: Instant, reason: Reason) -> bool {
        self.reason = reason;
        self.table.check_conserved();
        now < self.audit_at
    }

    /// Nothing more starts, for the reason: checks the laws. False if something may start after
    /// all.
    #[inline]
    pub(super) fn rests(&mut self, cx: &mut Context, reason: Reason) -> bool {
        if cx.now >= self.audit_at && self.audit(cx) {
            return false;
        }
        self.table.check_conserved();
        self.reason = reason;
        true
    }

    /// When a request that waits in stage admit may go on by time alone.
    #[inline]
    pub(super) fn next(&self) -> Instant {
        self.admit_again.0
    }
}
