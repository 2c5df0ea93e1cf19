//! The disk of a file device, as the backend of its pump: all of it is left to be carried out.

use super::super::portion::Portion;
use crate::answer::Touched;
use crate::buffer::Buffer;
use crate::io::target::Target;
use crate::job::Job;
use iopace_core::engine::{Input, Resume, Start};
use iopace_core::request::{Op, Outcome, Tag};
use iopace_core::time::{Instant, Nanos};
use iopace_disk::pump::{Backend, End};

/// The outputs of the engine that are to be carried out.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    /// For the disk, with the data to write, and the file if it is not the device's own.
    pub(super) starts: Vec<(Start, Buffer, Option<Target>)>,
    /// For the page cache.
    pub(super) portions: Vec<Portion>,
    /// For the clients.
    pub(super) finished: Vec<(Job, Outcome)>,
    /// Sum and number of service times among them.
    pub(super) service: (Nanos, u64),
}

impl Drained {
    /// Answers what has finished.
    pub(super) fn finish(&mut self, touched: &mut Touched) {
        for (job, outcome) in self.finished.drain(..) {
            job.finish(outcome, touched);
        }
    }
}

/// A disk that is outside.
#[derive(Debug)]
pub(crate) struct RealDisk {
    /// Whether writes go through the page cache, and are paced.
    pub(super) buffered: bool,
}

impl Backend for RealDisk {
    type Request = Job;
    type Outside = Drained;

    fn arrive(&mut self, tag: Tag, job: &Job) -> Option<Input> {
        Some(job.input(tag, self.buffered))
    }

    fn start(
        &mut self,
        _now: Instant,
        start: Start,
        job: Option<&mut Job>,
        drained: &mut Drained,
    ) -> bool {
        let (buffer, target) = match job {
            None => (Buffer::default(), None),
            Some(job) if !job.begin() => return false,
            Some(job) => (std::mem::take(&mut job.buffer), job.target.clone()),
        };
        drained.starts.push((start, buffer, target));
        true
    }

    fn resume(&mut self, resume: &Resume, job: &mut Job, drained: &mut Drained) -> bool {
        drained.portions.push(Portion::of(resume, job));
        false
    }

    fn end(&mut self, job: Job, end: End, drained: &mut Drained) {
        // The time of a flush is not that of a transfer, nor is that of a refusal.
        if job.op != Op::Flush && end.times.disk > Nanos::ZERO {
            drained.service.0 += end.times.disk;
            drained.service.1 += 1;
        }
        drained.finished.push((job, end.outcome));
    }
}
