//! Why a directory cannot be mounted: what is wrong, and what would be right.

use std::io;
use std::path::PathBuf;

/// Why a directory could not be mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The kernel has no FUSE, or the container hides it.
    #[error(
        "there is no /dev/fuse: load the module ('modprobe fuse', as root), or give the container \
         the device"
    )]
    NoDevice,
    /// The device is there and refused.
    #[error("/dev/fuse cannot be opened: {0}; check its mode, or give the container the device")]
    Device(io::Error),
    /// An unprivileged user without the helper.
    #[error(
        "only root may mount by itself, and there is no fusermount3: install the package fuse3, or \
         run as root"
    )]
    NoHelper,
    /// The helper refused.
    #[error("{at}: cannot be mounted: {1}", at = .0.display())]
    Helper(PathBuf, String),
    /// The kernel refused.
    #[error("{at}: mounting is not permitted here: it takes CAP_SYS_ADMIN", at = .0.display())]
    Denied(PathBuf),
    /// Others are to see the mount of an unprivileged user.
    #[error(
        "other users may see a mount of yours only if /etc/fuse.conf has the line \
         'user_allow_other': ask root to add it, or leave out --allow-other"
    )]
    AllowOther,
    /// No such path.
    #[error("{at}: there is no such directory; make it with 'mkdir -p'", at = .0.display())]
    Missing(PathBuf),
    /// It is something else.
    #[error("{at}: is not a directory; name the directory that it is in", at = .0.display())]
    NotADirectory(PathBuf),
    /// It cannot be opened.
    #[error("{at}: cannot be opened: {1}", at = .0.display())]
    Open(PathBuf, io::Error),
    /// It is mounted already.
    #[error(
        "{at}: iopace is mounted there already; end that with 'iopace unmount {at}'",
        at = .0.display()
    )]
    Mounted(PathBuf),
    /// The directory is mounted at another place.
    #[error(
        "{at}: iopace has it mounted at {elsewhere} already{2}; use it there, or end that with \
         'iopace unmount {elsewhere}'",
        at = .0.display(), elsewhere = .1.display()
    )]
    MountedElsewhere(PathBuf, PathBuf, String),
    /// A mount of ours is there and does not answer.
    #[error(
        "{at}: the iopace mount there does not answer; end it with 'iopace unmount --force {at}'",
        at = .0.display()
    )]
    Silent(PathBuf),
    /// Its files come from a mount of ours.
    #[error(
        "{at}: lies in the iopace mount at {outer}, so its files would be scheduled twice; name a \
         directory outside",
        at = .0.display(), outer = .1.display()
    )]
    Inside(PathBuf, PathBuf),
    /// The mount would show itself.
    #[error(
        "{at}: lies in the directory itself, so the mount would show itself; choose a mount point \
         outside, or none to mount over the directory",
        at = .0.display()
    )]
    Itself(PathBuf),
    /// What we need ourselves would be under the mount.
    #[error(
        "{at}: cannot be mounted over, as {1} would come to lie under the mount and iopace would \
         wait for itself; {2}",
        at = .0.display()
    )]
    OwnPath(PathBuf, String, &'static str),
    /// Another daemon has the directory.
    #[error(
        "{at}: another process has it locked{1}, an iopace mount most likely ('iopace mount \
         --list', 'lslocks'); two would not know of each other's requests",
        at = .0.display()
    )]
    Locked(PathBuf, String),
    /// Whoever asked for the mount does not wait for it any more.
    #[error(
        "{at}: the command that asked for the mount is gone; nothing is mounted",
        at = .0.display()
    )]
    GivenUp(PathBuf),
    /// Two mounts of one daemon at one place.
    #[error(
        "two mounts are to be at {at}: choose another mount point for one of them",
        at = .0.display()
    )]
    TwoMounts(PathBuf),
    /// A symbolic link that somebody else may change.
    #[error(
        "{at}: a symbolic link on this path belongs to user {1}, who could choose what is mounted \
         over; name the directory that it leads to",
        at = .0.display()
    )]
    StrangersLink(PathBuf, u32),
    /// Something else was put in its place.
    #[error(
        "{at}: was renamed, replaced or mounted over while it was being mounted; nothing is \
         mounted, look who does that and try again",
        at = .0.display()
    )]
    Moved(PathBuf),
    /// Somebody works in it.
    #[error("{at}: {1}", at = .0.display())]
    InUse(PathBuf, String),
    /// The kernel and the file system could not agree.
    #[error("{at}: FUSE does not start: {1}", at = .0.display())]
    Start(PathBuf, io::Error),
    /// The table of mounts is not there.
    #[error("/proc/self/mountinfo cannot be read: {0}; is /proc mounted?")]
    Table(io::Error),
}

impl MountError {
    /// A directory that could not be looked at or opened.
    pub(crate) fn open(path: PathBuf, error: io::Error) -> MountError {
        match error.kind() {
            io::ErrorKind::NotFound => MountError::Missing(path),
            io::ErrorKind::NotADirectory => MountError::NotADirectory(path),
            _ => MountError::Open(path, error),
        }
    }
}

/// Why a mount could not be ended.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// Somebody uses files of it.
    #[error("it is in use")]
    Busy,
    /// Nothing is mounted there.
    #[error("nothing is mounted there")]
    NotMounted,
    /// Somebody has mounted something else over it.
    #[error("another mount lies over it; unmount that first")]
    Covered,
    /// Not ours to end.
    #[error("only root and the user who mounted it may unmount it")]
    Denied,
    /// The helper is not there.
    #[error("there is no fusermount3: install the package fuse3, or run as root")]
    NoHelper,
    /// What the system or the helper said.
    #[error("{0}")]
    Failed(String),
}
