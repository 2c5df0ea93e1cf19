//! The disk of a file device, as the backend of its pump: all of it is left to be carried out.

use super::super::portion::Portion;
use super::super::shell::Inner;
use crate::answer::Touched;
use crate::buffer::Buffer;
use crate::io::IoDone;
use crate::io::target::Target;
use crate::job::{Job, disk_error};
use iopace_core::engine::{Input, Resume, Start};
use iopace_core::group::table::Groups;
use iopace_core::request::{Op, Outcome, Tag};
use iopace_core::time::{Instant, Nanos};
use iopace_disk::pump::{Backend, End};

/// The outputs of the engine that are to be carried out.
#[derive(Debug, Default)]
pub(crate) struct Drained {
    /// For the disk, with the data to write, and the file if it is not the device's own.
    pub(in crate::device) starts: Vec<(Start, Buffer, Option<Target>)>,
    /// For the page cache.
    pub(in crate::device) portions: Vec<Portion>,
    /// For the clients.
    pub(in crate::device) finished: Vec<(Job, Outcome)>,
    /// Sum and number of service times among them.
    pub(in crate::device) service: (Nanos, u64),
}

impl Drained {
    /// Answers what has finished.
    pub(in crate::device) fn finish(&mut self, touched: &mut Touched) {
        for (job, outcome) in self.finished.drain(..) {
            job.finish(outcome, touched);
        }
    }
}

/// A disk that is outside.
#[derive(Debug)]
pub(crate) struct RealDisk {
    /// Whether writes go through the page cache, and are paced.
    pub(in crate::device) buffered: bool,
}

impl Backend for RealDisk {
    type Request = Job;
    type Outside = Drained;

    fn arrive(&mut self, tag: Tag, job: &Job, _groups: &Groups) -> Option<Input> {
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

/// Takes a completion: the request gets its buffer back, and the engine hears of it.
pub(in crate::device) fn complete(
    inner: &mut Inner<RealDisk>,
    now: Instant,
    IoDone { request, written, result }: IoDone,
) {
    if request.write_back {
        inner.written_back += request.extent.len();
    } else {
        let job = &mut inner.pump.requests_mut()[request.key];
        job.buffer = request.buffer;
        job.progress.written += written;
        if let Err(error) = &result {
            job.progress.failed(error);
        }
    }
    let outcome = result.map_or_else(
        |error| {
            inner.events.failed(now, (request.op, request.extent), &error);
            Outcome::Failed(disk_error(&error))
        },
        |()| Outcome::Ok,
    );
    inner.pump.handle(now, Input::Done { id: request.id, outcome });
}
