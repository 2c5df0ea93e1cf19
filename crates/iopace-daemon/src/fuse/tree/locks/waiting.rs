//! Those who wait for a lock, without a thread, and who waits for whom.
//!
//! # Deadlocks
//! As in the kernel (`posix_locks_deadlock` of fs/locks.c), an owner who would wait for himself by
//! way of others gets `EDEADLK`. The kernel leaves out locks that belong to open files
//! (`F_OFD_SETLKW`) and does not tell us which do. A process has only one owner that is not an open
//! file: so a ring in which one process is met as two owners is not taken for a deadlock.

use super::blocker::Blocker;
use super::{Wish, errno, no_locks};
use crate::limits::{LOCK_WAITERS_ROOT_MAX, LOCK_WAITERS_USER_MAX};
use iopace_fuse::subordinate::share_of;
use iopace_fuse::{Errno, ReplyEmpty};
use std::collections::HashMap;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ROOT: u32 = 0;

/// Steps of the look for a deadlock. The kernel takes ten.
const STEPS_MAX: usize = 1000;

/// Owners of a ring. The kernel takes ten.
const RING_MAX: usize = 32;

/// A request that waits for a lock.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) wish: Wish,
    pub(super) reply: ReplyEmpty,
}

#[derive(Debug)]
enum Stage {
    Waits(Box<Waiting>),
    /// It is being tried; it leaves with that error after that.
    Tried(Option<Errno>),
    Left,
}

/// The place of one who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    id: u64,
    uid: u32,
    pid: u32,
    /// `None` for `flock(2)`.
    owner: Option<u64>,
    stage: Mutex<Stage>,
}

impl Waiter {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_waiting(&self) -> bool {
        !matches!(*self.stage(), Stage::Left)
    }

    /// Whether this owner of locks of `fcntl(2)` waits here.
    pub(super) fn waits_as(&self, owner: u64) -> bool {
        self.owner == Some(owner) && self.is_waiting()
    }

    /// Takes out what is to be tried; `None` if it has left.
    pub(super) fn take(&self) -> Option<Box<Waiting>> {
        let mut stage = self.stage();
        match mem::replace(&mut *stage, Stage::Tried(None)) {
            Stage::Waits(waiting) => Some(waiting),
            other => {
                *stage = other;
                None
            }
        }
    }

    /// It goes on waiting, unless it was to leave meanwhile: then it comes back with its error.
    pub(super) fn put_back(&self, waiting: Box<Waiting>) -> Result<(), (Box<Waiting>, Errno)> {
        let mut stage = self.stage();
        match *stage {
            Stage::Tried(Some(error)) => {
                *stage = Stage::Left;
                Err((waiting, error))
            }
            _ => {
                *stage = Stage::Waits(waiting);
                Ok(())
            }
        }
    }

    /// It leaves: now, or once it was tried in vain.
    fn leave(&self, error: Errno) -> Option<Box<Waiting>> {
        let mut stage = self.stage();
        match mem::replace(&mut *stage, Stage::Left) {
            Stage::Waits(waiting) => Some(waiting),
            Stage::Tried(_) => {
                *stage = Stage::Tried(Some(error));
                None
            }
            Stage::Left => None,
        }
    }
}

/// One who waits, and for whom.
#[derive(Debug)]
struct Entry {
    waiter: Arc<Waiter>,
    /// The owner above whose lock is in the way.
    waits_for: Option<u64>,
}

#[derive(Debug, Default)]
struct Table {
    last: u64,
    waiters: HashMap<u64, Entry>,
    /// How many of each user.
    users: HashMap<u32, usize>,
    /// By owner, those by which he waits.
    owners: HashMap<u64, Vec<u64>>,
    is_over: bool,
}

impl Table {
    /// Whether an owner waits for another, directly or by way of others; `pids` are the processes
    /// on the way.
    fn leads_to(&self, from: u64, to: u64, pids: &mut Vec<u32>, steps: &mut usize) -> bool {
        if from == to {
            return true;
        }
        if pids.len() > RING_MAX {
            return false;
        }
        for id in self.owners.get(&from).into_iter().flatten() {
            let Some(Entry { waiter, waits_for: Some(next) }) = self.waiters.get(id) else {
                continue;
            };
            if *steps == 0 {
                return false;
            }
            *steps -= 1;
            if pids.contains(&waiter.pid) {
                continue;
            }
            pids.push(waiter.pid);
            if self.leads_to(*next, to, pids, steps) {
                return true;
            }
            pids.pop();
        }
        false
    }

    fn is_deadlock(&self, waiter: &Waiter, blocker: Blocker) -> bool {
        let (Some(owner), Blocker::Owner(other, _)) = (waiter.owner, blocker) else {
            return false;
        };
        self.leads_to(other, owner, &mut vec![waiter.pid], &mut STEPS_MAX.clone())
    }

    fn remove(&mut self, id: u64) {
        let Some(Entry { waiter, .. }) = self.waiters.remove(&id) else { return };
        if let Some(count) = self.users.get_mut(&waiter.uid) {
            *count -= 1;
            if *count == 0 {
                self.users.remove(&waiter.uid);
            }
        }
        if let Some(owner) = waiter.owner
            && let Some(own) = self.owners.get_mut(&owner)
        {
            own.retain(|other| *other != id);
            if own.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }
}

/// All who wait for locks of a mount.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Table>);

impl Waiters {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more waits, for this blocker. It is to be put back where it waits.
    ///
    /// # Errors
    /// It would wait for ever, its user has too many who wait, or the mount has ended.
    pub(super) fn add(&self, wish: &Wish, blocker: Blocker) -> io::Result<Arc<Waiter>> {
        let mut table = self.table();
        if table.is_over {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        let uid = share_of(wish.uid);
        let max = if uid == ROOT { LOCK_WAITERS_ROOT_MAX } else { LOCK_WAITERS_USER_MAX };
        if table.users.get(&uid).is_some_and(|count| *count >= max) {
            return Err(no_locks());
        }
        table.last += 1;
        let id = table.last;
        let owner = (!wish.lock.is_flock).then_some(wish.lock.owner.0);
        let stage = Mutex::new(Stage::Tried(None));
        let waiter = Arc::new(Waiter { id, uid, pid: wish.lock.pid, owner, stage });
        if table.is_deadlock(&waiter, blocker) {
            return Err(io::Error::from_raw_os_error(libc::EDEADLK));
        }
        *table.users.entry(uid).or_default() += 1;
        if let Some(owner) = owner {
            table.owners.entry(owner).or_default().push(id);
        }
        let entry = Entry { waiter: Arc::clone(&waiter), waits_for: owner_of(blocker) };
        table.waiters.insert(id, entry);
        Ok(waiter)
    }

    /// One waits for another blocker now.
    ///
    /// # Errors
    /// It would wait for ever.
    pub(super) fn waits_for(&self, waiter: &Waiter, blocker: Blocker) -> io::Result<()> {
        let mut table = self.table();
        if table.is_deadlock(waiter, blocker) {
            return Err(io::Error::from_raw_os_error(libc::EDEADLK));
        }
        if let Some(entry) = table.waiters.get_mut(&waiter.id) {
            entry.waits_for = owner_of(blocker);
        }
        Ok(())
    }

    /// One waits no more.
    pub(super) fn remove(&self, waiter: &Waiter) {
        self.table().remove(waiter.id);
    }

    /// The caller of one got a signal.
    pub(super) fn interrupt(&self, waiter: &Waiter) {
        if let Some(waiting) = waiter.leave(Errno::EINTR) {
            self.remove(waiter);
            waiting.reply.error(Errno::EINTR);
        }
    }

    /// The mount has ended: nobody waits any more.
    pub(super) fn end(&self) {
        let mut table = self.table();
        table.is_over = true;
        let all: Vec<Arc<Waiter>> =
            table.waiters.values().map(|entry| Arc::clone(&entry.waiter)).collect();
        drop(table);
        for waiter in all {
            if let Some(waiting) = waiter.leave(Errno::EIO) {
                self.remove(&waiter);
                waiting.reply.error(Errno::EIO);
            }
        }
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.table().waiters.len()
    }
}

fn owner_of(blocker: Blocker) -> Option<u64> {
    match blocker {
        Blocker::Owner(owner, _) => Some(owner),
        Blocker::Whole(_) | Blocker::Below | Blocker::Memory(_) => None,
    }
}

/// Says that it came to nothing.
pub(super) fn fail(waiting: Waiting, error: io::Error) {
    waiting.reply.error(errno(error));
}
