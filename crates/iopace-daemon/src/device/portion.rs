//! A piece of a buffered write on its way into the page cache.
//!
//! The write's data goes with its portion while that is written, outside the device's lock: the
//! engine lets only one portion of a write go at a time.

use crate::answer::Waiter;
use crate::buffer::Buffer;
use crate::io::file::File;
use crate::io::target::Target;
use crate::job::Job;
use iopace_core::engine::{Resume, WriteId};
use iopace_core::request::Extent;
use iopace_core::units::Bytes;
use rustix::io::ReadWriteFlags;
use std::io;
use std::sync::Arc;

/// A portion of a buffered write that may go into the page cache now.
#[derive(Debug)]
pub(crate) struct Portion {
    /// The engine's name for the write.
    pub(super) id: WriteId,
    /// The key of its job.
    pub(super) key: usize,
    /// Whether nothing of the write is left after it.
    pub(super) last: bool,
    /// All data of the write, which begins at that offset of the device.
    pub(super) buffer: Buffer,
    base: Bytes,
    pub(super) extent: Extent,
    /// The file that the write is for, if it is not the device's own.
    target: Option<Target>,
    /// Who waits for the write, if he may be killed meanwhile.
    waiter: Option<Arc<dyn Waiter>>,
    /// How it went: what was written before an error.
    pub(super) failed: Option<(u64, io::Error)>,
}

impl Portion {
    /// A portion that may go on, of that write.
    pub(super) fn of(resume: &Resume, job: &mut Job) -> Portion {
        Portion {
            id: resume.id,
            key: resume.tag.0 as usize,
            last: resume.last,
            buffer: std::mem::take(&mut job.buffer),
            base: job.extent.offset(),
            extent: resume.extent,
            target: job.target.clone(),
            waiter: job.waiter(),
            failed: None,
        }
    }

    /// Writes it, if anybody still waits for it.
    pub(crate) fn write(&mut self, file: &File) {
        if self.waiter.as_ref().is_some_and(|waiter| !waiter.begin()) {
            self.failed = Some((0, io::ErrorKind::Interrupted.into()));
            return;
        }
        let (from, len) = ((self.extent.offset() - self.base).get(), self.extent.len().get());
        // What is copied from another file has no data of its own.
        let range = from as usize..(from + len) as usize;
        let data = self.buffer.as_slice().get(range).unwrap_or_default();
        let written = match &self.target {
            Some(target) => target.write_from(from, len, false, data),
            None => file.write_some(data, self.extent.offset().get(), ReadWriteFlags::empty()),
        };
        self.failed = written.err();
        if let Some(waiter) = &self.waiter {
            waiter.has_ended();
        }
    }
}
