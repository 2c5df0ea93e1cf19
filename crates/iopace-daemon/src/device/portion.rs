//! A piece of a buffered write on its way into the page cache.
//!
//! The write's data goes with its portion while that is written, outside the device's lock: the
//! engine lets only one portion of a write go at a time.

use crate::buffer::Buffer;
use crate::io::file::File;
use crate::nbd::reply::{Job, Touched};
use iopace_core::engine::WriteId;
use iopace_core::request::Extent;
use iopace_core::units::Bytes;
use iopace_nbd::Error as NbdError;
use std::io;

/// A portion of a buffered write that may go into the page cache now.
#[derive(Debug)]
pub(crate) struct Portion {
    /// The engine's name for the write.
    pub(super) id: WriteId,
    /// The key of its job.
    pub(super) key: usize,
    /// The write itself with its last portion.
    pub(super) job: Option<Job>,
    /// All its data otherwise, which begins at that offset of the device.
    pub(super) buffer: Buffer,
    pub(super) base: Bytes,
    pub(super) extent: Extent,
    /// How it went.
    pub(super) failed: Option<io::Error>,
}

impl Portion {
    /// Writes it.
    pub(crate) fn write(&mut self, file: &File) {
        let (buffer, base) = match &self.job {
            Some(job) => (&job.buffer, job.extent.offset()),
            None => (&self.buffer, self.base),
        };
        let from = (self.extent.offset() - base).get() as usize;
        let data = &buffer.as_slice()[from..from + self.extent.len().get() as usize];
        self.failed = file.write(data, self.extent.offset().get(), false).err();
    }

    /// The device is gone: nobody will write it.
    pub(crate) fn give_up(self) {
        if let Some(job) = self.job {
            let mut touched = Touched::default();
            job.finish(Err(NbdError::Shutdown), &mut touched);
            touched.send();
        }
    }
}
