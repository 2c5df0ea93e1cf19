//! A machine without a processor: the driver of a disk over vhost-user, for tests and loads.
#![allow(dead_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use virtio_driver::{
    VhostUser, VirtioBlkConfig, VirtioBlkQueue, VirtioBlkTransport, VirtioFeatureFlags, iovec,
};

/// Memory that is shared with the daemon.
pub struct Shared {
    start: *mut u8,
    len: usize,
    file: File,
}

impl Shared {
    pub fn new(len: usize) -> Shared {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file: File = memfd_create("machine", flags).expect("memory").into();
        ftruncate(&file, len as u64).expect("as long");
        fcntl_add_seals(&file, SealFlags::SHRINK).expect("sealed");
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping of our own file.
        let start = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, &file, 0) };
        Shared { start: start.expect("mapped").cast(), len, file }
    }

    /// The bytes, when the disk moves none.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped for as long as this is there; no request is in flight.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }

    pub fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len);
        self.start.wrapping_add(offset)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: nothing refers to it any more.
        let _ = unsafe { munmap(self.start.cast(), self.len) };
    }
}

/// A driver of a disk, with memory for data.
pub struct Machine {
    pub queues: Vec<VirtioBlkQueue<'static, u64>>,
    pub transport: Box<VirtioBlkTransport>,
    pub memory: Shared,
}

impl Machine {
    /// Connects, with so many queues of that size, and so many bytes of memory.
    pub fn connect(socket: &Path, (queues, size): (usize, u16), bytes: usize) -> Machine {
        let features = VirtioFeatureFlags::VERSION_1
            | VirtioFeatureFlags::RING_EVENT_IDX
            | VirtioFeatureFlags::RING_INDIRECT_DESC;
        let path = socket.to_str().expect("text");
        // All features of a disk are taken: 0 to 23.
        let all = VhostUser::<VirtioBlkConfig, _>::new(path, features.bits() | 0xff_ffff);
        let mut transport: Box<VirtioBlkTransport> = Box::new(all.expect("connects"));
        let memory = Shared::new(bytes);
        transport.map_mem_region(memory.start.addr(), bytes, memory.fd(), 0).expect("shared");
        let queues = VirtioBlkQueue::setup_queues(&mut *transport, queues, size);
        let mut queues = queues.expect("queues");
        queues.iter_mut().for_each(|queue| queue.set_used_notif_enabled(true));
        Machine { queues, transport, memory }
    }

    pub fn config(&self) -> VirtioBlkConfig {
        self.transport.get_config().expect("a disk")
    }

    /// Tells the disk of new requests in a queue, if it wants to be told.
    pub fn kick(&mut self, queue: usize) {
        if self.queues[queue].avail_notif_needed() {
            self.transport.get_submission_notifier(queue).notify().expect("told");
        }
    }

    /// The requests of a queue that have ended: their context, and 0 or an error's number.
    pub fn ended(&mut self, queue: usize) -> Vec<(u64, i32)> {
        self.queues[queue].completions().map(|one| (one.context, one.ret)).collect()
    }

    /// The same, waiting for the first of them.
    pub fn wait(&mut self, queue: usize) -> Vec<(u64, i32)> {
        loop {
            let ended = self.ended(queue);
            if !ended.is_empty() {
                return ended;
            }
            self.wait_for_call(queue);
        }
    }

    /// Sleeps until the disk calls; it has a minute.
    pub fn wait_for_call(&mut self, queue: usize) {
        let call = self.transport.get_completion_fd(queue);
        // SAFETY: `call` keeps it open.
        let fd = unsafe { BorrowedFd::borrow_raw(call.as_raw_fd()) };
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        let count = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit));
        assert_eq!(count, Ok(1), "the disk does not answer");
        let _ = rustix::io::read(fd, &mut [0; 8]);
    }

    /// Does one thing in the first queue, and waits for its end.
    pub fn perform(
        &mut self,
        ask: impl FnOnce(&mut VirtioBlkQueue<'static, u64>, &Shared),
    ) -> Result<(), i32> {
        let Machine { queues, memory, .. } = self;
        ask(&mut queues[0], memory);
        self.kick(0);
        match self.wait(0)[..] {
            [(_, 0)] => Ok(()),
            [(_, errno)] => Err(-errno),
            _ => panic!("one request, one answer"),
        }
    }

    /// Reads into its memory, in pieces of those places and lengths.
    pub fn read(&mut self, offset: u64, pieces: &[(usize, usize)]) -> Result<(), i32> {
        self.perform(|queue, memory| {
            let pieces = vectors(memory, pieces);
            // SAFETY: the pieces are in memory that outlives the request.
            let asked = unsafe { queue.readv(offset, pieces.as_ptr(), pieces.len(), 0) };
            asked.expect("room in the queue");
        })
    }

    /// Writes from its memory.
    pub fn write(&mut self, offset: u64, pieces: &[(usize, usize)]) -> Result<(), i32> {
        self.perform(|queue, memory| {
            let pieces = vectors(memory, pieces);
            // SAFETY: as in `read`.
            let asked = unsafe { queue.writev(offset, pieces.as_ptr(), pieces.len(), 0) };
            asked.expect("room in the queue");
        })
    }
}

fn vectors(memory: &Shared, pieces: &[(usize, usize)]) -> Vec<iovec> {
    let vector = |&(offset, len): &(usize, usize)| {
        assert!(offset + len <= memory.len);
        iovec { iov_base: memory.at(offset).cast(), iov_len: len }
    };
    pieces.iter().map(vector).collect()
}
