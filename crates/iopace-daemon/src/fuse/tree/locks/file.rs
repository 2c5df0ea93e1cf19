//! The locks of one file: the record of those taken through the mount, and how one is tried.
//!
//! Each owner above has an open file of its own below, so that the kernel below keeps the owners
//! apart and everybody past the mount as well. The record says which owner above is in the way.

pub(super) mod memory;

use super::super::inode::Inode;
use super::blocker::Blocker;
use super::budget::{Budget, Place};
use super::changes::Seen;
use super::ranges::{Range, Ranges};
use super::waiting::Waiter;
use super::{Wish, no_locks};
use crate::io::ofd::{self as below, InTheWay};
use iopace_fuse::FileLock;
use memory::Guard;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The locks of one file.
#[derive(Debug, Default)]
pub(crate) struct FileLocks {
    /// Somebody has asked for one: until then, closing the file has nothing to do here.
    pub(super) is_used: AtomicBool,
    state: Mutex<State>,
    /// An open file that was being closed is closed.
    pub(super) closed: Condvar,
    pub(super) seen: Seen,
}

impl FileLocks {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a refusal of memory has been said that is not over.
    #[cfg(test)]
    pub(in super::super) fn is_refusal_said(&self) -> bool {
        self.state().is_refusal_said
    }

    pub(in super::super) fn is_used(&self) -> bool {
        self.is_used.load(SeqCst)
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// Owners of locks of `fcntl(2)`: processes and open files.
    pub(super) owners: BTreeMap<u64, Owner>,
    /// Open files that are locked as a whole by `flock(2)`, and whether exclusively.
    wholes: BTreeMap<u64, bool>,
    /// Open files with a lock of which a descriptor was closed: their end may be under way.
    closing: BTreeSet<u64>,
    /// Those who wait, in the order of their coming; some may have left.
    pub(super) queue: VecDeque<Arc<Waiter>>,
    /// The queue is cleared of those who have left when it is as long as this.
    clear_at: usize,
    /// Keeps those below out while programs above share memory by this file.
    pub(super) guard: Option<Guard>,
    /// Since nobody was refused that memory, one was, and it was said.
    pub(super) is_refusal_said: bool,
}

/// An owner of locks of `fcntl(2)`.
#[derive(Debug)]
pub(super) struct Owner {
    /// The file below, opened for this owner alone.
    file: File,
    is_writable: bool,
    /// The process that has asked for the last lock.
    pub(super) pid: u32,
    pub(super) ranges: Ranges,
    /// It shares the memory of the file, and can write there.
    pub(super) maps_to_write: bool,
    place: Place,
}

/// What the kernel above is to ask anew before a lock is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing: nobody past the mount can have changed the file.
    None,
    /// The file, if it has changed.
    File,
    /// All files of the database of which this is the index.
    Database,
}

/// The result of trying a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tried {
    /// `None`: it is fulfilled.
    pub(super) blocker: Option<Blocker>,
    /// Others can lock something that they could not lock before.
    pub(super) frees: bool,
    pub(super) news: News,
}

impl Tried {
    fn new(blocker: Option<Blocker>, frees: bool) -> Tried {
        Tried { blocker, frees, news: News::File }
    }
}

impl State {
    /// Tries to fulfil a wish, without waiting.
    pub(super) fn attempt(&mut self, wish: &Wish, budget: &Arc<Budget>) -> io::Result<Tried> {
        // The caller has it open.
        self.closing.remove(&wish.handle);
        if wish.lock.is_flock { self.whole(wish) } else { self.range(wish, budget) }
    }

    fn whole(&mut self, wish: &Wish) -> io::Result<Tried> {
        let (handle, file) = (wish.handle, wish.file.file.fd());
        let had = self.wholes.get(&handle).copied();
        let Some(is_write) = is_write(&wish.lock)? else {
            below::unlock_whole(file)?;
            self.wholes.remove(&handle);
            return Ok(Tried::new(None, had.is_some()));
        };
        if had == Some(is_write) {
            return Ok(Tried::new(None, false));
        }
        let mut others = self.wholes.iter().filter(|(other, _)| **other != handle);
        let other = others.find(|(_, other_writes)| **other_writes || is_write);
        let blocker = match other {
            Some((other, _)) => Some(Blocker::Whole(*other)),
            None if below::lock_whole(file, is_write)? => None,
            None => Some(Blocker::Below),
        };
        if blocker.is_none() {
            self.wholes.insert(handle, is_write);
            return Ok(Tried::new(blocker, had == Some(true)));
        }
        // As in the kernel: whoever asks for another kind of lock has lost the one that he had.
        if self.wholes.remove(&handle).is_some() {
            below::unlock_whole(file)?;
        }
        Ok(Tried::new(blocker, had.is_some()))
    }

    fn range(&mut self, wish: &Wish, budget: &Arc<Budget>) -> io::Result<Tried> {
        let FileLock { owner, start, end, kind, pid, .. } = wish.lock;
        let (owner, end) = (owner.0, end.min(i64::MAX.cast_unsigned()));
        let is_write = is_write(&wish.lock)?;
        if let Some(is_write) = is_write {
            if let Some((other, range)) = self.conflict(owner, (start, end), is_write) {
                let blocker = Some(Blocker::Owner(other, range.handle));
                return Ok(Tried::new(blocker, false));
            }
            self.prepare(owner, is_write, wish, budget)?;
        }
        let memory = match is_write {
            Some(_) => self.memory(wish, (start, end))?,
            None => None,
        };
        let mut news = self.news();
        if let Some(byte) = memory {
            match self.enter((wish, byte), budget)? {
                Ok(entered) => news = entered,
                Err(blocker) => return Ok(Tried::new(Some(blocker), false)),
            }
        }
        let Some(owner) = self.owners.get_mut(&owner) else {
            return Ok(Tried::new(None, false));
        };
        if memory.is_none() && !below::set(&owner.file, kind, start, end)? {
            return Ok(Tried::new(Some(Blocker::Below), false));
        }
        let frees = match is_write {
            Some(is_write) => {
                owner.pid = pid;
                owner.ranges.lock(Range { start, end, is_write, handle: wish.handle })
            }
            None => owner.ranges.unlock(start, end),
        };
        owner.place.has(owner.ranges.len());
        self.settle();
        Ok(Tried { blocker: None, frees, news })
    }

    /// The first lock of another owner above that is in the way.
    pub(super) fn conflict(
        &self,
        owner: u64,
        (start, end): (u64, u64),
        is_write: bool,
    ) -> Option<(u64, Range)> {
        let others = self.owners.iter().filter(|(other, _)| **other != owner);
        let conflict =
            |(id, other): (&u64, &Owner)| Some((*id, other.ranges.conflict(start, end, is_write)?));
        others.into_iter().find_map(conflict)
    }

    /// Sees to it that the owner has an open file below by which it can lock.
    fn prepare(
        &mut self,
        id: u64,
        is_write: bool,
        wish: &Wish,
        budget: &Arc<Budget>,
    ) -> io::Result<()> {
        let (inode, guarded) = (&wish.file.inode, self.guarded());
        if let Some(owner) = self.owners.get_mut(&id) {
            if !owner.place.may_have(owner.ranges.len() + 1) {
                return Err(no_locks());
            }
            if is_write && !owner.is_writable {
                // All that it has is shared: the new one can have it as well, before the old one
                // lets it go.
                let (file, is_writable) = open(inode, wish)?;
                for range in owner.ranges.iter() {
                    for (start, end) in memory::outside(guarded, range) {
                        below::set(&file, libc::F_RDLCK, start, end)?;
                    }
                }
                (owner.file, owner.is_writable) = (file, is_writable);
            }
            return Ok(());
        }
        let place = budget.place(wish.uid)?;
        let (file, is_writable) = open(inode, wish)?;
        let ranges = Ranges::default();
        let pid = wish.lock.pid;
        let owner = Owner { file, is_writable, pid, ranges, maps_to_write: false, place };
        self.owners.insert(id, owner);
        Ok(())
    }

    /// The lock that keeps the owner from locking that range, as the kernel below has it.
    pub(super) fn in_the_way_of(
        &self,
        wish: &Wish,
        (start, end): (u64, u64),
    ) -> io::Result<Option<InTheWay>> {
        let FileLock { owner, kind, .. } = wish.lock;
        let found = match self.owners.get(&owner.0) {
            Some(own) => below::get(&own.file, kind, start, end)?,
            // Through this one nobody locks ranges.
            None => below::get(wish.file.file.fd(), kind, start, end)?,
        };
        let Some(mut found) = found else { return Ok(None) };
        let others = self.owners.iter().filter(|(other, _)| **other != owner.0);
        let has = |(_, other): &(&u64, &Owner)| {
            let is_write = kind == libc::F_WRLCK;
            let own = other.ranges.conflict(found.start, found.end, is_write);
            own.is_some_and(|own| own.start == found.start)
        };
        if found.pid == 0
            && let Some((_, other)) = others.into_iter().find(has)
        {
            found.pid = other.pid;
        }
        Ok(Some(found))
    }

    /// A descriptor of an open file was closed by a process: its locks go. Whether there were any.
    pub(super) fn flushed(&mut self, handle: u64, owner: u64) -> io::Result<bool> {
        let mut frees = false;
        if let Some(own) = self.owners.get_mut(&owner) {
            frees = !own.ranges.is_empty();
            // Somebody of the same process may be waiting still.
            below::set(&own.file, libc::F_UNLCK, 0, i64::MAX.cast_unsigned())?;
            own.ranges = Ranges::default();
            own.place.has(0);
            self.clear(owner);
            self.settle();
        }
        let has_range = |own: &Owner| own.ranges.iter().any(|range| range.handle == handle);
        if self.wholes.contains_key(&handle) || self.owners.values().any(has_range) {
            self.closing.insert(handle);
        }
        Ok(frees)
    }

    /// Nobody has an open file any more: what was locked through it goes.
    pub(super) fn released(&mut self, wish: &crate::fuse::tree::data::Opened, handle: u64) -> bool {
        self.closing.remove(&handle);
        let mut frees = self.wholes.remove(&handle).is_some();
        if frees {
            // With its last descriptor it goes in any case.
            let _ = below::unlock_whole(wish.file.fd());
        }
        for owner in self.owners.values_mut() {
            let is_own = |range: &&Range| range.handle == handle;
            let own: Vec<Range> = owner.ranges.iter().filter(is_own).copied().collect();
            for range in own {
                let _ = below::set(&owner.file, libc::F_UNLCK, range.start, range.end);
                frees |= owner.ranges.unlock(range.start, range.end);
            }
            owner.place.has(owner.ranges.len());
        }
        self.clear_all();
        self.settle();
        frees
    }

    /// Whether the end of the open file with that lock may be under way.
    pub(super) fn is_closing(&self, blocker: Blocker) -> bool {
        blocker.handle().is_some_and(|handle| self.closing.contains(&handle))
    }

    /// It has been waited for long enough.
    pub(super) fn is_kept_open(&mut self, blocker: Blocker) {
        if let Some(handle) = blocker.handle() {
            self.closing.remove(&handle);
        }
    }

    /// Lets an owner go that has nothing.
    pub(super) fn clear(&mut self, owner: u64) {
        let is_idle = self.owners.get(&owner).is_some_and(|own| own.ranges.is_empty());
        if is_idle && !self.queue.iter().any(|waiter| waiter.waits_as(owner)) {
            self.owners.remove(&owner);
        }
    }

    fn clear_all(&mut self) {
        let idle = self.owners.iter().filter(|(_, own)| own.ranges.is_empty());
        let idle: Vec<u64> = idle.map(|(id, _)| *id).collect();
        idle.into_iter().for_each(|owner| self.clear(owner));
    }

    /// Has somebody wait behind all others.
    pub(super) fn push(&mut self, waiter: Arc<Waiter>) {
        if self.queue.len() >= self.clear_at {
            self.queue.retain(|waiter| waiter.is_waiting());
            self.clear_at = (2 * self.queue.len()).max(16);
        }
        self.queue.push_back(waiter);
    }
}

/// Whether an exclusive lock is asked for; `None` if it is to be removed.
fn is_write(lock: &FileLock) -> io::Result<Option<bool>> {
    match lock.kind {
        libc::F_RDLCK => Ok(Some(false)),
        libc::F_WRLCK => Ok(Some(true)),
        libc::F_UNLCK => Ok(None),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// Opens the file for one owner, as its caller has it open; whether for writing. Rights were looked
/// at when he opened it.
fn open(inode: &Inode, wish: &Wish) -> io::Result<(File, bool)> {
    let flags = rustix::fs::fcntl_getfl(wish.file.file.fd())?;
    let mode = flags & (OFlags::ACCMODE | OFlags::APPEND);
    if mode & OFlags::ACCMODE == OFlags::RDONLY {
        return Ok((inode.reopen(OFlags::RDONLY)?, false));
    }
    let both = (mode - OFlags::ACCMODE) | OFlags::RDWR;
    let file = inode.reopen(both).or_else(|_| inode.reopen(mode))?;
    Ok((file, true))
}
