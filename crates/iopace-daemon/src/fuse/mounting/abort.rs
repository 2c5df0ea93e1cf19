//! Cutting a FUSE connection: every request that hangs on it fails at once with ENOTCONN.

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::io;
use std::os::fd::OwnedFd;

/// Where the control files of FUSE connections are, if they are mounted.
const CONTROL: &str = "/sys/fs/fuse/connections";

/// Cuts the connection of that number; see
/// [`Entry::connection`](crate::mount_table::Entry::connection).
///
/// The kernel's file belongs to who mounted. Where the control file system is not mounted, root
/// opens one of its own that nobody else sees.
///
/// # Errors
/// There is no such connection any more, or the system refuses.
pub fn abort(connection: u32) -> io::Result<()> {
    let path = format!("{connection}/abort");
    let mounted =
        open(format!("{CONTROL}/{path}"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
    let file = match mounted {
        Err(Errno::NOENT) => openat(own()?, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?,
        opened => opened?,
    };
    rustix::io::write(file, b"1")?;
    Ok(())
}

/// The control file system, mounted nowhere.
fn own() -> Result<OwnedFd, Errno> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}
