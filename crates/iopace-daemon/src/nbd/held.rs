//! What a connection holds of the memory for clients, counted before anything is allocated.

use crate::limits::{
    CONNECTION_BYTES_MAX, CONNECTION_OWN_BYTES, CONNECTION_REQUESTS_MAX, PACED_PART,
};
use crate::memory::Memory;

/// The bytes of a request and its reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub bytes: u64,
    /// Whether stage pace may hold the request up: a buffered write.
    pub is_paced: bool,
}

impl From<u64> for Held {
    /// A request that is not paced.
    fn from(bytes: u64) -> Held {
        Held { bytes, is_paced: false }
    }
}

/// All that a connection holds.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    /// Requests taken in and not answered.
    pub(super) open_count: usize,
    /// Bytes counted for requests and for replies not sent.
    held_bytes: u64,
    /// Of these, those that belong to answered requests: given back when all replies are sent.
    answered_bytes: u64,
    /// Of these, those taken from the shared memory.
    pub(super) shared_bytes: u64,
    /// Of these, those of buffered writes that are not answered: stage pace may hold them up.
    paced_bytes: u64,
}

impl Holdings {
    /// Whether a request may be taken in, as far as the connection's own bounds go.
    ///
    /// Writes that stage pace holds up leave most of the shared memory alone, however many clients
    /// are held up: each may have a part of what is free, so that something always is (the dynamic
    /// threshold of Choudhury and Hahne, 1998).
    pub(super) fn has_room(&self, held: Held, memory: &Memory) -> bool {
        let Held { bytes, is_paced } = held;
        let fits = self.held_bytes + bytes <= CONNECTION_BYTES_MAX || self.held_bytes == 0;
        let paced = self.paced_bytes + bytes;
        let may_wait = !is_paced
            || self.paced_bytes == 0
            || paced <= CONNECTION_OWN_BYTES
            || paced <= CONNECTION_OWN_BYTES + memory.free_bytes() / PACED_PART;
        fits && may_wait && self.open_count < CONNECTION_REQUESTS_MAX
    }

    /// What a request takes from the shared memory.
    pub(super) fn shared_part(&self, held: Held) -> u64 {
        (self.held_bytes + held.bytes).saturating_sub(CONNECTION_OWN_BYTES + self.shared_bytes)
    }

    /// Takes a request in.
    pub(super) fn open(&mut self, held: Held, shared_bytes: u64) {
        self.open_count += 1;
        self.held_bytes += held.bytes;
        self.paced_bytes += if held.is_paced { held.bytes } else { 0 };
        self.shared_bytes += shared_bytes;
    }

    /// A request is answered: what it holds is given back when the reply is sent.
    pub(super) fn close(&mut self, held: Held) {
        self.open_count -= 1;
        self.answered_bytes += held.bytes;
        self.paced_bytes -= if held.is_paced { held.bytes } else { 0 };
    }

    /// All replies are sent. Returns how much of the shared memory is to be given back.
    pub(super) fn settle(&mut self) -> u64 {
        self.held_bytes -= std::mem::take(&mut self.answered_bytes);
        let shared = self.held_bytes.saturating_sub(CONNECTION_OWN_BYTES);
        let freed = self.shared_bytes.saturating_sub(shared);
        self.shared_bytes -= freed;
        freed
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
            let shared = holds.shared_part(write(MIB));
            assert!(shared == 0 || memory.try_take(shared));
            holds.open(write(MIB), shared);
            count += 1;
        }
        count
    }

    #[test]
    fn clients_that_are_held_up_leave_memory_to_the_others() {
        let memory = Memory::new(256 * MIB);
        let mut all: Vec<Holdings> = (0..40).map(|_| Holdings::default()).collect();
        let counts: Vec<u64> = all.iter_mut().map(|holds| fill(holds, &memory)).collect();
        assert!((45..=52).contains(&counts[0]), "{counts:?}");
        assert!(counts.is_sorted_by(|a, b| a >= b) && counts[39] >= 1, "{counts:?}");
        // A client that is not held up is not bounded by that.
        let other = Holdings::default();
        assert!(other.has_room(Held::from(32 * MIB), &memory));
        // One write of any size may always come.
        assert!(other.has_room(write(32 * MIB), &memory));
        for mut holds in all {
            (0..holds.open_count).for_each(|_| holds.close(write(MIB)));
            memory.give(holds.settle());
            assert_eq!((holds.held_bytes, holds.paced_bytes, holds.shared_bytes), (0, 0, 0));
        }
        assert_eq!(memory.used_bytes(), 0);
    }
}
