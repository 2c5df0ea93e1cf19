//! Callers with a signal pending.
//!
//! The kernel names a request whose caller got a signal, once, whatever signal it was. That can be
//! received by another thread than the request, before it or after its reply. So a number stays
//! until its request is answered, and whoever registers for it later is told at once.

use crate::limits::INTERRUPTED_MAX;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The function that is called when a caller was interrupted.
pub(crate) type Told = Box<dyn FnOnce() + Send>;

/// The interrupted requests of a connection.
#[derive(Default)]
pub(crate) struct Interrupts {
    /// How many numbers the table has, of either kind: without any nothing is locked.
    count: AtomicUsize,
    table: Mutex<InterruptTable>,
    /// Called with every interrupt.
    all: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct InterruptTable {
    /// Those that registered and were not interrupted yet.
    waiting: HashMap<u64, Told>,
    /// Those that were interrupted and are not answered yet.
    interrupted: HashSet<u64>,
    /// The same in order of arrival, with some that were answered since.
    order: VecDeque<u64>,
}

impl InterruptTable {
    fn len(&self) -> usize {
        self.waiting.len() + self.interrupted.len()
    }

    fn remember(&mut self, unique: u64) {
        if self.interrupted.insert(unique) {
            self.order.push_back(unique);
        }
        if self.order.len() > INTERRUPTED_MAX {
            let interrupted = &self.interrupted;
            self.order.retain(|unique| interrupted.contains(unique));
        }
        while self.order.len() > INTERRUPTED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.interrupted.remove(&oldest);
        }
    }
}

impl fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupts").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Interrupts {
    fn table(&self) -> MutexGuard<'_, InterruptTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the table and counts anew.
    fn change<T>(&self, change: impl FnOnce(&mut InterruptTable) -> T) -> T {
        let mut table = self.table();
        let result = change(&mut table);
        self.count.store(table.len(), SeqCst);
        result
    }

    /// `told` is called with every interrupt, by the thread that receives it; once it is set, it
    /// stays.
    pub(crate) fn tell(&self, told: Box<dyn Fn() + Send + Sync>) {
        let _ = self.all.set(told);
    }

    /// The kernel says that the caller of this request was interrupted.
    pub(crate) fn deliver(&self, unique: u64) {
        let told = self.change(|table| {
            table.remember(unique);
            table.waiting.remove(&unique)
        });
        if let Some(told) = told {
            told();
        }
        if let Some(all) = self.all.get() {
            all();
        }
    }

    /// Calls `told` once the caller of this request is interrupted: now if it was already.
    pub(crate) fn register(&self, unique: u64, told: Told) {
        let now = self.change(|table| {
            if table.interrupted.contains(&unique) {
                return Some(told);
            }
            table.waiting.insert(unique, told);
            None
        });
        if let Some(told) = now {
            told();
        }
    }

    /// Whether the caller of this request was interrupted; never again false until it is answered.
    pub(crate) fn contains(&self, unique: u64) -> bool {
        self.count.load(SeqCst) > 0 && self.table().interrupted.contains(&unique)
    }

    /// The request is answered: it is forgotten.
    pub(crate) fn answered(&self, unique: u64) {
        if self.count.load(SeqCst) > 0 {
            // Dropped without the lock: it may be the last that holds something.
            let _told = self.change(|table| {
                table.interrupted.remove(&unique);
                table.waiting.remove(&unique)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn register(interrupts: &Interrupts, unique: u64) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&count);
        interrupts.register(unique, Box::new(move || told.store(told.load(SeqCst) + 1, SeqCst)));
        count
    }

    #[test]
    fn an_interrupt_is_told_once_whichever_comes_first() {
        let interrupts = Interrupts::default();
        let later = register(&interrupts, 2);
        assert_eq!(later.load(SeqCst), 0);
        interrupts.deliver(2);
        interrupts.deliver(4);
        let earlier = register(&interrupts, 4);
        assert_eq!((later.load(SeqCst), earlier.load(SeqCst)), (1, 1));
        assert!(interrupts.contains(2) && interrupts.contains(4) && !interrupts.contains(6));
        interrupts.answered(2);
        interrupts.answered(4);
        assert!(!interrupts.contains(2) && interrupts.count.load(SeqCst) == 0);
    }

    #[test]
    fn what_was_answered_is_told_nothing() {
        let interrupts = Interrupts::default();
        let told = register(&interrupts, 2);
        interrupts.answered(2);
        interrupts.deliver(2);
        assert_eq!(told.load(SeqCst), 0);
        assert_eq!(Arc::strong_count(&told), 1, "what it held is let go");
    }

    #[test]
    fn late_interrupts_take_bounded_memory() {
        let interrupts = Interrupts::default();
        let many = INTERRUPTED_MAX as u64 + 10;
        (0..many).for_each(|unique| interrupts.deliver(unique));
        assert!(!interrupts.contains(9) && interrupts.contains(10), "the oldest goes");
        assert_eq!(interrupts.table().order.len(), INTERRUPTED_MAX);
    }
}
