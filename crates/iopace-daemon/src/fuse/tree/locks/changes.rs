//! Changes of a file by those who pass the mount: the kernel above hears of them before a lock on
//! the file is granted.
//!
//! Programs on both sides agree by locks on when one of them may look and change. The kernel above
//! keeps data, attributes and names meanwhile. So whoever is granted a lock on a file that is not
//! as it was at the last one has all of these asked for anew first: of the file its data and
//! attributes, and every name of the mount (SQLite's journal beside the database comes and goes).
//! Close-to-open consistency of network file systems does the same for data.
//!
//! # Limits
//!
//! Names are asked for anew from Linux 6.16 on (`FUSE_NOTIFY_INC_EPOCH`); before, they are up to a
//! second old. Memory that both sides have mapped is not one memory.

use super::super::inode::Inode;
use crate::clock;
use std::sync::{Mutex, PoisonError};

/// Two changes within a tick of the kernel's clock have the same time before Linux 6.13, which
/// gives a file that was looked at a time of its own for the next change. A tick has 10 ms at most;
/// this is five of them, in nanoseconds.
const CLOCK_TICKS: i64 = 50_000_000;

/// Size and times of a file: they tell whether it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file now; none if it has no attributes.
    fn of(inode: &Inode) -> Option<Stamp> {
        let stat = inode.stat().ok()?;
        let modified = (stat.st_mtime, stat.st_mtime_nsec.cast_signed());
        let changed = (stat.st_ctime, stat.st_ctime_nsec.cast_signed());
        Some(Stamp { size: stat.st_size, modified, changed })
    }

    /// Whether another change may have had the same time.
    fn is_fresh(self) -> bool {
        let ((seconds, nanos), (now, now_nanos)) = (self.changed, clock::of_files());
        // A time to come says nothing.
        let passed = now.saturating_sub(seconds).saturating_mul(1_000_000_000);
        passed.saturating_add(now_nanos - nanos) < CLOCK_TICKS
    }
}

/// The stamp that a file had when the kernel was last told to ask anew.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Option<Stamp>>);

impl Seen {
    /// The stamp to be remembered once the kernel is told, if it is not the one that it knows.
    pub(super) fn changed(&self, inode: &Inode) -> Option<Change> {
        let stamp = Stamp::of(inode);
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = stamp.is_some() && stamp == seen && stamp.is_some_and(|it| !it.is_fresh());
        (!is_same).then_some(Change(stamp))
    }

    /// The kernel was told of a change.
    pub(super) fn told(&self, change: Change) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = change.0;
    }
}

/// A change that the kernel is to be told of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change(Option<Stamp>);
