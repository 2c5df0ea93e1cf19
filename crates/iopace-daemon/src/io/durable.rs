//! Open files for durable writes, one for each write that is under way, and for flushes.
//!
//! The kernel counts the failed write-backs of a file and tells each open file once that there were
//! any, at its next sync (`errseq_t`). Of two durable writes by way of one open file whose pages
//! cannot be written, the one that looks first gets the error of both, and the other one succeeds.
//! So each has an open file to itself while it is carried out, and gets the error of its own pages.

use super::file::File;
use super::target::Target;
use super::{IoDone, IoRequest};
use iopace_core::request::Op;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most open files that wait for the next write: as many as are under way at once on a deep queue.
const IDLE_MAX: usize = 32;

/// The open files of a device that are not in use.
#[derive(Debug, Default)]
pub(crate) struct DurableFiles(Mutex<Idle>);

#[derive(Debug, Default)]
struct Idle {
    /// Failures so far. An open file from before one would tell of it, whoever asks next.
    failures_count: u64,
    files: Vec<Arc<File>>,
}

impl DurableFiles {
    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a durable request on a device's own file, which goes through the page cache, an open
    /// file to itself. Without one it is carried out all the same, but may not hear of a failure.
    pub(crate) fn lend(&self, (device, file): (&str, &File), request: &mut IoRequest) {
        if !request.fua || request.target.is_some() {
            return;
        }
        let (failures_count, idle) = {
            let mut idle = self.lock();
            (idle.failures_count, idle.files.pop())
        };
        match idle.map_or_else(|| file.once_more_to_write().map(Arc::new), Ok) {
            Ok(file) => {
                let mut target = Target::new(file, request.extent.offset().get());
                target.lent = Some(failures_count);
                request.target = Some(target);
            }
            Err(error) => tracing::warn!(
                device,
                %error,
                "cannot be opened once more: of durable writes that fail at once, one is told"
            ),
        }
    }

    /// Takes it back, and forgets all from before a failure.
    pub(crate) fn take_back(&self, done: &mut IoDone) {
        let request = &mut done.request;
        let lent = request.target.take_if(|target| target.lent.is_some());
        let syncs = request.fua || request.write_back || request.op == Op::Flush;
        let has_failed = syncs && done.result.is_err();
        if lent.is_none() && !has_failed {
            return;
        }
        let mut idle = self.lock();
        let mut closed = Vec::new();
        if has_failed {
            idle.failures_count += 1;
            closed.append(&mut idle.files);
        }
        if let Some(Target { file, lent: Some(count), .. }) = lent {
            let is_kept = count == idle.failures_count && idle.files.len() < IDLE_MAX;
            if is_kept { &mut idle.files } else { &mut closed }.push(file);
        }
        // They are closed without the lock: a file system may take its time.
        drop(idle);
    }
}

/// A client comes: what its flushes are carried out on.
pub(crate) fn for_flushes((device, file): (&str, &File)) -> Option<Target> {
    match file.once_more() {
        Ok(file) => {
            let mut target = Target::new(Arc::new(file), 0);
            target.data_only = true;
            Some(target)
        }
        Err(error) => {
            tracing::warn!(
                device,
                %error,
                "cannot be opened once more: of a failed write-back, only the first client that \
                 flushes is told"
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffer;
    use iopace_core::group::Class;
    use iopace_core::request::{Extent, RequestId};
    use iopace_core::units::Bytes;
    use std::io;

    fn request() -> IoRequest {
        IoRequest {
            id: RequestId::forge(1),
            key: 0,
            op: Op::Write,
            extent: Extent::new(Bytes(4096), Bytes(4096)).expect("small"),
            class: Class::default(),
            fua: true,
            write_back: false,
            target: None,
            buffer: Buffer::new(4096),
        }
    }

    fn done(request: IoRequest, result: io::Result<()>) -> IoDone {
        IoDone { request, written: 0, result }
    }

    #[test]
    fn each_has_one_to_itself_and_none_is_used_after_a_failure() {
        let named = tempfile::NamedTempFile::new().expect("a temporary file");
        named.as_file().set_len(1 << 20).expect("sparse");
        let file = File::open(named.path(), false, false).expect("opens");
        let files = DurableFiles::default();
        let lend = || {
            let mut request = request();
            files.lend(("disk", &file), &mut request);
            request
        };
        let of =
            |request: &IoRequest| Arc::as_ptr(&request.target.as_ref().expect("it has one").file);
        let (first, second) = (lend(), lend());
        assert_ne!(of(&first), of(&second));
        let used = of(&first);
        files.take_back(&mut done(first, Ok(())));
        let third = lend();
        assert_eq!(of(&third), used, "it is used again");
        files.take_back(&mut done(third, Ok(())));
        files.take_back(&mut done(second, Err(io::ErrorKind::Other.into())));
        assert!(files.lock().files.is_empty(), "they would tell of the failure");
        let under_way = lend();
        let mut flush = IoRequest { op: Op::Flush, fua: false, ..request() };
        flush.target = Some(Target::new(Arc::new(file.once_more().expect("opens")), 0));
        files.take_back(&mut done(flush, Err(io::ErrorKind::Other.into())));
        files.take_back(&mut done(under_way, Ok(())));
        assert!(files.lock().files.is_empty(), "it was open before the failure");
    }
}
