//! The engine of one device: the only place that knows the order of the stages.
//!
//! # Contract
//! 1. Tell it what happened: [`Engine::handle`] (or [`Engine::control`]) with the present time.
//!    Several things that happened at the same instant may be told one after the other.
//! 2. Drain it: call [`Engine::poll`] and carry out each [`Output`] until it answers
//!    [`Output::Wait`]. Telling it of a later instant before it is drained panics.
//! 3. Come back at the instant in `Wait`, or with the next input, whichever is first.
//!
//! ```
//! use iopace_core::engine::{Config, Engine, Input, Output};
//! use iopace_core::request::{Extent, GroupId, Op, Outcome, Submit, Tag, TaskId};
//! use iopace_core::time::Instant;
//! use iopace_core::units::Bytes;
//!
//! let mut engine = Engine::new(Config::default());
//! let submit = Submit {
//!     tag: Tag(1),
//!     task: TaskId(1),
//!     group: GroupId::ROOT,
//!     op: Op::Read,
//!     extent: Extent::new(Bytes(0), Bytes(4096)).unwrap(),
//!     fua: false,
//!     sync: true,
//! };
//! engine.handle(Instant(0), Input::Submit(submit));
//! let Output::Start(start) = engine.poll(Instant(0)) else { panic!("an idle disk starts at once")
//! }; assert!(matches!(engine.poll(Instant(0)), Output::Wait(..)));
//! // ... the disk works, then:
//! engine.handle(Instant(90), Input::Done { id: start.id, outcome: Outcome::Ok });
//! let Output::Finish(finish) = engine.poll(Instant(90)) else { panic!("a finish") };
//! assert_eq!((finish.tag, finish.times.total().0), (Tag(1), 90));
//! assert!(matches!(engine.poll(Instant(90)), Output::Wait(..)));
//! ```
//!
//! # Order
//! A flush covers every write whose finish was given out before the flush was submitted; one that
//! covers less ([`Input::Flush`]) waits for no other write-back. A flush never enters a
//! scheduler, so none can delay or reorder it: it takes a slot like everybody, waits for the window
//! only, and starts before anything that is queued. Writes that are not finished are not covered,
//! as in the NBD protocol and the Linux block layer. FUA travels with the request to the device,
//! which finishes it when the data is durable.
//!
//! # Properties
//! 1. Every submitted request finishes exactly once, whatever the scheduler does.
//! 2. The stage times of a finished request sum to its total exactly.
//! 3. An exchange of schedulers keeps every queued request, in arrival order, and touches nothing
//!    in flight.
//! 4. A scheduler that panics, stalls, invents or forgets is replaced by fifo with nothing lost.
//! 5. A flush waits for no scheduler.
//! 6. The engine takes at most `limits::FRONTEND_REQUESTS_MAX` requests and refuses the rest.
//! 7. A request of no bytes that is no flush ends when it is admitted: what limits count as an
//!    operation and is not done by the disk. Neither scheduler nor window nor disk ever sees it.

mod accounting;
mod admission;
mod control;
mod disk;
mod door;
mod exchange;
mod frames;
mod groups;
mod interface;
mod memory;
mod parked;
mod recommend;
mod status;
mod waiting;
mod write_back;

pub use interface::{
    Config, Control, ControlError, Finish, Input, Output, Resume, Start, Status, WriteId,
};
pub use waiting::{GroupWaits, WaitingNow};

use crate::admit;
use crate::group::accounts::Accounts;
use crate::group::latency::Targets;
use crate::limits::{SCHEDULER_FORGETS, SCHEDULER_STALL};
use crate::request::RequestId;
use crate::sched::{Algorithm, guard::Guard};
use crate::shadow::{Recording, Shadow};
use crate::stats::DeviceCounts;
use crate::table::{State, Table};
use crate::time::{Instant, Nanos};
use crate::trace::Fault;
use crate::verdict::{Pop, Reason};
use crate::window::{self, Window};
use accounting::Accounting;
use memory::Memory;
use std::collections::VecDeque;

/// The policy of one device.
#[derive(Debug)]
pub struct Engine {
    /// Latest time it was told; never goes back.
    now: Instant,
    /// Whether all outputs of the last input were taken.
    drained: bool,
    /// Whether something has happened that pace, write-back, targets or admission have to look at.
    is_changed: bool,
    /// If not: when one of them has to look again by time alone.
    look_at: Instant,
    outputs: VecDeque<Output>,
    table: Table,
    memory: Memory,
    admit: admit::Slots,
    slots: admit::Mode,
    /// When admission has to be asked again, and why it waits.
    admit_again: (Instant, Reason),
    groups: Accounts,
    targets: Targets,
    sched: Guard,
    window: Box<dyn Window>,
    window_policy: &'static window::Policy,
    /// The most that the window may ever allow.
    window_max: u32,
    /// Flushes that have a slot, in arrival order.
    barriers: VecDeque<RequestId>,
    base: &'static Algorithm,
    /// As [`Config::tells_cleaned`].
    tells_cleaned: bool,
    inserted: bool,
    /// Counts the schedulers: a completion is reported only to the one that popped it.
    epoch: u64,
    /// Since when work was held back on an idle device.
    held_since: Option<Instant>,
    /// When it is looked at next whether the scheduler has lost a request.
    audit_at: Instant,
    /// Why nothing more started after the last drain.
    reason: Reason,
    accounting: Accounting,
    stats: DeviceCounts,
    /// What tries other settings, if something does. It is only told what happens.
    pub(crate) shadow: Option<Box<Shadow>>,
    /// Whether it was told that the shadow has failed.
    shadow_told: bool,
    /// The number of the next request that a shadow follows; kept here while there is none.
    follow_next: u64,
    /// Requests that have ended since a look began, while one goes on.
    recording: Option<Box<Recording>>,
}

impl Engine {
    /// An idle device.
    pub fn new(config: Config) -> Engine {
        Engine {
            now: Instant::ZERO,
            drained: true,
            is_changed: true,
            look_at: Instant::ZERO,
            outputs: VecDeque::new(),
            table: Table::default(),
            memory: Memory::new(
                config.pace,
                config.memory,
                (config.write_back_len, config.capacity),
            ),
            admit: config.slots.build(config.nr_requests),
            slots: config.slots,
            admit_again: (Instant::NEVER, Reason::Idle),
            groups: Accounts::default(),
            targets: Targets::default(),
            sched: Guard::new(config.base, config.base.defaults(), config.rotational),
            window: (config.window.build)(config.window_depth),
            window_policy: config.window,
            window_max: config.window_depth,
            barriers: VecDeque::new(),
            base: config.base,
            tells_cleaned: config.tells_cleaned,
            inserted: false,
            epoch: 0,
            held_since: None,
            audit_at: Instant::ZERO + SCHEDULER_FORGETS,
            reason: Reason::Idle,
            accounting: Accounting::new(config.accounting),
            stats: DeviceCounts::default(),
            shadow: None,
            shadow_told: false,
            follow_next: 1,
            recording: None,
        }
    }

    /// Tells it what happened. A time before the last one counts as the last one.
    ///
    /// # Panics
    /// If outputs of an earlier instant were not drained, or a completion names a request that is
    /// not in flight: both are errors of the caller.
    pub fn handle(&mut self, now: Instant, input: Input) {
        self.advance(now);
        match input {
            Input::Submit(submit) => return self.submitted(&submit),
            Input::Flush(submit, cover) => return self.flush_comes(&submit, &cover),
            Input::Done { id, outcome } => return self.completed(id, outcome),
            Input::Dirtied { tag, task, group, area } => self.dirtied(tag, task, group, area),
            Input::Wrote { id, ok } => self.wrote(id, ok),
            Input::Void(area) => {
                self.follow_void(area);
                self.discard(area);
            }
            Input::Tick => {}
        }
        self.is_changed = true;
    }

    /// The next thing to do; [`Output::Wait`], for an instant to come, when there is no more.
    ///
    /// On a drained engine this is a [`Input::Tick`] at `now`; otherwise `now` is that of the
    /// input.
    #[inline]
    pub fn poll(&mut self, now: Instant) -> Output {
        if self.drained {
            self.advance(now);
        }
        // The short way: nothing to hand out, and nothing may start.
        let is_full = self.outputs.is_empty() && !self.has_to_look() && !self.has_room();
        if is_full && let Some(at) = self.rest(Instant::NEVER, Reason::Window) {
            return Output::Wait(at, Reason::Window);
        }
        self.go_on()
    }

    /// The next thing to do.
    #[inline(never)]
    fn go_on(&mut self) -> Output {
        loop {
            if let Some(&Output::Cleaned(area)) = self.outputs.front()
                && !self.is_clean(area)
            {
                self.outputs.pop_front();
                self.tell_clean_pages(area);
                continue;
            }
            if let Some(output) = self.outputs.pop_front() {
                return output;
            }
            if self.has_to_look() {
                self.look();
                if !self.outputs.is_empty() {
                    continue;
                }
            }
            match self.dispatch() {
                Some(Dispatch::Start(id)) => return Output::Start(self.start(id)),
                Some(Dispatch::Wait(at, reason)) => {
                    if let Some(at) = self.rest(at, reason) {
                        return Output::Wait(at, reason);
                    }
                }
                None => {}
            }
        }
    }

    /// Ends a drain: checks the laws and says when to come back; `None` if there is something to
    /// say or to do after all.
    #[inline]
    fn rest(&mut self, mut at: Instant, reason: Reason) -> Option<Instant> {
        if self.now >= self.audit_at && self.audit() {
            return None;
        }
        self.table.check_conserved();
        self.reason = reason;
        if self.is_changed {
            self.look_at = self.targets.next().min(self.memory.next(self.now));
            at = at.min(self.admit_again.0);
        }
        at = at.min(self.look_at);
        // What was learned on the way may let something go on that was passed over.
        if at <= self.now {
            return None;
        }
        self.drained = true;
        self.follow_on();
        self.outputs.is_empty().then_some(at)
    }

    /// Whether something in front of the scheduler has to be looked at.
    #[inline]
    fn has_to_look(&self) -> bool {
        self.is_changed || self.now >= self.look_at
    }

    /// Whether one more may be at the device.
    #[inline]
    fn has_room(&self) -> bool {
        self.window.has_room(self.in_flight())
    }

    /// Lets all that is in front of the scheduler go on as far as it may. With nothing dirty and
    /// nobody waiting for a slot, only an input or an instant can change anything there.
    #[inline(never)]
    fn look(&mut self) {
        self.judge_latency();
        self.wake_writes();
        self.write_back();
        self.admit_waiting();
        self.is_changed =
            self.table.count(State::Waiting) > 0 || !self.memory.has_nothing(self.now);
        self.look_at = self.targets.next().min(self.memory.next(self.now));
    }

    /// Stages 3 and 4: what goes to the device next; `None` if the scheduler failed.
    fn dispatch(&mut self) -> Option<Dispatch> {
        if !self.has_room() {
            return Some(Dispatch::Wait(Instant::NEVER, Reason::Window));
        }
        if let Some(id) = self.barriers.pop_front() {
            return self.dispatch_flush(id);
        }
        let fault = match self.sched.pop(self.now, &self.table) {
            Ok(Pop::Ready(id)) if self.table.is_queued(id) => return Some(Dispatch::Start(id)),
            Ok(Pop::Ready(_)) => Fault::Invented,
            Ok(Pop::At(at, reason)) => match self.held_back(at) {
                Some(at) => return Some(Dispatch::Wait(at, reason)),
                None => Fault::Stalled,
            },
            Ok(Pop::Empty) if self.table.count(State::Queued) == 0 => {
                let reason = match (self.table.count(State::Waiting), self.in_flight()) {
                    (0, 0) => self.memory_reason(),
                    (0, _) => Reason::Disk,
                    _ => self.admit_again.1,
                };
                return Some(Dispatch::Wait(Instant::NEVER, reason));
            }
            Ok(Pop::Empty) => Fault::Forgot,
            Err(fault) => fault,
        };
        self.fail_over(fault);
        None
    }

    // Stage 2: admit.

    /// Moves on what has a slot: a request into the scheduler, a flush to the barriers. So much of
    /// its wait was for a limit.
    fn admitted(&mut self, id: RequestId, reserved: bool, budget: Nanos) {
        let entry = self.table.entry(id).expect("who is admitted exists");
        if entry.is_nothing_for_the_disk() {
            return self.end_admitted(id, budget);
        }
        let stand = entry.stand();
        let entry = self.table.advance(id, stand);
        entry.admitted = self.now;
        entry.budget = budget;
        entry.queued = self.accounting.queued(entry.request.account);
        entry.request.reserved = reserved;
        let run = entry.run.as_ref().map(|run| (run.owner.group, run.area.extent.len()));
        if stand == State::Held {
            return self.barriers.push_back(id);
        }
        let is_pushed = self.sched.push(self.now, id, &self.table);
        if let Some(run) = run {
            self.unpark(id, run);
        }
        if let Err(fault) = is_pushed {
            self.fail_over(fault);
        }
    }

    // Stage 3: sched.

    /// The scheduler holds something back: when to ask again, or `None` when it has stalled.
    fn held_back(&mut self, at: Instant) -> Option<Instant> {
        let at = at.max(self.now + Nanos(1));
        if self.table.count(State::Queued) == 0 || self.in_flight() > 0 {
            self.held_since = None;
            return Some(at);
        }
        let deadline = *self.held_since.get_or_insert(self.now) + SCHEDULER_STALL;
        (self.now < deadline).then_some(at.min(deadline))
    }

    // The drive contract.

    /// Takes a new instant in and books the time that has passed.
    #[inline]
    fn advance(&mut self, now: Instant) {
        assert!(
            self.drained || now <= self.now,
            "the engine was told of {now:?} before it was drained at {:?}",
            self.now
        );
        self.accounting.passed(self.reason, now.since(self.now));
        self.now = self.now.max(now);
        self.drained = false;
    }
}

/// What comes behind admission.
enum Dispatch {
    /// A request goes to the device.
    Start(RequestId),
    /// Nothing does before the instant, for the reason.
    Wait(Instant, Reason),
}

#[cfg(test)]
mod tests;
