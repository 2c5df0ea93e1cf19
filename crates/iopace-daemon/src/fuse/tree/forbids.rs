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
//! The flags are looked at when the place where it is mounted is looked up. A file that is reached
//! by several mounts (`mount --bind`) is forbidden what any of them forbids, from when it is looked
//! up there: it is one file, and the kernel keeps what it knows of it.

use rustix::fs::{StatVfsMountFlags, fstatvfs};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Flags of a mount, as far as they forbid something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forbids(u8);

impl Forbids {
    pub(super) const SET_ID: Forbids = Forbids(1);
    pub(super) const DEVICES: Forbids = Forbids(2);
    pub(super) const RUNNING: Forbids = Forbids(4);

    /// The flags of the mount that `file` is on; all of them, if it does not say.
    pub(super) fn of(file: impl AsFd) -> Forbids {
        let Ok(space) = fstatvfs(file) else { return Forbids(7) };
        let pairs = [
            (StatVfsMountFlags::NOSUID, Forbids::SET_ID),
            (StatVfsMountFlags::NODEV, Forbids::DEVICES),
            (StatVfsMountFlags::NOEXEC, Forbids::RUNNING),
        ];
        let set = pairs.into_iter().filter(|(flag, _)| space.f_flag.contains(*flag));
        Forbids(set.fold(0, |all, (_, one)| all | one.0))
    }

    /// What either of them forbids.
    pub(super) fn and(self, other: Forbids) -> Forbids {
        Forbids(self.0 | other.0)
    }

    /// Whether it forbids this.
    pub(super) fn has(self, one: Forbids) -> bool {
        self.0 & one.0 != 0
    }
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
