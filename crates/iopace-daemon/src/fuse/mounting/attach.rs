//! Attaching a FUSE file system by the kernel to a directory that is open: whatever its path leads
//! to by now, nothing else is mounted over.

use super::detach::{MountId, detach_open};
use super::region::mount_of;
use super::walk::OpenDirectory;
use super::{Attached, How, found_or_ended};
use crate::mount_error::MountError;
use crate::mount_table::{self, Entry};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
};
use rustix::process::{getegid, geteuid};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Longest text that `fsconfig` takes as one value (`fs/fsopen.c`: 256 with the zero).
const TEXT_MAX: usize = 255;

/// Mounts, and finds the mount in the table. Whatever fails, nothing is left mounted.
pub(super) fn by_kernel(mountpoint: &OpenDirectory, how: &How) -> Result<Attached, MountError> {
    let path = &mountpoint.path;
    let device = open_device()?;
    let attached = match how.fs_name.len() > TEXT_MAX {
        true => Err(Errno::NOSYS),
        false => attach(&device, mountpoint, how),
    };
    let refused = |error| match error {
        Errno::PERM | Errno::ACCESS => MountError::Denied(path.clone()),
        Errno::NODEV => MountError::NoDevice,
        error => MountError::open(path.clone(), error.into()),
    };
    match attached {
        Ok(mounted) => {
            let moved = || MountError::Moved(path.clone());
            match find(mountpoint).and_then(|entry| entry.ok_or_else(moved)) {
                Ok(entry) => {
                    let id = MountId::of_open(&entry, mounted);
                    Ok(Attached { device: device.into(), entry, id })
                }
                Err(error) => {
                    // Closed before it is detached: nobody waits for it.
                    drop(device);
                    detach_open(mounted);
                    Err(error)
                }
            }
        }
        // Before Linux 5.2.
        Err(Errno::NOSYS) => {
            let before = mount_table::read().map_err(MountError::Table)?;
            mount_by_link(&device, mountpoint, how).map_err(refused)?;
            found_or_ended(mountpoint, how, device.into(), &before)
        }
        Err(error) => Err(refused(error)),
    }
}

/// Our latest mount on an open directory.
pub(super) fn find(mountpoint: &OpenDirectory) -> Result<Option<Entry>, MountError> {
    let failed = |error| MountError::Start(mountpoint.path.clone(), error);
    let below = mount_of(&mountpoint.fd).map_err(failed)?;
    let path = super::region::path_of(&mountpoint.fd).map_err(failed)?;
    let table = mount_table::read().map_err(MountError::Table)?;
    let is_it =
        |entry: &&Entry| entry.is_ours() && entry.parent == below && entry.mountpoint == path;
    Ok(table.iter().rev().find(is_it).cloned())
}

/// A descriptor of the mount, as attached.
fn attach(device: &File, mountpoint: &OpenDirectory, how: &How) -> Result<OwnedFd, Errno> {
    let context = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key: &str, value: &str| fsconfig_set_string(context.as_fd(), key, value);
    set("source", &how.fs_name)?;
    set("subtype", "iopace")?;
    set("fd", &device.as_raw_fd().to_string())?;
    // The root of a mount is a directory.
    set("rootmode", "40000")?;
    set("user_id", &geteuid().as_raw().to_string())?;
    set("group_id", &getegid().as_raw().to_string())?;
    fsconfig_set_flag(context.as_fd(), "default_permissions")?;
    if how.allow_other {
        fsconfig_set_flag(context.as_fd(), "allow_other")?;
    }
    if how.flags.contains(MountFlags::RDONLY) {
        fsconfig_set_flag(context.as_fd(), "ro")?;
    }
    fsconfig_create(context.as_fd())?;
    let mounted = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes(how.flags))?;
    let by_descriptors =
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mounted.as_fd(), "", mountpoint.fd.as_fd(), "", by_descriptors)?;
    // If somebody has mounted over the directory since, the kernel went on to that mount.
    if mount_of(&mounted).is_ok_and(|id| !is_on(id, mountpoint)) {
        detach_open(mounted);
        return Err(Errno::BUSY);
    }
    Ok(mounted)
}

/// Whether the mount with that number lies directly on the directory.
fn is_on(id: u64, mountpoint: &OpenDirectory) -> bool {
    let below = mount_of(&mountpoint.fd);
    let table = mount_table::read();
    table.is_ok_and(|table| {
        let found = table.iter().find(|entry| entry.id == id);
        found.is_some_and(|entry| below.is_ok_and(|below| entry.parent == below))
    })
}

fn attributes(flags: MountFlags) -> MountAttrFlags {
    let pairs = [
        (MountFlags::RDONLY, MountAttrFlags::MOUNT_ATTR_RDONLY),
        (MountFlags::NOSUID, MountAttrFlags::MOUNT_ATTR_NOSUID),
        (MountFlags::NODEV, MountAttrFlags::MOUNT_ATTR_NODEV),
        (MountFlags::NOEXEC, MountAttrFlags::MOUNT_ATTR_NOEXEC),
        (MountFlags::NOATIME, MountAttrFlags::MOUNT_ATTR_NOATIME),
        (MountFlags::STRICTATIME, MountAttrFlags::MOUNT_ATTR_STRICTATIME),
        (MountFlags::NODIRATIME, MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ];
    let set = pairs.into_iter().filter(|(one, _)| flags.contains(*one));
    set.fold(MountAttrFlags::empty(), |all, (_, attribute)| all | attribute)
}

/// The same by mount(2), at the descriptor's own link below `/proc`.
fn mount_by_link(device: &File, mountpoint: &OpenDirectory, how: &How) -> Result<(), Errno> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let other = if how.allow_other { ",allow_other" } else { "" };
    let options = format!(
        "fd={},rootmode=40000,user_id={uid},group_id={gid},default_permissions{other}",
        device.as_raw_fd()
    );
    let options = CString::new(options).expect("no zero in it");
    let link = format!("/proc/self/fd/{}", mountpoint.fd.as_raw_fd());
    let source = how.fs_name.as_bytes();
    rustix::mount::mount(source, link, mount_table::FS_TYPE, how.flags, options.as_c_str())
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
