//! Shares the device by weight between groups, nested to any depth, and between the tasks in them.
//!
//! # Model
//! Every group has a weight among its siblings; all tasks of a group weigh the same, and tasks of
//! the root compete with the groups below it. What is shared is *device time*: each request is
//! charged what it is estimated to cost (see `cost`), when it goes to the device, to its task and
//! to every group above it. So a deep window cannot be filled by one before the others are charged
//! against it.
//! ```text
//!   root ── V, W          each entity: S = service received / weight,   F = S + slot / weight
//!    ├─ A 100  ├─ t1      each tree of siblings: V, which advances by cost / W
//!    │         └─ t2      choice, at each level from the root: among those with S <= V
//!    └─ B 400  └─ t3      (no more than is due to them) the least F
//! ```
//! This is B-WF2Q+ (BFQ's), hierarchical as H-WF2Q+, with three changes taken from EEVDF, which
//! shares its rule of choice. (1) S moves with each request and not at the end of a budget, and all
//! slots at one time are equally long, so that a group's F does not hang on which child comes next;
//! nothing is passed up the tree but service. (2) A new weight counts at once, with the lag in
//! service kept: BFQ applies it at the next insertion, which for an entity of weight 1 may be
//! minutes away, and EEVDF has shown how to do without. (3) A correction moves S and V alike, so V
//! remains the mean of the members' S, weighted, however wrong estimates are. As in BFQ an entity
//! that runs out of work ahead of V stays a member until V has caught up: pausing pays nothing.
//!
//! *Classes.* Among siblings real-time goes before best-effort before idle, strictly, but for one
//! request of class idle after `idle_starve_ms` without one.
//!
//! *Charge.* Estimated at the start. A request that was alone at the device, and the requests of a
//! go that had the device to itself, took a time that is known: the difference is charged or given
//! back, and the task's later ones are estimated by it (a disk that orders many by itself does each
//! sooner). With requests of several at the device the true time of one is not defined, so only the
//! model learns. A mix of sizes gains nothing at depth one, where all is exact; deeper the model is
//! linear in size and learned from sums (see Limits).
//!
//! *Disks with a head*, which the model finds out (a random request costs 0.4 ms more than a
//! sequential one), unless the disk is known to have none, as a file server, whose random reads are
//! slow and many at once: a task is served in one go for `quantum_ms` or `quantum_kb`, by position,
//! and the disk is kept for it while it thinks for less than a seek takes: a stream keeps its
//! speed, and a random reader with one request at a time its share (it would get one request per
//! turn). The time that the disk is kept idle for it is charged to it. A go that ends in such a
//! pause ends with its next request, if the task would have the next go as well. A task that
//! flushes is waited for if it thinks for less than `wait_ms`, and takes the disk over again when
//! it comes later than that to what is left of its share (see `flushes`). On flash none of this:
//! the next request is always that of the entity with the least F, and nothing is held back.
//!
//! *Goes and the disk's own order (NCQ).* Tasks of one group that each ask for one place after the
//! other share a go, so that the disk may order them. A go of a task with few requests, and the one
//! after it, begin when the disk has nothing of others: among many it would be passed over for half
//! a second. While others come and go, the disk holds no more of one go than lasts `quantum_ms`.
//! A *light* task, which thinks longer than `wait_ms` and has had less than its share, interrupts a
//! go with its request at once; it pays for the way back too, and who was interrupted does not.
//! While such tasks are there, the disk holds 15 ms of a go.
//!
//! *Few beside many.* On a disk without a head nobody needs a go, but who asks for one request
//! after the other waits behind all that the disk holds of the others, many of which add nothing
//! to what it does. While a task with few requests is there (see `bound`), the disk holds no more
//! requests of the others than pays for both. Where no such bound leaves the few their part of what
//! they have alone, as beside writes into a cache, the two take turns of some 50 ms (see `turns`).
//!
//! # Properties
//! 1. Groups with work share device time by weight, within 2 % over 10 s, at every level.
//! 2. While a sibling of a higher class has work, a lower one waits (but see 4).
//! 3. Class idle alone has the whole device.
//! 4. Class idle gets a request when it had none for `idle_starve_ms` while its parent was served.
//! 5. Nothing is held back but on a disk with a head: for anticipation, at most `wait_ms` at a
//!    time, for a task that thinks briefly; while its request before is at the disk; while the disk
//!    has what must not be passed over; and class idle in the pauses of who
//!    flushes. On flash only the many beside the few, and class idle beyond two requests within
//!    200 ms of one of another class, or beside a flush of one for `HOLD_MAX`; something is at the
//!    disk then, but in the turn of the few, while they think, for 10 ms at most. Among many a deep
//!    window is kept full.
//! 6. Requests that a guarantee pays for go first, in order of arrival, and are charged, and a
//!    group that is behind its guaranteed rate (`io.min`) goes before what weights say. This
//!    puts a group at most two seconds of service behind the others.
//! 7. A group that was idle has no credit from it, and is served within one quantum of each other.
//! 8. Memory is bounded: a task is forgotten 10 s after its last request, a group when removed.
//! 9. Within a task no request is passed over for more than `expire_ms`, then the oldest goes
//!    first, one a second.
//! 10. Any number of changes of weight leaves shares as the weights say.
//!
//! # When it does not know
//! The cost model starts as a data sheet's SATA flash, or a head where one is said to be; 16 random
//! requests say if there is one. A disk that reads faster than any head has none until small reads
//! show seeks (see `quick`). A task is not waited for before its think time is known (four
//! requests).
//!
//! # Limits
//! A client with one request at a time can only be given what it asks for: on flash it is not
//! waited for but in turns, so beside others it may get less than its weight. On a disk with a head
//! a random reader waits for a whole go of the other; shorter goes cost both more seeks. Many
//! programs in one group get 0.6 of what the disk makes of them alone in the same time, as a go
//! holds few of them at a time. Costs of requests that are always mixed in the same way cannot be
//! told apart. On a device that works on sixteen at once, 4 KiB beside 1 MiB requests get up to a
//! quarter less than due. The bound of 4 counts while the parent is served: idle below a waiting
//! group waits with it.
//!
//! # Sources
//! BFQ, block/bfq-wf2q.c: B-WF2Q+, idle tree, 200 ms for class idle; Bennett and Zhang, "WF2Q" and
//! "Hierarchical packet fair queueing algorithms" (1996); Stoica and Abdel-Wahab, "Earliest
//! eligible virtual deadline first" (1995), and Linux kernel/sched/fair.c since 6.6 (lag on a new
//! weight, delayed dequeue); iocost (device time as the unit); rr for batches and anticipation.

use super::{Algorithm, CounterSpec, DiskView, Params, Pop, Profile, Scheduler};
use crate::group::table::Groups;
use crate::request::{GroupId, RequestId};
use crate::table::{List, Request, Table};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use config::{FairConfig, PARAMS};
use cost::{BUSY_MAX, Model};
use flight::Flight;
use flushes::{Flushes, HOLD_MAX};
use forest::Forest;
use goes::Goes;
use guarantee::Guarantees;
use load::Side;
use passing::Passing;
use rows::{RequestRow, Rows};
use sides::Sides;
use tasks::{FairTask, FairTasks};

mod bound;
mod charge;
mod choice;
mod config;
mod cost;
mod flight;
mod flushes;
mod forest;
mod goes;
mod guarantee;
mod load;
mod passing;
mod queue;
mod quick;
mod rows;
mod sides;
mod tasks;
mod tree;
mod turns;
mod window;

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "fair",
    summary: "device time by weight, for nested groups and the tasks in them (B-WF2Q+)",
    params: &PARAMS,
    counters: &[
        CounterSpec { name: "wait_hit", doc: "waits that the task's next request ended" },
        CounterSpec { name: "wait_miss", doc: "waits that ran out" },
        CounterSpec { name: "slots", doc: "goes given to a task on a disk with a head" },
        CounterSpec { name: "reserved", doc: "requests that went first as a guarantee paid" },
        CounterSpec { name: "idle_served", doc: "requests of class idle that went before others" },
    ],
    profile: Profile {
        // A go of each client, each with one request past it and one wait; only a task's own
        // requests count in its go, so the flushes come on top.
        closed_loop_wait: Some(&|params, load| {
            let go = params.millis("quantum_ms") + params.millis("wait_ms") + load.service;
            go.times(load.clients_count) + load.serving(load.requests)
        }),
        // As rr; a go is counted in device time, with waits.
        stream_wait: Some(&|params, load| {
            let go = params.millis("quantum_ms") + params.millis("wait_ms") + load.serving(2);
            let passed_over = params.millis("expire_ms") + Nanos::from_secs(load.requests);
            passed_over + go.times(load.clients_count + 1)
        }),
        divides: true,
        is_compared: true,
    },
    build: &|params| Box::new(Fair::from(params)),
};

/// A longer seek counts as this long (gsched_rr).
const SEEK_SAMPLE_MAX: Bytes = Bytes::from_kib(64);

/// The scheduler.
#[derive(Debug, Default)]
pub struct Fair {
    config: FairConfig,
    forest: Forest,
    rows: Rows,
    tasks: FairTasks,
    /// Requests that a guarantee pays for.
    reserved: List,
    guarantees: Guarantees,
    flight: Flight,
    goes: Goes,
    sides: Sides,
    flushes: Flushes,
    passing: Passing,
    model: Model,
    /// Sixteen times the mean cost of a request, in ns.
    mean: u64,
    len: usize,
    wait_hit_count: u64,
    wait_miss_count: u64,
    reserved_count: u64,
    idle_served_count: u64,
}

impl From<&Params> for Fair {
    fn from(params: &Params) -> Fair {
        let (config, forest, model) = (FairConfig::new(params), Forest::new(), Model::new());
        Fair { config, forest, model, ..Fair::default() }
    }
}

impl Scheduler for Fair {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        let request = &table[id];
        let key = (request.group(), request.task());
        let task = self.tasks.enter(&mut self.forest, now, key);
        let known = &mut self.tasks[task];
        let FairTask { group, line, .. } = known;
        let (bytes, is_unused) = (request.service_bytes().get(), line.is_unused());
        line.load.add(bytes);
        let sight = self.forest.load(*group, bytes);
        let is_of_others = line.is_of_others(now);
        if !is_of_others {
            self.flushes.comes(now);
        }
        let has_head = self.model.has_head();
        let (side, counts) = self.sides.comes(now, sight, &mut line.load, has_head);
        if let Some(moves) = counts {
            let weight = self.forest.sight(*group).weight;
            self.sides.count(side, weight, moves);
        }
        let is_new = !line.is_listed && (side == Side::Few || !is_of_others);
        let known = if is_new { self.passing.push(&mut self.tasks, task) } else { known };
        let FairTask { node, line, .. } = known;
        self.rows.enter(id, task, side, self.model.has_head());
        let think_max = self.config.think_max;
        line.stats.submits(now, request.area(), is_unused, think_max, SEEK_SAMPLE_MAX);
        self.len += 1;
        if request.is_reserved() {
            line.reserved += 1;
            self.reserved.push(id, table);
        } else {
            let is_first = line.is_empty();
            line.push(id, &self.rows, table);
            if is_first {
                let (node, slot) = (*node, self.slot());
                let behind = self.forest.activate(now, node, slot);
                self.comes(now, task, behind);
            }
        }
        if let Some(since) = self.goes.arrives(task) {
            self.wait_hit_count += 1;
            self.correct_go(task, now.since(since).0.cast_signed());
        }
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        if let Some(task) = self.by_share(now)
            && let Some(id) = self.starts::<true>(now, task, None, table)
        {
            return Pop::Ready(id);
        }
        self.pop_chosen(now, table)
    }

    fn join(&mut self, now: Instant, id: RequestId, lead: RequestId, table: &Table) -> bool {
        self.joins(now, id, lead, table)
    }

    fn on_done(&mut self, now: Instant, id: RequestId, request: &Request, ok: bool) {
        let bytes = request.service_bytes().get();
        let Some(row) = self.rows.land(id) else { return self.joined_done(now, id, bytes) };
        let &RequestRow { task, right, .. } = row;
        let busy = self.flight.land(now, row);
        let (kind, in_flight) = (row.kind, self.flight.count);
        let is_spoilt = !ok || busy > BUSY_MAX;
        self.model.done(kind, busy, in_flight, is_spoilt);
        if in_flight == 0 {
            self.flushes.are_alone(now);
        }
        self.sides.done(now, row, request.arrived());
        if self.flight.has_period() {
            self.end_period(now, task, right, is_spoilt);
        }
        let FairTask { group, line, .. } = &mut self.tasks[task];
        self.forest.unload(*group, bytes);
        line.load.remove(bytes);
        line.in_flight -= 1;
        line.stats.done(now);
        if line.is_unused() {
            self.awaits(now, task);
        }
    }

    fn on_flush(&mut self, now: Instant, id: RequestId, table: &Table) {
        let key = (table[id].group(), table[id].task());
        let mut is_of_idle = false;
        if let Some(task) = self.tasks.number(key) {
            self.tasks[task].line.flushed = Some(now);
            let (side, sight) = self.side_of(task);
            (self.flushes.rank, is_of_idle) = (sight.rank, side == Side::Idle);
        }
        self.flushes.start(now, is_of_idle);
        if self.flight.count == 0 {
            self.flushes.are_alone(now);
        }
    }

    fn on_flushed(&mut self, now: Instant, _id: RequestId, flush: &Request) {
        let alone = self.flushes.done(now, self.flight.count == 0);
        let Some(task) = self.tasks.number((flush.group(), flush.task())) else { return };
        // It has not thought while its flush was at the disk, and keeps its go.
        self.tasks[task].line.stats.done(now);
        if !self.model.has_head() {
            return;
        }
        if let Some(alone) = alone {
            let own = self.flushes.own_part(alone).min(HOLD_MAX);
            self.correct_go(task, own.0.cast_signed());
        }
        if self.flushes.is_empty() && self.tasks[task].line.is_unused() {
            self.awaits(now, task);
        }
    }

    fn set_rotational(&mut self, is_rotational: bool) {
        self.model.set_rotational(is_rotational);
    }

    fn disk(&self) -> Option<DiskView> {
        Some(self.model.view())
    }

    fn configure(&mut self, params: &Params, _table: &Table) {
        self.config = FairConfig::new(params);
    }

    fn counters(&self, into: &mut Vec<u64>) {
        into.extend([self.wait_hit_count, self.wait_miss_count, self.goes.count]);
        into.extend([self.reserved_count, self.idle_served_count]);
    }

    fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        self.guarantees.set(now, id, &groups.settings(id).min);
        self.forest.set_group(now, id, groups);
    }

    fn remove_group(&mut self, id: GroupId) {
        self.goes.forget();
        self.tasks.pinned = None;
        self.guarantees.remove(id);
        self.tasks.leave(&mut self.forest, id);
        self.forest.remove_group(id);
    }
}

#[cfg(test)]
mod tests;
