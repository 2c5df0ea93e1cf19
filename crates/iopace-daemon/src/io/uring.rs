//! Reads and writes through io_uring: any thread submits, one thread reaps.
//!
//! The kernel owns a request's buffer from submission to completion. The buffer lives in `inflight`
//! for that time and nobody touches it there, so its memory stays where it is.

use super::file::File;
use super::pool::Pool;
use super::{Completions, IoDone, IoRequest};
use io_uring::{IoUring, opcode, squeue, types};
use iopace_core::limits::WINDOW_DEPTH_MAX;
use iopace_core::request::Op;
use rustix::io::ReadWriteFlags;
use slab::Slab;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

/// The user data of the request that ends the reaper.
const STOP: u64 = u64::MAX;

struct Shared {
    ring: IoUring,
    file: Arc<File>,
    /// Carries out what this ring cannot.
    slow: Arc<Pool<IoRequest>>,
    /// What the kernel works on; its lock also guards the submission queue.
    inflight: Mutex<Slab<IoRequest>>,
}

/// A ring and its reaper.
pub(super) struct Uring {
    shared: Arc<Shared>,
    reaper: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Uring")
    }
}

impl Uring {
    pub(super) fn start(
        file: Arc<File>,
        to: Weak<dyn Completions>,
        slow: &Arc<Pool<IoRequest>>,
    ) -> io::Result<Uring> {
        // Twice the deepest window: the completion queue is twice that again, so neither overflows.
        let ring = IoUring::new(2 * WINDOW_DEPTH_MAX)?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let shared =
            Arc::new(Shared { ring, file, slow: Arc::clone(slow), inflight: Mutex::default() });
        let reaping = Arc::clone(&shared);
        let builder = thread::Builder::new().name("reaper".into());
        let reaper = builder.spawn(move || reap(&reaping, &to))?;
        Ok(Uring { shared, reaper: Some(reaper) })
    }

    /// Submits all, with one system call.
    pub(super) fn submit(&self, requests: &mut Vec<IoRequest>) {
        let mut inflight = self.shared.inflight.lock().unwrap_or_else(PoisonError::into_inner);
        let entries: Vec<squeue::Entry> = requests
            .drain(..)
            .map(|request| {
                let key = inflight.insert(request);
                self.shared.entry(&mut inflight[key]).user_data(key as u64)
            })
            .collect();
        self.shared.push(&entries);
        drop(inflight);
    }
}

impl Shared {
    fn entry(&self, request: &mut IoRequest) -> squeue::Entry {
        if let Some(target) = &mut request.target {
            target.choose(request.buffer.len());
        }
        let (file, offset) = match &request.target {
            Some(target) => (target.first(), target.offset),
            None => (&*self.file, request.extent.offset().get()),
        };
        let fd = types::Fd(file.fd().as_raw_fd());
        let len = u32::try_from(request.buffer.len()).expect("requests are at most 32 MiB");
        let data = request.buffer.as_mut_slice().as_mut_ptr();
        match request.op {
            Op::Read => opcode::Read::new(fd, data, len).offset(offset).build(),
            Op::Write => {
                let flags = flags(request).bits();
                opcode::Write::new(fd, data, len)
                    .offset(offset)
                    .rw_flags(flags.cast_signed())
                    .build()
            }
            _ => unreachable!("only reads and writes come here"),
        }
    }

    /// Puts entries into the submission queue and tells the kernel. The caller holds `inflight`.
    fn push(&self, entries: &[squeue::Entry]) {
        // SAFETY: every use of the submission queue is under the lock of `inflight`; buffers named
        // by the entries stay in `inflight` until their completions are reaped.
        unsafe {
            self.ring.submission_shared().push_multiple(entries).expect("the ring has room");
        }
        let mut left = entries.len();
        while left > 0 {
            match self.ring.submit() {
                Ok(taken) => left = left.saturating_sub(taken.max(1)),
                // The kernel is short of memory for a moment, or a signal came.
                Err(error) if is_passing(&error) => thread::yield_now(),
                Err(error) => panic!("io_uring no longer takes requests: {error}"),
            }
        }
    }
}

/// In what manner a write is carried out.
fn flags(request: &IoRequest) -> ReadWriteFlags {
    let mut flags = ReadWriteFlags::empty();
    flags.set(ReadWriteFlags::DSYNC, request.fua);
    let append = request.target.as_ref().is_some_and(|target| target.append);
    flags.set(ReadWriteFlags::APPEND, append);
    flags
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock)
}

/// Waits for completions and passes them on in batches.
fn reap(shared: &Shared, to: &Weak<dyn Completions>) {
    let mut done = Vec::new();
    let mut stopping = false;
    loop {
        wait(&shared.ring);
        // SAFETY: this thread is the only one that uses the completion queue.
        let completions = unsafe { shared.ring.completion_shared() };
        let finished: Vec<(u64, i32)> =
            completions.map(|entry| (entry.user_data(), entry.result())).collect();
        let mut inflight = shared.inflight.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, result) in finished {
            if key == STOP {
                stopping = true;
                continue;
            }
            let request = inflight.remove(key as usize);
            done.push((request, result));
        }
        let idle = inflight.is_empty();
        drop(inflight);
        let mut all: Vec<IoDone> = done.drain(..).filter_map(|d| settle(shared, d)).collect();
        if let Some(to) = to.upgrade().filter(|_| !all.is_empty()) {
            to.completed(&mut all);
        }
        if stopping && idle {
            return;
        }
    }
}

fn wait(ring: &IoUring) {
    // SAFETY: no argument structure is passed; the call only waits.
    let waited = unsafe { ring.submitter().enter::<()>(0, 1, 1, None) };
    if let Err(error) = waited {
        assert!(is_passing(&error), "io_uring no longer gives completions: {error}");
    }
}

/// A short transfer is completed with ordinary calls; they are rare (a signal, the end of a file).
/// What was to pass the page cache and cannot is read anew by another thread, as that may take long
/// and all others wait for this one: then there is no completion yet. The same with a write that
/// waits for space.
fn settle(shared: &Shared, (mut request, result): (IoRequest, i32)) -> Option<IoDone> {
    let mut written = 0;
    if let Some(past) = request.target.as_mut().and_then(|target| target.past_cache.take()) {
        let read = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        let Some(read) = past.settled(read, request.buffer.len()) else {
            shared.slow.submit(vec![request]);
            return None;
        };
        let result = read.map(|count| request.buffer.resize(count));
        return Some(IoDone { request, written, result });
    }
    if may_have_space(&request, result) {
        shared.slow.submit(vec![request]);
        return None;
    }
    let result = match usize::try_from(result) {
        Err(_) => Err(io::Error::from_raw_os_error(-result)),
        Ok(count) if count == request.buffer.len() => Ok(()),
        Ok(count) => match rest(shared, &mut request, count) {
            Ok(()) => Ok(()),
            Err((more, error)) => {
                written = count as u64 + more;
                Err(error)
            }
        },
    };
    Some(IoDone { request, written, result })
}

/// Whether a write found no space, or not enough, and some is about to come free. Then it is done
/// anew, all of it, which is the same unless it was to the end of the file.
fn may_have_space(request: &IoRequest, result: i32) -> bool {
    let done = usize::try_from(result);
    let lacks = match done {
        Ok(done) => done < request.buffer.len(),
        Err(_) => [-libc::ENOSPC, -libc::EDQUOT].contains(&result),
    };
    let target = request
        .target
        .as_ref()
        .filter(|target| lacks && request.op == Op::Write && !(done.is_ok() && target.append));
    target.and_then(|target| target.file.hold()).is_some_and(|hold| hold.may_wait())
}

/// What is left of a transfer of which so many bytes are done.
fn rest(shared: &Shared, request: &mut IoRequest, done: usize) -> Result<(), (u64, io::Error)> {
    let (fua, op) = (request.fua, request.op);
    match (&request.target, op) {
        (Some(target), Op::Read) => {
            target.read_from(done, &mut request.buffer).map_err(|error| (0, error))
        }
        (Some(target), _) => {
            let data = &request.buffer.as_slice()[done..];
            target.write_from(done as u64, data.len() as u64, fua, data)
        }
        (None, _) => {
            let offset = request.extent.offset().get() + done as u64;
            let flags = flags(request);
            let data = &mut request.buffer.as_mut_slice()[done..];
            match op {
                Op::Read => shared.file.read(data, offset).map_err(|error| (0, error)),
                _ => shared.file.write_some(data, offset, flags),
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let inflight = self.shared.inflight.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.push(&[opcode::Nop::new().build().user_data(STOP)]);
        drop(inflight);
        if let Some(reaper) = self.reaper.take()
            && reaper.thread().id() != thread::current().id()
        {
            let _ = reaper.join();
        }
    }
}
