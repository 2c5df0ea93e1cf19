//! Locks that belong to an open file, not to this process.

use rustix::fs::FlockOperation;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A lock of `fcntl(2)` that is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InTheWay {
    pub(crate) kind: i32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The process that has it; 0 if it belongs to an open file.
    pub(crate) pid: u32,
}

fn asked(kind: i32, start: u64, end: u64) -> io::Result<libc::flock> {
    let wrong = || io::Error::from_raw_os_error(libc::EINVAL);
    let start = i64::try_from(start).map_err(|_| wrong())?;
    // Length 0 is up to the end of the file, wherever that is.
    let len = match i64::try_from(end) {
        Ok(end) if end < i64::MAX => end - start + 1,
        _ => 0,
    };
    Ok(libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start,
        l_len: len,
        l_pid: 0,
    })
}

fn call(file: impl AsFd, command: i32, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the kernel reads and writes the structure during the call
    // only.
    let result = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, lock) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets or removes a lock of the open file, without waiting; false if another one is in the way.
pub(crate) fn set(file: &File, kind: i32, start: u64, end: u64) -> io::Result<bool> {
    match call(file, libc::F_OFD_SETLK, &mut asked(kind, start, end)?) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The lock that keeps the open file from locking that.
pub(crate) fn get(
    file: impl AsFd,
    kind: i32,
    start: u64,
    end: u64,
) -> io::Result<Option<InTheWay>> {
    let mut lock = asked(kind, start, end)?;
    call(file, libc::F_OFD_GETLK, &mut lock)?;
    if i32::from(lock.l_type) == libc::F_UNLCK {
        return Ok(None);
    }
    let start = lock.l_start.cast_unsigned();
    let end = if lock.l_len == 0 {
        i64::MAX.cast_unsigned()
    } else {
        start + lock.l_len.cast_unsigned() - 1
    };
    let pid = u32::try_from(lock.l_pid).unwrap_or(0);
    Ok(Some(InTheWay { kind: i32::from(lock.l_type), start, end, pid }))
}

/// Has the open file locked as a whole (`flock(2)`), without waiting; false if another lock is in
/// the way.
pub(crate) fn lock_whole(file: impl AsFd, is_write: bool) -> io::Result<bool> {
    let how = if is_write {
        FlockOperation::NonBlockingLockExclusive
    } else {
        FlockOperation::NonBlockingLockShared
    };
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes that lock.
pub(crate) fn unlock_whole(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::Unlock)?)
}
