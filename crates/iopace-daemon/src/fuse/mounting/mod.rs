//! Mounting and unmounting as such: by the kernel for root, by `fusermount3` for everybody else.
//!
//! The protocol crate mounts for tests only: it unmounts by path whatever has come to be there,
//! which for a mount over itself may be the file system below. So it gets an open `/dev/fuse`, and
//! where that is mounted is decided here: at a directory that is open, not at a path that others
//! can change.

pub mod abort;
mod attach;
mod budget;
pub mod busy;
pub(crate) mod claim;
pub mod detach;
mod helper;
pub mod look;
pub mod namespaces;
mod patience;
pub mod probe;
pub(crate) mod region;
pub mod survey;
pub mod users;
pub(crate) mod walk;

pub use crate::mount_error::{MountError, UnmountError};

use crate::limits::{BUSY_LOOKS, BUSY_STEP};
use crate::mount_table::{self, Entry};
use detach::MountId;
use rustix::fs::{StatVfsMountFlags, fstatvfs};
use rustix::mount::MountFlags;
use rustix::process::geteuid;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread;
use walk::OpenDirectory;

/// What is mounted, and who may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct How {
    /// What the table of mounts names: the directory's path.
    pub(crate) fs_name: String,
    /// Whether other users than ours may see it.
    pub(crate) allow_other: bool,
    /// Flags of the mount: what the directory's own file system forbids, the mount forbids too.
    pub(crate) flags: MountFlags,
}

/// The flags of the file system that an open directory is on. A mount over it must not allow what
/// the one below forbids.
pub(crate) fn inherited_flags(directory: impl AsFd) -> io::Result<MountFlags> {
    let has = fstatvfs(directory)?.f_flag;
    let pairs = [
        (StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ];
    let set = pairs.into_iter().filter(|(one, _)| has.contains(*one));
    Ok(set.fold(MountFlags::empty(), |all, (_, flag)| all | flag))
}

/// A mount that nobody serves yet.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The open `/dev/fuse` that answers for it.
    pub(crate) device: OwnedFd,
    /// Its line in the table of mounts.
    pub(crate) entry: Entry,
    /// By which it is ended.
    pub(crate) id: MountId,
}

/// Mounts over an open directory. Nothing is left mounted if that fails.
pub(crate) fn mount(mountpoint: &OpenDirectory, how: &How) -> Result<Attached, MountError> {
    if geteuid().is_root() {
        match attach::by_kernel(mountpoint, how) {
            // Root of a container without the capability; the helper may have it.
            Err(MountError::Denied(_)) if helper::exists() => {}
            done => return done,
        }
    }
    if how.allow_other && !geteuid().is_root() && !helper::allows_other() {
        return Err(MountError::AllowOther);
    }
    by_helper(mountpoint, how)
}

/// The helper mounts by a path: what it has mounted is looked at afterwards.
fn by_helper(mountpoint: &OpenDirectory, how: &How) -> Result<Attached, MountError> {
    let before = mount_table::read().map_err(MountError::Table)?;
    let device = helper::mount(mountpoint, how)?;
    found_or_ended(mountpoint, how, device, &before)
}

/// The mount that was made at the directory since the table was read; one that is not to be found
/// there is ended.
fn found_or_ended(
    mountpoint: &OpenDirectory,
    how: &How,
    device: OwnedFd,
    before: &[Entry],
) -> Result<Attached, MountError> {
    let error = match attach::find(mountpoint) {
        Ok(Some(entry)) => {
            let id = MountId::of(&entry);
            return Ok(Attached { device, entry, id });
        }
        Ok(None) => MountError::Moved(mountpoint.path.clone()),
        Err(error) => error,
    };
    // Closed before it is unmounted: nobody waits for it.
    drop(device);
    let after = mount_table::read().map_err(MountError::Table)?;
    let is_new = |entry: &&Entry| before.iter().all(|known| known.id != entry.id);
    let is_own = |entry: &&Entry| {
        entry.is_ours()
            && entry.uid() == Some(geteuid().as_raw())
            && entry.source == Path::new(&how.fs_name)
    };
    for entry in after.iter().filter(is_new).filter(is_own) {
        let _ = MountId::of(entry).unmount(true);
    }
    Err(error)
}

/// Has `unmount` try as long as the mount is busy: somebody may only look at it in passing (`df`,
/// `lsof`, `iopace mount` elsewhere). Busy after [`BUSY_LOOKS`], it is in use.
pub fn unless_used(
    unmount: impl Fn() -> Option<Result<(), UnmountError>>,
) -> Option<Result<(), UnmountError>> {
    let mut done = unmount();
    for _ in 1..BUSY_LOOKS {
        if !matches!(done, Some(Err(UnmountError::Busy))) {
            break;
        }
        thread::sleep(BUSY_STEP);
        done = unmount();
    }
    done
}
