//! The answers that requests of the kernel must get, and what is held for them.
//!
//! Any thread may answer a request. It leaves the result, and what was read, to the device's own
//! thread, from which alone the driver takes them: a copy to the kernel by another thread that is
//! under way when the process is killed would have the request failed, on some kernels.

use super::abi::data_offset;
use crate::answer::{Answer, Answered, Client, Touched};
use crate::buffer::Buffer;
use crate::limits::{FREE_PART, PACED_PART, REQUEST_BYTES};
use crate::memory::Memory;
use iopace_core::request::{DiskError, Outcome};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The place of a request: its queue, and its number in there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) queue: u16,
    pub(super) tag: u16,
}

/// Bytes of memory that are counted for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    bytes: u64,
    /// Whether stage pace may hold the request up: a buffered write.
    is_paced: bool,
}

impl Charge {
    /// That of a request with so much data.
    pub(super) fn new(len: usize, is_paced: bool) -> Charge {
        Charge { bytes: Buffer::capacity_for(len) as u64 + REQUEST_BYTES, is_paced }
    }
}

/// The memory that requests of a device hold of what all clients share: counted before anything is
/// allocated. As with a connection, one request may always come, and all together have a part of
/// what is free.
pub(super) struct Purse {
    memory: Arc<Memory>,
    /// All of it, and the part of buffered writes.
    held: Mutex<(u64, u64)>,
}

impl Purse {
    pub(super) fn new(memory: Arc<Memory>) -> Purse {
        Purse { memory, held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, (u64, u64)> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is held: nobody will give anything back.
    pub(super) fn is_empty(&self) -> bool {
        self.held().0 == 0
    }

    /// Counts a request, if there is room for it now.
    pub(super) fn try_take(&self, charge: Charge) -> bool {
        let Charge { bytes, is_paced } = charge;
        let (memory, mut held) = (&self.memory, self.held());
        let is_within = |own: u64, memory: &Memory, part: u64| {
            own == 0 || own + bytes <= memory.free_bytes() / part
        };
        let fits = is_within(held.0, memory, FREE_PART)
            && (!is_paced || is_within(held.1, memory.paced(), PACED_PART));
        if !fits || is_paced && !memory.paced().try_take(bytes) {
            return false;
        }
        if !memory.try_take(bytes) {
            memory.paced().give(if is_paced { bytes } else { 0 });
            return false;
        }
        note(&mut held, charge);
        true
    }

    /// Counts a request, waiting for room in line with all clients. Only where nothing is held: the
    /// answers of others need this thread.
    pub(super) fn take(&self, charge: Charge) {
        if charge.is_paced {
            self.memory.paced().take(charge.bytes);
        }
        self.memory.take(charge.bytes);
        note(&mut self.held(), charge);
    }

    fn give(&self, Charge { bytes, is_paced }: Charge) {
        let mut held = self.held();
        held.0 -= bytes;
        held.1 -= if is_paced { bytes } else { 0 };
        drop(held);
        self.memory.give(bytes);
        if is_paced {
            self.memory.paced().give(bytes);
        }
    }
}

fn note(held: &mut (u64, u64), Charge { bytes, is_paced }: Charge) {
    held.0 += bytes;
    held.1 += if is_paced { bytes } else { 0 };
}

/// A request that has ended.
#[derive(Debug)]
pub(super) struct UblkEnded {
    slot: Slot,
    result: i32,
    /// Data of a read that the kernel does not have yet.
    data: Option<Buffer>,
    charge: Charge,
}

/// Results on their way to the device's own thread.
#[derive(Default)]
struct Results {
    /// Bounded by the number of places.
    all: Vec<UblkEnded>,
    /// Whether the thread waits, or is about to: it is woken.
    is_asleep: bool,
}

/// The part of a device that its own thread and those that answer share.
pub(super) struct ReplyLine {
    /// The device that the driver serves us by.
    file: File,
    pub(super) purse: Purse,
    results: Mutex<Results>,
    /// An eventfd that wakes the thread.
    pub(super) wake: OwnedFd,
}

impl std::fmt::Debug for ReplyLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReplyLine")
    }
}

impl ReplyLine {
    pub(super) fn new(file: File, memory: Arc<Memory>) -> io::Result<ReplyLine> {
        let (purse, wake) = (Purse::new(memory), eventfd(0, EventfdFlags::CLOEXEC)?);
        Ok(ReplyLine { file, purse, results: Mutex::default(), wake })
    }

    /// The device that the driver serves us by.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the data of a write from the kernel.
    pub(super) fn copy_in(&self, slot: Slot, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, data_offset(slot.queue, slot.tag))
    }

    /// Hands what was read to the kernel.
    pub(super) fn copy_out(&self, slot: Slot, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, data_offset(slot.queue, slot.tag))
    }

    /// Hands what was read to the kernel, and gives back what was held. Only the device's own
    /// thread calls this. Where it was, and its result.
    pub(super) fn finish(&self, ended: UblkEnded) -> (Slot, i32) {
        let UblkEnded { slot, mut result, data, charge } = ended;
        if let Some(data) = &data
            && let Err(error) = self.copy_out(slot, &data.as_slice()[..result as usize])
        {
            result = failed(&error);
        }
        // Before the memory counts as free.
        drop(data);
        self.purse.give(charge);
        (slot, result)
    }

    /// The results so far. If there are none the thread is about to wait.
    pub(super) fn take_or_sleep(&self, into: &mut Vec<UblkEnded>) {
        let mut results = self.results();
        into.append(&mut results.all);
        results.is_asleep = into.is_empty();
    }

    /// The thread looks for results again before it waits: it need not be woken.
    pub(super) fn is_awake(&self) {
        self.results().is_asleep = false;
    }
}

impl Drop for ReplyLine {
    /// Results that nobody takes any more, as the device has ended.
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.results().all);
        left.iter().for_each(|ended| self.purse.give(ended.charge));
    }
}

impl Client for ReplyLine {
    fn send(self: Arc<Self>) {
        if std::mem::take(&mut self.results().is_asleep) {
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    fn send_some(self: Arc<Self>) {
        self.send();
    }
}

/// The right and the duty to answer one request of the kernel.
#[derive(Debug)]
#[must_use = "a request must be answered"]
pub(super) struct UblkTicket {
    line: Option<Arc<ReplyLine>>,
    slot: Slot,
    charge: Charge,
    /// Bytes of a read or write: its result.
    len: u32,
    is_read: bool,
}

impl UblkTicket {
    /// A ticket for the request there; what it holds is counted already.
    pub(super) fn new(
        line: &Arc<ReplyLine>,
        slot: Slot,
        charge: Charge,
        (len, is_read): (u32, bool),
    ) -> UblkTicket {
        UblkTicket { line: Some(Arc::clone(line)), slot, charge, len, is_read }
    }

    /// Answers it from the device's own thread, which looks for results before it waits.
    pub(super) fn done(mut self, result: i32) {
        self.end(result, None);
    }

    fn end(&mut self, result: i32, data: Option<Buffer>) -> Option<Arc<ReplyLine>> {
        let line = self.line.take()?;
        let UblkTicket { slot, charge, .. } = *self;
        line.results().all.push(UblkEnded { slot, result, data, charge });
        Some(line)
    }

    /// The result, with data that is to be handed on.
    fn carried_out(&self, data: Buffer) -> (i32, Option<Buffer>) {
        match self.is_read {
            // The file has become shorter.
            true if data.len() < self.len as usize => (-Errno::IO.raw_os_error(), None),
            true => (self.len as i32, Some(data)),
            false => (self.len as i32, None),
        }
    }
}

impl Answer for UblkTicket {
    fn answer(mut self: Box<Self>, answered: Answered, touched: &mut Touched) {
        let Answered { outcome, data, progress, .. } = answered;
        let (result, data) = match outcome {
            Outcome::Ok => self.carried_out(data),
            other => {
                let own = || -errno(other).raw_os_error();
                (progress.errno.map_or_else(own, |errno| -errno), None)
            }
        };
        if let Some(line) = self.end(result, data) {
            touched.add(line);
        }
    }
}

impl Drop for UblkTicket {
    /// A ticket that nobody answered is a bug. Tests hear of it; the kernel gets an error.
    fn drop(&mut self) {
        let Some(line) = self.end(-Errno::IO.raw_os_error(), None) else { return };
        line.send();
        debug_assert!(std::thread::panicking(), "a request was dropped unanswered");
        tracing::error!(slot = ?self.slot, "a request was dropped unanswered");
    }
}

/// The result of a request that failed in this way.
pub(super) fn failed(error: &io::Error) -> i32 {
    -error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
}

fn errno(outcome: Outcome) -> Errno {
    match outcome {
        // The table is full.
        Outcome::Ok | Outcome::Refused => Errno::NOMEM,
        Outcome::Failed(error) => match error {
            DiskError::Io => Errno::IO,
            DiskError::NoSpace => Errno::NOSPC,
            DiskError::Gone => Errno::NOLINK,
            DiskError::NotPermitted => Errno::ROFS,
            DiskError::Unsupported => Errno::OPNOTSUPP,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Progress;
    use iopace_core::request::Extent;

    const SLOT: Slot = Slot { queue: 1, tag: 2 };

    fn line(memory_bytes: u64) -> Arc<ReplyLine> {
        let file = tempfile::tempfile().expect("a file");
        let memory = Arc::new(Memory::new(memory_bytes));
        Arc::new(ReplyLine::new(file, memory).expect("an eventfd"))
    }

    fn answer(line: &Arc<ReplyLine>, outcome: Outcome, errno: Option<i32>) -> i32 {
        let charge = Charge::new(512, false);
        assert!(line.purse.try_take(charge));
        let ticket = UblkTicket::new(line, SLOT, charge, (512, false));
        let progress = Progress { errno, ..Progress::default() };
        let data = Buffer::default();
        let answered = Answered { outcome, extent: Extent::EMPTY, progress, data };
        let mut touched = Touched::default();
        Box::new(ticket).answer(answered, &mut touched);
        touched.send();
        let mut results = Vec::new();
        line.take_or_sleep(&mut results);
        assert_eq!(results.len(), 1);
        let (slot, result) = line.finish(results.remove(0));
        assert_eq!(slot, SLOT);
        result
    }

    #[test]
    fn results_are_lengths_or_errors_of_the_system() {
        let line = line(1 << 20);
        assert_eq!(answer(&line, Outcome::Ok, None), 512);
        let failed = Outcome::Failed(DiskError::NoSpace);
        assert_eq!(answer(&line, failed, None), -28);
        assert_eq!(answer(&line, failed, Some(122)), -122);
        assert!(line.purse.is_empty() && line.purse.memory.used_bytes() == 0);
    }

    #[test]
    fn a_thread_that_waits_is_woken_once() {
        let line = line(1 << 20);
        line.take_or_sleep(&mut Vec::new());
        assert_eq!(answer(&line, Outcome::Ok, None), 512);
        Arc::clone(&line).send();
        let mut value = [0; 8];
        rustix::io::read(&line.wake, &mut value).expect("woken");
        assert_eq!(u64::from_ne_bytes(value), 1);
    }

    #[test]
    fn what_a_device_holds_leaves_memory_to_others() {
        let line = line(64 << 20);
        let write = Charge::new(1 << 20, true);
        let count = (0..).take_while(|_| line.purse.try_take(write)).count();
        assert!((8..=10).contains(&count), "{count}");
        let read = Charge::new(1 << 20, false);
        let more = (0..).take_while(|_| line.purse.try_take(read)).count();
        assert!((8..=24).contains(&more), "{more}");
        (0..count).for_each(|_| line.purse.give(write));
        (0..more).for_each(|_| line.purse.give(read));
        assert!(line.purse.is_empty() && line.purse.memory.paced().used_bytes() == 0);
        // One larger than all there is.
        line.purse.take(Charge::new(128 << 20, true));
        assert!(!line.purse.try_take(read));
    }
}
