//! The places of requests of one device: a ring through which the driver hands them out and takes
//! results, and the memory in which it describes them.
//!
//! # The first fetch
//!
//! The driver gives a queue to the thread that fetches it, for as long as that thread lives. A
//! process killed between two queues, or within one, would leave a device that no other process
//! can take over: Linux 6.12 then has a queue without a thread, which `START_USER_RECOVERY` does
//! not expect (it ends in a null pointer of the kernel), or one of which some places are fetched
//! and never given up. So one thread fetches all places of all queues by one system call, in which
//! nothing looks for signals: a kill finds none of them fetched, or all.
//!
//! The descriptions are mapped after that, as the driver remembers who has mapped them, and forgets
//! it at `START_USER_RECOVERY`. That is refused while nothing is fetched.

use super::abi::{self, KernelRequest, io_command, requests_offset};
use super::limits::QUEUES_MAX;
use super::reply::{ReplyLine, Slot};
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::AtomicU64;

/// The user data of the read that ends when the thread is woken.
const WAKE: u64 = u64::MAX;

/// The bytes of one value of an eventfd.
const WAKE_BYTES: u32 = 8;

/// The kernel reads the values of all eventfds into this; nobody looks at them. It lives for ever,
/// so a read that is cancelled late does no harm.
static WAKE_VALUE: AtomicU64 = AtomicU64::new(0);

/// How many queues, and requests of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) queues_count: u16,
    pub(super) depth: u16,
}

impl Shape {
    fn slots(self) -> impl Iterator<Item = Slot> {
        let of = move |queue| (0..self.depth).map(move |tag| Slot { queue, tag });
        (0..self.queues_count).flat_map(of)
    }

    pub(super) fn slots_count(self) -> u32 {
        u32::from(self.queues_count) * u32::from(self.depth)
    }
}

/// QueueNews of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueNews {
    /// A request has come there.
    Request(Slot),
    /// The place is closed: the device was stopped, or it never was ours.
    Closed(Errno),
    /// Somebody has left results.
    Woken,
}

/// All places of a device. They belong to the thread that made this.
pub(super) struct Queues {
    ring: IoUring<squeue::Entry128>,
    shape: Shape,
    requests: Vec<MappedRequests>,
    /// Descriptors of the driver's device, and of the eventfd; whoever made this keeps them open.
    device: types::Fd,
    wake: types::Fd,
}

impl Queues {
    /// Fetches all places, by one system call.
    ///
    /// # Errors
    /// There is no such ring, or the driver does not let this thread have them: another one has,
    /// or had them.
    pub(super) fn fetch(line: &ReplyLine, shape: Shape) -> io::Result<Queues> {
        // One entry for each place and one for being woken: so neither queue overflows.
        let entries = (shape.slots_count() + 1).next_power_of_two();
        let mut builder = IoUring::builder();
        let ring = builder.setup_submit_all().setup_coop_taskrun().setup_single_issuer();
        let mut queues = Queues {
            ring: ring.build(entries)?,
            shape,
            requests: Vec::new(),
            device: types::Fd(line.file().as_raw_fd()),
            wake: types::Fd(line.wake.as_raw_fd()),
        };
        for slot in shape.slots() {
            queues.push_command(abi::io::FETCH, slot, -1);
        }
        queues.ring.submit()?;
        let refused = queues.ring.completion().map(|done| done.result()).find(|result| *result < 0);
        if let Some(error) = refused {
            return Err(io::Error::from_raw_os_error(-error));
        }
        for queue in 0..shape.queues_count {
            queues.requests.push(MappedRequests::new(line, queue, shape.depth)?);
        }
        queues.push_wake();
        Ok(queues)
    }

    fn push_command(&mut self, number: u32, slot: Slot, result: i32) {
        let command = io_command(slot.queue, slot.tag, result);
        let entry = opcode::UringCmd80::new(self.device, number).cmd(command).build();
        let place = u64::from(slot.queue) << 16 | u64::from(slot.tag);
        // SAFETY: the command is copied with its entry, and names no memory.
        unsafe { self.push(&entry.user_data(place)) };
    }

    fn push_wake(&mut self) {
        let read = opcode::Read::new(self.wake, WAKE_VALUE.as_ptr().cast(), WAKE_BYTES);
        let entry = squeue::Entry128::from(read.build().user_data(WAKE));
        // SAFETY: the value that is read into is static.
        unsafe { self.push(&entry) };
    }

    /// # Safety
    /// Memory that the entry names stays until its completion.
    unsafe fn push(&mut self, entry: &squeue::Entry128) {
        // SAFETY: as promised.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.expect("as many entries as places, and one");
    }

    /// The request there is done with that result; another one may come.
    pub(super) fn commit(&mut self, slot: Slot, result: i32) {
        self.push_command(abi::io::COMMIT, slot, result);
    }

    /// The request that has come there.
    pub(super) fn request(&self, slot: Slot) -> KernelRequest {
        self.requests[usize::from(slot.queue)].get(slot.tag)
    }

    /// Submits what was pushed, and takes news; if `waits`, it waits for some.
    ///
    /// # Errors
    /// The kernel refuses: the ring is of no use any more.
    pub(super) fn turn(&mut self, waits: bool, news: &mut Vec<QueueNews>) -> io::Result<()> {
        let wanted = usize::from(waits && self.ring.completion().is_empty());
        match self.ring.submit_and_wait(wanted) {
            Ok(_) => {}
            // Completions have to be taken first, or it is to be tried again.
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let mut is_woken = false;
        for done in self.ring.completion() {
            let place = done.user_data();
            is_woken |= place == WAKE;
            news.push(match done.result() {
                _ if place == WAKE => QueueNews::Woken,
                error if error < 0 => QueueNews::Closed(Errno::from_raw_os_error(-error)),
                _ => QueueNews::Request(Slot { queue: (place >> 16) as u16, tag: place as u16 }),
            });
        }
        if is_woken {
            self.push_wake();
        }
        Ok(())
    }

    /// How many places there are.
    pub(super) fn slots_count(&self) -> u32 {
        self.shape.slots_count()
    }
}

fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::INTR, Errno::AGAIN, Errno::BUSY];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// The descriptions of a queue's requests, which the driver writes.
struct MappedRequests {
    start: *mut c_void,
    len: usize,
}

impl MappedRequests {
    fn new(line: &ReplyLine, queue: u16, depth: u16) -> io::Result<MappedRequests> {
        debug_assert!(queue < QUEUES_MAX, "as few as are ever made");
        let page = rustix::param::page_size();
        let len = (usize::from(depth) * KernelRequest::BYTES).next_multiple_of(page);
        let offset = requests_offset(queue, page as u64);
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start =
            unsafe { mmap(ptr::null_mut(), len, ProtFlags::READ, flags, line.file(), offset)? };
        Ok(MappedRequests { start, len })
    }

    /// A copy of one of them. The driver has written it before it said that the request is there,
    /// and leaves it until the request is done.
    fn get(&self, tag: u16) -> KernelRequest {
        let at = usize::from(tag) * KernelRequest::BYTES;
        assert!(at + KernelRequest::BYTES <= self.len, "a place of the queue");
        // SAFETY: within the mapping, as was just asserted, and aligned for bytes. Volatile, as
        // another party writes it.
        let bytes = unsafe {
            ptr::read_volatile(self.start.cast::<u8>().add(at).cast::<[u8; KernelRequest::BYTES]>())
        };
        KernelRequest::of(&bytes)
    }
}

impl Drop for MappedRequests {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nobody refers to it any more.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_fetched_once() {
        let shape = Shape { queues_count: 3, depth: 2 };
        let slots: Vec<_> = shape.slots().map(|slot| (slot.queue, slot.tag)).collect();
        assert_eq!(slots, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
        assert_eq!(shape.slots_count(), 6);
    }
}
