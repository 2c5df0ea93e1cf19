//! A second ring for direct reads of the device's own file: threads of clients submit into it.
//!
//! A request for the owner's ring is handed over, and the owner is woken for it. A connection's
//! thread that only hands over is done so quickly that it, too, is woken for each request that its
//! client sends, and the owner does all of the work: it submits, takes in, and answers. Here the
//! thread that has a read submits it, and a thread of the ring (the reaper) takes in completions
//! and answers.
//!
//! The kernel is not to wait for such a read (`RWF_NOWAIT`): when the system call returns, the disk
//! has the read, or it has ended with `EAGAIN`. Nothing is left to be carried out on behalf of the
//! thread that submitted, so nothing is cancelled when that thread ends. A read that ended so, or
//! short, or with an error other than the disk's, is handed to the owner's ring and done anew.
//!
//! # Limits
//! - Writes gain nothing: they stay with the owner.
//! - The kernel notes a completion in the context of the thread that submitted, and interrupts a
//!   wait of that thread to do so. So only threads that repeat interrupted waits may submit
//!   ([`may_submit_from_here`]); others leave their reads to the owner. While such a thread waits
//!   for the disk itself, completions of what it submitted wait with it.

use super::{Shared, is_passing};
use crate::io::{Completions, IoDone, IoRequest};
use io_uring::{IoUring, opcode, squeue};
use iopace_core::limits::WINDOW_DEPTH_MAX;
use iopace_core::request::Op;
use rustix::io::ReadWriteFlags;
use slab::Slab;
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};

/// The user data of the request that ends the reaper.
const STOP: u64 = u64::MAX;

/// Reads that go to the owner's ring after one for which the kernel would have had to wait: one in
/// 64 that is tried in vain costs less than 2 %.
const DETOURS: u32 = 64;

/// `IORING_ENTER_GETEVENTS`: the call waits for completions.
const GETEVENTS: u32 = 1;

thread_local! {
    static MAY_SUBMIT: Cell<bool> = const { Cell::new(false) };
}

/// This thread repeats each wait that is interrupted (`EINTR`), so it may submit by itself.
pub(crate) fn may_submit_from_here() {
    MAY_SUBMIT.set(true);
}

/// Reads that go to the owner's ring before one is tried here again.
#[derive(Debug, Default)]
struct Detours(AtomicU32);

impl Detours {
    /// The kernel would have had to wait for a read.
    fn begin(&self) {
        self.0.store(DETOURS, Relaxed);
    }

    /// Whether so many reads, which start together, go to the owner's ring.
    fn take(&self, count: usize) -> bool {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let less = |left: u32| (left > 0).then(|| left.saturating_sub(count));
        self.0.fetch_update(Relaxed, Relaxed, less).is_ok()
    }
}

/// The reads that the kernel works on.
type Inflight = Slab<IoRequest>;

struct Ring {
    ring: IoUring,
    shared: Arc<Shared>,
    /// Its lock also guards the submission queue. No system call is made under it.
    inflight: Mutex<Inflight>,
    detours: Detours,
}

/// The ring, and the thread that takes in completions.
pub(super) struct CommonRing {
    ring: Arc<Ring>,
    reaper: Option<JoinHandle<()>>,
}

impl CommonRing {
    /// A ring for reads of the file itself, which bypasses the page cache.
    pub(super) fn start(shared: &Arc<Shared>, to: Weak<dyn Completions>) -> io::Result<CommonRing> {
        // As for the owner's: neither queue overflows.
        let ring = IoUring::new(2 * WINDOW_DEPTH_MAX)?;
        let (shared, inflight) = (Arc::clone(shared), Mutex::default());
        let ring = Arc::new(Ring { ring, shared, inflight, detours: Detours::default() });
        let reaping = Arc::clone(&ring);
        let builder = thread::Builder::new().name("reaper".into());
        let reaper = Some(builder.spawn(move || reaping.reap(&to))?);
        Ok(CommonRing { ring, reaper })
    }

    /// Takes those of the requests that this thread may submit, with one system call for all.
    pub(super) fn submit(&self, requests: &mut Vec<IoRequest>) {
        if !MAY_SUBMIT.get() {
            return;
        }
        let count = requests.iter().filter(|request| is_plain_read(request)).count();
        if count > 0 && !self.ring.detours.take(count) {
            self.ring.add(requests.extract_if(.., |request| is_plain_read(request)));
            self.ring.enter();
        }
    }
}

impl Drop for CommonRing {
    /// The reaper ends when all is done. The last completion may itself end the device on it.
    fn drop(&mut self) {
        let stop = opcode::Nop::new().build().user_data(STOP);
        self.ring.push(&stop, &self.ring.lock());
        self.ring.enter();
        if let Some(reaper) = self.reaper.take()
            && reaper.thread().id() != thread::current().id()
        {
            let _ = reaper.join();
        }
    }
}

fn is_plain_read(request: &IoRequest) -> bool {
    request.op == Op::Read && request.target.is_none()
}

impl Ring {
    fn lock(&self) -> MutexGuard<'_, Inflight> {
        self.inflight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, reads: impl Iterator<Item = IoRequest>) {
        let mut inflight = self.lock();
        for read in reads {
            let key = inflight.insert(read);
            let entry = self.shared.entry(&mut inflight[key], ReadWriteFlags::NOWAIT);
            self.push(&entry.user_data(key as u64), &inflight);
        }
    }

    /// Adds an entry to the submission queue. The guard shows that its lock is held.
    fn push(&self, entry: &squeue::Entry, _inflight: &MutexGuard<'_, Inflight>) {
        // SAFETY: the submission queue is used under the lock of `inflight` only; the buffers that
        // entries name stay in `inflight` until their completions are reaped.
        let pushed = unsafe { self.ring.submission_shared().push(entry) };
        pushed.expect("twice the deepest window is not started at once");
    }

    /// Has the kernel take all entries, whichever thread has added them.
    fn enter(&self) {
        loop {
            match self.ring.submit() {
                Ok(_) => {}
                // The kernel is short of memory for a moment, or a signal came.
                Err(error) if is_passing(&error) => thread::yield_now(),
                Err(error) => panic!("io_uring no longer takes requests: {error}"),
            }
            let _inflight = self.lock();
            // SAFETY: as in `push`; also to look at the queue needs the lock, as that writes the
            // queue's end anew.
            if unsafe { self.ring.submission_shared() }.is_empty() {
                return;
            }
        }
    }

    /// Waits for a completion.
    fn wait(&self) {
        // SAFETY: no argument structure is passed; the call only waits.
        let waited = unsafe { self.ring.submitter().enter::<()>(0, 1, GETEVENTS, None) };
        if let Err(error) = waited {
            assert!(is_passing(&error), "io_uring no longer gives completions: {error}");
        }
    }

    /// The life of the reaper.
    fn reap(&self, to: &Weak<dyn Completions>) {
        may_submit_from_here();
        let (mut done, mut anew) = (Vec::new(), Vec::new());
        let mut is_stopping = false;
        loop {
            self.wait();
            let mut inflight = self.lock();
            // SAFETY: this thread is the only one that uses the completion queue.
            for entry in unsafe { self.ring.completion_shared() } {
                if entry.user_data() == STOP {
                    is_stopping = true;
                    continue;
                }
                let request = inflight.remove(entry.user_data() as usize);
                match ended(&request, entry.result()) {
                    Some(result) => done.push(IoDone { request, written: 0, result }),
                    None => anew.push(request),
                }
            }
            let is_idle = inflight.is_empty();
            drop(inflight);
            if !anew.is_empty() {
                self.detours.begin();
                self.shared.hand_over(&mut anew);
            }
            if let Some(to) = to.upgrade().filter(|_| !done.is_empty()) {
                to.completed(&mut done);
            }
            done.clear();
            if is_stopping && is_idle {
                return;
            }
        }
    }
}

/// How a read ended; `None` if it is to be done anew by the owner's ring.
fn ended(read: &IoRequest, result: i32) -> Option<io::Result<()>> {
    match usize::try_from(result) {
        Ok(count) => (count == read.buffer.len()).then_some(Ok(())),
        Err(_) => (result == -libc::EIO).then(|| Err(io::Error::from_raw_os_error(libc::EIO))),
    }
}

#[cfg(test)]
mod tests;
