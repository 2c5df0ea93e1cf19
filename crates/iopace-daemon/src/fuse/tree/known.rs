//! The inodes that the kernel knows. Their descriptors are a cache with a bound.
//!
//! The kernel forgets an inode when it runs short of memory, hours later or never. So there are
//! more of them than there are descriptors:
//!
//! ```text
//!   looked up ──> open: a descriptor ──── forgotten by the kernel ──> gone
//!                   │          ▲                                        ▲
//!         evicted,  ▼          │ asked for again                        │
//!                 closed: a file handle ───────────────────────────────-┘
//! ```
//!
//! # Properties
//!
//! 1. Whoever has an `Arc<Inode>` has its descriptor: an inode in use is not evicted. So an open
//!    file, and one whose name is being changed, keep theirs.
//! 2. A file without a name is not evicted: nothing would find it again.
//! 3. A file that is found anew under the number of an evicted one is the same only if its handle
//!    is. Else the evicted one was removed below, and the number is that of a new file. The kernel
//!    asks for that one by a number that no file had: a request for the old one may be under way.
//! 4. The inode evicted is one that was not asked for since the last round (the clock algorithm).
//!
//! # Limits
//!
//! Inodes of file systems without trusted handles (see `handle`) stay open until the kernel forgets
//! them; `trim` asks it to.

mod table;

use super::file_state::FileState;
use super::forbids::{Forbidden, Forbids};
use super::handle::{Handle, Origin, mount_number};
use super::inode::Inode;
use super::locks::FileLocks;
use super::numbers::Numbers;
use super::numbers::ROOT;
use crate::io::pending_space::PendingSpace;
use rustix::fs::{FileType, Stat};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use table::{Body, Table, turn};

/// So many that are gone may stand in a queue, besides as many as are there.
const QUEUE_SLACK: usize = 1024;

/// Descriptors that are closed at once when there are too many.
const EVICTED_AT_ONCE: usize = 64;

/// Inodes that are looked at for that: some of them are in use.
const LOOKED_AT: usize = 512;

/// Each mount of this process may have so many descriptors, however small its part is.
const BOUND_MIN: usize = 16;

/// The mounts of this process, among which the descriptors are divided.
static TREES: AtomicUsize = AtomicUsize::new(0);

/// What each mount of this process may have of something.
pub(super) fn part_of(all: usize) -> usize {
    all / TREES.load(Relaxed).max(1)
}

/// All inodes that the kernel knows, by their number in this mount.
#[derive(Debug)]
pub(super) struct Inodes {
    root: Arc<Inode>,
    leaving: Arc<PendingSpace>,
    /// Descriptors that all mounts of this process may have for inodes.
    bound: usize,
    table: Mutex<Table>,
}

impl Drop for Inodes {
    fn drop(&mut self) {
        TREES.fetch_sub(1, Relaxed);
    }
}

impl Inodes {
    /// Only the root is known. The mounts of this process may have `bound` descriptors together.
    pub(super) fn new(root: OwnedFd, bound: usize) -> io::Result<Inodes> {
        let stat = rustix::fs::fstat(&root)?;
        let leaving = Arc::new(PendingSpace::default());
        let root = Arc::new(Inode {
            device: stat.st_dev,
            number: stat.st_ino,
            id: ROOT,
            shown: ROOT,
            generation: 0,
            kind: FileType::from_raw_mode(stat.st_mode),
            origin: Origin::of(root.as_fd()),
            path: root,
            // This the mount itself forbids.
            forbidden: Forbidden::default(),
            locks: FileLocks::default(),
            state: FileState::default(),
            hold: leaving.hold(),
        });
        let numbers = Numbers::new(stat.st_dev);
        let table = Mutex::new(Table { numbers, ..Table::default() });
        TREES.fetch_add(1, Relaxed);
        Ok(Inodes { root, leaving, bound, table })
    }

    /// The device of the directory itself.
    pub(super) fn device(&self) -> u64 {
        self.root.device
    }

    /// The inode with this number; `ESTALE` if the kernel should not know it, or if the file was
    /// removed below.
    pub(super) fn get(&self, id: u64) -> io::Result<Arc<Inode>> {
        if id == ROOT {
            return Ok(Arc::clone(&self.root));
        }
        let (address, generation) = {
            let mut table = self.table();
            let known = table.known.get_mut(&id).ok_or_else(stale)?;
            match &known.body {
                Body::Open(inode) => {
                    known.is_used = true;
                    return Ok(Arc::clone(inode));
                }
                Body::Closed(closed) => (closed.address.clone(), closed.generation),
            }
        };
        // This may read from the disk: not with the lock.
        let path = self.with_room(|| address.open())?;
        let inode = {
            let mut table = self.table();
            let known = table.known.get_mut(&id).ok_or_else(stale)?;
            match &known.body {
                Body::Open(inode) if inode.generation == generation => Arc::clone(inode),
                Body::Closed(closed) if closed.generation == generation => {
                    table.reopened(id, path, &self.leaving).ok_or_else(stale)?
                }
                Body::Open(_) | Body::Closed(_) => return Err(stale()),
            }
        };
        self.evict_if_many();
        Ok(inode)
    }

    /// Opens something. If there is no descriptor left, some are closed and it is tried again.
    pub(super) fn with_room<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        match open() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                self.evict();
                open()
            }
            done => done,
        }
    }

    /// The inode behind `path`, of which the kernel is told now. `origin` is the mount that it was
    /// found through.
    pub(super) fn found(
        &self,
        path: OwnedFd,
        stat: &Stat,
        origin: &Arc<Origin>,
        forbids: Forbids,
    ) -> Arc<Inode> {
        let mut table = self.table();
        let elsewhere = table.closed_elsewhere((stat.st_dev, stat.st_ino), origin);
        let (path, origin) = match elsewhere {
            None => (path, Arc::clone(origin)),
            // It stays with the mount that it was found through first, if it is there still.
            Some(address) => {
                drop(table);
                let again = address
                    .open()
                    .map_or((path, Arc::clone(origin)), |path| (path, address.origin));
                table = self.table();
                again
            }
        };
        let inode = table.found((path, stat, &origin), forbids, &self.leaving);
        drop(table);
        self.evict_if_many();
        inode
    }

    /// The kernel forgets `lookups` of the times that it was told; returns what it knows no more,
    /// if that has a descriptor still.
    pub(super) fn forget(&self, id: u64, lookups: u64) -> Option<Arc<Inode>> {
        let mut table = self.table();
        let one = table.known.get_mut(&id)?;
        one.lookups = one.lookups.saturating_sub(lookups);
        if one.lookups > 0 {
            return None;
        }
        let known = table.known.remove(&id)?;
        table.numbers.forgotten(known.key(), id);
        match known.body {
            Body::Open(inode) => {
                table.open_count -= 1;
                Some(inode)
            }
            Body::Closed(closed) => {
                drop(table);
                // It may be the last of its mount, of which a directory is closed then.
                drop(closed);
                None
            }
        }
    }

    /// The mount below that `file` is on, which is not that of its directory.
    pub(super) fn origin_of(&self, file: BorrowedFd<'_>) -> Arc<Origin> {
        let Some(number) = mount_number(file) else { return Origin::of(file) };
        if let Some(origin) = self.table().origins.get(&number).and_then(Weak::upgrade) {
            return origin;
        }
        let origin = Origin::of(file);
        let mut table = self.table();
        table.origins.retain(|_, one| one.strong_count() > 0);
        table.origins.insert(number, Arc::downgrade(&origin));
        origin
    }

    /// Descriptors that this mount may have for inodes.
    pub(super) fn bound(&self) -> usize {
        self.part_of(self.bound).max(BOUND_MIN)
    }

    /// As [`part_of`].
    pub(super) fn part_of(&self, all: usize) -> usize {
        part_of(all)
    }

    /// Closes some descriptors if there are more than there may be.
    fn evict_if_many(&self) {
        if self.open_count() > self.bound() {
            self.evict();
        }
    }

    /// Closes the descriptors of some inodes that nobody has asked for lately.
    pub(super) fn evict(&self) {
        let candidates = self.table().candidates();
        let handled: Vec<(Arc<Inode>, Option<Handle>)> = candidates
            .into_iter()
            .map(|inode| {
                let named = inode.stat().is_ok_and(|stat| stat.st_nlink > 0);
                let handle = if named { Handle::of(inode.path.as_fd()).ok() } else { None };
                (inode, handle)
            })
            .collect();
        let mut closed = Vec::new();
        let mut table = self.table();
        for (inode, handle) in handled {
            closed.extend(table.close(inode, handle));
        }
        // The last use of a removed file may take long to close: not with the lock.
        drop(table);
        drop(closed);
    }

    /// How many the kernel knows beyond `max`, or have a descriptor beyond those that they may have
    /// although they are not in use.
    pub(super) fn excess(&self, max: usize) -> usize {
        let table = self.table();
        let slack = self.bound() / 8 + EVICTED_AT_ONCE;
        let open = table.open_count.saturating_sub(self.bound() + slack);
        table.known.len().saturating_sub(max).max(open)
    }

    /// Up to `count` inodes that the kernel may be asked to forget. Those without a descriptor come
    /// first, the first evicted before the others, unless too many have one.
    pub(super) fn idle(&self, count: usize) -> Vec<u64> {
        let mut table = self.table();
        let Table { known, open, closed, open_count, .. } = &mut *table;
        let mut ids = Vec::new();
        let mut choose_open = |ids: &mut Vec<u64>| {
            turn(open, count, ids, |id| match &known.get(&id)?.body {
                Body::Open(inode) => Some(Arc::strong_count(inode) == 1),
                Body::Closed(_) => None,
            });
        };
        if *open_count > self.bound() {
            choose_open(&mut ids);
        }
        turn(closed, count, &mut ids, |id| {
            known.get(&id).filter(|one| !one.is_open()).map(|_| true)
        });
        if *open_count <= self.bound() {
            choose_open(&mut ids);
        }
        ids
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many inodes the kernel knows, besides the root.
    pub(super) fn len(&self) -> usize {
        self.table().known.len()
    }

    /// How many of them have a descriptor.
    pub(super) fn open_count(&self) -> usize {
        self.table().open_count
    }

    /// The number that a file of a device shows in this mount.
    pub(super) fn shown(&self, device: u64, number: u64) -> u64 {
        self.table().shown((device, number))
    }

    /// The number by which the kernel asks for a file of a device.
    pub(super) fn id_of(&self, device: u64, number: u64) -> u64 {
        self.table().id_of((device, number))
    }

    /// A number in this mount that no file had or will have.
    pub(super) fn count(&self) -> u64 {
        self.table().numbers.count()
    }
}

fn stale() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

#[cfg(test)]
mod tests;
