//! One machine: its disk, its queues, and who pays.

use super::QUEUES_MAX;
use super::blk::Disk;
use super::ring::Ring;
use super::trust::is_trusted;
use crate::answer::Client;
use crate::clock;
use crate::device::Device;
use crate::groups::payer::Payer;
use crate::held::HeldByClient;
use crate::limits::DRAIN_TIMEOUT;
use crate::memory::Memory;
use iopace_core::time::Nanos;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// Between two looks whether the daemon ends while requests of a machine that is gone are done.
const IDLE_STEP: Duration = Duration::from_millis(20);

/// A machine that is connected.
pub(super) struct Machine {
    /// Its number, unique in this process.
    pub(super) number: u64,
    /// The group that pays for its requests.
    pub(super) payer: Arc<Payer>,
    pub(super) device: Arc<dyn Device>,
    pub(super) disk: Disk,
    pub(super) rings: Vec<Ring>,
    /// Memory that is held for its requests.
    pub(super) account: HeldByClient,
    /// Whether its process is root's or the daemon's own user's, see `trust.rs`.
    pub(super) is_trusted: bool,
    /// Whether writes are durable before they are answered: its driver asks for no flushes.
    pub(super) is_write_through: AtomicBool,
    /// Wakes its own thread.
    pub(super) wake: OwnedFd,
    /// Of the conversation; its end ends calls that wait there.
    talk: UnixStream,
    is_stopping: AtomicBool,
    /// The queues with answers of which the driver is to be told, a bit for each.
    untold: AtomicU64,
    own: OnceLock<ThreadId>,
}

const _: () = assert!(QUEUES_MAX <= u64::BITS as usize, "a bit for each queue");

impl Machine {
    /// A machine without queues, yet.
    ///
    /// # Errors
    /// No descriptor.
    pub(super) fn new(
        number: u64,
        (device, disk): (Arc<dyn Device>, Disk),
        memory: Arc<Memory>,
        socket: &UnixStream,
    ) -> io::Result<Arc<Machine>> {
        Ok(Arc::new(Machine {
            number,
            payer: Arc::default(),
            device,
            disk,
            rings: (0..QUEUES_MAX).map(|_| Ring::default()).collect(),
            account: HeldByClient::new(memory),
            is_trusted: is_trusted(socket.as_fd()),
            is_write_through: AtomicBool::new(false),
            talk: socket.try_clone()?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_stopping: AtomicBool::new(false),
            untold: AtomicU64::new(0),
            own: OnceLock::new(),
        }))
    }

    /// This thread is its own from now on.
    pub(super) fn is_served_here(&self) {
        let _ = self.own.set(thread::current().id());
    }

    /// Puts answers into a ring; [`Machine::call`] tells the driver.
    pub(super) fn answer(&self, ring: usize, ended: &[(u16, u32)]) {
        self.rings[ring].answer(ended);
        self.untold.fetch_or(1 << ring, Ordering::AcqRel);
    }

    /// Tells the driver of answers. Whoever is not trusted may make that call wait: for him, only
    /// the machine's own thread makes it.
    pub(super) fn call(&self) {
        if !self.is_trusted && self.own.get() != Some(&thread::current().id()) {
            return self.wake();
        }
        let mut untold = self.untold.swap(0, Ordering::AcqRel);
        while untold != 0 {
            self.rings[untold.trailing_zeros() as usize].call();
            untold &= untold - 1;
        }
    }

    /// Nothing more is taken: its thread ends the conversation.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        let _ = self.talk.shutdown(Shutdown::Both);
        self.wake();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Waits for the requests that were taken: they may still write, and the next machine must not
    /// come before they are done. A daemon that ends waits for [`DRAIN_TIMEOUT`] only.
    pub(super) fn finish(&self) {
        while !self.is_stopping() && self.drain(IDLE_STEP) > 0 {}
        let left = self.drain(DRAIN_TIMEOUT);
        self.call();
        if left > 0 {
            tracing::warn!(machine = self.number, left, "closed with open requests");
        }
    }

    /// Waits for the requests that were taken, at most for `limit`; how many are left.
    fn drain(&self, limit: Duration) -> usize {
        let limit = Nanos(u64::try_from(limit.as_nanos()).expect("seconds"));
        let deadline = clock::now() + limit;
        let wait = |ring: &Ring| ring.wait(clock::until(deadline).unwrap_or_default());
        self.rings.iter().map(wait).sum()
    }
}

impl Client for Machine {
    fn send(self: Arc<Self>) {
        self.call();
    }

    fn send_some(self: Arc<Self>) {
        self.call();
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Machine({})", self.number)
    }
}
