//! `rsync` from a remote machine: receives files over a link and writes them through the page
//! cache.
//!
//! # Model
//! ```text
//!  link ▓▓▓▓▓▓▓▓▓▓▓▓▓▓        ▓▓▓▓▓▓▓▓▓▓▓▓▓▓        ▓▓▓▓▓
//!       receive a chunk │write│ receive a chunk │write│ receive
//! ```
//! One process: it receives a chunk at the rate of the link, writes it, and receives the next. A
//! chunk is what rsync writes at once, up to [`CHUNK`], and the rest of a file at its end. When the
//! write is delayed the link stands still: that is what a pause of the page cache does to whoever
//! sits at the other end. Files follow each other in the region, each from the beginning of a page,
//! with sizes drawn evenly between two bounds.
//!
//! The time to receive a chunk is its size over the rate, with the remainder of the division
//! carried to the next: over any number of chunks it is exact to a nanosecond.
//!
//! # Limits
//! What the kernel receives while the program is in `write` is not modelled: a socket buffer of
//! some 100 KiB, at gigabit Ethernet less than a millisecond. Without pauses the link loses the
//! time of the calls. What rsync computes (sums, comparing) is left out: it overlaps with
//! receiving.
//!
//! # Sources
//! rsync writes files through a buffer of 256 KiB (`fileio.c`: eight times `WRITE_SIZE` of 32 KiB).

use super::{Action, Files, Workload};
use crate::random::Random;
use iopace_core::request::{Extent, Op};
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// Most bytes that rsync writes at once.
pub const CHUNK: Bytes = Bytes::from_kib(256);

/// Gigabit Ethernet: 1 Gb/s less the headers of Ethernet, IP and TCP (1448 of 1538 bytes).
pub const LINK: BytesPerSec = BytesPerSec(117_000_000);

/// Sizes of the files: from a page to what the chunk does not matter for. The source does not say
/// what its rsync copied.
pub const SIZES: (Bytes, Bytes) = (Bytes::from_kib(4), Bytes::from_mib(8));

/// Files begin on pages.
const PAGE: u64 = 4_096;

/// The receiving side.
#[derive(Debug)]
pub struct Rsync {
    region: Extent,
    chunk: Bytes,
    link: BytesPerSec,
    /// Bounds of the sizes of files.
    sizes: (Bytes, Bytes),
    random: Random,
    /// Where the next byte goes, from the beginning of the region.
    at: u64,
    /// What is left of the file.
    left: u64,
    /// Of the last division, in bytes times 10^9: below the rate.
    remainder: u64,
}

impl Rsync {
    /// Bytes of the region that it needs: one largest file.
    pub fn needs(files: &Files) -> Bytes {
        Bytes(files.max.0.div_ceil(PAGE) * PAGE)
    }

    /// Receives files of the sizes of `files` into `region`; their number is not bounded.
    pub fn new(
        region: Extent,
        chunk: Bytes,
        link: BytesPerSec,
        files: Files,
        random: Random,
    ) -> Rsync {
        assert!(chunk.0 > 0 && link.0 > 0, "it receives something");
        assert!(region.len() >= Rsync::needs(&files), "no room for a file");
        let sizes = (files.min, files.max);
        Rsync { region, chunk, link, sizes, random, at: 0, left: 0, remainder: 0 }
    }

    /// Begins a file on the next page, or at the beginning of the region when it does not fit.
    fn begin_file(&mut self) {
        self.left = self.random.between(self.sizes.0.0, self.sizes.1.0).max(1);
        self.at = self.at.div_ceil(PAGE) * PAGE;
        if self.at + self.left > self.region.len().0 {
            self.at = 0;
        }
    }

    /// The time to receive so many bytes. The product is formed in 128 bits: 2^64 bytes times 10^9
    /// and a remainder below 2^64 fit.
    fn receive(&mut self, bytes: u64) -> Nanos {
        let all = u128::from(bytes) * 1_000_000_000 + u128::from(self.remainder);
        let rate = u128::from(self.link.0);
        self.remainder = (all % rate) as u64;
        Nanos(u64::try_from(all / rate).unwrap_or(u64::MAX))
    }
}

impl Workload for Rsync {
    fn next(&mut self) -> Action {
        if self.left == 0 {
            self.begin_file();
        }
        let len = self.left.min(self.chunk.0);
        let extent = Extent::new(self.region.offset() + Bytes(self.at), Bytes(len));
        self.at += len;
        self.left -= len;
        Action {
            think: self.receive(len),
            op: Op::Write,
            extent: extent.expect("inside a region, which does not wrap"),
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

    fn rsync(link: u64, files: (u64, u64)) -> Rsync {
        let files = Files { count: 1, min: Bytes(files.0), max: Bytes(files.1) };
        let random = Random::new(1, "rsync");
        Rsync::new(region(1 << 30, 64 << 20), CHUNK, BytesPerSec(link), files, random)
    }

    #[test]
    fn it_receives_at_exactly_the_rate_of_the_link() {
        for link in [LINK.0, 7, 999_999_937] {
            let mut rsync = rsync(link, (1, 100_000));
            let (mut bytes, mut nanos) = (0u128, 0u128);
            for _ in 0..10_000 {
                let action = rsync.next();
                bytes += u128::from(action.extent.len().0);
                nanos += u128::from(action.think.0);
                assert_eq!(nanos, bytes * 1_000_000_000 / u128::from(link), "{link}");
            }
        }
    }

    #[test]
    fn files_are_written_in_chunks_from_page_to_page() {
        let mut rsync = rsync(LINK.0, (4_096, 1 << 20));
        let (mut end, mut files, mut short, mut wraps) = (0, 0, 0, 0);
        for _ in 0..2_000 {
            let action = rsync.next();
            assert!(action.op == Op::Write && action.buffered && !action.fua && action.payload);
            let extent = action.extent;
            assert!(extent.len() <= CHUNK);
            if extent.offset().0 != end || end == 0 {
                files += 1;
                assert_eq!(extent.offset().0 % PAGE, 0, "a file begins on a page");
                wraps += u64::from(extent.offset().0 < end);
            }
            short += u64::from(extent.len() < CHUNK);
            end = extent.end().0;
        }
        assert!(short >= files - 1 && files > 500, "{files} files, {short} ends");
        assert!(wraps > 2, "the region is used again");
    }
}
