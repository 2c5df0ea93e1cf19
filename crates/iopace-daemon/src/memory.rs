//! The memory that all clients share for requests and replies: counted at the door, before anything
//! is allocated.

use std::sync::{Condvar, Mutex, PoisonError};

/// A count of bytes with an upper bound.
#[derive(Debug)]
pub struct Memory {
    max_bytes: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used_bytes: u64,
    waiting_count: usize,
}

impl Memory {
    /// Room for `max_bytes`.
    pub fn new(max_bytes: u64) -> Memory {
        Memory { max_bytes, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Takes `bytes` if there is room.
    pub fn try_take(&self, bytes: u64) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = state.used_bytes + bytes <= self.max_bytes || state.used_bytes == 0;
        if fits {
            state.used_bytes += bytes;
        }
        fits
    }

    /// Takes `bytes`, waiting for room. One that is larger than all there is gets it alone.
    pub fn take(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting_count += 1;
        while state.used_bytes + bytes > self.max_bytes && state.used_bytes > 0 {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting_count -= 1;
        state.used_bytes += bytes;
    }

    /// Gives bytes back.
    pub fn give(&self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used_bytes = state.used_bytes.checked_sub(bytes).expect("gave back what was taken");
        if state.waiting_count > 0 {
            self.freed.notify_all();
        }
    }

    /// Bytes in use.
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).used_bytes
    }

    /// Bytes that nobody uses.
    pub fn free_bytes(&self) -> u64 {
        self.max_bytes.saturating_sub(self.used_bytes())
    }

    /// Whether somebody waits for room.
    pub fn is_wanted(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting_count > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_does_not_fit_waits_until_it_does() {
        let memory = Arc::new(Memory::new(100));
        assert!(memory.try_take(80));
        assert!(!memory.try_take(30));
        let waiting = {
            let memory = Arc::clone(&memory);
            std::thread::spawn(move || memory.take(30))
        };
        while !memory.is_wanted() {
            std::thread::yield_now();
        }
        memory.give(80);
        waiting.join().expect("it got its room");
        assert_eq!(memory.used_bytes(), 30);
    }

    #[test]
    fn one_larger_than_all_gets_it_alone() {
        let memory = Memory::new(100);
        assert!(memory.try_take(1_000));
        assert!(!memory.try_take(1));
        memory.give(1_000);
        assert!(memory.try_take(1));
    }
}
