//! Mounting and unmounting as such: by the kernel for root, by `fusermount3` for everybody else.
//!
//! fuser could mount by itself, but as root it sets no subtype (the table of mounts would not say
//! that a mount is ours), and it unmounts by path whatever has come to be there, which for a mount
//! over itself may be the file system below. So fuser gets an open `/dev/fuse`, and where that is
//! mounted is decided here.

pub mod abort;
pub mod busy;
pub mod error;
mod helper;
pub mod probe;
pub mod table;

pub use error::{MountError, UnmountError};

use crate::limits::{BUSY_LOOKS, BUSY_STEP};
use rustix::fs::{StatVfsMountFlags, fstatvfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{getegid, geteuid};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;

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

/// Mounts; the open `/dev/fuse` that answers for it.
pub(crate) fn mount(mountpoint: &Path, how: &How) -> Result<OwnedFd, MountError> {
    if geteuid().is_root() {
        match by_kernel(mountpoint, how) {
            // Root of a container without the capability; the helper may have it.
            Err(MountError::Denied(_)) if helper::exists() => {}
            done => return done,
        }
    }
    if how.allow_other && !geteuid().is_root() && !helper::allows_other() {
        return Err(MountError::AllowOther);
    }
    helper::mount(mountpoint, how)
}

fn by_kernel(mountpoint: &Path, how: &How) -> Result<OwnedFd, MountError> {
    let device = open_device()?;
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let other = if how.allow_other { ",allow_other" } else { "" };
    // The root of a mount is a directory: 040000.
    let options = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions{other}",
        device.as_raw_fd()
    );
    let options = CString::new(options).expect("no zero in it");
    let mounted = rustix::mount::mount(
        how.fs_name.as_bytes(),
        mountpoint,
        table::FS_TYPE,
        how.flags,
        options.as_c_str(),
    );
    match mounted {
        Ok(()) => Ok(device.into()),
        Err(Errno::PERM | Errno::ACCESS) => Err(MountError::Denied(mountpoint.to_owned())),
        Err(Errno::NODEV) => Err(MountError::NoDevice),
        Err(error) => Err(MountError::open(mountpoint.to_owned(), error.into())),
    }
}

fn open_device() -> Result<File, MountError> {
    let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    opened.map_err(|error| match (error.kind(), error.raw_os_error()) {
        // ENODEV and ENXIO: a node without a module behind it.
        (io::ErrorKind::NotFound, _) | (_, Some(libc::ENODEV | libc::ENXIO)) => {
            MountError::NoDevice
        }
        _ => MountError::Device(error),
    })
}

/// Unmounts what is seen at `mountpoint`; lazily: takes it out of sight at once, and ends it when
/// nobody uses it any more.
///
/// # Errors
/// See [`UnmountError`]; nothing is changed then.
pub fn unmount(mountpoint: &Path, lazily: bool) -> Result<(), UnmountError> {
    let lazy = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(mountpoint, lazy | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(UnmountError::Busy),
        Err(Errno::INVAL | Errno::NOENT) => Err(UnmountError::NotMounted),
        Err(Errno::PERM) => helper::unmount(mountpoint, lazily),
        Err(error) => Err(UnmountError::Failed(error.to_string())),
    }
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

/// A path as bytes in a message or a table, where only text will do.
pub(crate) fn shown(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}
