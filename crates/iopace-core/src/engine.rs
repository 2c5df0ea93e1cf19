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
//! # Two machines
//! ```text
//!   Dirtied, Wrote, Void           Submit, Flush                 Done
//!          │                             │                         │
//!          ▼          write-back         ▼        Start            ▼
//!   ┌─ memory ──────┐ and flushes ┌─ queue ─────────────────┐   ═► device
//!   │ pace, flusher │ ══════════► │ slots, scheduler, window│   ◄═
//!   └──────┬────────┘ ◄────────── └────────┬────────────────┘
//!          ▼          admitted, ended      ▼
//!   Resume, Cleaned                      Finish
//! ```
//! The queue knows nothing of memory; both are told of the time, of groups and of changes here, and
//! count and say what they do in a context that they share.
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

mod buffered;
mod context;
mod control;
mod hosts;
mod interface;
mod memory;
mod observers;
mod outputs;
mod queue;
mod touched;
mod waiting;

pub use interface::{
    Config, Control, ControlError, Finish, Input, Output, Resume, Start, Status, WriteId,
};
pub use waiting::{GroupWaits, WaitingNow};

use crate::limits::FRONTEND_REQUESTS_MAX;
use crate::request::{Area, Cover, Op, Outcome, RequestId, Space, Submit};
use crate::time::Instant;
use crate::verdict::Reason;
use context::Context;
use memory::Memory;
use queue::{Dispatch, Queue};

/// The policy of one device.
#[derive(Debug)]
pub struct Engine {
    queue: Queue,
    memory: Memory,
    cx: Context,
    /// As it was made, with what has changed since.
    config: Config,
    /// Whether all outputs of the last input were taken.
    drained: bool,
}

impl Engine {
    /// An idle device.
    pub fn new(config: Config) -> Engine {
        Engine {
            queue: Queue::new(&config),
            memory: Memory::new(&config),
            cx: Context::new(config.accounting),
            drained: true,
            config,
        }
    }

    /// Tells it what happened. A time before the last one counts as the last one.
    ///
    /// # Panics
    /// If outputs of an earlier instant were not drained, or a completion names a request that is
    /// not in flight: both are errors of the caller.
    #[inline]
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Submit(submit) => self.submitted(now, &submit, Space::DISK),
            Input::SubmitIn(space, submit) => self.submitted(now, &submit, space),
            Input::Done { id, outcome } => self.completed(now, id, outcome),
            other => self.rare_input(now, other),
        }
    }

    /// The next thing to do; [`Output::Wait`], for an instant to come, when there is no more.
    ///
    /// On a drained engine this is a [`Input::Tick`] at `now`; otherwise `now` is that of the
    /// input.
    #[inline(always)]
    pub fn poll(&mut self, now: Instant) -> Output {
        if self.drained {
            self.advance(now);
        }
        // The short ways: a finish; or nothing to hand out, and nothing may start.
        if self.cx.outputs.is_end() {
            return self.finish();
        }
        if !self.cx.outputs.is_empty() || self.has_to_look() {
            return self.go_on();
        }
        let Some(reason) = self.queue.is_closed_for() else { return self.start_next() };
        if self.cx.observers.has_shadow() || !self.queue.stays_closed(self.cx.now, reason) {
            return self.go_on();
        }
        self.drained = true;
        Output::Wait(self.cx.look_at, reason)
    }

    /// The next thing to do, which is a finish.
    #[inline(always)]
    fn finish(&mut self) -> Output {
        match self.queue.take_finish(&mut self.cx) {
            Some(finish) => Output::Finish(finish),
            None => self.go_on(),
        }
    }

    /// The next thing to do.
    #[inline(never)]
    fn go_on(&mut self) -> Output {
        loop {
            while !self.cx.outputs.is_empty() {
                match self.cx.outputs.take() {
                    None => return self.finish(),
                    // Some of it is dirty again.
                    Some(Output::Cleaned(area)) if !self.is_clean(area) => {
                        self.memory.tell_clean_pages(&mut self.cx, area);
                    }
                    Some(output) => return output,
                }
            }
            if self.has_to_look() {
                self.look();
                if !self.cx.outputs.is_empty() {
                    continue;
                }
            }
            match self.queue.dispatch(&mut self.cx) {
                Some(Dispatch::Start(id)) => {
                    return Output::Start(self.queue.start(&mut self.cx, id));
                }
                Some(Dispatch::Parts) => self.queue.start_parts(&mut self.cx),
                Some(Dispatch::Wait(at, reason)) => {
                    if let Some((at, reason)) = self.rest(at, reason) {
                        return Output::Wait(at, reason);
                    }
                }
                None => {}
            }
        }
    }

    /// The next thing to do, where nothing is to be handed out or looked at: a start, mostly.
    #[inline(never)]
    fn start_next(&mut self) -> Output {
        match self.queue.dispatch_next(&mut self.cx) {
            Some(Dispatch::Start(id)) => Output::Start(self.queue.start(&mut self.cx, id)),
            Some(Dispatch::Parts) => {
                self.queue.start_parts(&mut self.cx);
                self.go_on()
            }
            Some(Dispatch::Wait(at, reason)) => match self.rest(at, reason) {
                Some((at, reason)) => Output::Wait(at, reason),
                None => self.go_on(),
            },
            None => self.go_on(),
        }
    }

    /// Whether something in front of the scheduler has to be looked at.
    #[inline]
    fn has_to_look(&self) -> bool {
        self.cx.now >= self.cx.look_at
    }

    /// Lets all that is in front of the scheduler go on as far as it may. With nothing dirty and
    /// nobody waiting for a slot, only an input or an instant can change anything there.
    #[inline(never)]
    fn look(&mut self) {
        self.forget_ended_groups();
        let Engine { queue, memory, cx, .. } = self;
        let now = cx.now;
        if now >= cx.targets.next() {
            // Groups whose siblings have missed or met their latency targets.
            for (id, cap) in cx.targets.judge(now, &cx.groups) {
                queue.narrow(cx, id, cap);
            }
        }
        memory.wake_writes(queue, cx);
        memory.write_back(queue, cx);
        queue.admit_waiting(cx, &mut |admitted| memory.admitted(now, admitted));
        let is_over = memory.is_quiet(now) && !queue.has_waiting();
        self.cx.look_at = if is_over { self.next_look() } else { Instant::ZERO };
        self.forget_ended_groups();
    }

    /// When targets or memory have to look again by time alone.
    #[inline]
    fn next_look(&self) -> Instant {
        self.cx.targets.next().min(self.memory.next(self.cx.now))
    }

    /// Ends a drain: checks the laws and says when to come back, and why not now; `None` if there
    /// is something to say or to do after all.
    #[inline]
    fn rest(&mut self, mut at: Instant, reason: Reason) -> Option<(Instant, Reason)> {
        let reason = if reason == Reason::Idle { self.memory.reason() } else { reason };
        if !self.queue.rests(&mut self.cx, reason) {
            return None;
        }
        at = at.min(match self.cx.look_at {
            Instant::ZERO => self.queue.next().min(self.next_look()),
            look_at => look_at,
        });
        // Something passed over may go on by now: stages have learned on the way.
        if at <= self.cx.now {
            return None;
        }
        self.drained = true;
        self.advance_shadow();
        self.cx.outputs.is_empty().then_some((at, reason))
    }

    /// Takes a new instant in and books the time that has passed.
    #[inline(always)]
    fn advance(&mut self, now: Instant) {
        if now > self.cx.now {
            if !self.drained {
                panic_undrained(self.cx.now, now);
            }
            self.queue.passed(now.behind(self.cx.now));
            self.cx.now = now;
        }
        self.drained = false;
    }

    // Inputs.

    /// A request comes.
    #[inline(never)]
    fn submitted(&mut self, now: Instant, submit: &Submit, space: Space) {
        self.advance(now);
        if self.live_count() >= FRONTEND_REQUESTS_MAX {
            return self.queue.refuse(&mut self.cx, submit);
        }
        if !matches!(submit.op, Op::Read | Op::Write) {
            if submit.op == Op::Flush {
                return self.flush_comes(submit, &Cover::All);
            }
            self.makes_void(submit, space);
        }
        let Engine { queue, cx, .. } = self;
        let followed = cx.observers.arrived(cx.now, submit, space);
        queue.enter(cx, submit, |entry| (entry.request.space, entry.followed) = (space, followed));
    }

    /// A request comes that may make the content of its extent void.
    #[inline(never)]
    fn makes_void(&mut self, submit: &Submit, space: Space) {
        let Engine { queue, memory, cx, .. } = self;
        if matches!(submit.op, Op::Trim | Op::WriteZeroes) {
            cx.look();
            memory.discard(queue, cx, Area { space, extent: submit.extent });
        }
    }

    /// A flush comes, and covers so much.
    #[inline(never)]
    fn flush_comes(&mut self, submit: &Submit, cover: &Cover) {
        if self.live_count() >= FRONTEND_REQUESTS_MAX {
            return self.queue.refuse(&mut self.cx, submit);
        }
        let Engine { queue, memory, cx, .. } = self;
        cx.look();
        cx.observers.flush_arrived(cx.now, submit, cover);
        if let Some(has_failed) = memory.sync(cx, submit, cover) {
            queue.enter(cx, submit, |entry| entry.is_lost = has_failed);
        }
    }

    /// The device has finished a request.
    #[inline(never)]
    fn completed(&mut self, now: Instant, id: RequestId, outcome: Outcome) {
        self.advance(now);
        let Engine { queue, memory, cx, .. } = self;
        if let Some(ended) = queue.complete(cx, id, outcome) {
            cx.look();
            memory.written_back(queue, cx, ended);
        } else if memory.ask(cx.now) {
            cx.look();
        }
    }

    /// Something happened to buffered writes, a flush that covers a part comes, or only time has
    /// passed.
    #[inline(never)]
    fn rare_input(&mut self, now: Instant, input: Input) {
        self.advance(now);
        if let Input::Flush(submit, cover) = &input {
            return self.flush_comes(submit, cover);
        }
        let Engine { queue, memory, cx, .. } = self;
        cx.look();
        match input {
            Input::Dirtied { tag, task, group, area } => {
                let (op, extent, fua, sync) = (Op::Write, area.extent, false, true);
                let submit = Submit { tag, task, group, op, extent, fua, sync };
                if queue.live_count() + memory.live_count() >= FRONTEND_REQUESTS_MAX {
                    return cx.refuse(&submit);
                }
                memory.dirtied(queue, cx, submit, area);
            }
            Input::Wrote { id, ok } => memory.wrote(queue, cx, id, ok),
            Input::Void(area) => {
                cx.observers.voided(cx.now, area);
                memory.discard(queue, cx, area);
            }
            Input::Submit(_) | Input::SubmitIn(..) | Input::Flush(..) => {}
            Input::Done { .. } | Input::Tick => {}
        }
    }
}

/// The caller did not take all outputs before time went on.
#[cold]
#[inline(never)]
fn panic_undrained(at: Instant, now: Instant) -> ! {
    panic!("the engine was told of {now:?} before it was drained at {at:?}");
}

#[cfg(test)]
mod tests;
