//! The thread of one device: takes the kernel's requests, serves what needs no disk, submits the
//! rest, and gives results back.

use super::abi::{KernelRequest, RequestKind};
use super::limits::STACK_BYTES;
use super::queues::{QueueNews, Queues, Shape};
use super::reply::{Charge, ReplyLine, Slot, UblkTicket, failed};
use crate::answer::Progress;
use crate::buffer::Buffer;
use crate::device::Device;
use crate::groups::payer::Payer;
use crate::io::may_submit_from_here;
use crate::io::target::Target;
use crate::job::Job;
use iopace_core::request::{Cover, Extent, Op, Space, TaskId};
use iopace_core::units::Bytes;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

/// The disk that a device serves, and who pays.
pub(super) struct UblkSubject {
    pub(super) device: Arc<dyn Device>,
    /// The task of all that the kernel asks for: it does not say for whom it asks.
    pub(super) task: TaskId,
    pub(super) payer: Arc<Payer>,
    pub(super) read_only: bool,
}

/// The thread, until it has ended.
pub(super) type ServerThread = JoinHandle<()>;

/// Starts the thread, and waits until it has fetched all places. `on_end` is called when the device
/// was stopped.
///
/// # Errors
/// No thread, no ring, or the driver does not let it have them.
pub(super) fn start(
    subject: UblkSubject,
    line: Arc<ReplyLine>,
    shape: Shape,
    on_end: impl FnOnce() + Send + 'static,
) -> io::Result<ServerThread> {
    let (started, result) = sync_channel(1);
    let builder = thread::Builder::new().name("ublk".into()).stack_size(STACK_BYTES);
    let thread = builder.spawn(move || serve(subject, line, (shape, started), on_end))?;
    match result.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => {
            // Its descriptors are closed then, and others may try.
            let _ = thread.join();
            Err(error)
        }
        Err(_) => Err(io::ErrorKind::Other.into()),
    }
}

fn serve(
    subject: UblkSubject,
    line: Arc<ReplyLine>,
    (shape, started): (Shape, mpsc::SyncSender<io::Result<()>>),
    on_end: impl FnOnce(),
) {
    may_submit_from_here();
    drop_admin();
    let queues = match Queues::fetch(&line, shape) {
        Ok(queues) => queues,
        Err(error) => {
            drop(line);
            let _ = started.send(Err(error));
            return;
        }
    };
    let _ = started.send(Ok(()));
    // Also if this thread panics: the daemon must not stay without it.
    let _told = OnDrop(Some(on_end));
    let flushed = subject.device.flushed_by_client();
    let open_count = queues.slots_count();
    let mut server = UblkServer {
        subject,
        line,
        queues,
        flushed,
        open_count,
        batch: Vec::new(),
        waiting: VecDeque::new(),
        scratch: Buffer::default(),
    };
    if let Err(error) = server.run() {
        tracing::error!(%error, "a ublk device is served no more");
    }
}

/// Calls something when it is dropped.
struct OnDrop<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

/// While a device starts, the kernel looks for partitions if all its threads are privileged. It
/// waits for that read with the device locked: a daemon that is killed then could never be
/// replaced. This thread needs no such right, and loop devices have no partitions either.
fn drop_admin() {
    let without = capabilities(None).and_then(|mut sets| {
        sets.effective.remove(CapabilitySet::SYS_ADMIN);
        set_capabilities(None, sets)
    });
    if let Err(error) = without {
        tracing::debug!(%error, "the thread of a ublk device keeps its rights");
    }
}

struct UblkServer {
    subject: UblkSubject,
    line: Arc<ReplyLine>,
    queues: Queues,
    /// The target of the flushes, so that they tell of errors that others know.
    flushed: Option<Target>,
    /// Places that are not closed.
    open_count: u32,
    /// Requests that are not submitted yet.
    batch: Vec<Job>,
    /// Requests for which there is no memory yet, in order of arrival.
    waiting: VecDeque<Slot>,
    /// Room for what the page cache has.
    scratch: Buffer,
}

impl UblkServer {
    /// Serves until all places are closed.
    fn run(&mut self) -> io::Result<()> {
        let (mut news, mut results) = (Vec::new(), Vec::new());
        while self.open_count > 0 {
            self.line.take_or_sleep(&mut results);
            let waits = results.is_empty();
            for ended in results.drain(..) {
                let (slot, result) = self.line.finish(ended);
                self.queues.commit(slot, result);
            }
            self.queues.turn(waits, &mut news)?;
            self.line.is_awake();
            for one in news.drain(..) {
                match one {
                    QueueNews::Request(slot) => self.waiting.push_back(slot),
                    QueueNews::Closed(errno) => self.closed(errno),
                    QueueNews::Woken => {}
                }
            }
            self.take_requests();
            self.submit_batch();
        }
        Ok(())
    }

    fn closed(&mut self, errno: Errno) {
        // Stopped devices close places with `ENODEV`.
        if errno != Errno::NODEV {
            tracing::warn!(%errno, "the kernel has closed a place for requests");
        }
        self.open_count -= 1;
    }

    /// Takes in what has come, as far as there is memory.
    fn take_requests(&mut self) {
        while let Some(slot) = self.waiting.pop_front() {
            let request = self.queues.request(slot);
            let charge = self.charge(&request);
            if !self.line.purse.try_take(charge) {
                if !self.line.purse.is_empty() {
                    // Each answer wakes this thread.
                    self.waiting.push_front(slot);
                    return;
                }
                self.line.purse.take(charge);
            }
            self.request(slot, &request, charge);
        }
    }

    fn charge(&self, request: &KernelRequest) -> Charge {
        let is_write = request.kind == Some(RequestKind::Write);
        let has_data = is_write || request.kind == Some(RequestKind::Read);
        let len = if has_data { request.len as usize } else { 0 };
        Charge::new(len, is_write && !request.fua && !self.subject.device.info().direct)
    }

    fn request(&mut self, slot: Slot, request: &KernelRequest, charge: Charge) {
        let is_read = request.kind == Some(RequestKind::Read);
        let is_write = request.kind == Some(RequestKind::Write);
        let len = if is_read || is_write { request.len as u32 } else { 0 };
        let ticket = UblkTicket::new(&self.line, slot, charge, (len, is_read));
        let (op, extent) = match self.read_in(request) {
            Ok(found) => found,
            Err(errno) => return ticket.done(-errno.raw_os_error()),
        };
        let mut buffer = Buffer::default();
        if is_read && self.is_cached(slot, extent) {
            return ticket.done(len as i32);
        }
        if is_write {
            buffer = Buffer::new(len as usize);
            if let Err(error) = self.line.copy_in(slot, buffer.as_mut_slice()) {
                return ticket.done(failed(&error));
            }
        }
        let UblkSubject { task, payer, .. } = &self.subject;
        let group = match self.batch.first() {
            Some(first) => first.group,
            None => payer.begin(),
        };
        self.batch.push(Job {
            task: *task,
            group,
            op,
            extent,
            space: Space::DISK,
            cover: Cover::All,
            fua: request.fua,
            buffer,
            target: self.flushed.as_ref().filter(|_| op == Op::Flush).cloned(),
            progress: Progress::default(),
            ticket: Box::new(ticket),
        });
    }

    /// The request in the words of an engine.
    fn read_in(&self, request: &KernelRequest) -> Result<(Op, Extent), Errno> {
        let op = match request.kind.ok_or(Errno::OPNOTSUPP)? {
            RequestKind::Read => Op::Read,
            RequestKind::Write => Op::Write,
            RequestKind::Flush => return Ok((Op::Flush, Extent::EMPTY)),
            RequestKind::Discard => Op::Trim,
            RequestKind::WriteZeroes => Op::WriteZeroes,
        };
        if op != Op::Read && self.subject.read_only {
            return Err(Errno::ROFS);
        }
        // The kernel asks for nothing else; its word is not taken for it.
        let size = self.subject.device.info().size_bytes;
        let extent = Extent::new(Bytes(request.offset), Bytes(request.len));
        extent.filter(|it| it.end().get() <= size).map(|it| (op, it)).ok_or(Errno::IO)
    }

    /// Whether the page cache had all of a read: it is copied to the kernel then.
    fn is_cached(&mut self, slot: Slot, extent: Extent) -> bool {
        let UblkSubject { device, payer, .. } = &self.subject;
        let group = self.batch.first().map_or_else(|| payer.group(), |first| first.group);
        let len = extent.len().get() as usize;
        if self.scratch.len() < len {
            self.scratch.resize(len);
        }
        let data = &mut self.scratch.as_mut_slice()[..len];
        device.read_cached(group, extent, data) && self.line.copy_out(slot, data).is_ok()
    }

    fn submit_batch(&mut self) {
        if !self.batch.is_empty() {
            self.subject.device.submit(&mut self.batch);
            self.subject.payer.end();
        }
    }
}
