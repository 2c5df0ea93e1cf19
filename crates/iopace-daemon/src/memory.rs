//! The memory that all clients share for requests and replies: counted at the door, before anything
//! is allocated.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

/// One part in so many is for requests, whatever is reserved for connections.
const REQUESTS_PART: u64 = 4;

/// The memory of the process itself, taken off the configured bound: mapped code (30 MiB without
/// optimisation), its tables, and what the allocator keeps.
const PROCESS_BYTES: u64 = 48 << 20;

/// It takes no more than one part in so many of what is configured.
const PROCESS_PART: u64 = 4;

/// Pieces of memory from this size on go back to the system when they are freed. The C library
/// learns by default to keep them, in lists of each thread's own: then what clients had once stays
/// taken, though it is not counted any more. Those that are used again at once are kept in
/// `buffer.rs`.
#[cfg(target_env = "gnu")]
const RETURNED_BYTES_MIN: libc::c_int = 64 << 10;

/// So much that is free at the end of one of its heaps the C library keeps; there are up to eight
/// heaps for each processor. With its default (128 KiB) the buffers of 32 reads of 4 KiB went back
/// to the system when they were answered, and were fetched and zeroed for the next ones: 30
/// `madvise`, 7 `mprotect` and 500 page faults in a thousand reads. The library would raise that by
/// itself, but not once the other threshold is set.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 1 << 20;

/// Has what is freed go back to the system, as far as it matters for the bound.
pub(crate) fn return_what_is_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: settings of the allocator, which may be changed at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, RETURNED_BYTES_MIN);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}

/// A count of bytes with an upper bound.
#[derive(Debug)]
pub struct Memory {
    max_bytes: u64,
    state: Mutex<State>,
    /// The part that buffered writes may have, see [`Memory::paced`].
    paced: Option<Box<Memory>>,
}

#[derive(Debug, Default)]
struct State {
    used_bytes: u64,
    /// Taken away from what there is, for connections that exist.
    reserved_bytes: u64,
    /// Threads that wait for room, in order of arrival.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bytes: u64,
    thread: Thread,
    has_room: Arc<AtomicBool>,
}

impl Memory {
    /// Room for `max_bytes`.
    pub fn new(max_bytes: u64) -> Memory {
        let max_of_paced = max_bytes - max_bytes / REQUESTS_PART;
        let paced = Memory { max_bytes: max_of_paced, state: Mutex::default(), paced: None };
        Memory { max_bytes, state: Mutex::default(), paced: Some(Box::new(paced)) }
    }

    /// Requests that stage pace may hold up are counted here as well, before they count in all: so
    /// that writes of groups with a limit, however many, leave a quarter to all others.
    pub fn paced(&self) -> &Memory {
        self.paced.as_deref().unwrap_or(self)
    }

    /// Room for clients: what is left of `max_bytes` beside the process itself.
    pub fn beside_the_process(max_bytes: u64) -> Memory {
        let memory = Memory::new(max_bytes);
        memory.reserve(PROCESS_BYTES.min(max_bytes / PROCESS_PART));
        memory
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory that requests may take together.
    fn room(&self, state: &State) -> u64 {
        let left = self.max_bytes.saturating_sub(state.reserved_bytes);
        left.max(self.max_bytes / REQUESTS_PART)
    }

    /// One that is larger than all there is gets it alone.
    fn fits(&self, state: &State, bytes: u64) -> bool {
        state.used_bytes + bytes <= self.room(state) || state.used_bytes == 0
    }

    /// Takes `bytes` if there is room and nobody waits for some.
    pub fn try_take(&self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let mut state = self.lock();
        let fits = state.waiting.is_empty() && self.fits(&state, bytes);
        if fits {
            state.used_bytes += bytes;
        }
        fits
    }

    /// Takes `bytes`, waiting for room: who came first has it first.
    pub fn take(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut state = self.lock();
        if state.waiting.is_empty() && self.fits(&state, bytes) {
            state.used_bytes += bytes;
            return;
        }
        let has_room = Arc::new(AtomicBool::new(false));
        let thread = thread::current();
        state.waiting.push_back(Waiting { bytes, thread, has_room: Arc::clone(&has_room) });
        drop(state);
        // The count is read and written under the lock; this says only whose turn it is.
        while !has_room.load(Relaxed) {
            thread::park();
        }
    }

    /// Gives bytes back.
    pub fn give(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut state = self.lock();
        state.used_bytes = state.used_bytes.checked_sub(bytes).expect("gave back what was taken");
        self.let_in(&mut state);
    }

    fn let_in(&self, state: &mut State) {
        while let Some(first) = state.waiting.front()
            && self.fits(state, first.bytes)
        {
            let first = state.waiting.pop_front().expect("the first");
            state.used_bytes += first.bytes;
            first.has_room.store(true, Relaxed);
            first.thread.unpark();
        }
    }

    /// A connection costs so much by itself: there is less for requests from now on. This never
    /// waits, as the number of connections has a bound of its own.
    pub fn reserve(&self, bytes: u64) {
        self.lock().reserved_bytes += bytes;
        if let Some(paced) = &self.paced {
            paced.reserve(bytes - bytes / REQUESTS_PART);
        }
    }

    /// The connection is gone.
    pub fn unreserve(&self, bytes: u64) {
        let mut state = self.lock();
        state.reserved_bytes -= bytes;
        self.let_in(&mut state);
        drop(state);
        if let Some(paced) = &self.paced {
            paced.unreserve(bytes - bytes / REQUESTS_PART);
        }
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes
    }

    /// Bytes that nobody uses.
    pub fn free_bytes(&self) -> u64 {
        let state = self.lock();
        self.room(&state).saturating_sub(state.used_bytes)
    }

    /// Whether somebody waits for room.
    pub fn is_wanted(&self) -> bool {
        !self.lock().waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_waits_until_it_does_and_nobody_passes_it() {
        let memory = Arc::new(Memory::new(100));
        assert!(memory.try_take(80));
        assert!(!memory.try_take(30));
        let waiting = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || memory.take(30))
        };
        while !memory.is_wanted() {
            thread::yield_now();
        }
        assert!(!memory.try_take(1), "another one came first");
        memory.give(80);
        waiting.join().expect("it got its room");
        assert_eq!(memory.used_bytes(), 30);
        assert!(memory.try_take(70));
    }

    #[test]
    fn one_larger_than_all_gets_it_alone() {
        let memory = Memory::new(100);
        assert!(memory.try_take(1_000));
        assert!(!memory.try_take(1));
        memory.give(1_000);
        assert!(memory.try_take(1));
    }

    #[test]
    fn connections_leave_a_part_for_requests() {
        let memory = Memory::new(100);
        memory.reserve(60);
        assert_eq!(memory.free_bytes(), 40);
        memory.reserve(60);
        assert_eq!(memory.free_bytes(), 25);
        memory.unreserve(120);
        assert!(memory.try_take(100));
    }
}
