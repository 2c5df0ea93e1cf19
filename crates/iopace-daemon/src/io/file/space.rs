//! The space of a file: holes, zeroes, and what of it lies where.

use super::File;
use iopace_core::request::Extent;
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
use std::io;

/// Whether a piece of a device has data behind it (NBD `base:allocation`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its length in bytes.
    pub len_bytes: u64,
    /// Whether it is a hole that reads as zeroes.
    pub is_hole: bool,
}

/// Tells a block device which bytes are not needed any more (`BLKDISCARD` of linux/fs.h).
const DISCARD: Opcode = opcode::none(0x12, 119);

/// Zeroes written where the file system cannot make a range zero by itself.
static ZEROES: [u8; 256 * 1024] = [0; 256 * 1024];

impl File {
    pub(super) fn prefetch(&self, offset: u64, len: u64) -> io::Result<()> {
        let len = std::num::NonZeroU64::new(len);
        Ok(rustix::fs::fadvise(&self.file, offset, len, rustix::fs::Advice::WillNeed)?)
    }

    /// Gives the space back where the file system can; trimming is only advice.
    pub(super) fn trim(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.is_block {
            return self.discard(offset, len);
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The disk's own command: a hole in a block device would be zeroes that are written.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        // SAFETY: BLKDISCARD reads two numbers, and touches no memory of ours.
        let done = unsafe { ioctl(&self.file, Setter::<DISCARD, _>::new([offset, len])) };
        match done {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the range zero: by the file system where it can, else by writing zeroes.
    pub(super) fn write_zeroes(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if !self.is_block && rustix::fs::fallocate(&self.file, punch, offset, len).is_ok() {
            return Ok(());
        }
        let mut at = offset;
        while at < offset + len {
            let piece = (offset + len - at).min(ZEROES.len() as u64) as usize;
            self.write(&ZEROES[..piece], at, false)?;
            at += piece as u64;
        }
        Ok(())
    }

    /// The pieces of `extent` in order: data or hole.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn allocation(&self, extent: Extent, pieces_max: usize) -> io::Result<Vec<Allocation>> {
        let (mut at, end) = (extent.offset().get(), extent.end().get());
        if self.is_block {
            return Ok(vec![Allocation { len_bytes: end - at, is_hole: false }]);
        }
        let mut pieces = Vec::new();
        while at < end && pieces.len() < pieces_max {
            let data = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data.min(end),
                Err(Errno::NXIO) => end,
                Err(Errno::INVAL) => at,
                Err(error) => return Err(error.into()),
            };
            if data > at {
                pieces.push(Allocation { len_bytes: data - at, is_hole: true });
                at = data;
                continue;
            }
            let hole = match rustix::fs::seek(&self.file, SeekFrom::Hole(at)) {
                Ok(hole) => hole.min(end),
                Err(Errno::INVAL | Errno::NXIO) => end,
                Err(error) => return Err(error.into()),
            };
            pieces.push(Allocation { len_bytes: hole.max(at + 1).min(end) - at, is_hole: false });
            at = hole.max(at + 1);
        }
        Ok(pieces)
    }
}
