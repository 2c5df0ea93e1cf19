//! `dd bs=128k`: one process that copies as fast as it may, reading or writing.
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
use iopace_core::units::Bytes;

/// `bs=128k`, the block size of the source.
pub const BLOCK: Bytes = Bytes::from_kib(128);

/// From the completion of a read to the submission of the next: an interrupt, the wake-up of the
/// process, its return from `read`, the next call and the way down. Two context switches and two
/// kernel threads on a 2.3 GHz machine of 2008 are some tens of microseconds.
pub const READ_GAP: Nanos = Nanos::from_micros(45);

/// From the end of one `write` to the page cache to the next: copying 128 KiB at about 1.5 GB/s
/// (DDR2 memory, one core) and the file system's work for it.
pub const WRITE_GAP: Nanos = Nanos::from_micros(100);

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

/// `dd of=file bs=128k`.
#[derive(Debug)]
pub struct DdWrite {
    data: Walk,
    metadata: Walk,
    /// Bytes of data until the next metadata.
    until_metadata: u64,
}

impl DdWrite {
    /// Writes a file in `region`, of which the first 1/256 is metadata: more than FFS needs for its
    /// indirect blocks and maps (32 KiB per 32 MiB is 1/1024), so that none is rewritten soon.
    pub fn new(region: Extent) -> DdWrite {
        let reserved = (region.len().0 >> 8).max(METADATA_BLOCK.0);
        let split = region.offset() + Bytes(reserved);
        let metadata = Extent::new(region.offset(), Bytes(reserved)).expect("within the region");
        let data = Extent::new(split, region.len() - Bytes(reserved)).expect("within the region");
        DdWrite {
            data: Walk::new(data, BLOCK),
            metadata: Walk::new(metadata, METADATA_BLOCK),
            until_metadata: METADATA_EVERY.0,
        }
    }
}

impl Workload for DdWrite {
    fn next(&mut self) -> Action {
        let is_metadata = self.until_metadata == 0;
        let extent = if is_metadata {
            self.until_metadata = METADATA_EVERY.0;
            self.metadata.next()
        } else {
            self.until_metadata -= BLOCK.0;
            self.data.next()
        };
        Action {
            think: if is_metadata { Nanos::ZERO } else { WRITE_GAP },
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
        let mut dd = DdWrite::new(region(0, 1 << 30));
        let actions: Vec<Action> = (0..514).map(|_| dd.next()).collect();
        let metadata: Vec<usize> = (0..514).filter(|&i| !actions[i].payload).collect();
        assert_eq!(metadata, [256, 513]);
        let data: u64 = actions.iter().filter(|a| a.payload).map(|a| a.extent.len().0).sum();
        assert_eq!(data, 64 << 20);
    }
}
