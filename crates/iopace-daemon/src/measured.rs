//! A real file or block device, to be measured by `iopace calibrate`.

use crate::buffer::Buffer;
use crate::clock;
use crate::config::IoEngineChoice;
use crate::io::file::File;
use crate::io::{Completions, Disk, IoDone, IoRequest};
use iopace_core::group::Class;
use iopace_core::request::{DiskError, Extent, Outcome, RequestId};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use iopace_disk::calibrate::Measured;
use iopace_disk::{Command, Completion};
use rustix::fs::OFlags;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

/// What is looked at to see how much of a file is holes: that many pieces, then it is told from
/// those.
const PIECES_MAX: usize = 65_536;

/// Requests that the disk is done with, and when.
#[derive(Default)]
struct Done {
    queue: Mutex<VecDeque<(Instant, IoDone)>>,
    changed: Condvar,
}

impl Completions for Done {
    fn completed(&self, done: &mut Vec<IoDone>) {
        let now = clock::now();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.extend(done.drain(..).map(|one| (now, one)));
        drop(queue);
        self.changed.notify_one();
    }
}

/// A file or block device that is measured.
///
/// One request at a time is carried out by the caller's own thread, as in the daemon; several go
/// through io_uring, or a pool of threads.
pub struct RealDisk {
    file: Arc<File>,
    disk: Disk,
    done: Arc<Done>,
    /// Submitted, and not yet given to the disk.
    pending: Vec<IoRequest>,
    /// At the disk.
    started_count: usize,
    buffers: Vec<Buffer>,
    stop: Arc<AtomicBool>,
    /// Held while a block device is written: the kernel lets nobody mount it.
    _alone: Option<fs::File>,
}

impl std::fmt::Debug for RealDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RealDisk({:?})", self.file)
    }
}

impl RealDisk {
    /// Opens it: past the page cache where the file system can, and for writing only if
    /// `may_write`. Measuring ends early once `stop` is set.
    ///
    /// # Errors
    /// What the system said; `WouldBlock` if another process has it locked, `ResourceBusy` if it is
    /// to be written and is mounted.
    pub fn open(path: &Path, may_write: bool, stop: Arc<AtomicBool>) -> io::Result<RealDisk> {
        let is_block = fs::metadata(path)?.file_type().is_block_device();
        let alone = match may_write && is_block {
            true => Some(
                fs::OpenOptions::new()
                    .read(true)
                    .custom_flags(OFlags::EXCL.bits().cast_signed())
                    .open(path)?,
            ),
            false => None,
        };
        let file = match File::open(path, !may_write, true) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                File::open(path, !may_write, false)?
            }
            opened => opened?,
        };
        let file = Arc::new(file);
        let done = Arc::new(Done::default());
        let to: Weak<Done> = Arc::downgrade(&done);
        let disk = Disk::start(Arc::clone(&file), IoEngineChoice::Auto, to)?;
        let (pending, buffers) = (Vec::new(), Vec::new());
        let started_count = 0;
        Ok(RealDisk { file, disk, done, pending, started_count, buffers, stop, _alone: alone })
    }

    /// Whether the page cache has no part in it.
    pub fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    /// `io_uring` or `threads`.
    pub fn engine(&self) -> &'static str {
        self.disk.name()
    }

    /// How much of it is holes, in thousandths: what was never written does not reach the disk.
    ///
    /// # Errors
    /// What the system said.
    pub fn holes_permille(&self) -> io::Result<u64> {
        let size = self.file.size_bytes();
        let all = Extent::new(Bytes::ZERO, Bytes(size)).expect("from zero on");
        let pieces = self.file.allocation(all, PIECES_MAX)?;
        let seen: u64 = pieces.iter().map(|piece| piece.len_bytes).sum();
        let holes = pieces.iter().filter(|piece| piece.is_hole).map(|piece| piece.len_bytes);
        Ok((u128::from(holes.sum::<u64>()) * 1000 / u128::from(seen.max(1))) as u64)
    }

    fn request(&mut self, command: Command) -> IoRequest {
        let Command { id, op, extent, fua } = command;
        let mut buffer = self.buffers.pop().unwrap_or_default();
        // Content that a disk cannot compress or find again would need a generator as fast as the
        // disk; what an earlier read has left is no worse than most test data.
        buffer.resize(extent.len().get() as usize);
        IoRequest {
            id: RequestId::forge(id),
            key: id as usize,
            op,
            extent,
            fua,
            class: Class::default(),
            write_back: false,
            target: None,
            buffer,
        }
    }

    fn completion(&mut self, done: IoDone) -> Completion {
        let IoDone { request, result, .. } = done;
        let id = request.key as u64;
        self.buffers.push(request.buffer);
        let outcome = match result {
            Ok(()) => Outcome::Ok,
            Err(error) => Outcome::Failed(match error.kind() {
                io::ErrorKind::StorageFull => DiskError::NoSpace,
                io::ErrorKind::PermissionDenied => DiskError::NotPermitted,
                io::ErrorKind::Unsupported => DiskError::Unsupported,
                _ => DiskError::Io,
            }),
        };
        Completion { id, outcome }
    }
}

impl Measured for RealDisk {
    fn capacity(&self) -> Bytes {
        Bytes(self.file.size_bytes())
    }

    fn now(&self) -> Instant {
        clock::now()
    }

    fn submit(&mut self, command: Command) {
        let request = self.request(command);
        self.pending.push(request);
    }

    fn wait(&mut self) -> (Instant, Completion) {
        if self.started_count == 0 && self.pending.len() == 1 {
            let done = self.pending.pop().expect("one").carry_out(&self.file);
            let at = clock::now();
            return (at, self.completion(done));
        }
        self.started_count += self.pending.len();
        assert!(self.started_count > 0, "somebody waits for nothing");
        self.disk.start_all(&mut self.pending);
        let mut queue = self.done.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, done) = loop {
            match queue.pop_front() {
                Some(done) => break done,
                None => {
                    let waited = self.done.changed.wait(queue);
                    queue = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(queue);
        self.started_count -= 1;
        (at, self.completion(done))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::time::Nanos;
    use iopace_disk::calibrate::{Limits, Trouble, measure, plan};

    fn scratch() -> tempfile::NamedTempFile {
        let named = tempfile::NamedTempFile::new().expect("a temporary file");
        fs::write(named.path(), vec![7; 16 << 20]).expect("written");
        named
    }

    fn disk(named: &tempfile::NamedTempFile, may_write: bool, stopped: bool) -> RealDisk {
        let stop = Arc::new(AtomicBool::new(stopped));
        RealDisk::open(named.path(), may_write, stop).expect("opens")
    }

    #[test]
    fn every_step_gives_a_figure_on_a_real_file() {
        let named = scratch();
        let mut disk = disk(&named, true, false);
        assert_eq!((disk.capacity(), disk.holes_permille().ok()), (Bytes(16 << 20), Some(0)));
        let limits = Limits { time: Nanos::from_secs(10), requests_count: 40 };
        for step in plan(true) {
            let figure = measure(&mut disk, step, limits).expect("a figure");
            assert!(figure.value > 0 && figure.requests_count > 0, "{figure:?}");
            assert!(figure.low <= figure.high, "{figure:?}");
        }
    }

    #[test]
    fn what_is_not_to_be_written_is_not_and_a_stop_ends_a_step() {
        let named = scratch();
        let limits = Limits { time: Nanos::from_secs(10), requests_count: 40 };
        let mut read_only = disk(&named, false, false);
        let step = *plan(true).iter().find(|step| step.writes()).expect("one");
        let refused = measure(&mut read_only, step, limits);
        assert!(matches!(refused, Err(Trouble::Failed(..))), "{refused:?}");
        drop(read_only);
        assert!(fs::read(named.path()).expect("read").iter().all(|&byte| byte == 7));
        let mut stopped = disk(&named, false, true);
        assert_eq!(measure(&mut stopped, plan(false)[0], limits), Err(Trouble::Stopped));
    }

    #[test]
    fn holes_are_seen() {
        let named = tempfile::NamedTempFile::new().expect("a temporary file");
        named.as_file().set_len(16 << 20).expect("sparse");
        assert_eq!(disk(&named, false, false).holes_permille().ok(), Some(1000));
    }
}
