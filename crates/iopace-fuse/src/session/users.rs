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
use crate::errno::Errno;
use crate::limits::{
    BACKGROUND_PART, BACKGROUND_USER_MIN, OTHERS_THREADS, QUEUED_BYTES, QUEUED_OVERHEAD,
    QUEUED_USER_BYTES, ROOT_THREADS, SLOTS, SPARE_THREADS, USER_THREADS,
};
use crate::subordinate::share_of;
use crate::turns::Turns;
use std::collections::BTreeMap;
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
    /// The kernel may ask it in nobody's name, of which it has a bound for all users together.
    pub(super) is_background: bool,
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
    /// The user in whose share another one counts.
    share_of: fn(u32) -> u32,
    /// Most requests that the kernel sends without anybody who waits.
    background_max: usize,
    parked_count: AtomicUsize,
    table: Mutex<UserTable>,
}

#[derive(Debug, Default)]
struct UserTable {
    /// Slots without a thread.
    unused: Vec<usize>,
    parked: Turns<Parked>,
    /// Bytes in the queues of all but root.
    others_bytes: usize,
    /// Background requests in the queues, by user, and in all.
    background: BTreeMap<u32, usize>,
    background_count: usize,
    is_over: bool,
}

fn busy(threads: u64) -> usize {
    (threads & (THREAD - 1)) as usize
}

fn idle(threads: u64) -> usize {
    ((threads / THREAD) as usize).saturating_sub(busy(threads))
}

impl Users {
    pub(super) fn new(background_max: usize) -> Users {
        Users::with_shares(background_max, share_of)
    }

    fn with_shares(background_max: usize, share_of: fn(u32) -> u32) -> Users {
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        let table = UserTable { unused: (0..SLOTS).rev().collect(), ..UserTable::default() };
        Users {
            threads: AtomicU64::new(0),
            slots,
            share_of,
            background_max,
            parked_count: AtomicUsize::new(0),
            table: Mutex::new(table),
        }
    }

    fn table(&self) -> MutexGuard<'_, UserTable> {
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
        let uid = (self.share_of)(uid);
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
    /// it may go on after all. `Err`: there is no room for it, and what it gets. Whoever is told
    /// `None` or `Err` has no request any more.
    pub(super) fn park(
        &self,
        slot: usize,
        mut parked: Parked,
    ) -> Result<Option<Parked>, (Parked, Errno)> {
        parked.uid = (self.share_of)(parked.uid);
        let mut table = self.table();
        self.parked_count.fetch_add(1, SeqCst);
        if self.may_enter(parked.uid) {
            self.parked_count.fetch_sub(1, SeqCst);
            return Ok(Some(parked));
        }
        let result = match table.refusal(&parked, self.background_max) {
            Some(errno) => Err((parked, errno)),
            None => {
                table.push(parked);
                Ok(())
            }
        };
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

impl UserTable {
    /// Why there is no room for a request.
    fn refusal(&self, parked: &Parked, background_max: usize) -> Option<Errno> {
        let uid = parked.uid;
        if self.is_over {
            return Some(Errno::ENOMEM);
        }
        if parked.is_kept {
            return None;
        }
        if parked.is_background && uid != ROOT {
            let own = self.background.get(&uid).copied().unwrap_or_default();
            let left = background_max.saturating_sub(self.background_count - own);
            if own >= (left / BACKGROUND_PART).max(BACKGROUND_USER_MIN) {
                return Some(Errno::EAGAIN);
            }
        }
        let others_bytes = if uid == ROOT { 0 } else { self.others_bytes };
        let own_max = if uid == ROOT { QUEUED_BYTES } else { QUEUED_USER_BYTES };
        let (own, cost) = (self.parked.cost(uid)?, parked.cost());
        (own + cost > own_max || others_bytes + cost > QUEUED_BYTES).then_some(Errno::ENOMEM)
    }

    fn push(&mut self, parked: Parked) {
        let (uid, cost) = (parked.uid, parked.cost());
        if uid != ROOT {
            self.others_bytes += cost;
        }
        if parked.is_background {
            *self.background.entry(uid).or_default() += 1;
            self.background_count += 1;
        }
        self.parked.push(uid, parked, cost);
    }

    /// A request has left its queue.
    fn has_left(&mut self, uid: u32, parked: &Parked, cost: usize) {
        if uid != ROOT {
            self.others_bytes -= cost;
        }
        if parked.is_background {
            self.background_count -= 1;
            if let Some(own) = self.background.get_mut(&uid) {
                *own -= 1;
                if *own == 0 {
                    self.background.remove(&uid);
                }
            }
        }
    }

    fn next(&mut self, may: impl FnMut(u32) -> bool) -> Option<Parked> {
        let (uid, parked, cost) = self.parked.next(may)?;
        self.has_left(uid, &parked, cost);
        Some(parked)
    }

    fn take(&mut self, picks: impl Fn(&Parked) -> bool) -> Vec<Parked> {
        let taken = self.parked.take(picks);
        taken.iter().for_each(|(uid, parked, cost)| self.has_left(*uid, parked, *cost));
        taken.into_iter().map(|(_, parked, _)| parked).collect()
    }
}

#[cfg(test)]
mod tests;
