//! What the page cache has of a file: asked for without a disk, and without starting one.

use super::file::File;
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;

/// The system call `cachestat`, of the same number on every architecture; libc does not name it
/// yet.
const SYS_CACHESTAT: libc::c_long = 451;

impl File {
    /// Reads from the page cache only.
    ///
    /// # Errors
    /// `WouldBlock` if not all of it is cached (or the file system cannot tell).
    pub fn read_cached(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        let wanted = into.len();
        // What is missing is read by the kernel at once, without waiting for it, before any
        // scheduler has said so: a read that must not wait begins it all the same (`RWF_NOWAIT`;
        // there is no `RWF_NOIO`). So it is only asked for what is there.
        if !self.is_cached(offset, wanted as u64) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut slices = [IoSliceMut::new(into)];
        match rustix::io::preadv2(self, &mut slices, offset, ReadWriteFlags::NOWAIT) {
            Ok(got) if got == wanted => Ok(()),
            Ok(_) | Err(Errno::AGAIN | Errno::OPNOTSUPP) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads from the page cache only, up to the end of the file: how much that is.
    ///
    /// # Errors
    /// `WouldBlock` if not all of it is cached (or the system cannot tell), or what it said.
    pub(crate) fn read_cached_to_end(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let size = rustix::fs::fstat(self)?.st_size.cast_unsigned();
        let len = size.saturating_sub(offset).min(into.len() as u64) as usize;
        if len > 0 {
            self.read_cached(&mut into[..len], offset)?;
        }
        Ok(len)
    }

    /// Whether all of the extent is in the page cache; false where the kernel cannot tell (before
    /// Linux 6.5).
    pub fn is_cached(&self, offset: u64, len: u64) -> bool {
        const PAGE: u64 = 4096;
        let wanted = (offset + len).div_ceil(PAGE) - offset / PAGE;
        self.cached_pages(offset, len) == Some(wanted)
    }

    /// Whether nothing of the extent is in the page cache, and so nothing of it is dirty there;
    /// false where the kernel cannot tell.
    pub(crate) fn is_uncached(&self, offset: u64, len: u64) -> bool {
        self.cached_pages(offset, len) == Some(0)
    }

    /// How many pages of the extent are in the page cache.
    fn cached_pages(&self, offset: u64, len: u64) -> Option<u64> {
        let range = [offset, len];
        let mut counts = [0u64; 5];
        // SAFETY: `range` and `counts` have the layout of `struct cachestat_range` (two u64) and
        // `struct cachestat` (five u64), and live until the call returns.
        let result = unsafe {
            let (range, counts) = (range.as_ptr(), counts.as_mut_ptr());
            libc::syscall(SYS_CACHESTAT, self.fd().as_raw_fd(), range, counts, 0)
        };
        (result == 0).then_some(counts[0])
    }
}
