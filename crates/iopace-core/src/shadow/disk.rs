//! The virtual disk of a shadow, and what it knows of the live one.
//!
//! The live disk is looked at as a single server: it is busy with a request from its start, or from
//! the completion before it if that is later, until its completion. These times add up to the time
//! that the disk is busy, so the virtual disk, which takes them one after the other, gets as much
//! done. A disk that serves several at once completes often, so the times are short; that none of
//! them is quicker than the disk can be is held by the least time that such a request was seen to
//! take. And a request that has as many beside it as it had live takes as long as it did live:
//! with the same starts the virtual disk completes at the same instants, whatever the disk.

use crate::request::{Op, RequestId};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, scaled};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How long the least times hold: long enough for a request of every kind, short enough to follow a
/// disk that has become slow.
const LEAST_INTERVAL: Nanos = Nanos::from_secs(10);

/// Sizes that least times tell apart: powers of two.
const SIZES: usize = 40;

/// Means are halved at so many bytes and requests: they follow the last thousand or so.
const MEAN_BYTES: u64 = 128 << 20;
const MEAN_COUNT: u64 = 1024;

/// How the live disk served a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    /// For how long it was busy with it alone.
    pub(crate) service: Nanos,
    /// The least that it takes for such a request, also beside others.
    pub(crate) least: Nanos,
    /// How long it took.
    pub(crate) took: Nanos,
    /// How many it had when this one started, with itself; 0: not one of its requests.
    pub(crate) beside: u32,
}

/// Time for a number of bytes or requests. Both are halved before they pass 2^40.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    time: u64,
    amount: u64,
}

impl Mean {
    fn add(&mut self, time: Nanos, amount: u64, most: u64) {
        self.time = self.time.saturating_add(time.as_nanos());
        self.amount = self.amount.saturating_add(amount);
        while self.amount > most {
            (self.time, self.amount) = (self.time / 2, self.amount / 2);
        }
    }

    fn of(&self, amount: u64) -> Option<Nanos> {
        (self.amount > 0).then(|| Nanos(scaled(self.time, amount, self.amount)))
    }
}

type Least = [[Nanos; SIZES]; 2];
const UNKNOWN: Least = [[Nanos(u64::MAX); SIZES]; 2];

/// What the live disk took.
#[derive(Debug)]
pub(crate) struct Measured {
    last_done: Instant,
    /// The least times of reads and of all else, by size, of this interval and the last one.
    least: [Least; 2],
    since: Instant,
    write_back: Mean,
    flush: Mean,
    all: Mean,
}

impl Default for Measured {
    fn default() -> Measured {
        let mean = Mean::default();
        Measured {
            last_done: Instant::ZERO,
            least: [UNKNOWN; 2],
            since: Instant::ZERO,
            write_back: mean,
            flush: mean,
            all: mean,
        }
    }
}

impl Measured {
    /// A live request has completed: how the disk served it.
    pub(crate) fn done(
        &mut self,
        now: Instant,
        started: Instant,
        (op, size): (Op, Bytes),
        is_write_back: bool,
    ) -> Served {
        let service = now.since(started.max(self.last_done));
        self.last_done = now;
        let bytes = size.get();
        match op {
            Op::Flush => self.flush.add(service, 1, MEAN_COUNT),
            _ if is_write_back => self.write_back.add(service, bytes, MEAN_BYTES),
            _ => {}
        }
        if op != Op::Flush {
            self.all.add(service, 1, MEAN_COUNT);
        }
        if now.since(self.since) >= LEAST_INTERVAL {
            self.since = now;
            self.least = [UNKNOWN, self.least[0]];
        }
        let took = now.since(started);
        let kind = usize::from(op != Op::Read);
        let power = (64 - bytes.leading_zeros() as usize).min(SIZES - 1);
        let present = &mut self.least[0][kind][power];
        *present = took.min(*present);
        let least = (*present).min(self.least[1][kind][power]);
        Served { service, least, took, beside: 0 }
    }

    /// The same requests are to come again: means and least times are known by then.
    pub(super) fn again(&mut self, began: Instant) {
        (self.last_done, self.since) = (Instant::ZERO, began);
    }

    /// What write-back of that size takes.
    pub(super) fn write_back(&self, size: Bytes) -> Served {
        let size = size.get();
        let service = self.write_back.of(size).or_else(|| self.all.of(1));
        Served { service: service.unwrap_or(Nanos(size)), ..Served::default() }
    }

    /// What a flush takes.
    pub(super) fn flush(&self) -> Served {
        Served { service: self.flush.of(1).unwrap_or(Nanos::ZERO), ..Served::default() }
    }
}

/// What the shadow has at the disk.
#[derive(Debug, Default)]
pub(super) struct VirtualDisk {
    /// When it is done with all that it has.
    free_at: Instant,
    due: BinaryHeap<Reverse<(Instant, RequestId)>>,
}

impl VirtualDisk {
    pub(super) fn start(&mut self, now: Instant, id: RequestId, served: &Served) {
        self.free_at = self.free_at.max(now) + served.service;
        let done = if self.due.len() + 1 == served.beside as usize {
            now + served.took
        } else {
            self.free_at.max(now + served.least)
        };
        self.due.push(Reverse((done, id)));
    }

    /// When the next request is done.
    pub(super) fn next(&self) -> Instant {
        self.due.peek().map_or(Instant::NEVER, |Reverse((at, _))| *at)
    }

    /// A request that is done by then.
    pub(super) fn done(&mut self, by: Instant) -> Option<RequestId> {
        self.due.peek().filter(|Reverse((at, _))| *at <= by)?;
        self.due.pop().map(|Reverse((_, id))| id)
    }
}
