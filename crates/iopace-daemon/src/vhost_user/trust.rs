//! Which descriptors of a machine's process are taken.
//!
//! Whoever may open the socket may be somebody else than the daemon's user, such as the user that
//! virtual machines run as. Such a one shares memory that could be cut short, so that touching it
//! would end the daemon (SIGBUS), and could give descriptors in whose calls a thread would wait.
//! From root and the daemon's own user they are taken as they are. Whoever called `connect` counts,
//! also if he has given the socket to somebody else since.

use rustix::fs::{OFlags, SealFlags, fcntl_get_seals, fcntl_setfl, fstat, fstatfs};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The file system of memory files of plain pages (`TMPFS_MAGIC` of linux/magic.h).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

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
    // Huge pages may run out, or be punched out, however they are sealed.
    let is_plain = || fstatfs(fd).is_ok_and(|system| system.f_type == TMPFS_MAGIC);
    let is_sealed = || fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
    if is_trusted || (is_plain() && is_sealed()) {
        return Ok(());
    }
    Err(io::Error::other(
        "shared memory of another user must be of plain pages and sealed against shrinking: \
         QEMU's memory-backend-memfd does that (seal=on, hugetlb=off)",
    ))
}

/// Whether the descriptor is an eventfd: a call on anything else might wait for whoever serves it.
/// That of somebody else does not wait from now on, unless he has it wait again.
///
/// # Errors
/// It is none.
pub(super) fn check_event(fd: BorrowedFd<'_>, is_trusted: bool) -> io::Result<()> {
    let name = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    if name.as_os_str() != "anon_inode:[eventfd]" {
        return Err(io::Error::other("a descriptor for events is no eventfd"));
    }
    if !is_trusted {
        fcntl_setfl(fd, OFlags::NONBLOCK)?;
    }
    Ok(())
}
