//! Reads and writes through io_uring: one thread owns the ring, submits and reaps.
//!
//! The kernel carries out parts of a request on behalf of the thread that submitted it (its worker
//! threads, the copy out of the page cache), and cancels what is left when that thread ends. A
//! connection's thread ends with its client, and the requests that it starts are often those of
//! others. So no such thread submits: it puts requests into a queue, and wakes the ring's owner if
//! that waits. While the owner is at work, requests are only queued: the system call with which it
//! waits for completions submits them. Direct reads of the device's own file leave nothing to be
//! carried out, so a second ring takes them from the threads that have them (`common.rs`).
//!
//! The kernel owns a request's buffer from submission to completion. The buffer lives in `inflight`
//! for that time and nobody touches it there, so its memory stays where it is.

pub(super) mod common;

use super::file::File;
use super::pool::Pool;
use super::priority;
use super::{Completions, IoDone, IoRequest};
use crate::limits::POOL_THREADS;
use common::CommonRing;
use io_uring::{IoUring, opcode, squeue, types};
use iopace_core::group::Class;
use iopace_core::limits::WINDOW_DEPTH_MAX;
use iopace_core::request::Op;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{ReadWriteFlags, retry_on_intr};
use slab::Slab;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};

/// The user data of the read that ends when the owner of the ring is woken.
const WAKE: u64 = u64::MAX;

/// The bytes of one value of an eventfd.
const WAKE_BYTES: u32 = 8;

/// The kernel reads the values of all eventfds into this; nobody looks at them. It lives for ever,
/// so a read that is cancelled late does no harm.
static WAKE_VALUE: AtomicU64 = AtomicU64::new(0);

/// Requests on their way to the owner of the ring. Bounded by the engine's window: only started
/// requests come here.
#[derive(Default)]
struct Queue {
    requests: Vec<IoRequest>,
    /// Whether the owner waits for completions, or is about to: who adds a request wakes it.
    is_asleep: bool,
    is_closed: bool,
}

struct Shared {
    file: Arc<File>,
    /// Carries out what this ring cannot.
    slow: Arc<Pool<IoRequest>>,
    queue: Mutex<Queue>,
    /// An eventfd that wakes the owner.
    wake: OwnedFd,
    /// The kernel refuses a request of that class otherwise.
    may_be_real_time: bool,
}

/// A ring and the thread that owns it.
pub(super) struct Uring {
    shared: Arc<Shared>,
    /// For direct reads of the file itself.
    common: Option<CommonRing>,
    owner: Option<JoinHandle<()>>,
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
        let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (slow, queue) = (Arc::clone(slow), Mutex::default());
        let may_be_real_time = priority::may_be_real_time();
        let shared = Arc::new(Shared { file, slow, queue, wake, may_be_real_time });
        let (started, result) = sync_channel(1);
        let owned = Arc::clone(&shared);
        let reported_to = to.clone();
        let builder = thread::Builder::new().name("ring".into());
        let owner = builder.spawn(move || own(&owned, &to, &started))?;
        result.recv().map_err(|_| io::ErrorKind::Unsupported)??;
        let mut uring = Uring { shared, common: None, owner: Some(owner) };
        if uring.shared.file.is_direct() {
            // Without it the owner of the ring takes all.
            uring.common = CommonRing::start(&uring.shared, reported_to).ok();
        }
        Ok(uring)
    }

    /// Takes requests: this thread submits those that it may, the owner of the ring all others. No
    /// system call wakes an owner that is at work.
    pub(super) fn submit(&self, requests: &mut Vec<IoRequest>) {
        if let Some(common) = &self.common {
            common.submit(requests);
            if requests.is_empty() {
                return;
            }
        }
        for request in requests.iter_mut() {
            let len = request.buffer.len();
            if let Some(target) = &mut request.target {
                target.choose(len);
            }
        }
        self.shared.hand_over(requests);
    }
}

impl Drop for Uring {
    /// The owner ends when all is done. The last completion may itself end the device on it.
    fn drop(&mut self) {
        // Until it has ended, it hands requests to the owner.
        self.common = None;
        let mut queue = self.shared.lock();
        queue.is_closed = true;
        self.shared.wake(queue);
        if let Some(owner) = self.owner.take()
            && owner.thread().id() != thread::current().id()
        {
            let _ = owner.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands requests to the owner of the ring.
    fn hand_over(&self, requests: &mut Vec<IoRequest>) {
        let mut queue = self.lock();
        queue.requests.append(requests);
        self.wake(queue);
    }

    /// Wakes the owner of the ring, once, if it does not look at the queue by itself.
    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        let is_asleep = std::mem::take(&mut queue.is_asleep);
        drop(queue);
        if is_asleep {
            let one = 1u64.to_ne_bytes();
            let written = retry_on_intr(|| rustix::io::write(&self.wake, &one));
            written.expect("an eventfd takes a value");
        }
    }

    /// Takes what was queued; from now on the owner of the ring has to be woken. False when no more
    /// will come.
    fn take(&self, into: &mut Vec<IoRequest>) -> bool {
        let mut queue = self.lock();
        std::mem::swap(into, &mut queue.requests);
        queue.is_asleep = true;
        !queue.is_closed
    }

    /// The entry that asks the kernel for a request; `reads`: the manner in which it reads.
    fn entry(&self, request: &mut IoRequest, reads: ReadWriteFlags) -> squeue::Entry {
        let class = request.class;
        let is_allowed = class != Class::RealTime || self.may_be_real_time;
        let ioprio = if is_allowed { priority::of(class) } else { 0 };
        let (file, offset) = match &request.target {
            Some(target) => (target.first(), target.offset),
            None => (&*self.file, request.extent.offset().get()),
        };
        let fd = types::Fd(file.fd().as_raw_fd());
        let len = u32::try_from(request.buffer.len()).expect("requests are at most 64 MiB");
        let data = request.buffer.as_mut_slice().as_mut_ptr();
        match request.op {
            Op::Read => opcode::Read::new(fd, data, len)
                .offset(offset)
                .ioprio(ioprio)
                .rw_flags(reads.bits().cast_signed())
                .build(),
            Op::Write => {
                let flags = flags(request).bits();
                opcode::Write::new(fd, data, len)
                    .offset(offset)
                    .ioprio(ioprio)
                    .rw_flags(flags.cast_signed())
                    .build()
            }
            _ => unreachable!("only reads and writes come here"),
        }
    }
}

/// The ring as its owner sees it.
struct Ring {
    ring: IoUring,
    /// What the kernel works on.
    inflight: Slab<IoRequest>,
    /// Whether the read of the eventfd is under way.
    is_armed: bool,
}

impl Ring {
    /// A ring for the thread that calls this.
    fn new() -> io::Result<Ring> {
        // Twice the deepest window: the completion queue is twice that again, so neither overflows.
        let entries = 2 * WINDOW_DEPTH_MAX;
        // Completions are taken in by the owner when it waits, without interrupting it (Linux 6.1).
        let deferred =
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
        let ring = deferred.or_else(|_| IoUring::new(entries))?;
        let mut probe = io_uring::Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // The kernel's workers, for files that can only be asked by waiting for them: as many as
        // there were threads otherwise. Its default is four for each processor, and older kernels
        // stay at that.
        let _ = ring.submitter().register_iowq_max_workers(&mut [POOL_THREADS as u32, 0]);
        Ok(Ring { ring, inflight: Slab::new(), is_armed: false })
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: the buffers that entries name stay in `inflight` until their completions are
        // reaped; the value of an eventfd goes into a static.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.enter(0);
        }
    }

    /// Has the kernel take requests.
    fn add(&mut self, shared: &Shared, requests: &mut Vec<IoRequest>) {
        for request in requests.drain(..) {
            let key = self.inflight.insert(request);
            let request = &mut self.inflight[key];
            let entry = shared.entry(request, ReadWriteFlags::empty()).user_data(key as u64);
            self.push(&entry);
        }
        if !self.is_armed {
            self.is_armed = true;
            let fd = types::Fd(shared.wake.as_raw_fd());
            let value = WAKE_VALUE.as_ptr().cast();
            self.push(&opcode::Read::new(fd, value, WAKE_BYTES).build().user_data(WAKE));
        }
    }

    /// Submits what was added and waits for so many completions. Whatever is not submitted is the
    /// next time: the kernel is short of memory for a moment, or a signal came.
    fn enter(&self, completions_count: usize) {
        if let Err(error) = self.ring.submit_and_wait(completions_count) {
            assert!(is_passing(&error), "io_uring no longer takes requests: {error}");
        }
    }

    /// Takes in what is completed.
    fn reap(&mut self, done: &mut Vec<(IoRequest, i32)>) {
        for entry in self.ring.completion() {
            if entry.user_data() == WAKE {
                self.is_armed = false;
                continue;
            }
            done.push((self.inflight.remove(entry.user_data() as usize), entry.result()));
        }
    }
}

/// The life of the thread that owns a ring.
fn own(shared: &Shared, to: &Weak<dyn Completions>, started: &SyncSender<io::Result<()>>) {
    let made = Ring::new();
    let (result, ring) = match made {
        Ok(ring) => (Ok(()), Some(ring)),
        Err(error) => (Err(error), None),
    };
    let told = started.send(result);
    let (Some(mut ring), Ok(())) = (ring, told) else { return };
    let (mut arrived, mut done) = (Vec::new(), Vec::new());
    while shared.take(&mut arrived) || !arrived.is_empty() || !ring.inflight.is_empty() {
        ring.add(shared, &mut arrived);
        ring.enter(1);
        shared.lock().is_asleep = false;
        ring.reap(&mut done);
        let mut all: Vec<IoDone> = done.drain(..).filter_map(|d| settle(shared, d)).collect();
        if let Some(to) = to.upgrade().filter(|_| !all.is_empty()) {
            to.completed(&mut all);
        }
    }
}

/// In what manner a write is carried out.
fn flags(request: &IoRequest) -> ReadWriteFlags {
    match &request.target {
        Some(target) => target.write_flags(request.fua),
        None if request.fua => ReadWriteFlags::DSYNC,
        None => ReadWriteFlags::empty(),
    }
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
    matches!(error.kind(), Interrupted | ResourceBusy | WouldBlock)
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
            target.write_rest(done as u64, fua, data)
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

#[cfg(test)]
mod tests;
