//! Looking for a client's next request for a moment before sleeping.
//!
//! At depth 1 the client answers within some 10 µs, and putting a processor to sleep and waking it
//! costs more than that, in a virtual machine several times more. The rule is that of KVM's halt
//! polling: look for a moment where the last wait showed that a moment would have been enough, and
//! not at all after a longer one. Every look yields the processor to whoever can use it.

use crate::clock;
use crate::limits::{SPIN_MAX, SPIN_PAYS};
use iopace_core::time::Nanos;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Threads that spin now, in the whole process.
static SPINNING: AtomicUsize = AtomicUsize::new(0);

/// So many may: one processor is left to the clients. None where there is only one.
fn spinners_max() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| thread::available_parallelism().map_or(0, |count| count.get() - 1))
}

/// One look.
#[derive(Debug)]
pub(crate) enum Look<T> {
    /// It has come.
    Found(T),
    /// Nothing has come yet.
    Nothing,
    /// Nothing will: the call that waits finds out why.
    Ended,
}

/// One connection's habit.
#[derive(Debug, Default)]
pub(crate) struct Spin {
    /// Whether the last wait was short enough to have been spent spinning.
    pays: bool,
}

impl Spin {
    /// The thing that came while looking; `None` if the caller is to sleep until it comes.
    pub(crate) fn wait<T>(&self, look: impl FnMut() -> Look<T>) -> Option<T> {
        if !self.pays {
            return None;
        }
        let is_free = SPINNING.fetch_add(1, Relaxed) < spinners_max();
        let found = is_free.then(|| look_for_a_moment(look)).flatten();
        SPINNING.fetch_sub(1, Relaxed);
        found
    }

    /// So long the thread slept until bytes came.
    pub(crate) fn slept(&mut self, time: Nanos) {
        self.pays = time < SPIN_PAYS;
    }
}

fn look_for_a_moment<T>(mut look: impl FnMut() -> Look<T>) -> Option<T> {
    let begin = clock::now();
    loop {
        match look() {
            Look::Found(found) => return Some(found),
            Look::Nothing if clock::now().since(begin) < SPIN_MAX => thread::yield_now(),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_only_after_a_short_wait() {
        let mut spin = Spin::default();
        assert_eq!(spin.wait(|| Look::Found(1)), None);
        spin.slept(Nanos::from_micros(1));
        if spinners_max() > 0 {
            assert_eq!(spin.wait(|| Look::Found(1)), Some(1));
        }
        assert_eq!(spin.wait(|| Look::<u32>::Nothing), None, "nothing there: sleep");
        spin.slept(Nanos::from_millis(1));
        assert_eq!(spin.wait(|| Look::Found(1)), None);
    }

    #[test]
    fn leaves_an_end_to_the_call_that_waits() {
        let mut looks = 0;
        let found = Spin { pays: true }.wait(|| {
            looks += 1;
            Look::<u32>::Ended
        });
        assert_eq!(found, None);
        assert!(looks <= 1);
    }
}
