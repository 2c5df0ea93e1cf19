//! Gives each task the disk for a slice of time and bytes in turn, and keeps the disk for it while
//! its next request is about to come.
//!
//! # Model
//! A task that reads in sequence submits its next request shortly after the last one is done. A
//! scheduler that never idles sees nothing of it in that gap, sends the head elsewhere, and so
//! seeks between two tasks for every request. Here one task has the disk for a slice; when its
//! queue runs empty the disk is kept idle for a moment (*anticipation*), because waiting a
//! millisecond costs less than two seeks.
//! ```text
//!   ┌──── slice of A: quantum_ms from its first completion, or quantum_kb ────┐┌─ slice of B ─
//!   │ seek │ A │.│ A │.│ A │.│ A │ ...                                        ││ seek │ B │...
//!                  └ anticipation: A thinks                                      B waits till here
//! ```
//! How long to wait for a task that thinks: its mean think time, four times (an exponential think
//! time exceeds that in 2 % of cases), a millisecond at least, at most `wait_ms`, never past the
//! end of its slice. A task that thinks longer than `wait_ms` on the average is not waited for at
//! all. A task whose think time is not known yet is waited for `wait_ms`.
//!
//! *What differs from 2009.* gsched_rr does not wait for a task that seeks (mean distance over
//! 8 KiB). Such a task then gets one request per turn while its neighbour gets a whole slice: with
//! 100 ms slices some 12 ms of every 112 ms, a tenth of the disk. Here a seeking task has its slice
//! like everybody, as long as its think time is short; its wait is bounded by four think times,
//! whereas a sequential task, for which a lost turn costs the most, is waited for the full
//! `wait_ms`. Think time is measured from completion to submission and not between submissions, so
//! it does not contain the disk's own time.
//!
//! *Depth.* One request at a time leaves the disk nothing to choose, which is what a head needs. A
//! disk known to have none (flash, a file server) works on many at once: there the task in service
//! has its slice with all its requests, as many as stage window lets, unless `queue_depth` is set.
//!
//! # Properties
//! 1. A task has the disk for at most `quantum_kb`, or `quantum_ms` from its first completion, plus
//!    one request, while others wait; with a depth, plus what it has at the disk by then.
//! 2. The disk idles for at most `wait_ms` at a time, and only for the task in service.
//! 3. Tasks are served in turn: a task with requests waits at most one slice of each other one.
//! 4. A task that is alone is never held up.
//! 5. A task whose mean think time is above `wait_ms` is not waited for.
//! 6. A task that seeks but thinks briefly keeps its slice.
//! 7. With `bypass` nothing is held back and requests go in order of arrival.
//! 8. On a disk with a head, or an unknown one, one request is at the disk, if `queue_depth` does
//!    not say more; on one without, all requests of the task in service, and none is held back
//!    from a task that is alone.
//! 9. A request that others of its task pass over for 5 s goes first within the next second of its
//!    task's slices, one request a second.
//!
//! # When it does not know
//! A new task is waited for until its think time is known (four requests).
//!
//! # Limits
//! With one request at a time the disk's own queueing is switched off, which wastes a disk that has
//! it; with more, other tasks still wait while the one in service has a request in flight. Slices
//! are equal: no weights. On flash there is no seek to save: tasks with one request at a time are
//! served one after the other there, where `fifo` has them all served at once.
//!
//! # Sources
//! FreeBSD gsched_rr (gs_rr.c): parameters, bounds, defaults, counters, the statistics' 1/8 weight;
//! "deceptive idleness": Iyer and Druschel, SOSP 2001.

use super::sorted::Sorted;
use super::tasks::{ScheduledTask, ScheduledTasks};
use super::{Algorithm, CounterSpec, Params, Pop, Profile, Scheduler};
use crate::request::{Position, RequestId};
use crate::table::{List, Request, Table};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;
use config::{PARAMS, RrConfig};
use std::collections::VecDeque;

mod anticipation;
mod config;

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "rr",
    summary: "round robin over tasks: a slice of time and bytes each, with anticipation",
    params: &PARAMS,
    counters: &[
        CounterSpec { name: "wait_hit", doc: "waits that the task's next request ended" },
        CounterSpec { name: "wait_miss", doc: "waits that ran out" },
        CounterSpec { name: "slices", doc: "slices given" },
    ],
    profile: Profile {
        // A slice of each client, each with one request past it and one wait.
        closed_loop_wait: Some(&|params, load| {
            let slice = params.millis("quantum_ms") + params.millis("wait_ms");
            (slice + load.service).times(load.clients_count)
        }),
        // Beside older ones of its own task: 5 s, and one second for each. Beside other tasks: its
        // turn, and what is left of the slice that is under way.
        stream_wait: Some(&|params, load| {
            let slice = params.millis("quantum_ms") + params.millis("wait_ms") + load.serving(2);
            Nanos::from_secs(5 + load.requests) + slice.times(load.clients_count + 1)
        }),
        ..Profile::PLAIN
    },
    build: &|params| Box::new(RoundRobin::new(params)),
};

/// A longer seek counts as this long (gsched_rr).
const SEEK_SAMPLE_MAX: Bytes = Bytes::from_kib(64);

/// Within its task a request is passed over by nearer ones for this long. A stream that stays ahead
/// of the head would pass it over for ever; a seek there and back every 5 s costs a stream 0.3 %.
/// The value is mq-deadline's for writes: a task with many requests queued is mostly write-back.
const PASSED_OVER_MAX: Nanos = Nanos::from_secs(5);

/// The age of a task's requests is looked up again after this long at the soonest, as that costs a
/// walk over them, and serving them by age a seek each.
const AGES_AGAIN: Nanos = Nanos::from_secs(1);

/// The requests of one task.
#[derive(Debug, Default)]
struct RrQueue {
    sorted: Sorted,
    /// Before then none of them can have been passed over for too long.
    ages_at: Instant,
}

impl RrQueue {
    /// The next request, and its bytes: the nearest, or one that was passed over for too long.
    fn next(&mut self, now: Instant, table: &Table) -> Option<(RequestId, Bytes)> {
        if now >= self.ages_at
            && let Some(oldest) = self.sorted.oldest()
        {
            let due = table[oldest].arrived() + PASSED_OVER_MAX;
            self.ages_at = due.max(now + AGES_AGAIN);
            if due <= now {
                let id = self.sorted.take(oldest, table)?;
                return Some((id, table[id].service_bytes()));
            }
        }
        let (id, request) = self.sorted.pop_request(table)?;
        Some((id, request.service_bytes()))
    }
}

/// The task in service.
#[derive(Debug)]
struct Slice {
    task: u32,
    /// Bytes served in this slice.
    service: Bytes,
    /// When the slice ends; known from its first completion on.
    end: Option<Instant>,
    /// Until when its next request is waited for.
    waiting_until: Option<Instant>,
}

/// The scheduler.
#[derive(Debug, Default)]
pub struct RoundRobin {
    config: RrConfig,
    /// Whether the disk is known to have no head.
    is_headless: bool,
    /// How many requests may be at the disk at once.
    depth: u32,
    tasks: ScheduledTasks<RrQueue>,
    /// Tasks with requests, the one in service aside, in order of their turn.
    turns: VecDeque<u32>,
    active: Option<Slice>,
    /// All requests while `bypass` is on, none else.
    through: List,
    in_flight: u32,
    wait_hit_count: u64,
    wait_miss_count: u64,
    slices_count: u64,
}

impl RoundRobin {
    fn new(params: &Params) -> RoundRobin {
        let mut rr = RoundRobin { config: RrConfig::new(params), ..RoundRobin::default() };
        rr.set_depth();
        rr
    }

    /// Sets how many requests may be at the disk at once.
    fn set_depth(&mut self) {
        self.depth = match self.config.queue_depth {
            0 if self.is_headless => u32::MAX,
            depth => depth.max(1),
        };
    }

    /// Ends the slice in service; a task that still has requests goes to the end of the row.
    fn release(&mut self) {
        if let Some(slice) = self.active.take()
            && self.tasks[slice.task].queued > 0
        {
            self.turns.push_back(slice.task);
        }
    }

    /// Gives the next task in the row its slice.
    fn next_slice(&mut self) {
        self.active = self.turns.pop_front().map(|task| {
            self.slices_count += 1;
            Slice { task, service: Bytes::ZERO, end: None, waiting_until: None }
        });
    }

    /// Whether the slice is used up. Nobody else waiting, it just begins anew.
    fn is_expired(&mut self, now: Instant) -> bool {
        let Some(slice) = &mut self.active else { return false };
        let is_over =
            slice.service >= self.config.quantum_bytes || slice.end.is_some_and(|end| now >= end);
        if is_over && self.turns.is_empty() {
            slice.service = Bytes::ZERO;
            slice.end = slice.end.map(|_| now + self.config.quantum);
            return false;
        }
        is_over
    }

    /// The next request of the task in service goes to the disk; `None` if it has none queued.
    fn serve(&mut self, now: Instant, table: &Table) -> Option<Pop> {
        let slice = self.active.as_mut()?;
        let task = &mut self.tasks[slice.task];
        if task.queued == 0 {
            return None;
        }
        let (id, bytes) = task.queue.next(now, table)?;
        task.queued -= 1;
        task.in_flight += 1;
        slice.service += bytes;
        self.in_flight += 1;
        Some(match self.in_flight < self.depth {
            true => Pop::Ready(id),
            false => Pop::Last(id, Reason::Turn),
        })
    }

    /// Serves in order of arrival.
    #[inline(never)]
    fn pass(&mut self, table: &Table) -> Pop {
        let Some(id) = self.through.pop(table) else { return Pop::Empty };
        // What waits in `through` is not seen as the task's: it may have been forgotten.
        let task = self.tasks.enter(id, table[id].task());
        self.tasks[task].in_flight += 1;
        self.in_flight += 1;
        Pop::Ready(id)
    }

    /// Serves the task in service, or waits for it, or gives the next one its slice.
    #[inline(always)]
    fn take_turn(&mut self, now: Instant, table: &Table) -> Pop {
        if self.is_expired(now) {
            self.release();
        }
        loop {
            if let Some(next) = self.serve(now, table) {
                return next;
            }
            if let Some(hold) = self.hold(now) {
                return hold;
            }
            self.release();
            self.next_slice();
            if self.active.is_none() {
                return Pop::Empty;
            }
        }
    }

    /// Puts a request of a task in its place.
    #[inline(always)]
    fn queue(&mut self, task: u32, id: RequestId, begin: Position, table: &Table) {
        if self.config.bypass {
            return self.through.push(id, table);
        }
        let known = &mut self.tasks[task];
        known.queue.sorted.insert(id, begin);
        known.queued += 1;
        match &mut self.active {
            Some(slice) if slice.task == task => {
                let was_waited_for = slice.waiting_until.take().is_some();
                self.wait_hit_count += u64::from(was_waited_for);
            }
            _ if known.queued == 1 => self.turns.push_back(task),
            _ => {}
        }
    }

    /// Takes out all requests, in order of arrival.
    fn take_all(&mut self, table: &Table) -> Vec<RequestId> {
        let through = std::iter::from_fn(|| self.through.pop(table));
        let mut all: Vec<RequestId> = through.collect();
        for task in self.tasks.iter_mut() {
            all.extend(task.queue.sorted.ids());
            task.queue.sorted.clear();
            task.queued = 0;
        }
        all.sort_unstable_by_key(|id| id.sequence());
        self.turns.clear();
        self.active = None;
        all
    }
}

impl Scheduler for RoundRobin {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        let active = self.active.as_ref().map(|slice| slice.task);
        self.tasks.forget(now, active);
        let (caller, area) = (table[id].task(), table[id].area());
        let task = self.tasks.enter(id, caller);
        let known = &mut self.tasks[task];
        let (is_alone, think_max) = (known.is_idle(), self.config.wait.times(2));
        known.stats.submits(now, area, is_alone, think_max, SEEK_SAMPLE_MAX);
        self.queue(task, id, area.begin(), table);
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        if table.queued_count() == 0 {
            return Pop::Empty;
        }
        if !self.through.is_empty() {
            return self.pass(table);
        }
        if self.in_flight >= self.depth {
            return Pop::At(Instant::NEVER, Reason::Turn);
        }
        self.take_turn(now, table)
    }

    fn join(&mut self, _now: Instant, id: RequestId, _lead: RequestId, table: &Table) -> bool {
        let Some(slice) = &mut self.active else { return false };
        let number = self.tasks.of(id);
        let task = &mut self.tasks[number];
        if slice.task != number || !task.queue.sorted.join(id, table) {
            return false;
        }
        task.queued -= 1;
        task.in_flight += 1;
        slice.service += table[id].service_bytes();
        self.in_flight += 1;
        true
    }

    fn on_done(&mut self, now: Instant, id: RequestId, request: &Request, _ok: bool) {
        self.in_flight -= 1;
        let number = self.tasks.of(id);
        let task = &mut self.tasks[number];
        task.in_flight -= 1;
        task.stats.done(now);
        let is_idle = task.is_idle();
        let Some(slice) = self.active.as_mut().filter(|slice| slice.task == number) else { return };
        slice.end.get_or_insert(now + self.config.quantum);
        if is_idle {
            self.anticipate(now, number, request.op());
        }
    }

    fn set_rotational(&mut self, is_rotational: bool) {
        self.is_headless = !is_rotational;
        self.set_depth();
    }

    fn configure(&mut self, params: &Params, table: &Table) {
        let was_bypass = self.config.bypass;
        self.config = RrConfig::new(params);
        self.set_depth();
        if self.config.bypass != was_bypass {
            for id in self.take_all(table) {
                let task = self.tasks.enter(id, table[id].task());
                self.queue(task, id, table[id].begin(), table);
            }
        }
    }

    fn counters(&self, into: &mut Vec<u64>) {
        into.extend([self.wait_hit_count, self.wait_miss_count, self.slices_count]);
    }
}

#[cfg(test)]
mod tests;
