//! The requests of a queue that are taken and not answered, kept in memory that the machine's
//! process holds: a daemon that was killed finds there what it has to do again ("Inflight I/O
//! tracking" of the protocol, split virtqueues).
//!
//! Of each descriptor: whether a request begins there, and a counter for their order. A request is
//! put into the used ring between two notes, so that one that was killed between them shows.

use super::QUEUE_SIZE_MAX;
use super::trust::check_memory;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU64, Ordering, fence};
use vm_memory::FileOffset;
use vm_memory::mmap::MmapRegion;

/// Of a queue: features, version, count of descriptors, head of the last batch, used index.
const FIXED_BYTES: usize = 16;
/// Of a descriptor: whether it is in flight, padding, the next of its batch, the counter.
const DESCRIPTOR_BYTES: usize = 16;
/// The place of each queue is a multiple of this.
const ALIGN: usize = 64;
const VERSION: u16 = 1;

const AT_VERSION: usize = 8;
const AT_COUNT: usize = 10;
const AT_LAST_HEAD: usize = 12;
const AT_USED: usize = 14;
const OF_NEXT: usize = 6;
const OF_COUNTER: usize = 8;

fn queue_bytes(size: u16) -> usize {
    (FIXED_BYTES + usize::from(size) * DESCRIPTOR_BYTES).next_multiple_of(ALIGN)
}

/// The memory for all queues of a machine.
#[derive(Clone, Debug)]
pub(super) struct Inflight {
    map: Arc<MmapRegion<()>>,
    queues: u16,
    size: u16,
}

impl Inflight {
    /// New memory for so many queues of that size, with its descriptor and its length.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn create(queues: u16, size: u16) -> io::Result<(File, u64)> {
        let bytes = usize::from(queues) * queue_bytes(size);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("iopace-inflight", flags)?;
        ftruncate(&file, bytes as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok((file.into(), bytes as u64))
    }

    /// Memory that the machine's process has kept.
    ///
    /// # Errors
    /// It cannot be that, or must not be used.
    pub(super) fn open(
        file: File,
        (offset, bytes): (u64, u64),
        (queues, size): (u16, u16),
        is_trusted: bool,
    ) -> io::Result<Inflight> {
        let wrong = || io::Error::other("the memory for requests in flight has no such size");
        let needed = usize::from(queues) * queue_bytes(size);
        let end = offset.checked_add(bytes).ok_or_else(wrong)?;
        if size == 0 || size > QUEUE_SIZE_MAX || queues == 0 || bytes < needed as u64 {
            return Err(wrong());
        }
        check_memory(file.as_fd(), end, is_trusted)?;
        let map = MmapRegion::from_file(FileOffset::new(file, offset), needed);
        let map = Arc::new(map.map_err(|error| io::Error::other(error.to_string()))?);
        Ok(Inflight { map, queues, size })
    }

    /// The part of a queue, if it has one and is no larger.
    pub(super) fn queue(&self, index: usize, size: u16) -> Option<Tracked> {
        let is_there = index < usize::from(self.queues) && size <= self.size;
        let base = index * queue_bytes(self.size);
        is_there.then(|| Tracked { map: Arc::clone(&self.map), base, size, counter: 0 })
    }
}

/// The requests in flight of one queue.
#[derive(Debug)]
pub(super) struct Tracked {
    map: Arc<MmapRegion<()>>,
    base: usize,
    size: u16,
    counter: u64,
}

impl Tracked {
    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(self.base + offset + 8 <= self.map.size());
        self.map.as_ptr().wrapping_add(self.base + offset)
    }

    fn word(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: within the mapping, which stays as long as `self`, and aligned: the base is a
        // multiple of 64 and offsets of words are even. Whatever the other side writes is a value.
        unsafe { AtomicU16::from_ptr(self.at(offset).cast()) }
    }

    fn of(head: u16) -> usize {
        FIXED_BYTES + usize::from(head) * DESCRIPTOR_BYTES
    }

    fn flag(&self, head: u16) -> &AtomicU8 {
        // SAFETY: as in `word`; a byte is always aligned.
        unsafe { AtomicU8::from_ptr(self.at(Self::of(head))) }
    }

    fn counter(&self, head: u16) -> &AtomicU64 {
        // SAFETY: as in `word`; the place is a multiple of 8.
        unsafe { AtomicU64::from_ptr(self.at(Self::of(head) + OF_COUNTER).cast()) }
    }

    /// Whether the head is one of the queue's.
    fn has(&self, head: u16) -> bool {
        head < self.size
    }

    /// A request is taken.
    pub(super) fn taken(&mut self, head: u16) {
        if self.has(head) {
            self.counter += 1;
            self.counter(head).store(self.counter, Ordering::Relaxed);
            self.flag(head).store(1, Ordering::Release);
        }
    }

    /// A request is about to be put into the used ring.
    pub(super) fn ending(&self, head: u16) {
        if self.has(head) {
            let last = self.word(AT_LAST_HEAD);
            let next = self.word(Self::of(head) + OF_NEXT);
            next.store(last.load(Ordering::Relaxed), Ordering::Relaxed);
            last.store(head, Ordering::Release);
        }
    }

    /// It is there; the used ring stands at `used` now.
    pub(super) fn ended(&self, head: u16, used: u16) {
        fence(Ordering::Release);
        if self.has(head) {
            self.flag(head).store(0, Ordering::Release);
        }
        self.word(AT_USED).store(used, Ordering::Release);
    }

    /// Begins with the queue, whose used ring stands at `used`: the requests that were in flight,
    /// in the order in which they were taken. `None` of memory that nobody has written yet.
    pub(super) fn begin(&mut self, used: u16) -> Option<Vec<u16>> {
        if self.word(AT_VERSION).load(Ordering::Acquire) != VERSION {
            self.word(AT_COUNT).store(self.size, Ordering::Relaxed);
            self.word(AT_USED).store(used, Ordering::Relaxed);
            self.word(AT_VERSION).store(VERSION, Ordering::Release);
            return None;
        }
        // Killed between the two notes: the last one was put into the ring.
        let last = self.word(AT_LAST_HEAD).load(Ordering::Acquire);
        if self.word(AT_USED).load(Ordering::Acquire) != used && self.has(last) {
            self.flag(last).store(0, Ordering::Relaxed);
        }
        self.word(AT_USED).store(used, Ordering::Release);
        let is_open = |head: &u16| self.flag(*head).load(Ordering::Acquire) == 1;
        let mut open: Vec<u16> = (0..self.size).filter(is_open).collect();
        open.sort_by_key(|head| self.counter(*head).load(Ordering::Relaxed));
        let newest = open.last().map(|head| self.counter(*head).load(Ordering::Relaxed));
        self.counter = newest.unwrap_or(0);
        Some(open)
    }
}
