//! Flushes: which wait for programs, and what each takes after them.

use iopace_core::time::{Instant, Nanos};
use std::collections::BTreeSet;

/// Flushes, by number.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    waiting: BTreeSet<u64>,
    /// The first write that no flush has covered, as far as is known, and the last one.
    uncovered: Option<u64>,
    last_write: u64,
    /// When the last flush is through.
    free: Instant,
}

impl Flushes {
    /// A flush has arrived.
    pub(super) fn enter(&mut self, number: u64) {
        self.waiting.insert(number);
    }

    /// A write is in the cache.
    pub(super) fn wrote(&mut self, number: u64) {
        self.uncovered.get_or_insert(number);
        self.last_write = number;
    }

    /// The next flush that no unprogrammed write is before, and when it is through: after `time` if
    /// it has anything to make durable. `oldest` is the first write with programs left.
    pub(super) fn next(
        &mut self,
        now: Instant,
        oldest: u64,
        time: Nanos,
    ) -> Option<(u64, Instant)> {
        let flush = self.waiting.first().copied().filter(|&flush| flush < oldest)?;
        self.waiting.remove(&flush);
        let has_work = self.uncovered.is_some_and(|write| write < flush);
        self.uncovered = Some(self.last_write).filter(|&write| write > flush);
        self.free = self.free.max(now) + if has_work { time } else { Nanos::ZERO };
        Some((flush, self.free))
    }
}
