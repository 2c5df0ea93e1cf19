//! An open image file or block device, and each operation on it.

mod space;

pub use space::Allocation;

use super::pending_space::{Hold, Patience};
use super::untold::Untold;
use super::{image, lock};
use crate::limits::DIRECT_BLOCK_BYTES;
use iopace_core::request::{Extent, Op};
use rustix::fs::{FlockOperation, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use std::any::Any;
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// An open file or block device.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    size_bytes: AtomicU64,
    is_block: bool,
    is_directory: bool,
    direct: bool,
    /// Smallest request, and what its place is a multiple of, in bytes.
    block_bytes: u32,
    /// What was not told of its write-back; `None` if we write nothing back by it.
    untold: Option<Arc<Untold>>,
    /// Let go after the descriptor: the last field.
    hold: Option<Arc<Hold>>,
}

impl File {
    /// Opens it and takes its lock, waiting for one that is just going (`io/lock.rs`).
    ///
    /// # Errors
    /// What the system said; `WouldBlock` if another daemon holds the lock, `ResourceBusy` if
    /// somebody else has it to write (`io/image.rs`).
    pub fn open(path: &Path, read_only: bool, direct: bool) -> io::Result<File> {
        // Somebody may have put a FIFO there, whose other end nobody opens.
        let mut flags = OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags.set(OFlags::DIRECT, direct);
        let is_block = fs::metadata(path)?.file_type().is_block_device();
        flags.set(OFlags::EXCL, is_block && !read_only);
        let mut options = fs::OpenOptions::new();
        options.read(true).write(!read_only).custom_flags(flags.bits().cast_signed());
        let opened = lock::patiently(io::ErrorKind::ResourceBusy, || options.open(path));
        let file = opened.map_err(|error| image::claimed(path, error))?;
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let message = "neither a regular file nor a block device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
        lock::wait(&file, read_only)?;
        if kind.is_file() && !read_only {
            image::claim(&file)?;
        }
        let is_block = kind.is_block_device();
        let size_bytes = rustix::fs::seek(&file, SeekFrom::End(0))?;
        if image::format(&file).is_none() {
            image::warn(path, size_bytes);
        }
        let untold = Some(Arc::default());
        let block_bytes = match (direct, is_block) {
            (false, _) => 1,
            (true, false) => DIRECT_BLOCK_BYTES as u32,
            (true, true) => rustix::fs::ioctl_blksszget(&file)?,
        };
        Ok(File { direct, is_block, block_bytes, untold, ..File::adopt(file, size_bytes) })
    }

    /// The format of an image that is more than the bytes of a disk.
    pub(crate) fn format(&self) -> Option<&'static str> {
        image::format(&self.file)
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
        let (is_block, untold) = (self.is_block, self.untold.clone());
        Ok(File { is_block, untold, ..File::adopt(file, self.size_bytes()) })
    }

    /// An open file of our own making (the store of an emulated disk).
    pub(crate) fn adopt(file: fs::File, size_bytes: u64) -> File {
        File {
            file,
            size_bytes: AtomicU64::new(size_bytes),
            is_block: false,
            is_directory: false,
            direct: false,
            block_bytes: 1,
            untold: None,
            hold: None,
        }
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

    /// The same of a file of which something may be written back.
    pub(crate) fn telling(self, untold: &Arc<Untold>) -> File {
        File { untold: Some(Arc::clone(untold)), ..self }
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

    /// Its size in bytes when it was opened, or as it was set since.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Relaxed)
    }

    /// The length of the file or block device by now, in bytes.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(rustix::fs::seek(&self.file, SeekFrom::End(0))?)
    }

    /// It is of so many bytes from now on.
    pub(crate) fn set_size(&self, bytes: u64) {
        self.size_bytes.store(bytes, Relaxed);
    }

    /// Gives the lock away: nobody writes by it any more. As long as the result can be upgraded,
    /// this or the same file, opened once more, is not closed.
    pub(crate) fn let_go(&self) -> Weak<dyn Any + Send + Sync> {
        if let Err(error) = rustix::fs::flock(&self.file, FlockOperation::Unlock) {
            tracing::debug!(%error, "the lock of a file goes with the file only");
        }
        match &self.untold {
            Some(untold) => {
                let open: Weak<Untold> = Arc::downgrade(untold);
                open
            }
            None => Weak::<()>::new(),
        }
    }

    /// Smallest request in bytes, and what its place is a multiple of: past the page cache a sector
    /// of a block device, or [`DIRECT_BLOCK_BYTES`] of a file.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
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
    /// The error of the system call, or one of a write-back that nobody was told of.
    pub fn flush(&self) -> io::Result<()> {
        self.told(self.sync())
    }

    /// The same, and all attributes as well (`fsync`).
    ///
    /// # Errors
    /// As for [`File::flush`].
    pub fn flush_all(&self) -> io::Result<()> {
        self.told(rustix::fs::fsync(&self.file).map_err(io::Error::from))
    }

    fn told(&self, flushed: io::Result<()>) -> io::Result<()> {
        match &self.untold {
            Some(untold) => untold.tell(flushed),
            None => flushed,
        }
    }

    fn sync(&self) -> io::Result<()> {
        if self.is_directory {
            return Ok(rustix::fs::syncfs(&self.file)?);
        }
        Ok(rustix::fs::fdatasync(&self.file)?)
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
        let written = self.write_range(extent);
        if let (Err(error), Some(untold)) = (&written, &self.untold) {
            untold.note(error);
        }
        written
    }

    fn write_range(&self, extent: Extent) -> io::Result<()> {
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
                    return self.sync();
                }
                _ => return Err(error),
            }
        }
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests;
