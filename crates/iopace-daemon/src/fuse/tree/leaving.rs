//! Space that is about to come free, of files that have just lost their last name.
//!
//! Without us, a file that nobody has open gives its space back as its last name goes. Here the
//! kernel tells us only afterwards that it knows the file no more, by requests that no program
//! waits for (`RELEASE`, `FORGET`), and until then our descriptor keeps it. So who needs space on a
//! file system that is nearly full waits for that, instead of being told that there is none.
//!
//! # Limits
//!
//! A file that is still open keeps its space, and is not told apart from one of which we have not
//! heard yet: then the wait is in vain, and ends [`LEAVING_PATIENCE`] after the name went. What
//! quotas of users allow is not looked at, nor what was written past the page cache and has not
//! come to its end when its file goes.

use super::Tree;
use super::inode::Inode;
use crate::clock;
use crate::fuse::regions::Region;
use crate::limits::{FUSE_THREADS, FUSE_WRITE_BYTES_MAX, LEAVING_MAX, LEAVING_PATIENCE};
use iopace_core::time::Instant;
use rustix::fs::{AtFlags, FileType, Stat};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Most threads of a mount that wait here: the others hear what the kernel knows no more.
const WAITERS_MAX: usize = FUSE_THREADS / 2;

/// Between two looks: about as long as it takes to hear of it and to free a file.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// There is less than enough room if what all threads write at once would not find any, and as much
/// again for what a file system keeps account of it with.
const MARGIN_BYTES: u64 = 2 * FUSE_THREADS as u64 * FUSE_WRITE_BYTES_MAX as u64;

/// The same of files.
const MARGIN_FILES: u64 = 2 * FUSE_THREADS as u64;

/// Held by an inode until its descriptor is closed.
pub(super) type Mark = Arc<()>;

/// What room is needed for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    /// So many bytes.
    Bytes(u64),
    /// A file, with a name.
    File,
}

/// A file whose last name goes.
#[derive(Debug)]
pub(super) struct Leaver {
    /// Gone when its descriptor is closed.
    mark: Weak<()>,
    /// Gone when nothing of it is written back any more.
    region: Option<Weak<Region>>,
    device: u64,
    has_bytes: bool,
    /// Nobody waits for it longer.
    until: Instant,
}

impl Leaver {
    fn is_gone(&self, now: Instant) -> bool {
        let region = self.region.as_ref();
        let is_free =
            self.mark.strong_count() == 0 && region.is_none_or(|region| region.strong_count() == 0);
        is_free || self.until <= now
    }

    fn helps(&self, device: u64, need: Need) -> bool {
        self.device == device && (self.has_bytes || matches!(need, Need::File))
    }
}

/// All files that have just lost their last name.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// How many there were at the last look.
    count: AtomicUsize,
    files: Mutex<VecDeque<Leaver>>,
    waiters: AtomicUsize,
}

impl Leaving {
    fn add(&self, leaver: Leaver) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        while files.front().is_some_and(|one| one.is_gone(now) || files.len() >= LEAVING_MAX) {
            files.pop_front();
        }
        files.push_back(leaver);
        self.count.store(files.len(), Relaxed);
    }

    /// Whether one is still there that helps.
    fn any(&self, device: u64, need: Need) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        files.retain(|one| !one.is_gone(now));
        self.count.store(files.len(), Relaxed);
        files.iter().any(|one| one.helps(device, need))
    }
}

/// One of those that wait.
struct Waiter<'a>(&'a AtomicUsize);

impl Waiter<'_> {
    fn new(count: &AtomicUsize) -> Option<Waiter<'_>> {
        let waiter = (count.fetch_add(1, Relaxed) < WAITERS_MAX).then(|| Waiter(count));
        if waiter.is_none() {
            count.fetch_sub(1, Relaxed);
        }
        waiter
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Tree {
    /// The file of this name, if that is its last one and the kernel knows it: for
    /// [`Tree::has_left`], once the name is gone.
    pub(super) fn leaver(&self, parent: &Inode, name: &OsStr) -> Option<Leaver> {
        let stat = rustix::fs::statat(&parent.path, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if stat.st_nlink > 1 && FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return None;
        }
        self.leaver_of(&stat)
    }

    fn leaver_of(&self, stat: &Stat) -> Option<Leaver> {
        let inode = self.inodes.get(self.inodes.id_of(stat.st_dev, stat.st_ino)).ok()?;
        Some(Leaver {
            mark: Arc::downgrade(inode.mark.get_or_init(Mark::default)),
            region: inode.state.region.get().map(Arc::downgrade),
            device: stat.st_dev,
            has_bytes: stat.st_blocks > 0,
            until: Instant(0),
        })
    }

    /// Its last name is gone.
    pub(super) fn has_left(&self, leaver: Option<Leaver>) {
        if let Some(leaver) = leaver {
            self.leaving.add(Leaver { until: clock::now() + LEAVING_PATIENCE, ..leaver });
        }
    }

    /// Waits, where the file system of `inode` has less than enough room and some is about to come
    /// free, until it has.
    pub(super) fn await_room(&self, inode: &Inode, need: Need) {
        let mut waiter = None;
        while self.leaving.any(inode.device, need) && is_short(inode, need) {
            waiter = waiter.or_else(|| Waiter::new(&self.leaving.waiters));
            if waiter.is_none() {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Whether there may be too little room.
fn is_short(inode: &Inode, need: Need) -> bool {
    let Ok(space) = rustix::fs::fstatvfs(&inode.path) else { return false };
    let bytes = match need {
        Need::Bytes(bytes) => bytes,
        Need::File => 0,
    };
    // A file system that counts no files has room for any number.
    let is_short_of_files = space.f_files > 0 && space.f_favail < MARGIN_FILES;
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    free < bytes.saturating_add(MARGIN_BYTES) || matches!(need, Need::File) && is_short_of_files
}
