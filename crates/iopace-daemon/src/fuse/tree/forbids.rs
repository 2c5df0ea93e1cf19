//! The flags `nosuid`, `nodev` and `noexec` of file systems mounted below the directory.
//!
//! The kernel knows one mount, whose flags are those of the directory's own file system. So what
//! another file system below it forbids is seen to here, for each of its files:
//!
//! | flag | what is done |
//! | --- | --- |
//! | `nosuid` | set-user-id bits and capabilities of its files are not shown |
//! | `nodev` | its device nodes have no permissions, and lead to no device |
//! | `noexec` | a file that is opened to be run is refused |
//!
//! And a file system that a user serves (FUSE) may never answer: its data does not pass the device,
//! whose requests at the disk would be all his soon, see `scheduled/aside.rs`.
//!
//! The flags are looked at when the place where it is mounted is looked up. A file that is reached
//! by several mounts (`mount --bind`) is forbidden what any of them forbids, from when it is looked
//! up there: it is one file, and the kernel keeps what it knows of it.

use crate::mount_table::{self, Entry};
use rustix::fs::{StatVfsMountFlags, fstat, fstatfs, fstatvfs, major, minor};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// `FUSE_SUPER_MAGIC` of linux/magic.h.
const FUSE_SUPER_MAGIC: rustix::fs::FsWord = 0x6573_5546;

/// Flags of a mount, as far as they forbid something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forbids(u8);

impl Forbids {
    pub(super) const SET_ID: Forbids = Forbids(1);
    pub(super) const DEVICES: Forbids = Forbids(2);
    pub(super) const RUNNING: Forbids = Forbids(4);
    /// To have its data pass the device.
    pub(super) const SCHEDULING: Forbids = Forbids(8);

    /// The flags of the mount that `file` is on; all of them, if it does not say.
    pub(super) fn of(file: impl AsFd) -> Forbids {
        let Ok(space) = fstatvfs(&file) else { return Forbids(15) };
        let pairs = [
            (StatVfsMountFlags::NOSUID, Forbids::SET_ID),
            (StatVfsMountFlags::NODEV, Forbids::DEVICES),
            (StatVfsMountFlags::NOEXEC, Forbids::RUNNING),
        ];
        let set = pairs.into_iter().filter(|(flag, _)| space.f_flag.contains(*flag));
        let served = if is_served_by_a_user(file) { Forbids::SCHEDULING.0 } else { 0 };
        Forbids(set.fold(served, |all, (_, one)| all | one.0))
    }

    /// The same without this.
    pub(super) fn without(self, one: Forbids) -> Forbids {
        Forbids(self.0 & !one.0)
    }

    /// The flags of either of them.
    pub(super) fn and(self, other: Forbids) -> Forbids {
        Forbids(self.0 | other.0)
    }

    /// Whether it forbids this.
    pub(super) fn has(self, one: Forbids) -> bool {
        self.0 & one.0 != 0
    }
}

/// Whether a user serves the file system that `file` is on: neither root nor the one who serves us.
fn is_served_by_a_user(file: impl AsFd) -> bool {
    let Ok(space) = fstatfs(&file) else { return true };
    if space.f_type != FUSE_SUPER_MAGIC {
        return false;
    }
    let (Ok(stat), Ok(table)) = (fstat(file), mount_table::read()) else { return true };
    let device = (major(stat.st_dev), minor(stat.st_dev));
    let user = table.iter().rev().find(|entry| entry.device == device).and_then(Entry::uid);
    user.is_none_or(|uid| uid != 0 && uid != rustix::process::geteuid().as_raw())
}

/// The flags that hold for one file: it only gets more.
#[derive(Debug, Default)]
pub(super) struct Forbidden(AtomicU8);

impl Forbidden {
    pub(super) fn new(forbids: Forbids) -> Forbidden {
        Forbidden(AtomicU8::new(forbids.0))
    }

    pub(super) fn add(&self, forbids: Forbids) {
        self.0.fetch_or(forbids.0, Relaxed);
    }

    pub(super) fn get(&self) -> Forbids {
        Forbids(self.0.load(Relaxed))
    }
}
