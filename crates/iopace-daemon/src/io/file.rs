//! An open image file or block device, and each operation on it.

use super::leaving::{Hold, Patience};
use super::lock;
use crate::device::Allocation;
use iopace_core::request::{Extent, Op};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// Zeroes written where the file system cannot make a range zero by itself.
static ZEROES: [u8; 256 * 1024] = [0; 256 * 1024];

/// An open file or block device.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    size_bytes: u64,
    is_block: bool,
    is_directory: bool,
    direct: bool,
    /// Let go after the descriptor: the last field.
    hold: Option<Arc<Hold>>,
}

impl File {
    /// Opens it and takes its lock, waiting for one that is just going (`io/lock.rs`).
    ///
    /// # Errors
    /// What the system said; `WouldBlock` if another process holds the lock.
    pub fn open(path: &Path, read_only: bool, direct: bool) -> io::Result<File> {
        let mut flags = OFlags::CLOEXEC;
        flags.set(OFlags::DIRECT, direct);
        let file = fs::OpenOptions::new()
            .read(true)
            .write(!read_only)
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let message = "neither a regular file nor a block device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        lock::wait(&file, read_only)?;
        let is_block = kind.is_block_device();
        let size_bytes = rustix::fs::seek(&file, SeekFrom::End(0))?;
        Ok(File { file, size_bytes, is_block, is_directory: false, direct, hold: None })
    }

    /// The same file, opened once more. The kernel tells a failed write-back once to each open
    /// file, when that is synced next; so whoever is to hear of it needs one for that.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn once_more(&self) -> io::Result<File> {
        // Closing a block device that was open for writing has the system look what is on it.
        self.opened_again(!self.is_block)
    }

    /// The same, to write to it.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn once_more_to_write(&self) -> io::Result<File> {
        self.opened_again(true)
    }

    fn opened_again(&self, writes: bool) -> io::Result<File> {
        // The name may be that of another file by now.
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = fs::OpenOptions::new().read(true).write(writes).open(own)?;
        Ok(File { is_block: self.is_block, ..File::adopt(file, self.size_bytes) })
    }

    /// An open file of our own making (the store of an emulated disk).
    pub(crate) fn adopt(file: fs::File, size_bytes: u64) -> File {
        File { file, size_bytes, is_block: false, is_directory: false, direct: false, hold: None }
    }

    /// A file of a tree, which may have any size at any time. The kernel reads nothing ahead of it
    /// by itself: that is done above us, in requests that the device is asked for.
    pub(crate) fn of_tree(file: fs::File, direct: bool) -> File {
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        File::of_tree_unread(file, direct)
    }

    /// The same of one that nobody reads through this.
    pub(crate) fn of_tree_unread(file: fs::File, direct: bool) -> File {
        File { direct, ..File::adopt(file, u64::MAX) }
    }

    /// The same of a file that others may wait for, once it has no name.
    pub(crate) fn holding(self, hold: &Arc<Hold>) -> File {
        File { hold: Some(Arc::clone(hold)), ..self }
    }

    /// What says whether it is still open, if it is of a tree.
    pub(crate) fn hold(&self) -> Option<&Arc<Hold>> {
        self.hold.as_ref()
    }

    /// A directory, which stands for the files in it.
    pub(crate) fn directory(file: fs::File) -> File {
        File { is_directory: true, ..File::of_tree(file, false) }
    }

    /// The file itself.
    pub(crate) fn std(&self) -> &fs::File {
        &self.file
    }

    /// Its size when it was opened.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Whether it is a block device.
    pub fn is_block(&self) -> bool {
        self.is_block
    }

    /// Whether it is a directory, which stands for the files in it.
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// Whether it bypasses the page cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// The descriptor, for io_uring.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Reads all of it, however many calls that takes.
    ///
    /// # Errors
    /// What the system said; `UnexpectedEof` if the file has become shorter.
    pub fn read(&self, into: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, offset)
    }

    /// Writes all of it; with `durable` it is on the medium when this returns.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn write(&self, data: &[u8], offset: u64, durable: bool) -> io::Result<()> {
        let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        self.write_some(data, offset, flags).map_err(|(_, error)| error)
    }

    /// Writes all of it in that manner; an error of the system comes with what was written.
    pub(crate) fn write_some(
        &self,
        data: &[u8],
        offset: u64,
        flags: ReadWriteFlags,
    ) -> Result<(), (u64, io::Error)> {
        self.write_with(Patience::of(self.hold()), data, offset, flags)
    }

    /// The same, but never waits for space: for a thread that others wait for.
    pub(crate) fn write_now(
        &self,
        data: &[u8],
        offset: u64,
        flags: ReadWriteFlags,
    ) -> Result<(), (u64, io::Error)> {
        self.write_with(Patience::of(None), data, offset, flags)
    }

    fn write_with(
        &self,
        mut patience: Patience<'_>,
        data: &[u8],
        offset: u64,
        flags: ReadWriteFlags,
    ) -> Result<(), (u64, io::Error)> {
        let mut done = 0;
        while done < data.len() {
            let (rest, at) = (IoSlice::new(&data[done..]), offset + done as u64);
            match rustix::io::pwritev2(&self.file, &[rest], at, flags) {
                Ok(0) => return Err((done as u64, io::ErrorKind::WriteZero.into())),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                Err(error) if patience.allows(Some(error)) => {}
                Err(error) => return Err((done as u64, error.into())),
            }
        }
        Ok(())
    }

    /// Makes all finished writes durable.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn flush(&self) -> io::Result<()> {
        if self.is_directory {
            return Ok(rustix::fs::syncfs(&self.file)?);
        }
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    /// The same, and all attributes as well (`fsync`).
    ///
    /// # Errors
    /// The error of the system call.
    pub fn flush_all(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.file)?)
    }

    /// Carries out a request, blocking.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn perform(&self, op: Op, extent: Extent, fua: bool, buffer: &mut [u8]) -> io::Result<()> {
        let (offset, len) = (extent.offset().get(), extent.len().get());
        match op {
            Op::Read => return self.read(buffer, offset),
            Op::Write => return self.write(buffer, offset, fua),
            Op::Flush => return self.flush(),
            Op::Cache => return self.prefetch(offset, len),
            Op::Trim => self.trim(offset, len)?,
            Op::WriteZeroes => self.write_zeroes(offset, len)?,
        }
        if fua { self.flush() } else { Ok(()) }
    }

    /// Has the kernel write what is dirty in the range, and waits until the disk has it. Neither
    /// the metadata nor the disk's own cache is flushed: that is what [`File::flush`] is for.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn write_back(&self, extent: Extent) -> io::Result<()> {
        let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        let (offset, len) = (extent.offset().get(), extent.len().get());
        let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        loop {
            // SAFETY: a call on a descriptor that is open as long as `self`; no memory is passed.
            let done = unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, len, flags) };
            if done == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // A file system without it: everything, then.
                Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP | libc::ESPIPE) => {
                    return self.flush();
                }
                _ => return Err(error),
            }
        }
    }

    fn prefetch(&self, offset: u64, len: u64) -> io::Result<()> {
        let len = std::num::NonZeroU64::new(len);
        Ok(rustix::fs::fadvise(&self.file, offset, len, rustix::fs::Advice::WillNeed)?)
    }

    /// Gives the space back where the file system can; trimming is only advice.
    fn trim(&self, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the range zero: by the file system where it can, else by writing zeroes.
    fn write_zeroes(&self, offset: u64, len: u64) -> io::Result<()> {
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

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests;
