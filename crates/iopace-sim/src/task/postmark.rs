//! Postmark after its set-up: reads whole small files, chosen at random, one after the other.
//!
//! # Model
//! The pool has N files of a size drawn evenly between two bounds; Postmark 1.5 has 500 files of
//! 500 B to 10 000 B (it calls that 9.77 kilobytes) by default. The files lie evenly over the
//! region, each at the beginning of a page. A *transaction* opens a file, reads all of it and
//! closes it: one buffered read, and the time that a processor needs for the calls. What the lookup
//! of the name needs from the disk was read in the set-up and stays in memory: an operating system
//! keeps names and inodes apart from the pages of files. Creating and deleting files, which
//! Postmark also does, is left out as in the source of this test, where only reads are counted.
//!
//! With the pool smaller than memory every file is read from the disk once; from then on the
//! program is as fast as the processor, as long as its pages stay. That is what a writer beside it
//! puts at risk.

use super::{Action, Files, Workload};
use crate::random::Random;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

/// Files in the pool: the default of Postmark 1.5.
pub const FILES: u32 = 500;

/// Sizes of the files: the default of Postmark 1.5.
pub const SIZES: (Bytes, Bytes) = (Bytes(500), Bytes(10_000));

/// The calls of a transaction: open with the lookup, some ten reads of 512 B (Postmark's default),
/// close, and its own bookkeeping. A dozen system calls and 5 KB of copying on a machine of 2006.
pub const THINK: Nanos = Nanos::from_micros(50);

/// Files begin on pages.
const PAGE: u64 = 4_096;

/// Reads end on sectors.
const SECTOR: u64 = 512;

/// The pool.
#[derive(Debug)]
pub struct Postmark {
    pool: Vec<Extent>,
    think: Nanos,
    random: Random,
}

impl Postmark {
    /// Bytes of the region that a pool needs.
    pub fn needs(files: &Files) -> Bytes {
        Bytes(u64::from(files.count).saturating_mul(files.max.0.div_ceil(PAGE) * PAGE))
    }

    /// The pages of all files, as the set-up has written them.
    pub fn pages(&self) -> Vec<Extent> {
        let whole = |file: &Extent| {
            let len = Bytes(file.len().0.div_ceil(PAGE) * PAGE);
            Extent::new(file.offset(), len).expect("the files lie on pages")
        };
        self.pool.iter().map(whole).collect()
    }

    /// A pool over `region`.
    pub fn new(region: Extent, files: Files, think: Nanos, mut random: Random) -> Postmark {
        assert!(files.count > 0 && region.len() >= Postmark::needs(&files), "no room for the pool");
        let apart = region.len().0 / u64::from(files.count) / PAGE * PAGE;
        let place = |number: u32| {
            let offset = region.offset() + Bytes(u64::from(number) * apart);
            let size = random.between(files.min.0, files.max.0).max(1);
            let len = Bytes(size.div_ceil(SECTOR) * SECTOR);
            Extent::new(offset, len).expect("inside a region, which does not wrap")
        };
        let pool = (0..files.count).map(place).collect();
        Postmark { pool, think, random }
    }
}

impl Workload for Postmark {
    fn next(&mut self) -> Action {
        let file = self.random.below(self.pool.len() as u64);
        Action {
            think: self.think,
            op: Op::Read,
            extent: self.pool[file as usize],
            fua: false,
            buffered: true,
            payload: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region;
    use super::*;
    use std::collections::BTreeMap;

    fn pool(count: u32, len: u64) -> Postmark {
        let files = Files { count, min: SIZES.0, max: SIZES.1 };
        Postmark::new(region(1 << 20, len), files, THINK, Random::new(1, "postmark"))
    }

    #[test]
    fn each_transaction_reads_a_whole_file_of_the_pool() {
        let mut postmark = pool(500, 1 << 30);
        let mut files = BTreeMap::<u64, (u64, u32)>::new();
        for _ in 0..50_000 {
            let action = postmark.next();
            assert!(action.op == Op::Read && action.buffered && action.payload && !action.fua);
            let (offset, len) = (action.extent.offset().0, action.extent.len().0);
            let (known, count) = files.entry(offset).or_insert((len, 0));
            assert_eq!(*known, len, "a file keeps its size");
            *count += 1;
        }
        assert_eq!(files.len(), 500);
        assert!(files.keys().all(|offset| offset % PAGE == 0));
        assert!(files.values().all(|&(len, _)| (512..=10_240).contains(&len) && len % 512 == 0));
        assert!(files.values().all(|&(_, count)| (50..160).contains(&count)), "evenly");
        let mean = files.values().map(|file| file.0).sum::<u64>() / 500;
        assert!((5_000..6_000).contains(&mean), "{mean}");
    }

    #[test]
    fn the_files_lie_all_over_the_region_and_do_not_touch() {
        let postmark = pool(500, 1 << 30);
        let last = postmark.pool.last().expect("a pool").end().0;
        assert!(last > (1 << 20) + (1 << 30) * 99 / 100);
        assert!(postmark.pool.windows(2).all(|two| two[0].end() <= two[1].offset()));
        let dense = pool(500, 500 * 12_288);
        assert!(dense.pool.windows(2).all(|two| two[0].end() <= two[1].offset()));
        assert_eq!(Postmark::needs(&Files { count: 500, min: SIZES.0, max: SIZES.1 }).0, 6_144_000);
    }
}
