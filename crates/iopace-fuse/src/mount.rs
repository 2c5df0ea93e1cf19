//! Mounting as root, as tests do it. Who needs more mounts by himself and serves the descriptor.

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// How to mount.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The options; set-user-id bits and devices do not count without theirs.
    pub mount_options: Vec<MountOption>,
    /// Whether all users may reach it, or only its own.
    pub allow_other: bool,
    /// The user who serves it, if that is another one.
    pub user: Option<u32>,
}

/// An option of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountOption {
    /// The source that the table of mounts names.
    FSName(String),
    /// The type after `fuse.`.
    Subtype(String),
    /// The kernel decides who may do what.
    DefaultPermissions,
    /// Devices count.
    Dev,
    /// Set-user-id bits count.
    Suid,
    /// Nothing can be written.
    RO,
}

/// Mounts at a directory; what is returned is the connection to serve.
pub(crate) fn mount(mountpoint: &Path, config: &Config) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
    let (own, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let (uid, number) = (config.user.unwrap_or(own), fd.as_raw_fd());
    let mut data = format!("fd={number},rootmode=40000,user_id={uid},group_id={gid}");
    if config.allow_other {
        data.push_str(",allow_other");
    }
    let (mut source, mut kind) = ("fuse", String::from("fuse"));
    let mut flags = MountFlags::NODEV | MountFlags::NOSUID;
    for option in &config.mount_options {
        match option {
            MountOption::FSName(name) => source = name,
            MountOption::Subtype(name) => kind = format!("fuse.{name}"),
            MountOption::DefaultPermissions => data.push_str(",default_permissions"),
            MountOption::Dev => flags.remove(MountFlags::NODEV),
            MountOption::Suid => flags.remove(MountFlags::NOSUID),
            MountOption::RO => flags.insert(MountFlags::RDONLY),
        }
    }
    let data = CString::new(data).map_err(io::Error::other)?;
    rustix::mount::mount(source, mountpoint, kind.as_str(), flags, Some(data.as_c_str()))?;
    Ok(fd)
}

/// Takes it out of sight, also while it is used.
pub(crate) fn unmount(mountpoint: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(mountpoint, UnmountFlags::DETACH)?)
}
