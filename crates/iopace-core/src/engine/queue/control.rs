//! Changes of a live queue: schedulers exchanged on purpose and because one failed, slots, the
//! window, groups; how it stands; and what memory asks of it.

use super::{Dispatch, Queue, audit};
use crate::admit::{self, GroupSlots};
use crate::engine::context::Context;
use crate::engine::touched::Touched;
use crate::engine::{Config, ControlError, Status, WaitingNow};
use crate::group::table::Groups;
use crate::limits::SCHEDULER_STALL;
use crate::request::{GroupId, Lane, Outcome, RequestId, StageTimes, Submit};
use crate::sched::{Algorithm, Changes, Params, Pop, fifo, guard::Guard};
use crate::table::RequestState;
use crate::time::{Instant, Nanos};
use crate::trace::{Event, Fault};
use crate::units::Bytes;
use crate::verdict::{Reason, Verdict};
use crate::window::{self, AnyWindow, HostShare, QueueTotals};

impl Queue {
    /// Puts a scheduler in where none was inserted.
    pub(in crate::engine) fn insert(
        &mut self,
        cx: &mut Context,
        algorithm: &'static Algorithm,
        params: Params,
    ) -> Result<(), ControlError> {
        if self.inserted {
            return Err(ControlError::AlreadyInserted(self.sched.algorithm.name));
        }
        self.exchange(cx, algorithm, params, true)
    }

    /// Changes the inserted scheduler, or its parameters.
    pub(in crate::engine) fn configure(
        &mut self,
        cx: &mut Context,
        to: Option<&'static Algorithm>,
        changes: &Changes,
    ) -> Result<(), ControlError> {
        if !self.inserted {
            return Err(ControlError::NotInserted);
        }
        let to = to.unwrap_or(self.sched.algorithm);
        let is_same = std::ptr::eq(to, self.sched.algorithm);
        let mut params = if is_same { self.sched.params.clone() } else { to.defaults() };
        params.merge(changes).map_err(|error| ControlError::Param(to.name, error))?;
        if !is_same {
            return self.exchange(cx, to, params, true);
        }
        self.after_done = None;
        if let Err(fault) = self.sched.configure(params, &self.table) {
            self.fail_over(cx, fault);
        }
        Ok(())
    }

    /// Takes the inserted scheduler out; `base` goes on.
    pub(in crate::engine) fn destroy(
        &mut self,
        cx: &mut Context,
        base: &'static Algorithm,
    ) -> Result<(), ControlError> {
        if !self.inserted {
            return Err(ControlError::NotInserted);
        }
        self.exchange(cx, base, base.defaults(), false)
    }

    /// Puts a new scheduler in the place of the old one, between two requests.
    pub(super) fn exchange(
        &mut self,
        cx: &mut Context,
        to: &'static Algorithm,
        params: Params,
        inserted: bool,
    ) -> Result<(), ControlError> {
        let rotational = self.sched.rotational;
        let build = std::panic::AssertUnwindSafe(|| Guard::new(to, params, rotational));
        let new =
            std::panic::catch_unwind(build).map_err(|_| ControlError::BuildFailed(to.name))?;
        let event = Event::SchedulerExchanged {
            from: self.sched.algorithm.name,
            to: to.name,
            moved_count: self.table.count(RequestState::Queued),
        };
        cx.stats.told.exchanged_count += 1;
        self.replace(cx, new, event);
        match self.tell_groups(cx.now, &cx.groups.table) {
            Ok(()) => self.push_all_queued(cx),
            Err(fault) => self.fail_over(cx, fault),
        }
        self.inserted = inserted;
        Ok(())
    }

    /// Puts `new` in the place of the present scheduler; it has to be given all that is queued.
    fn replace(&mut self, cx: &mut Context, new: Guard, event: Event) {
        self.sched = new;
        self.audit_at = audit::next(cx.now, self.sched.algorithm);
        self.epoch = self.epoch.wrapping_add(1);
        (self.held_since, self.after_done) = (None, None);
        cx.outputs.event(event);
    }

    /// Tells a new scheduler of all groups.
    fn tell_groups(&mut self, now: Instant, groups: &Groups) -> Result<(), Fault> {
        let mut all = groups.in_order().into_iter().filter(|id| *id != GroupId::ROOT);
        all.try_for_each(|id| self.sched.set_group(now, id, groups))
    }

    /// Gives everything that is queued to the present scheduler, in arrival order.
    fn push_all_queued(&mut self, cx: &mut Context) {
        for id in self.table.queued() {
            if let Err(fault) = self.sched.push(cx.now, id, &self.table) {
                return self.fail_over(cx, fault);
            }
        }
    }

    /// The scheduler has given nothing that can start.
    #[inline(never)]
    pub(super) fn nothing_goes(
        &mut self,
        cx: &mut Context,
        popped: Result<Pop, Fault>,
    ) -> Option<Dispatch> {
        let fault = match popped {
            Ok(Pop::Ready(_) | Pop::Last(..)) => Fault::Invented,
            Ok(Pop::At(at, reason)) => match self.held_back(cx.now, at) {
                Some(at) => return Some(Dispatch::Wait(at, reason)),
                None => Fault::Stalled,
            },
            Ok(Pop::Empty) if self.table.count(RequestState::Queued) == 0 => {
                let reason =
                    match (self.table.count(RequestState::Waiting), self.table.at_device_count()) {
                        (0, 0) => Reason::Idle,
                        (0, _) => Reason::Disk,
                        _ => self.admit_again.1,
                    };
                return Some(Dispatch::Wait(Instant::NEVER, reason));
            }
            Ok(Pop::Empty) => Fault::Forgot,
            Err(fault) => fault,
        };
        self.fail_over(cx, fault);
        None
    }

    /// The scheduler holds something back: when to ask again, or `None` when it has stalled.
    fn held_back(&mut self, now: Instant, at: Instant) -> Option<Instant> {
        let at = at.max(now + Nanos(1));
        if self.table.count(RequestState::Queued) == 0 || self.table.at_device_count() > 0 {
            self.held_since = None;
            return Some(at);
        }
        let deadline = *self.held_since.get_or_insert(now) + SCHEDULER_STALL;
        (now < deadline).then_some(at.min(deadline))
    }

    /// Replaces a scheduler that cannot be trusted by fifo; the table says what it had.
    #[cold]
    pub(super) fn fail_over(&mut self, cx: &mut Context, fault: Fault) {
        assert!(
            !std::ptr::eq(self.sched.algorithm, &fifo::ALGORITHM),
            "the fallback scheduler failed: {}",
            fault.describe()
        );
        let event = Event::SchedulerFailed {
            name: self.sched.algorithm.name,
            params: self.sched.params.iter().map(|(spec, value)| (spec.name, value)).collect(),
            fault,
            recovered_count: self.table.count(RequestState::Queued),
            dump: self.sched.dump(),
        };
        cx.stats.told.failed_over_count += 1;
        let rotational = self.sched.rotational;
        let fifo = Guard::new(&fifo::ALGORITHM, fifo::ALGORITHM.defaults(), rotational);
        self.replace(cx, fifo, event);
        self.push_all_queued(cx);
    }

    /// Ends what has nothing to do behind stage admit: its slot is free again at once.
    #[cold]
    pub(super) fn end_admitted(&mut self, cx: &mut Context, id: RequestId, budget: Nanos) {
        let now = cx.now;
        let entry = self.table.leave(id, RequestState::Waiting);
        entry.admit(now, false, budget);
        let StageTimes { slot, budget, .. } = entry.times;
        entry.times = StageTimes { slot, budget, ..StageTimes::default() };
        let total = entry.end(now);
        let Submit { group, sync, .. } = entry.request.submit;
        self.admit.release(now, group, sync, &cx.groups.table);
        cx.groups.started(now, group, sync);
        cx.finished(entry, Outcome::Ok, total);
        cx.observers.ended(now, entry);
        cx.outputs.ended(id.slot, Outcome::Ok);
    }

    /// Sets `nr_requests`.
    pub(in crate::engine) fn set_slots(&mut self, nr_requests: u32) {
        self.admit.set_slots(nr_requests);
    }

    /// Sets the depth of the window.
    pub(in crate::engine) fn set_window_depth(&mut self, depth: u32) {
        self.window.set_depth(depth);
    }

    /// The policy of stage window, as it is to begin.
    pub(in crate::engine) fn build_window(now: Instant, config: &Config) -> AnyWindow {
        let mut window = (config.window.build)(config.window_depth);
        window.set_share(now, config.host_share);
        window
    }

    /// Exchanges the policy of stage window.
    pub(in crate::engine) fn set_window(&mut self, now: Instant, config: &Config) {
        self.window = Queue::build_window(now, config);
        if let Some(merge) = &mut self.merge {
            merge.forget_commands();
        }
    }

    /// Tells stage window of other hosts that use the device.
    pub(in crate::engine) fn set_share(&mut self, now: Instant, share: Option<HostShare>) {
        self.window.set_share(now, share);
    }

    /// Says what holds for a group, to the stages that depend on what has changed of it.
    pub(in crate::engine) fn set_group(
        &mut self,
        cx: &mut Context,
        touched: &Touched,
        id: GroupId,
    ) {
        if touched.admit {
            self.admit.set_group(cx.now, id, &cx.groups.table);
        }
        if touched.sched
            && id != GroupId::ROOT
            && let Err(fault) = self.sched.set_group(cx.now, id, &cx.groups.table)
        {
            self.fail_over(cx, fault);
        }
    }

    /// Forgets a group of which nothing is left.
    pub(in crate::engine) fn remove_group(&mut self, cx: &mut Context, id: GroupId) {
        self.admit.remove_group(id);
        if let Err(fault) = self.sched.remove_group(id) {
            self.fail_over(cx, fault);
        }
    }

    /// A lower cap for a group while somebody else's latency target is missed; `None` lifts it.
    pub(in crate::engine) fn narrow(&mut self, cx: &Context, id: GroupId, cap: Option<u32>) {
        self.admit.narrow(cx.now, id, cap, &cx.groups.table);
    }

    // How it stands.

    /// Whether something waits in stage admit.
    #[inline]
    pub(in crate::engine) fn has_waiting(&self) -> bool {
        self.table.count(RequestState::Waiting) > 0
    }

    /// Requests that came and have not ended.
    #[inline]
    pub(in crate::engine) fn live_count(&self) -> usize {
        self.table.live()
    }

    /// The device as it stands, but for memory, of which `paced_count` is told.
    pub(in crate::engine) fn status(&self, config: &Config, paced_count: usize) -> Status {
        Status {
            algorithm: self.sched.algorithm,
            inserted: self.inserted,
            params: self.sched.params.clone(),
            disk: self.sched.disk(),
            counters: self.sched.counters(),
            waiting_count: self.table.count(RequestState::Waiting),
            queued_count: self.table.count(RequestState::Queued)
                + self.table.count(RequestState::Held),
            in_flight_count: self.table.at_device_count(),
            totals_count: self.table.totals(),
            nr_requests: self.admit.slots().0,
            window_depth: self.window.depth(),
            window_depth_set: config.window_depth,
            window: config.window,
            pace: config.pace,
            pause_target: None,
            caps_count: 0,
            paced_count,
            reason: self.reason,
            merge_max: config.merge_max,
            merged_count: self.merge.as_ref().map_or(0, |merge| merge.joined_count()),
        }
    }

    /// The scheduler, if one is inserted.
    pub(in crate::engine) fn inserted(&self) -> Option<(&'static Algorithm, Params)> {
        self.inserted.then(|| (self.sched.algorithm, self.sched.params.clone()))
    }

    /// How a group stands in stage admit.
    pub(in crate::engine) fn group(&self, id: GroupId) -> GroupSlots {
        self.admit.group(id)
    }

    /// How the queue of a host among others stands.
    pub(in crate::engine) fn queue_totals(&self) -> Option<QueueTotals> {
        self.window.queue_totals()
    }

    /// How stage window stands.
    pub(in crate::engine) fn window_picture(&self) -> window::WindowPicture {
        self.window.picture()
    }

    /// Adds all that has not ended.
    pub(in crate::engine) fn waiting_now(
        &self,
        now: Instant,
        groups: &Groups,
        into: &mut WaitingNow,
    ) {
        for entry in self.table.entries() {
            let group = entry.request.submit.group;
            let age = now.since(entry.request.arrived()) + entry.written;
            match entry.state() {
                RequestState::Waiting => {
                    let is_write_back = entry.run.is_some();
                    let lane = Lane::of(entry.request.submit.op);
                    let lane = if is_write_back { Lane::WriteBack } else { lane };
                    into.add_waiting(group, age, lane);
                }
                RequestState::Queued => {
                    let reason = match self.reason {
                        Reason::Window | Reason::Anticipation => self.reason,
                        _ => Reason::Turn,
                    };
                    into.add(group, age, reason);
                }
                RequestState::Held => into.add(group, age, Reason::Window),
                RequestState::InFlight | RequestState::Joined => {
                    into.add_at_disk(group, age, now.since(entry.started));
                }
            }
        }
        into.settle(|group, lane| self.admit.reason(now, group, lane, groups));
    }

    // The calls of memory.

    /// Whether a limit of the group, or of one above it, is used up for now for write-back.
    pub(in crate::engine) fn is_closed(&self, cx: &Context, group: GroupId) -> bool {
        self.admit.is_closed(cx.now, group, Lane::WriteBack, &cx.groups.table)
    }

    /// Whether stage window lets one more write-back request of that size into line; charged if so.
    pub(in crate::engine) fn may_write_back(
        &mut self,
        now: Instant,
        in_line: &window::WriteBack,
        size: Bytes,
    ) -> Verdict {
        self.window.write_back(now, in_line, size)
    }

    /// A portion of a buffered write has passed the door, where limits hold.
    pub(in crate::engine) fn buffered(
        &mut self,
        cx: &Context,
        group: GroupId,
        passed: &admit::Buffered,
    ) {
        self.admit.buffered(cx.now, group, passed, &cx.groups.table);
    }

    /// The door holds no limits any more.
    pub(in crate::engine) fn forget_buffered(&mut self, cx: &Context) {
        self.admit.forget_buffered(cx.now, &cx.groups.table);
    }

    /// Whether the request waits for a slot or for a limit.
    pub(in crate::engine) fn is_waiting(&self, id: RequestId) -> bool {
        self.table.is_waiting(id)
    }

    /// When a task last began to wait for the disk: page frames are left for those that read.
    pub(in crate::engine) fn read_at(&self) -> Option<Instant> {
        self.read_at
    }
}
