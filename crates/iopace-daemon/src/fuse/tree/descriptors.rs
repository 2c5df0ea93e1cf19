//! Descriptors of this process by their numbers.

use rustix::fs::{CWD, Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// Room is made for this many descriptors at the start: half a MiB of the kernel's memory.
const ROOM_MAX: usize = 65_536;

/// `/proc/self/fd`, opened once: the mount may hide `/proc`.
static DESCRIPTORS: OnceLock<OwnedFd> = OnceLock::new();

/// The folder in which each descriptor of this process has a name.
///
/// # Errors
///
/// `/proc` is not mounted.
pub(super) fn descriptors() -> io::Result<BorrowedFd<'static>> {
    if let Some(folder) = DESCRIPTORS.get() {
        return Ok(folder.as_fd());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(CWD, "/proc/self/fd", flags, Mode::empty())?;
    Ok(DESCRIPTORS.get_or_init(|| folder).as_fd())
}

/// Has the kernel make room for so many descriptors of this process, at once. It doubles the room
/// each time that it is full, and in a process with threads it then waits until no processor looks
/// at the old one any more: some 10 ms, in the middle of a request.
pub(super) fn make_room(root: &OwnedFd, count: usize) {
    let last = count.min(ROOM_MAX).saturating_sub(1);
    let Ok(last) = i32::try_from(last) else { return };
    // Where there is no room for that many, there is none to make.
    let _ = rustix::io::fcntl_dupfd_cloexec(root, last);
}
