//! The lock of an image that keeps a second daemon away.

use crate::clock;
use crate::limits::{LOCK_PATIENCE, LOCK_STEP};
use std::fs::File;
use std::io;
use std::thread;

/// Takes it, once: readers share, a writer is alone.
///
/// # Errors
/// `WouldBlock` if another process holds it, or what the system said.
pub(crate) fn take(file: &File, read_only: bool) -> io::Result<()> {
    use rustix::fs::FlockOperation::{NonBlockingLockExclusive, NonBlockingLockShared};
    let how = if read_only { NonBlockingLockShared } else { NonBlockingLockExclusive };
    rustix::fs::flock(file, how).map_err(io::Error::from)
}

/// Takes it. A daemon that was just killed has it until the kernel has closed its files, so a lock
/// that is held is asked for again for [`LOCK_PATIENCE`].
///
/// # Errors
/// As those of [`take`].
pub(crate) fn wait(file: &File, read_only: bool) -> io::Result<()> {
    patiently(io::ErrorKind::WouldBlock, || take(file, read_only))
}

/// Tries again for [`LOCK_PATIENCE`] what fails because somebody has it who may just be going.
///
/// # Errors
/// Those of the last attempt.
pub(crate) fn patiently<T>(
    passing: io::ErrorKind,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let begin = clock::now();
    loop {
        match attempt() {
            Err(error) if error.kind() == passing && clock::now().since(begin) < LOCK_PATIENCE => {}
            ended => return ended,
        }
        thread::sleep(LOCK_STEP);
    }
}
