//! `cvs update`: a walk over a source tree, one small file after the other.
//!
//! # Model
//! One process, one request at a time: it reads a small piece (a directory's `CVS/Entries`, an
//! inode block, a file), computes, and goes on. The tree has some thousand files, scattered over
//! the partition as FFS scatters directories over its cylinder groups; the walk visits each once
//! per round, in an order that has nothing to do with the disk's.
//!
//! - Sizes: 2 to 16 KiB in steps of 2 KiB, evenly: from one fragment to one block of FFS with
//!   newfs(8)'s defaults. Source files are that small (half of them are below 8 KiB).
//! - Think time: four of five requests cost little work (compare times and revisions, 0.2 to
//!   2 ms), one of five costs more (parse a revision file, check a sum, talk to the client, 2 to
//!   8 ms). The mean is 1.88 ms; none is longer than 8 ms. A process on the same machine of 2008.
//! - Writes: one request in ten, as cvs rewrites `CVS/Entries` once per directory and a directory
//!   of a source tree has about ten files. They are synchronous and durable (FUA), near the file
//!   last read: a directory's entries lie in its files' cylinder group.
//!
//! The figures are the same for every scheduler and every disk.

use super::{Action, Workload};
use crate::random::Random;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

/// Files in the tree: "some thousand". A minute on a disk of 100 requests/s does not wrap it.
pub const TREE_FILES: u64 = 8_192;

/// Smallest request: one FFS fragment.
const SIZE_MIN: Bytes = Bytes::from_kib(2);

/// Largest request: one FFS block.
pub const SIZE_MAX: Bytes = Bytes::from_kib(16);

/// Mean think time, for documents: 0.8 * 1.1 ms + 0.2 * 5 ms.
pub const THINK_MEAN: Nanos = Nanos::from_micros(1_880);

/// Think times of light work, in microseconds.
const LIGHT_US: (u64, u64) = (200, 2_000);

/// Think times of heavy work, in microseconds.
const HEAVY_US: (u64, u64) = (2_000, 8_000);

/// One of this many thinks is heavy.
const HEAVY_EVERY: u64 = 5;

/// One of this many requests is a synchronous write.
const WRITE_EVERY: u64 = 10;

/// The walk over the tree.
#[derive(Debug)]
pub struct Cvs {
    /// Where each file lies, in the order of the walk.
    files: Vec<Extent>,
    next: usize,
    random: Random,
}

impl Cvs {
    /// A tree scattered over `region`.
    pub fn new(region: Extent, mut random: Random) -> Cvs {
        let blocks = region.len().0 / SIZE_MAX.0;
        assert!(blocks > 0, "a region of {region} holds no file");
        let place = |_| {
            let offset = region.offset() + Bytes(random.below(blocks) * SIZE_MAX.0);
            let size = Bytes(random.between(1, SIZE_MAX.0 / SIZE_MIN.0) * SIZE_MIN.0);
            Extent::new(offset, size).expect("inside a region, which does not wrap")
        };
        let files = (0..TREE_FILES).map(place).collect();
        Cvs { files, next: 0, random }
    }

    fn think(&mut self) -> Nanos {
        let is_heavy = self.random.below(HEAVY_EVERY) == 0;
        let (low, high) = if is_heavy { HEAVY_US } else { LIGHT_US };
        Nanos(self.random.between(low * 1_000, high * 1_000))
    }
}

impl Workload for Cvs {
    fn next(&mut self) -> Action {
        let is_write = self.random.below(WRITE_EVERY) == 0;
        let extent = if is_write {
            self.files[self.next.saturating_sub(1)]
        } else {
            self.next = (self.next + 1) % self.files.len();
            self.files[self.next]
        };
        Action {
            think: self.think(),
            op: if is_write { Op::Write } else { Op::Read },
            extent,
            fua: is_write,
            buffered: false,
            payload: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region;
    use super::*;

    #[test]
    fn the_mix_is_as_documented() {
        let mut cvs = Cvs::new(region(0, 32 << 30), Random::new(1, "cvs"));
        let actions: Vec<Action> = (0..20_000).map(|_| cvs.next()).collect();
        let writes = actions.iter().filter(|a| a.op == Op::Write).count();
        assert!((1_800..2_200).contains(&writes), "{writes}");
        assert!(actions.iter().all(|a| a.fua == (a.op == Op::Write)));
        let mean = actions.iter().map(|a| a.think.0).sum::<u64>() / 20_000;
        assert!(mean.abs_diff(THINK_MEAN.0) < 60_000, "{mean}");
        assert!(actions.iter().all(|a| a.think <= Nanos::from_millis(8)));
        let sizes: std::collections::BTreeSet<u64> =
            actions.iter().map(|a| a.extent.len().0).collect();
        assert_eq!(sizes.len(), 8);
        assert_eq!((sizes.first(), sizes.last()), (Some(&2_048), Some(&16_384)));
    }

    #[test]
    fn a_round_visits_every_file_once() {
        let mut cvs = Cvs::new(region(0, 32 << 30), Random::new(1, "cvs"));
        let mut seen = std::collections::BTreeSet::new();
        let reads = std::iter::repeat_with(|| cvs.next()).filter(|a| a.op == Op::Read);
        for action in reads.take(TREE_FILES as usize) {
            seen.insert(action.extent.offset().0);
        }
        // Some files share a block by chance: 8192 draws from two million places.
        assert!(seen.len() as u64 > TREE_FILES - 64, "{}", seen.len());
    }
}
