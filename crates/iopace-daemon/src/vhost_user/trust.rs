//! Which descriptors of a machine's process are taken.
//!
//! Whoever may open the socket may be somebody else than the daemon's user, such as the user that
//! virtual machines run as. Such a one shares memory that could be cut short, so that touching it
//! would end the daemon (SIGBUS), and could give descriptors in whose calls a thread would wait.
//! From root and the daemon's own user they are taken as they are.

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Whether the other side is root or the daemon's own user.
pub(super) fn is_trusted(socket: BorrowedFd<'_>) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(socket);
    peer.is_ok_and(|peer| peer.uid.is_root() || peer.uid == rustix::process::geteuid())
}

/// Whether the memory behind the descriptor may be mapped up to `end` and touched.
///
/// # Errors
/// What is wrong with it, and what to do.
pub(super) fn check_memory(fd: BorrowedFd<'_>, end: u64, is_trusted: bool) -> io::Result<()> {
    let stat = fstat(fd)?;
    if u64::try_from(stat.st_size).unwrap_or(0) < end {
        return Err(io::Error::other("shared memory is shorter than it is said to be"));
    }
    let is_sealed = || fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    if is_trusted || is_sealed() {
        return Ok(());
    }
    Err(io::Error::other(
        "shared memory of another user must be sealed against shrinking: \
         QEMU's memory-backend-memfd does that (seal=on)",
    ))
}

/// Whether the descriptor is an eventfd: a call on anything else might wait for whoever serves it.
///
/// # Errors
/// It is none.
pub(super) fn check_event(fd: BorrowedFd<'_>) -> io::Result<()> {
    let name = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    if name.as_os_str() == "anon_inode:[eventfd]" {
        return Ok(());
    }
    Err(io::Error::other("a descriptor for events is no eventfd"))
}
