//! Plain workloads: requests of one size, in order or anywhere, with a share of writes.

use super::{Action, Walk, Workload};
use crate::random::Random;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

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
    /// Anywhere instead of in order.
    pub is_random: bool,
}

/// A pattern with its place in it.
#[derive(Debug)]
pub struct Mixed {
    pattern: Pattern,
    walk: Walk,
    random: Random,
}

impl Mixed {
    /// Begins the pattern.
    pub fn new(pattern: Pattern, random: Random) -> Mixed {
        let walk = Walk::new(pattern.region, pattern.block);
        Mixed { pattern, walk, random }
    }
}

impl Workload for Mixed {
    fn next(&mut self) -> Action {
        let Pattern { region, block, think, write_percent, buffered, fua, is_random } =
            self.pattern;
        let extent = if is_random {
            let places = region.len().0 / block.0;
            let offset = region.offset() + Bytes(self.random.below(places) * block.0);
            Extent::new(offset, block).expect("inside a region, which does not wrap")
        } else {
            self.walk.next()
        };
        let is_write = self.random.below(100) < u64::from(write_percent);
        Action {
            think,
            op: if is_write { Op::Write } else { Op::Read },
            extent,
            fua: fua && is_write,
            buffered,
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
