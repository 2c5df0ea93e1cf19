//! Plain workloads: requests of one size, in order or anywhere, with a share of writes.

use super::{Action, Walk, Workload};
use crate::random::Random;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

/// What a scenario may say of one.
pub(super) const SETTINGS: &[&str] = &[
    "block",
    "think",
    "depth",
    "write_percent",
    "buffered",
    "fua",
    "blocking",
    "think_every",
    "flush_every",
    "trim",
    "rate",
    "arrival",
    "ceiling",
];

/// What a plain workload does.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// The part of the disk that it uses.
    pub region: Extent,
    /// Size of every request.
    pub block: Bytes,
    /// Time between a completion and the next request.
    pub think: Nanos,
    /// Of 100 requests, how many write.
    pub write_percent: u32,
    /// Through the page cache.
    pub buffered: bool,
    /// Writes are durable before they finish.
    pub fua: bool,
    /// It thinks only after so many requests.
    pub think_every: u32,
    /// After so many writes it flushes; 0: never.
    pub flush_every: u32,
    /// It trims where it would write.
    pub trim: bool,
    /// Anywhere instead of in order.
    pub is_random: bool,
}

/// A pattern with its place in it.
#[derive(Debug)]
pub struct Mixed {
    pattern: Pattern,
    walk: Walk,
    random: Random,
    requests: u64,
    /// Writes since the last flush.
    unflushed: u32,
}

impl Mixed {
    /// Begins the pattern.
    pub fn new(pattern: Pattern, random: Random) -> Mixed {
        let walk = Walk::new(pattern.region, pattern.block);
        Mixed { pattern, walk, random, requests: 0, unflushed: 0 }
    }
}

impl Workload for Mixed {
    fn next(&mut self) -> Action {
        let Pattern { region, block, think, write_percent, buffered, fua, is_random, .. } =
            self.pattern;
        let Pattern { think_every, flush_every, trim, .. } = self.pattern;
        if flush_every > 0 && self.unflushed == flush_every {
            self.unflushed = 0;
            let (think, op, extent) = (Nanos::ZERO, Op::Flush, Extent::EMPTY);
            return Action { think, op, extent, fua: false, buffered, payload: false };
        }
        let thinks = self.requests.is_multiple_of(u64::from(think_every.max(1)));
        self.requests += 1;
        let extent = if is_random {
            let places = region.len().0 / block.0;
            let offset = region.offset() + Bytes(self.random.below(places) * block.0);
            Extent::new(offset, block).expect("inside a region, which does not wrap")
        } else {
            self.walk.next()
        };
        let is_write = self.random.below(100) < u64::from(write_percent);
        self.unflushed += u32::from(is_write);
        let write = if trim { Op::Trim } else { Op::Write };
        Action {
            think: if thinks { think } else { Nanos::ZERO },
            op: if is_write { write } else { Op::Read },
            extent,
            fua: fua && is_write && !trim,
            buffered: buffered && !(trim && is_write),
            payload: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region;
    use super::*;

    #[test]
    fn the_share_of_writes_is_kept() {
        let pattern = Pattern {
            region: region(0, 1 << 30),
            block: Bytes(4096),
            think: Nanos::ZERO,
            write_percent: 30,
            buffered: false,
            fua: true,
            think_every: 1,
            flush_every: 0,
            trim: false,
            is_random: true,
        };
        let mut mixed = Mixed::new(pattern, Random::new(1, "mixed"));
        let actions: Vec<Action> = (0..10_000).map(|_| mixed.next()).collect();
        let writes = actions.iter().filter(|a| a.op == Op::Write).count();
        assert!((2_800..3_200).contains(&writes), "{writes}");
        assert!(actions.iter().all(|a| a.fua == (a.op == Op::Write)));
        assert!(actions.iter().all(|a| a.extent.offset().0 % 4096 == 0));
    }
}
