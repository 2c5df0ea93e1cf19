//! One queue in order of position, which waits a moment for the task that was just served.
//!
//! # Model
//! A task that reads synchronously submits its next request, near the last one, shortly after that
//! is done. Serving somebody else in between costs two seeks; waiting costs the task's think time.
//! So after a synchronous request the disk is kept for its task, unless that does not pay:
//! ```text
//!  done ──► thinks too long? has requests queued? ── yes ──► next in C-LOOK order
//!   │ no
//!   └─► wait, at most antic_ms ── its request comes ──► serve it
//!        ├── another's next request is nearer than this task usually seeks ──► serve that
//!        ├── somebody waits longer than expire_ms ──► serve the oldest
//!        └── time is up ──► next in C-LOOK order
//! ```
//! Serving one task is bounded by `batch_kb` and `batch_ms`: then the oldest request of another
//! task goes first.
//!
//! *What differs from 2009.* gsched_as was a proof of concept that waited for everybody: for
//! writers, for seeking tasks, for those that had gone. This one keeps think time and seek distance
//! per task, waits only where waiting has paid, ends a wait for a request that is nearer, and has
//! bounds. (Its last version also left the waiting state only by the timer; here the request itself
//! ends it.)
//!
//! # Properties
//! 1. The disk idles for at most `antic_ms` at a time, after a synchronous request only.
//! 2. A task that thinks longer than `antic_ms` on the average is not waited for.
//! 3. A wait ends for a request that is nearer than the task usually seeks.
//! 4. A task has the disk for at most `batch_kb` or `batch_ms`, plus one request, while others
//!    wait.
//! 5. A request that waits longer than `expire_ms` goes first, the oldest of them, one per
//!    `expire_ms`: with n older ones it waits for n + 1 times that and as many services at most.
//! 6. A sequential reader keeps the disk while it thinks.
//!
//! # When it does not know
//! A new task is waited for, until four of its requests have shown how it behaves.
//!
//! # Limits
//! No shares: a task that seeks gets one request where a sequential one gets a batch. With several
//! requests in flight it does not wait. On flash there is nothing to save.
//!
//! # Sources
//! Iyer and Druschel, "Anticipatory scheduling" (SOSP 2001); Linux as-iosched: the times
//! (antic_expire 6.7 ms, read_batch 500 ms, read_expire 125 ms) and the rules that end a wait;
//! FreeBSD gsched_as: the batch of 8 MiB.

use super::sorted::Sorted;
use super::tasks::{ScheduledTask, ScheduledTasks};
use super::{Algorithm, CounterSpec, ParamSpec, Params, Pop, Profile, Scheduler};
use crate::request::{RequestId, TaskId};
use crate::table::{List, Request, Table};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "as",
    summary: "by position, and waits a moment for the task just served (anticipatory)",
    params: &PARAMS,
    counters: &[
        CounterSpec { name: "wait_hit", doc: "waits that the task's next request ended" },
        CounterSpec { name: "wait_miss", doc: "waits that ran out" },
        CounterSpec {
            name: "wait_broken",
            doc: "waits that another's nearer or older request ended",
        },
    ],
    profile: Profile {
        // The oldest of another goes after batch_ms; expire_ms each for those of one client.
        closed_loop_wait: Some(&|params, load| {
            let expire = params.millis("expire_ms").times(load.requests / load.clients_count);
            params.millis("batch_ms") + expire + load.serving(load.requests)
        }),
        // One that is past its time goes first, the oldest before.
        stream_wait: Some(&|params, load| {
            let longest = params.millis("expire_ms") + params.millis("antic_ms");
            (longest + load.service).times(load.requests)
        }),
        ..Profile::PLAIN
    },
    build: &|params| Box::new(Anticipatory::new(params)),
};

static PARAMS: [ParamSpec; 4] = [
    ParamSpec::new(
        "antic_ms",
        "ms",
        [1, 6, 30],
        "longest wait for the task just served: somewhat less than a seek",
    ),
    ParamSpec::new(
        "batch_kb",
        "KiB",
        [16, 8192, 65_536],
        "most of one task in a row while others wait: 100 ms of an 80 MB/s disk",
    ),
    ParamSpec::new("batch_ms", "ms", [1, 500, 5_000], "the same in time, for a task that seeks"),
    ParamSpec::new(
        "expire_ms",
        "ms",
        [1, 125, 60_000],
        "a request that waits longer goes first: a delay that a person begins to notice",
    ),
];

/// A request this near is served rather than waiting for a task that is not known yet to seek less:
/// 8192 sectors, as in Linux as-iosched.
const CLOSE: Bytes = Bytes(8192 * 512);

/// A longer seek counts as this long, so that one jump is forgotten soon (64 MiB: as-iosched).
const SEEK_SAMPLE_MAX: Bytes = Bytes::from_mib(64);

#[derive(Clone, Copy, Debug, Default)]
struct AnticipatoryConfig {
    antic: Nanos,
    batch_bytes: Bytes,
    batch_time: Nanos,
    expire: Nanos,
}

impl AnticipatoryConfig {
    fn new(params: &Params) -> AnticipatoryConfig {
        AnticipatoryConfig {
            antic: Nanos::from_millis(params.get(0)),
            batch_bytes: Bytes::from_kib(params.get(1)),
            batch_time: Nanos::from_millis(params.get(2)),
            expire: Nanos::from_millis(params.get(3)),
        }
    }
}

/// The task that is served.
#[derive(Debug)]
struct Batch {
    task: TaskId,
    bytes: Bytes,
    since: Instant,
    /// Whether its last request was one that it waits for.
    is_sync: bool,
    /// Until when its next one is waited for.
    waiting_until: Option<Instant>,
}

impl Batch {
    fn is_over(&self, now: Instant, config: &AnticipatoryConfig) -> bool {
        self.bytes >= config.batch_bytes || now.since(self.since) >= config.batch_time
    }
}

/// The scheduler.
#[derive(Debug, Default)]
pub struct Anticipatory {
    config: AnticipatoryConfig,
    sorted: Sorted,
    /// By arrival.
    fifo: List,
    tasks: ScheduledTasks<()>,
    batch: Option<Batch>,
    in_flight: u32,
    /// Before then no request is preferred for its age.
    next_expiry: Instant,
    /// Before then none is too old.
    young_until: Instant,
    wait_hit_count: u64,
    wait_miss_count: u64,
    wait_broken_count: u64,
}

impl Anticipatory {
    fn new(params: &Params) -> Anticipatory {
        Anticipatory { config: AnticipatoryConfig::new(params), ..Anticipatory::default() }
    }

    /// When the oldest request arrived.
    fn oldest(&self, table: &Table) -> Option<Instant> {
        self.fifo.first(table).map(|id| table[id].arrived())
    }

    /// Whether the oldest request has waited too long.
    fn has_expired(&mut self, now: Instant, table: &Table) -> bool {
        if now < self.next_expiry || now < self.young_until {
            return false;
        }
        self.young_until = self.oldest(table).map_or(Instant::NEVER, |arrived| self.ages(arrived));
        now >= self.young_until
    }

    /// When a request that came then is too old.
    fn ages(&self, arrived: Instant) -> Instant {
        arrived + self.config.expire + Nanos(1)
    }

    /// When the oldest request will have waited too long.
    fn expires_at(&self, table: &Table) -> Instant {
        let oldest = self.oldest(table);
        oldest.map_or(Instant::NEVER, |arrived| self.ages(arrived).max(self.next_expiry))
    }

    /// Whether the next request in order is nearer than what the task in service usually asks for.
    fn is_nearer(&self, task: TaskId) -> bool {
        let Some(next) = self.sorted.peek() else { return false };
        let distance = self.sorted.position().distance(next);
        let seek = self.tasks.number(task).and_then(|task| self.tasks[task].stats.seek());
        distance <= seek.unwrap_or(CLOSE)
    }

    /// Keeps the disk for the task in service, or ends the wait.
    fn wait(&mut self, now: Instant, table: &Table) -> Option<Pop> {
        let batch = self.batch.as_ref()?;
        let (task, until) = (batch.task, batch.waiting_until?);
        let until = until.min(batch.since + self.config.batch_time);
        let is_broken = self.has_expired(now, table) || self.is_nearer(task);
        if !is_broken && now < until {
            return Some(Pop::At(until.min(self.expires_at(table)), Reason::Anticipation));
        }
        if is_broken {
            self.wait_broken_count += 1;
        } else {
            self.wait_miss_count += 1;
        }
        self.batch = None;
        None
    }

    /// The request that goes next out of order: one that is too old, or one of another task when
    /// the one in service has had its batch.
    fn out_of_order(&mut self, now: Instant, table: &Table) -> Option<RequestId> {
        if self.has_expired(now, table) {
            self.next_expiry = now + self.config.expire;
            return self.fifo.first(table);
        }
        let config = self.config;
        let batch = self.batch.as_mut().filter(|batch| batch.is_over(now, &config))?;
        let next = self.fifo.iter(table).find(|id| table[*id].task() != batch.task);
        if next.is_none() {
            // Nobody else waits: a new batch, so that the search is not repeated for each request.
            (batch.bytes, batch.since) = (Bytes::ZERO, now);
        }
        next
    }

    /// Books a request that goes to the disk.
    fn serve(&mut self, now: Instant, id: RequestId, request: &Request) {
        self.in_flight += 1;
        let task = self.tasks.of(id);
        self.tasks[task].queued -= 1;
        self.tasks[task].in_flight += 1;
        let task = request.task();
        let (bytes, is_sync) = (request.service_bytes(), request.is_sync());
        match &mut self.batch {
            Some(batch) if batch.task == task => {
                batch.bytes += bytes;
                batch.is_sync = is_sync;
            }
            batch => {
                *batch = Some(Batch { task, bytes, since: now, is_sync, waiting_until: None });
            }
        }
    }

    /// Whether the task is worth waiting for.
    fn pays(&self, task: &ScheduledTask<()>) -> bool {
        task.is_idle() && task.stats.think().is_none_or(|think| think <= self.config.antic)
    }
}

impl Scheduler for Anticipatory {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        self.tasks.forget(now, None);
        let request = &table[id];
        let task = self.tasks.enter(id, request.task());
        let known = &mut self.tasks[task];
        let (is_alone, think_max) = (known.is_idle(), self.config.antic.times(2));
        known.stats.submits(now, request.area(), is_alone, think_max, SEEK_SAMPLE_MAX);
        known.queued += 1;
        if let Some(batch) = self.batch.as_mut().filter(|batch| batch.task == request.task()) {
            let was_waited_for = batch.waiting_until.take().is_some();
            self.wait_hit_count += u64::from(was_waited_for);
        }
        self.young_until = self.young_until.min(self.ages(request.arrived()));
        self.fifo.push_by_arrival(id, table);
        self.sorted.insert(id, request.begin());
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        if self.sorted.is_empty() {
            return Pop::Empty;
        }
        if let Some(wait) = self.wait(now, table) {
            return wait;
        }
        let next = match self.out_of_order(now, table) {
            Some(id) => self.sorted.take(id, table).map(|id| (id, &table[id])),
            None => self.sorted.pop_request(table),
        };
        let Some((id, request)) = next else { return Pop::Empty };
        self.fifo.remove(id, table);
        self.serve(now, id, request);
        Pop::Ready(id)
    }

    fn join(&mut self, now: Instant, id: RequestId, _lead: RequestId, table: &Table) -> bool {
        let is_there = self.sorted.join(id, table);
        if is_there {
            self.fifo.remove(id, table);
            self.serve(now, id, &table[id]);
        }
        is_there
    }

    fn on_done(&mut self, now: Instant, id: RequestId, request: &Request, _ok: bool) {
        self.in_flight -= 1;
        let task = self.tasks.of(id);
        self.tasks[task].in_flight -= 1;
        self.tasks[task].stats.done(now);
        let pays = self.in_flight == 0 && self.pays(&self.tasks[task]);
        let config = self.config;
        if let Some(batch) = self.batch.as_mut().filter(|batch| batch.task == request.task()) {
            let is_kept = pays && batch.is_sync && !batch.is_over(now, &config);
            batch.waiting_until = is_kept.then(|| now + config.antic);
        }
    }

    fn configure(&mut self, params: &Params, _table: &Table) {
        self.config = AnticipatoryConfig::new(params);
        self.young_until = Instant::ZERO;
    }

    fn counters(&self, into: &mut Vec<u64>) {
        into.extend([self.wait_hit_count, self.wait_miss_count, self.wait_broken_count]);
    }
}

#[cfg(test)]
mod tests;
