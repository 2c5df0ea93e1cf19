//! The part that a client holds of the memory for clients, counted before anything is allocated.

use crate::buffer::Buffer;
use crate::limits::{
    CONNECTION_BYTES_MAX, CONNECTION_OWN_BYTES, CONNECTION_REQUESTS_MAX, CONNECTION_RESERVED_BYTES,
    FREE_PART, PACED_PART, REQUEST_BYTES,
};
use crate::memory::Memory;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// From this size on, data is sent from where it lies instead of being copied behind its header.
pub(crate) const IN_PLACE_BYTES: usize = 32 * 1024;

/// The bytes of a request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub bytes: u64,
    /// Whether stage pace may hold the request up: a buffered write.
    pub is_paced: bool,
}

impl Held {
    /// The memory of a request with so much data. Small data of a reply is copied behind its
    /// header, into memory that grows by doubling.
    pub fn with_data(len: usize, is_paced: bool) -> Held {
        let data = if len < IN_PLACE_BYTES { 2 * len } else { Buffer::capacity_for(len) };
        Held { bytes: data as u64 + REQUEST_BYTES, is_paced }
    }

    /// The memory of a request without data.
    pub fn without_data() -> Held {
        Held::from(REQUEST_BYTES)
    }
}

impl From<u64> for Held {
    /// So many bytes of a request that is not paced.
    fn from(bytes: u64) -> Held {
        Held { bytes, is_paced: false }
    }
}

/// All that a connection holds.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// Requests taken in and not answered.
    pub(crate) open_count: usize,
    /// Bytes counted for requests and for replies not sent.
    held_bytes: u64,
    /// Of these, those that belong to answered requests: given back when all replies are sent.
    answered_bytes: u64,
    /// Of these, those taken from the shared memory.
    pub(crate) shared_bytes: u64,
    /// Of these, those of buffered writes that are not answered: stage pace may hold them up.
    paced_bytes: u64,
    /// Of these, those taken from the memory for such writes.
    pub(crate) paced_shared_bytes: u64,
}

impl Holdings {
    /// Whether a request may be taken in, as far as the connection's own bounds go.
    ///
    /// Each connection may have a part of what is free, so that something always is, however many
    /// take no replies (the dynamic threshold of Choudhury and Hahne, 1998). Writes that stage pace
    /// holds up may have less. One request may always be taken in: who holds nothing waits for
    /// memory in line with all others, and not for himself.
    pub(crate) fn has_room(&self, held: Held, memory: &Memory) -> bool {
        let Held { bytes, is_paced } = held;
        let is_within = |own: u64, memory: &Memory, part: u64| {
            own == 0
                || own + bytes <= CONNECTION_OWN_BYTES
                || own + bytes <= CONNECTION_OWN_BYTES + memory.free_bytes() / part
        };
        let fits = self.held_bytes + bytes <= CONNECTION_BYTES_MAX || self.held_bytes == 0;
        fits && self.open_count < CONNECTION_REQUESTS_MAX
            && is_within(self.held_bytes, memory, FREE_PART)
            && (!is_paced || is_within(self.paced_bytes, memory.paced(), PACED_PART))
    }

    /// Takes a request in if there is room for it now.
    pub(crate) fn try_open(&mut self, held: Held, memory: &Memory) -> bool {
        if !self.has_room(held, memory) {
            return false;
        }
        let paced = self.paced_part(held);
        if paced > 0 && !memory.paced().try_take(paced) {
            return false;
        }
        let shared = self.shared_part(held);
        if shared > 0 && !memory.try_take(shared) {
            memory.paced().give(paced);
            return false;
        }
        self.open(held, shared, paced);
        true
    }

    /// What a request takes from the shared memory.
    pub(crate) fn shared_part(&self, held: Held) -> u64 {
        (self.held_bytes + held.bytes).saturating_sub(CONNECTION_OWN_BYTES + self.shared_bytes)
    }

    /// Of that, what counts as paced.
    pub(crate) fn paced_part(&self, held: Held) -> u64 {
        let bytes = if held.is_paced { held.bytes } else { return 0 };
        (self.paced_bytes + bytes).saturating_sub(CONNECTION_OWN_BYTES + self.paced_shared_bytes)
    }

    /// Takes a request in.
    pub(crate) fn open(&mut self, held: Held, shared_bytes: u64, paced_shared_bytes: u64) {
        self.open_count += 1;
        self.held_bytes += held.bytes;
        self.paced_bytes += if held.is_paced { held.bytes } else { 0 };
        self.shared_bytes += shared_bytes;
        self.paced_shared_bytes += paced_shared_bytes;
    }

    /// A request is answered: what it holds is given back when the reply is sent. Returns how much
    /// of the memory for paced writes is to be given back now.
    #[must_use]
    pub(crate) fn close(&mut self, held: Held) -> u64 {
        self.open_count -= 1;
        self.answered_bytes += held.bytes;
        self.paced_bytes -= if held.is_paced { held.bytes } else { 0 };
        let shared = self.paced_bytes.saturating_sub(CONNECTION_OWN_BYTES);
        let freed = self.paced_shared_bytes.saturating_sub(shared);
        self.paced_shared_bytes -= freed;
        freed
    }

    /// All replies are sent. Returns how much of the shared memory is to be given back.
    pub(crate) fn settle(&mut self) -> u64 {
        self.held_bytes -= std::mem::take(&mut self.answered_bytes);
        let shared = self.held_bytes.saturating_sub(CONNECTION_OWN_BYTES);
        let freed = self.shared_bytes.saturating_sub(shared);
        self.shared_bytes -= freed;
        freed
    }
}

/// The memory of one client whose requests any thread may answer.
#[derive(Debug)]
pub(crate) struct HeldByClient {
    holds: Mutex<Holdings>,
    changed: Condvar,
    memory: Arc<Memory>,
}

impl HeldByClient {
    /// Of a client that holds nothing yet, but what each needs.
    pub(crate) fn new(memory: Arc<Memory>) -> HeldByClient {
        memory.reserve(CONNECTION_RESERVED_BYTES);
        HeldByClient { holds: Mutex::default(), changed: Condvar::new(), memory }
    }

    fn lock(&self) -> MutexGuard<'_, Holdings> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request, if there is room for it now.
    pub(crate) fn try_open(&self, held: Held) -> bool {
        self.lock().try_open(held, &self.memory)
    }

    /// Counts a request, waiting for room. One thread at a time does this for a client, and has
    /// submitted all that it gathered.
    pub(crate) fn open(&self, held: Held) {
        let has_none = |holds: &mut Holdings| !holds.has_room(held, &self.memory);
        let waited = self.changed.wait_while(self.lock(), has_none);
        let holds = waited.unwrap_or_else(PoisonError::into_inner);
        // Only this thread takes more: what is given back meanwhile leaves the rest as it is.
        let (paced, shared) = (holds.paced_part(held), holds.shared_part(held));
        drop(holds);
        self.memory.paced().take(paced);
        self.memory.take(shared);
        self.lock().open(held, shared, paced);
    }

    /// A request is answered.
    pub(crate) fn close(&self, held: Held) {
        let mut holds = self.lock();
        self.memory.paced().give(holds.close(held));
        self.memory.give(holds.settle());
        self.changed.notify_one();
    }
}

impl Drop for HeldByClient {
    fn drop(&mut self) {
        let holds = self.holds.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.memory.paced().give(holds.paced_shared_bytes);
        self.memory.give(holds.shared_bytes);
        self.memory.unreserve(CONNECTION_RESERVED_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn write(bytes: u64) -> Held {
        Held { bytes, is_paced: true }
    }

    /// Takes in as many writes of a MiB as there is room for.
    fn fill(holds: &mut Holdings, memory: &Memory) -> u64 {
        let mut count = 0;
        while holds.has_room(write(MIB), memory) {
            let paced = holds.paced_part(write(MIB));
            if !memory.paced().try_take(paced) {
                break;
            }
            let shared = holds.shared_part(write(MIB));
            assert!(memory.try_take(shared));
            holds.open(write(MIB), shared, paced);
            count += 1;
        }
        count
    }

    #[test]
    fn clients_that_are_held_up_leave_memory_to_the_others() {
        let memory = Memory::new(256 * MIB);
        let mut all: Vec<Holdings> = (0..400).map(|_| Holdings::default()).collect();
        let counts: Vec<u64> = all.iter_mut().map(|holds| fill(holds, &memory)).collect();
        assert!((36..=40).contains(&counts[0]), "{counts:?}");
        assert!(counts.is_sorted_by(|a, b| a >= b) && counts[19] >= 1, "{counts:?}");
        // However many of them there are.
        assert!(memory.free_bytes() >= 64 * MIB);
        // A client that is not held up is not bounded by that.
        let other = Holdings::default();
        assert!(other.has_room(Held::from(32 * MIB), &memory));
        // One write of any size may always come.
        assert!(other.has_room(write(32 * MIB), &memory));
        for mut holds in all {
            for _ in 0..holds.open_count {
                memory.paced().give(holds.close(write(MIB)));
            }
            memory.give(holds.settle());
            assert_eq!((holds.held_bytes, holds.paced_bytes, holds.shared_bytes), (0, 0, 0));
        }
        assert_eq!((memory.used_bytes(), memory.paced().used_bytes()), (0, 0));
    }

    #[test]
    fn clients_that_take_no_replies_leave_memory_to_the_others() {
        let memory = Memory::new(256 * MIB);
        let (mut all, mut counts) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            let (mut holds, read) = (Holdings::default(), Held::from(MIB));
            while holds.has_room(read, &memory) {
                let shared = holds.shared_part(read);
                assert!(memory.try_take(shared));
                holds.open(read, shared, 0);
            }
            counts.push(holds.open_count);
            all.push(holds);
        }
        assert!((84..=87).contains(&counts[0]), "{counts:?}");
        assert!(counts.is_sorted_by(|a, b| a >= b) && counts[7] >= 1, "{counts:?}");
    }
}
