//! The rings of a machine, written byte by byte: for what no driver does.

use super::machine::Shared;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use vhost::vhost_user::message::VhostUserProtocolFeatures as Protocol;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;

/// Places of the queue.
pub const SIZE: u16 = 16;

const GUEST: u64 = 1 << 30;
const AVAILABLE: usize = 0x1000;
const USED: usize = 0x2000;
const HEADERS: usize = 0x3000;
const STATUS: usize = 0x4000;
const DATA: usize = 0x10000;
pub const MEMORY: usize = 1 << 20;

/// Part of a request.
#[derive(Clone, Copy)]
pub struct Descriptor {
    pub address: u64,
    pub len: u32,
    pub flags: u16,
    pub next: u16,
}

/// One queue of one machine.
pub struct Rings {
    pub memory: Shared,
    pub talk: Frontend,
    kick: EventFd,
    call: EventFd,
    seen: u16,
}

/// An address in the machine of a place in its memory.
pub fn guest(place: usize) -> u64 {
    GUEST + place as u64
}

impl Rings {
    /// Connects and agrees on what is possible, without a queue yet.
    pub fn connect(socket: &Path) -> Rings {
        Rings::connect_with(socket, Shared::new(MEMORY))
    }

    /// The same with memory that there is already.
    pub fn connect_with(socket: &Path, memory: Shared) -> Rings {
        let mut talk = Frontend::connect(socket, 1).expect("connects");
        talk.set_owner().expect("owner");
        let features = talk.get_features().expect("features");
        talk.set_features(features & !(1 << 29)).expect("features");
        let offered = talk.get_protocol_features().expect("features");
        let wanted = Protocol::MQ | Protocol::CONFIG | Protocol::INFLIGHT_SHMFD;
        assert!(offered.contains(wanted));
        talk.set_protocol_features(wanted | Protocol::REPLY_ACK).expect("features");
        talk.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        let (kick, call) = (EventFd::new(0).expect("one"), EventFd::new(0).expect("one"));
        Rings { memory, talk, kick, call, seen: 0 }
    }

    /// Shares the memory and begins with the queue.
    pub fn start(&mut self, base: u16) -> Result<(), String> {
        self.share(MEMORY as u64, self.memory.fd())?;
        let user = |place: usize| self.memory.at(place).addr() as u64;
        let places = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: user(0),
            used_ring_addr: user(USED),
            avail_ring_addr: user(AVAILABLE),
            log_addr: None,
        };
        let all = || -> vhost::Result<()> {
            self.talk.set_vring_num(0, SIZE)?;
            self.talk.set_vring_base(0, base)?;
            self.talk.set_vring_addr(0, &places)?;
            self.talk.set_vring_call(0, &self.call)?;
            self.talk.set_vring_kick(0, &self.kick)
        };
        all().map_err(|error| error.to_string())?;
        self.talk.set_vring_enable(0, true).map_err(|error| error.to_string())
    }

    pub fn share(&self, bytes: u64, fd: RawFd) -> Result<(), String> {
        self.share_at(GUEST, bytes, fd)
    }

    /// Shares memory as that of the machine from an address on.
    pub fn share_at(&self, address: u64, bytes: u64, fd: RawFd) -> Result<(), String> {
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: address,
            memory_size: bytes,
            userspace_addr: self.memory.at(0).addr() as u64,
            mmap_offset: 0,
            mmap_handle: fd,
        };
        let shared = self.talk.set_mem_table(&[region]);
        shared.map(drop).map_err(|error| error.to_string())
    }

    pub fn descriptor(&mut self, at: u16, descriptor: Descriptor) {
        let Descriptor { address, len, flags, next } = descriptor;
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.put(usize::from(at) * 16, &bytes);
    }

    pub fn put(&mut self, place: usize, bytes: &[u8]) {
        self.memory.bytes()[place..place + bytes.len()].copy_from_slice(bytes);
    }

    /// A request of one page in three descriptors, from this one on: a read or a write.
    pub fn page(&mut self, head: u16, is_write: bool, sector: u64) {
        let at = usize::from(head);
        let mut header = u32::from(is_write).to_le_bytes().to_vec();
        header.extend([0; 4]);
        header.extend(sector.to_le_bytes());
        self.put(HEADERS + at * 16, &header);
        self.put(STATUS + at, &[0xff]);
        let part = |place, len, flags, next| {
            let address = guest(place);
            Descriptor { address, len, flags, next }
        };
        self.descriptor(head, part(HEADERS + at * 16, 16, 1, head + 1));
        let flags = if is_write { 1 } else { 3 };
        self.descriptor(head + 1, part(DATA + at * 4096, 4096, flags, head + 2));
        self.descriptor(head + 2, part(STATUS + at, 1, 2, 0));
    }

    /// The page of the request that begins there.
    pub fn data(&mut self, head: u16) -> &mut [u8] {
        let place = DATA + usize::from(head) * 4096;
        &mut self.memory.bytes()[place..place + 4096]
    }

    pub fn status(&mut self, head: u16) -> u8 {
        self.memory.bytes()[STATUS + usize::from(head)]
    }

    fn word(&self, place: usize) -> &AtomicU16 {
        // SAFETY: an even place in mapped memory, only touched so while the disk is there.
        unsafe { AtomicU16::from_ptr(self.memory.at(place).cast()) }
    }

    /// Makes requests available, but for the index and the kick.
    pub fn fill(&self, heads: &[u16]) {
        let index = self.word(AVAILABLE + 2).load(Ordering::Relaxed);
        for (at, head) in (index..).zip(heads) {
            let place = AVAILABLE + 4 + usize::from(at % SIZE) * 2;
            self.word(place).store(*head, Ordering::Relaxed);
        }
        let index = index.wrapping_add(heads.len() as u16);
        self.word(AVAILABLE + 2).store(index, Ordering::Release);
    }

    /// Makes requests available.
    pub fn ask(&self, heads: &[u16]) {
        self.fill(heads);
        self.kick.write(1).expect("kicked");
    }

    /// Waits for so many answers: their heads.
    pub fn answers(&mut self, count: usize) -> Vec<u16> {
        let mut heads = Vec::new();
        while heads.len() < count {
            if self.word(USED + 2).load(Ordering::Acquire) == self.seen {
                assert!(self.is_called(), "the disk does not answer");
                continue;
            }
            let place = USED + 4 + usize::from(self.seen % SIZE) * 8;
            heads.push(self.word(place).load(Ordering::Relaxed));
            self.seen = self.seen.wrapping_add(1);
        }
        heads
    }

    /// Whether the disk calls within a minute.
    fn is_called(&self) -> bool {
        // SAFETY: `self.call` keeps it open.
        let fd = unsafe { BorrowedFd::borrow_raw(self.call.as_raw_fd()) };
        let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
        let called = poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&limit));
        called == Ok(1) && self.call.read().is_ok()
    }

    /// Whether no answer comes for a while.
    pub fn stays_unanswered(&self) -> bool {
        let before = self.used();
        // SLEEP: for what must not happen; a slow machine only makes it miss more.
        std::thread::sleep(std::time::Duration::from_millis(200));
        self.used() == before
    }

    /// Where its used ring stands.
    pub fn used(&self) -> u16 {
        self.word(USED + 2).load(Ordering::Acquire)
    }
}
