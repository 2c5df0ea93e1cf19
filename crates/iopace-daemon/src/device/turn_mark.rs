//! Since when a device decides: its lock is held while the engine works, and a scheduler that does
//! not come to an end holds it for ever.
//!
//! The thread that watches ([`crate::live`]) looks here without the lock. A turn notes its
//! beginning and its end: two stores, no system call.

use iopace_core::engine::Control;
use iopace_core::sched::fifo;
use iopace_core::time::Instant;
use iopace_core::trace::Event;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// No turn goes on.
const NOBODY: u64 = 0;

/// A turn that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningTurn {
    /// The scheduler that decides, or is about to.
    pub scheduler: &'static str,
    /// When it began.
    pub since: Instant,
    /// The kernel's number of the thread.
    pub thread: u32,
}

/// The turn of a device that goes on, if one does.
#[derive(Debug)]
pub(super) struct TurnMark {
    since: AtomicU64,
    thread: AtomicU32,
    scheduler: Mutex<&'static str>,
}

impl TurnMark {
    /// Nothing goes on; that scheduler will decide.
    pub(super) fn new(scheduler: &'static str) -> TurnMark {
        let (since, thread) = (AtomicU64::new(NOBODY), AtomicU32::new(0));
        TurnMark { since, thread, scheduler: Mutex::new(scheduler) }
    }

    /// A turn begins; it lasts as long as what is returned.
    #[inline]
    pub(super) fn begin(&self, now: Instant) -> Turn<'_> {
        self.thread.store(own_thread(), Relaxed);
        self.since.store(now.0.max(NOBODY + 1), Relaxed);
        Turn(self)
    }

    /// A change of the scheduler: the one that comes is given what is queued at once, and may not
    /// come to an end over that.
    pub(super) fn foresee(&self, control: &Control) {
        if let Control::Insert(algorithm, _) | Control::Configure(Some(algorithm), _) = control {
            self.by(algorithm.name);
        }
    }

    /// The scheduler that decides after this event, if it changes that.
    pub(super) fn note(&self, event: &Event) {
        match event {
            Event::SchedulerExchanged { to, .. } => self.by(to),
            Event::SchedulerFailed { .. } => self.by(fifo::ALGORITHM.name),
            _ => {}
        }
    }

    /// From now on that scheduler decides.
    fn by(&self, scheduler: &'static str) {
        *self.scheduler.lock().unwrap_or_else(PoisonError::into_inner) = scheduler;
    }

    /// The turn that goes on.
    pub(super) fn get(&self) -> Option<RunningTurn> {
        let since = self.since.load(Relaxed);
        let scheduler = *self.scheduler.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = self.thread.load(Relaxed);
        (since != NOBODY).then_some(RunningTurn { scheduler, since: Instant(since), thread })
    }
}

/// A turn that goes on.
pub(super) struct Turn<'a>(&'a TurnMark);

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.since.store(NOBODY, Relaxed);
    }
}

/// The kernel's number of the calling thread, asked for once.
fn own_thread() -> u32 {
    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_seen_while_it_lasts_also_if_it_panics() {
        let hold = TurnMark::new("fair");
        assert_eq!(hold.get(), None);
        let turn = hold.begin(Instant(7));
        hold.by("mine");
        let thread = own_thread();
        let (scheduler, since) = ("mine", Instant(7));
        assert_eq!(hold.get(), Some(RunningTurn { scheduler, since, thread }));
        drop(turn);
        assert_eq!(hold.get(), None);
        let panics = || {
            let _turn = hold.begin(Instant(8));
            panic!("within a turn");
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        assert_eq!(hold.get(), None);
    }
}
