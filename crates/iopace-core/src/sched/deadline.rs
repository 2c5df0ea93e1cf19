//! Serves requests in order of position, in batches, and none later than its deadline if it can.
//!
//! # Model
//! Reads and writes have a sorted queue and a queue in order of arrival each. Requests are served
//! in batches of one direction, ascending by position. Between two batches:
//! ```text
//!  reads waiting? ── yes ──► writes waiting and passed over writes_starved times? ─ yes ─► writes
//!        │ no                              │ no
//!        └──► writes                       └──► reads
//!  then: the oldest of that direction is past its deadline? ─ yes ─► begin there
//!                                                            └ no ──► go on from the head
//! ```
//!
//! # Properties
//! 1. Within a batch requests are served upwards by position.
//! 2. A batch has at most `fifo_batch` requests.
//! 3. Writes are passed over at most `writes_starved` times in a row while they wait.
//! 4. A batch begins at the oldest request of its direction once that is past its deadline.
//! 5. It is work-conserving: as long as it holds a request it never says "later".
//!
//! # When it does not know
//! It looks at positions and ages only; there is nothing to learn.
//!
//! # Limits
//! The deadline is when a request is preferred, not when it is done. No shares: a task with many
//! requests gets most of the disk. It never idles, so a sequential reader beside others seeks for
//! every request.
//!
//! # Sources
//! Linux mq-deadline (Documentation/block/deadline-iosched.rst): parameters and their defaults. It
//! takes 0 for `writes_starved`, too, and then serves no read as long as writes wait; here 1 is the
//! least, which is one batch of each in turn.

use super::sorted::Sorted;
use super::{Algorithm, CounterSpec, ParamSpec, Params, Pop, Profile, Scheduler};
use crate::request::RequestId;
use crate::table::{List, Table};
use crate::time::{Instant, Nanos};

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "deadline",
    summary: "by position in batches, reads before writes, with a deadline for each request",
    params: &PARAMS,
    counters: &[
        CounterSpec { name: "batches", doc: "batches begun" },
        CounterSpec { name: "expired", doc: "batches that began at a request past its deadline" },
    ],
    profile: Profile {
        // Three rounds of two batches of reads and one of writes; far from write_expire_ms.
        closed_loop_wait: Some(&|_, load| load.serving(3 * 2 * load.requests)),
        // Past its deadline, after the older ones of its direction: each begins a batch, and the
        // batches of the other direction come between.
        stream_wait: Some(&|params, load| {
            let expire = params.millis("read_expire_ms").max(params.millis("write_expire_ms"));
            let round = params.value("fifo_batch") * (params.value("writes_starved") + 2);
            expire + load.serving(round * load.requests)
        }),
        is_compared: true,
        ..Profile::PLAIN
    },
    build: &|params| Box::new(Deadline::new(params)),
};

static PARAMS: [ParamSpec; 4] = [
    ParamSpec::new(
        "read_expire_ms",
        "ms",
        [1, 500, 60_000],
        "deadline of a read; a task waits for it, so it is short",
    ),
    ParamSpec::new(
        "write_expire_ms",
        "ms",
        [1, 5_000, 60_000],
        "deadline of a write; mostly nobody waits for it, so it is long",
    ),
    ParamSpec::new(
        "fifo_batch",
        "requests",
        [1, 16, 1_024],
        "requests per batch: more is faster on a disk with a head, fewer is fairer",
    ),
    ParamSpec::new(
        "writes_starved",
        "batches",
        [1, 2, 1_024],
        "read batches that may pass over waiting writes in a row",
    ),
];

/// The requests of one direction.
#[derive(Debug, Default)]
struct Direction {
    sorted: Sorted,
    /// By arrival.
    fifo: List,
}

/// A direction as an index.
const READ: usize = 0;
const WRITE: usize = 1;

/// The scheduler.
#[derive(Debug, Default)]
pub struct Deadline {
    expire: [Nanos; 2],
    fifo_batch: u64,
    writes_starved: u64,
    directions: [Direction; 2],
    /// When the request in each slot of the engine's table is past its deadline.
    due: Vec<Instant>,
    /// Direction of the batch, and how many of it were served.
    batch: (usize, u64),
    /// Read batches that have passed over waiting writes.
    starved: u64,
    batches_count: u64,
    expired_count: u64,
}

impl Deadline {
    fn new(params: &Params) -> Deadline {
        let mut deadline = Deadline { batch: (READ, u64::MAX), ..Deadline::default() };
        deadline.set(params);
        deadline
    }

    fn set(&mut self, params: &Params) {
        self.expire = [Nanos::from_millis(params.get(0)), Nanos::from_millis(params.get(1))];
        self.fifo_batch = params.get(2);
        self.writes_starved = params.get(3);
    }

    #[cold]
    fn grow(&mut self, slot: usize, due: Instant) {
        self.due.resize(slot, Instant::ZERO);
        self.due.push(due);
    }

    /// The next of the batch under way: above the head, as going back would not be sequential.
    fn go_on(&mut self, table: &Table) -> Option<RequestId> {
        let (direction, served) = self.batch;
        if served >= self.fifo_batch {
            return None;
        }
        let next = self.directions[direction].sorted.pop_above(table)?;
        self.batch.1 += 1;
        Some(next)
    }

    /// The direction of the next batch.
    fn choose(&mut self) -> usize {
        let [has_reads, has_writes] =
            [READ, WRITE].map(|index| !self.directions[index].sorted.is_empty());
        if has_reads && !(has_writes && self.starved >= self.writes_starved) {
            self.starved += u64::from(has_writes);
            return READ;
        }
        self.starved = 0;
        WRITE
    }

    fn begin(&mut self, now: Instant, table: &Table) -> Option<RequestId> {
        let direction = self.choose();
        self.batches_count += 1;
        self.batch = (direction, 1);
        let Direction { sorted, fifo } = &mut self.directions[direction];
        match fifo.first(table).filter(|id| self.due[id.slot as usize] <= now) {
            Some(oldest) => {
                self.expired_count += 1;
                sorted.take(oldest, table)
            }
            None => sorted.pop(table),
        }
    }
}

impl Scheduler for Deadline {
    fn push(&mut self, now: Instant, id: RequestId, table: &Table) {
        let request = &table[id];
        let index = if request.op().is_write() { WRITE } else { READ };
        let due = now.min(request.arrived()) + self.expire[index];
        match self.due.get_mut(id.slot as usize) {
            Some(place) => *place = due,
            None => self.grow(id.slot as usize, due),
        }
        let Direction { sorted, fifo } = &mut self.directions[index];
        fifo.push_by_arrival(id, table);
        sorted.insert(id, request.begin());
    }

    fn pop(&mut self, now: Instant, table: &Table) -> Pop {
        if self.directions.iter().all(|direction| direction.sorted.is_empty()) {
            return Pop::Empty;
        }
        let next = self.go_on(table).or_else(|| self.begin(now, table));
        let Some(id) = next else { return Pop::Empty };
        self.directions[self.batch.0].fifo.remove(id, table);
        Pop::Ready(id)
    }

    /// The command counts as one of the batch, as in Linux.
    fn join(&mut self, _now: Instant, id: RequestId, _lead: RequestId, table: &Table) -> bool {
        let index = if table[id].op().is_write() { WRITE } else { READ };
        let Direction { sorted, fifo } = &mut self.directions[index];
        let is_there = sorted.join(id, table);
        if is_there {
            fifo.remove(id, table);
        }
        is_there
    }

    fn learns(&self) -> bool {
        false
    }

    fn configure(&mut self, params: &Params, _table: &Table) {
        self.set(params);
    }

    fn counters(&self, into: &mut Vec<u64>) {
        into.extend([self.batches_count, self.expired_count]);
    }
}

#[cfg(test)]
mod tests;
