//! An error of write-back that no program has heard of yet.
//!
//! Linux tells of one to whoever has the file open, and if none of those has asked by then, to
//! whoever opens it later (`errseq_sample`). Here we have asked first: writing a range back tells
//! our own descriptor, and that counts as told. So it is kept, for the next flush of the file.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering::SeqCst};

/// The number of the error, or 0. Shared by all open files of one file.
#[derive(Debug, Default)]
pub(crate) struct Untold(AtomicI32);

impl Untold {
    /// Write-back has failed, and only we have heard of it.
    pub(super) fn note(&self, error: &io::Error) {
        self.0.store(error.raw_os_error().unwrap_or(libc::EIO), SeqCst);
    }

    /// How a flush ended for the program that asked for it. A descriptor that was open before the
    /// failure hears of it from the kernel; then, too, somebody has heard.
    pub(super) fn tell(&self, flushed: io::Result<()>) -> io::Result<()> {
        match self.0.swap(0, SeqCst) {
            0 => flushed,
            errno => flushed.and_then(|()| Err(io::Error::from_raw_os_error(errno))),
        }
    }

    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        self.0.load(SeqCst) == 0
    }
}
