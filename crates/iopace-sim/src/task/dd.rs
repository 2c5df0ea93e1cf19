//! `dd`: one process that copies as fast as it may, reading or writing.
//!
//! # Model
//! Reading is from the raw device: one synchronous 128 KiB read after the other, without read-ahead
//! by the operating system (a raw device has none). 128 KiB is also the largest transfer of the
//! system of the source (MAXPHYS), so each `read` is one request.
//!
//! Writing is to a new file through the page cache: each `write` ends as soon as the cache has
//! taken it, so the process soon runs at the speed of the write-back, held at the dirty limit. A
//! file system that grows a file also writes metadata: FFS, beside the data, an indirect block of
//! 16 KiB per 32 MiB (2048 pointers of 8 bytes) and, more seldom, maps and the inode. Modelled is
//! one 16 KiB block per 32 MiB. They are written back late and joined where they touch, so they
//! cost a seek or two per second.

use super::{Action, Walk, Workload};
use iopace_core::request::{Extent, Op};
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};

/// `bs=128k`, the block size of the source.
pub const BLOCK: Bytes = Bytes::from_kib(128);

/// From the completion of a read to the submission of the next: an interrupt, the wake-up of the
/// process, its return from `read`, the next call and the way down. Two context switches and two
/// kernel threads on a 2.3 GHz machine of 2008 are some tens of microseconds.
pub const READ_GAP: Nanos = Nanos::from_micros(45);

/// Copying into the page cache: DDR2 memory, one core.
const COPY: BytesPerSec = BytesPerSec(1_500_000_000);

/// The way into the kernel and back, and the file system's work for one `write`: with the copying,
/// 128 KiB take 100 us.
const WRITE_CALL: Nanos = Nanos(12_618);

/// From the end of one `write` of so many bytes to the page cache to the next.
pub const fn write_gap(bytes: Bytes) -> Nanos {
    Nanos(WRITE_CALL.0.saturating_add(COPY.time_for(bytes).0))
}

/// File data between two updates of metadata: what one indirect block of FFS covers.
const METADATA_EVERY: Bytes = Bytes::from_mib(32);

/// A block of metadata: FFS's default block size.
const METADATA_BLOCK: Bytes = Bytes::from_kib(16);

/// `dd if=/dev/disk bs=128k`.
#[derive(Debug)]
pub struct DdRead(Walk);

impl DdRead {
    /// Reads `region` from its beginning.
    pub fn new(region: Extent) -> DdRead {
        DdRead(Walk::new(region, BLOCK))
    }
}

impl Workload for DdRead {
    fn next(&mut self) -> Action {
        Action {
            think: READ_GAP,
            op: Op::Read,
            extent: self.0.next(),
            fua: false,
            buffered: false,
            payload: true,
        }
    }
}

/// `dd of=file`.
#[derive(Debug)]
pub struct DdWrite {
    data: Walk,
    metadata: Walk,
    /// Bytes of data that are not covered by metadata yet.
    uncovered: u64,
}

impl DdWrite {
    /// Writes a file in `region`, `block` bytes at a time. The first 1/256 of it is metadata: more
    /// than FFS needs for its indirect blocks and maps (32 KiB per 32 MiB is 1/1024), so that none
    /// is rewritten soon.
    pub fn new(region: Extent, block: Bytes) -> DdWrite {
        let reserved = (region.len().0 >> 8).max(METADATA_BLOCK.0);
        let split = region.offset() + Bytes(reserved);
        let metadata = Extent::new(region.offset(), Bytes(reserved)).expect("within the region");
        let data = Extent::new(split, region.len() - Bytes(reserved)).expect("within the region");
        DdWrite {
            data: Walk::new(data, block),
            metadata: Walk::new(metadata, METADATA_BLOCK),
            uncovered: 0,
        }
    }
}

impl Workload for DdWrite {
    fn next(&mut self) -> Action {
        let is_metadata = self.uncovered >= METADATA_EVERY.0;
        let extent = if is_metadata {
            self.uncovered -= METADATA_EVERY.0;
            self.metadata.next()
        } else {
            let extent = self.data.next();
            self.uncovered += extent.len().0;
            extent
        };
        Action {
            think: if is_metadata { Nanos::ZERO } else { write_gap(extent.len()) },
            op: Op::Write,
            extent,
            fua: false,
            buffered: true,
            payload: !is_metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::region;
    use super::*;

    #[test]
    fn reading_is_gapless_in_place() {
        let mut dd = DdRead::new(region(4096, 1 << 30));
        let (first, second) = (dd.next().extent, dd.next().extent);
        assert_eq!(first, region(4096, 128 << 10));
        assert_eq!(first.end(), second.offset());
    }

    #[test]
    fn a_file_brings_metadata_every_32_mib() {
        let mut dd = DdWrite::new(region(0, 1 << 30), BLOCK);
        let actions: Vec<Action> = (0..514).map(|_| dd.next()).collect();
        let metadata: Vec<usize> = (0..514).filter(|&i| !actions[i].payload).collect();
        assert_eq!(metadata, [256, 513]);
        let data: u64 = actions.iter().filter(|a| a.payload).map(|a| a.extent.len().0).sum();
        assert_eq!(data, 64 << 20);
    }

    #[test]
    fn metadata_keeps_its_rate_whatever_the_block() {
        for block in [512, 4_096, 100_000, 1 << 20, 32 << 20] {
            let mut dd = DdWrite::new(region(0, 4 << 30), Bytes(block));
            let (mut data, mut metadata) = (0, 0);
            while data < 256 << 20 {
                let action = dd.next();
                let payload = action.payload;
                data += if payload { action.extent.len().0 } else { 0 };
                metadata += u64::from(!payload);
                assert_eq!(action.extent.len().0, if payload { block } else { 16_384 });
            }
            assert!((7..=8).contains(&metadata), "{block}: {metadata}");
        }
    }

    #[test]
    fn a_write_of_128_kib_takes_100_us_and_one_of_a_byte_little() {
        assert_eq!(write_gap(BLOCK), Nanos::from_micros(100));
        assert_eq!(write_gap(Bytes(1)), Nanos(12_619));
        assert_eq!(write_gap(Bytes(1 << 20)), Nanos(12_618 + 699_051));
    }
}
