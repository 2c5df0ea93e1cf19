//! A piece of a buffered write on its way into the page cache.
//!
//! The write's data goes with its portion while that is written, outside the device's lock: the
//! engine lets only one portion of a write go at a time.

use crate::buffer::Buffer;
use crate::fuse::held::Waiter;
use crate::io::file::File;
use crate::io::target::Target;
use crate::job::Job;
use crate::nbd::reply::Touched;
use iopace_core::engine::WriteId;
use iopace_core::request::{DiskError, Extent, Outcome};
use iopace_core::units::Bytes;
use rustix::io::ReadWriteFlags;
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
    /// The file that the write is for, if it is not the device's own.
    pub(super) target: Option<Target>,
    /// Who waits for the write, if he may be killed meanwhile.
    pub(super) waiter: Option<Waiter>,
    /// How it went: what was written before an error.
    pub(super) failed: Option<(u64, io::Error)>,
}

impl Portion {
    /// Writes it, if anybody still waits for it.
    pub(crate) fn write(&mut self, file: &File) {
        if self.waiter.as_ref().is_some_and(|waiter| !waiter.begin()) {
            self.failed = Some((0, io::ErrorKind::Interrupted.into()));
            return;
        }
        let (buffer, base) = match &self.job {
            Some(job) => (&job.buffer, job.extent.offset()),
            None => (&self.buffer, self.base),
        };
        let (from, len) = ((self.extent.offset() - base).get(), self.extent.len().get());
        // What is copied from another file has no data of its own.
        let range = from as usize..(from + len) as usize;
        let data = buffer.as_slice().get(range).unwrap_or_default();
        let written = match &self.target {
            Some(target) => target.write_from(from, len, false, data),
            None => file.write_some(data, self.extent.offset().get(), ReadWriteFlags::empty()),
        };
        self.failed = written.err();
        if let Some(waiter) = &self.waiter {
            waiter.has_ended();
        }
    }

    /// The device is gone: nobody will write it.
    pub(crate) fn give_up(self) {
        if let Some(job) = self.job {
            let mut touched = Touched::default();
            job.finish(Outcome::Failed(DiskError::Gone), &mut touched);
            touched.send();
        }
    }
}
