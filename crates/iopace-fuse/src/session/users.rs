//! How many threads each user's requests hold, and what waits for one.
//!
//! ```text
//!  request ─► enter: few threads are busy ─────────────► the method ─► leave ─► next parked one
//!                    many: is its user at his limit?          ▲                      │
//!                           │ yes                             └──────────────────────┘
//!                           └─► queue of that user
//! ```
//! The usual case takes one atomic addition on the way in and one on the way out. Only when more
//! threads are busy than one user may hold is anything counted by user, and that is done by looking
//! at each thread's slot under a lock.
//!
//! # Why nothing is left in a queue
//! A thread that parks raises `parked_count` before it looks at the slots; one that ends clears its
//! slot before it looks at `parked_count`. So one of the two sees the other. A request is parked
//! only if as many other slots as its user may have were taken, and each of those ends later.

use crate::device::Device;
use crate::limits::{
    OTHERS_THREADS, QUEUED_BYTES, QUEUED_OVERHEAD, QUEUED_USER_BYTES, ROOT_THREADS, SLOTS,
    SPARE_THREADS, USER_THREADS,
};
use crate::turns::Turns;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ROOT: u32 = 0;

/// In the word of [`Threads`]: threads that there are, and those that have a request.
const THREAD: u64 = 1 << 32;
const BUSY: u64 = 1;

/// A slot whose thread has no request.
const FREE: u64 = 0;

/// The user of a thread's request, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Slot(AtomicU64);

/// A request that waits for a thread.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) uid: u32,
    pub(super) unique: u64,
    /// It is never refused, however much waits, see `is_kept` of `worker.rs`.
    pub(super) is_kept: bool,
    pub(super) bytes: Vec<u8>,
    /// It is answered through this.
    pub(super) device: Arc<Device>,
}

impl Parked {
    fn cost(&self) -> usize {
        self.bytes.len() + QUEUED_OVERHEAD
    }
}

/// The fate of a request that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// It goes on in this thread.
    Runs {
        /// No other thread receives.
        is_last: bool,
    },
    /// Its user holds too many threads.
    Waits,
}

/// The threads of a session.
#[derive(Debug)]
pub(super) struct Users {
    threads: AtomicU64,
    slots: Vec<Slot>,
    parked_count: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Slots without a thread.
    unused: Vec<usize>,
    parked: Turns<Parked>,
    /// Bytes in the queues of all but root.
    others_bytes: usize,
    is_over: bool,
}

fn busy(threads: u64) -> usize {
    (threads & (THREAD - 1)) as usize
}

fn idle(threads: u64) -> usize {
    ((threads / THREAD) as usize).saturating_sub(busy(threads))
}

impl Users {
    pub(super) fn new() -> Users {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        let table = Table { unused: (0..SLOTS).rev().collect(), ..Table::default() };
        Users {
            threads: AtomicU64::new(0),
            slots,
            parked_count: AtomicUsize::new(0),
            table: Mutex::new(table),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for one more thread; `None` if there are too many.
    pub(super) fn add_thread(&self) -> Option<usize> {
        let slot = self.table().unused.pop()?;
        self.threads.fetch_add(THREAD, SeqCst);
        Some(slot)
    }

    /// A thread has ended, or did not begin, with a request or without.
    pub(super) fn remove_thread(&self, slot: usize) {
        self.threads.fetch_sub(THREAD, SeqCst);
        self.table().unused.push(slot);
    }

    /// The thread of `slot` has received a request of this user.
    pub(super) fn enter(&self, slot: usize, uid: u32) -> Entered {
        self.slots[slot].0.store(u64::from(uid) + 1, SeqCst);
        let threads = self.threads.fetch_add(BUSY, SeqCst) + BUSY;
        // So few cannot be too many of one user.
        if busy(threads) <= USER_THREADS || self.may_enter(uid) {
            return Entered::Runs { is_last: idle(threads) == 0 };
        }
        Entered::Waits
    }

    /// Whether a user is below his limit, the slot of the thread that asks included.
    fn may_enter(&self, uid: u32) -> bool {
        let (mut own, mut others) = (0, 0);
        for slot in &self.slots {
            match slot.0.load(SeqCst) {
                FREE => {}
                user => {
                    own += usize::from(user == u64::from(uid) + 1);
                    others += usize::from(user != u64::from(ROOT) + 1);
                }
            }
        }
        match uid {
            ROOT => own <= ROOT_THREADS,
            _ => own <= USER_THREADS && others <= OTHERS_THREADS,
        }
    }

    /// The request that [`Users::enter`] did not let go on waits. `Ok(None)`: it does. `Ok(Some)`:
    /// it may go on after all. `Err`: there is no room for it. Whoever is told `None` or `Err` has
    /// no request any more.
    pub(super) fn park(&self, slot: usize, parked: Parked) -> Result<Option<Parked>, Parked> {
        let mut table = self.table();
        self.parked_count.fetch_add(1, SeqCst);
        if self.may_enter(parked.uid) {
            self.parked_count.fetch_sub(1, SeqCst);
            return Ok(Some(parked));
        }
        let result = if table.is_over { Err(parked) } else { table.push(parked) };
        if result.is_err() {
            self.parked_count.fetch_sub(1, SeqCst);
        }
        self.slots[slot].0.store(FREE, SeqCst);
        drop(table);
        self.threads.fetch_sub(BUSY, SeqCst);
        result.map(|()| None)
    }

    /// The request of the thread of `slot` has left the file system. What waits and may go on now
    /// is for the same thread.
    pub(super) fn next(&self, slot: usize) -> Option<Parked> {
        self.slots[slot].0.store(FREE, SeqCst);
        if self.parked_count.load(SeqCst) == 0 {
            return None;
        }
        let mut table = self.table();
        let next = table.next(|uid| {
            self.slots[slot].0.store(u64::from(uid) + 1, SeqCst);
            self.may_enter(uid)
        });
        if next.is_some() {
            self.parked_count.fetch_sub(1, SeqCst);
            return next;
        }
        self.slots[slot].0.store(FREE, SeqCst);
        None
    }

    /// The thread has no request any more. False if there are so many others that it is to end:
    /// then it does not count any more.
    pub(super) fn leave(&self, slot: usize) -> bool {
        let mut threads = self.threads.fetch_sub(BUSY, SeqCst) - BUSY;
        while idle(threads) > SPARE_THREADS {
            match self.threads.compare_exchange(threads, threads - THREAD, SeqCst, SeqCst) {
                Ok(_) => {
                    self.table().unused.push(slot);
                    return false;
                }
                Err(now) => threads = now,
            }
        }
        true
    }

    /// Whether no thread receives.
    pub(super) fn has_no_reader(&self) -> bool {
        idle(self.threads.load(SeqCst)) == 0
    }

    /// Takes out of the queues what `picks` says.
    pub(super) fn take(&self, picks: impl Fn(&Parked) -> bool) -> Vec<Parked> {
        if self.parked_count.load(SeqCst) == 0 {
            return Vec::new();
        }
        let mut table = self.table();
        let taken = table.take(picks);
        self.parked_count.fetch_sub(taken.len(), SeqCst);
        taken
    }

    /// The connection has ended: what waits is given up, and nothing waits from now on.
    pub(super) fn end(&self) -> Vec<Parked> {
        self.table().is_over = true;
        self.take(|_| true)
    }

    /// How many threads there are, and how many requests wait for one.
    pub(super) fn counts(&self) -> (usize, usize) {
        let threads = self.threads.load(SeqCst) / THREAD;
        (threads as usize, self.parked_count.load(SeqCst))
    }
}

impl Table {
    fn push(&mut self, parked: Parked) -> Result<(), Parked> {
        let (uid, cost) = (parked.uid, parked.cost());
        let others_bytes = if uid == ROOT { 0 } else { self.others_bytes };
        let own_max = if uid == ROOT { QUEUED_BYTES } else { QUEUED_USER_BYTES };
        if let Some(own) = self.parked.cost(uid).filter(|_| !parked.is_kept)
            && (own + cost > own_max || others_bytes + cost > QUEUED_BYTES)
        {
            return Err(parked);
        }
        if uid != ROOT {
            self.others_bytes += cost;
        }
        self.parked.push(uid, parked, cost);
        Ok(())
    }

    fn next(&mut self, may: impl FnMut(u32) -> bool) -> Option<Parked> {
        let (uid, parked, cost) = self.parked.next(may)?;
        if uid != ROOT {
            self.others_bytes -= cost;
        }
        Some(parked)
    }

    fn take(&mut self, picks: impl Fn(&Parked) -> bool) -> Vec<Parked> {
        let taken = self.parked.take(picks);
        let others = taken.iter().filter(|(uid, ..)| *uid != ROOT);
        self.others_bytes -= others.map(|(.., cost)| cost).sum::<usize>();
        taken.into_iter().map(|(_, parked, _)| parked).collect()
    }
}

#[cfg(test)]
mod tests;
