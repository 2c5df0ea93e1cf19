//! A loop device with an export behind it.

use super::disk::Disk;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `BLKDISCARD` and `BLKZEROOUT` of `<linux/fs.h>`: `_IO(0x12, 119)` and `_IO(0x12, 127)`.
const DISCARD: libc::Ioctl = 0x1277;
const ZERO_OUT: libc::Ioctl = 0x127f;

/// The device; its ranges are made zero and given back in all ways in turn.
pub(super) struct Block {
    pub(super) file: File,
    turn: u32,
}

impl Block {
    /// An open device.
    pub(super) fn new(file: File) -> Block {
        Block { file, turn: 0 }
    }

    fn range(&self, command: libc::Ioctl, offset: u64, len: u64) -> io::Result<()> {
        let range = [offset, len];
        // SAFETY: both commands read two numbers of 64 bits, which live until it returns.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), command, range.as_ptr()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn allocate(&self, flags: FallocateFlags, offset: u64, len: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset, len)?)
    }
}

impl Disk for Block {
    fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> io::Result<()> {
        self.file.write(offset, data, fua)
    }

    fn zero(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()> {
        self.turn += 1;
        match self.turn % 3 {
            0 => self.range(ZERO_OUT, offset, len)?,
            1 => self.allocate(FallocateFlags::ZERO_RANGE, offset, len)?,
            _ => self.allocate(FallocateFlags::PUNCH_HOLE, offset, len)?,
        }
        if fua { self.file.sync_data() } else { Ok(()) }
    }

    fn trim(&mut self, offset: u64, len: u64, fua: bool) -> io::Result<()> {
        self.range(DISCARD, offset, len)?;
        if fua { self.file.sync_data() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}
