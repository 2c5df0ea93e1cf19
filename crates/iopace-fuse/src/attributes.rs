//! The attributes of files, and times.

use crate::types::INodeNo;
use crate::wire::output::Attr;
use std::time::{Duration, SystemTime};

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A named pipe.
    NamedPipe,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A directory.
    Directory,
    /// A regular file.
    RegularFile,
    /// A symbolic link.
    Symlink,
    /// A socket.
    Socket,
}

impl FileType {
    /// Its bits in a mode.
    pub fn bits(self) -> u32 {
        match self {
            FileType::NamedPipe => libc::S_IFIFO,
            FileType::CharDevice => libc::S_IFCHR,
            FileType::BlockDevice => libc::S_IFBLK,
            FileType::Directory => libc::S_IFDIR,
            FileType::RegularFile => libc::S_IFREG,
            FileType::Symlink => libc::S_IFLNK,
            FileType::Socket => libc::S_IFSOCK,
        }
    }

    /// As directories have it (`d_type`).
    pub(crate) fn in_directory(self) -> u32 {
        self.bits() >> 12
    }
}

/// The attributes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileAttr {
    /// Its number.
    pub ino: INodeNo,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    /// When it was read.
    pub atime: SystemTime,
    /// When it was written.
    pub mtime: SystemTime,
    /// When it was changed.
    pub ctime: SystemTime,
    /// Its type.
    pub kind: FileType,
    /// Its permissions, with the set-user-id, set-group-id and sticky bits.
    pub perm: u16,
    /// How many names it has.
    pub nlink: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The number of the device that it stands for.
    pub rdev: u32,
    /// The block size that is shown.
    pub blksize: u32,
}

/// A time that is to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOrNow {
    /// That one.
    SpecificTime(SystemTime),
    /// The present.
    Now,
}

impl FileAttr {
    pub(crate) fn to_wire(self) -> Attr {
        let (atime, atimensec) = to_seconds(self.atime);
        let (mtime, mtimensec) = to_seconds(self.mtime);
        let (ctime, ctimensec) = to_seconds(self.ctime);
        Attr {
            ino: self.ino.0,
            size: self.size,
            blocks: self.blocks,
            atime,
            mtime,
            ctime,
            atimensec,
            mtimensec,
            ctimensec,
            mode: self.kind.bits() | u32::from(self.perm),
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            blksize: self.blksize,
            flags: 0,
        }
    }
}

/// Seconds since 1970, rounded down, and nanoseconds from there on.
fn to_seconds(time: SystemTime) -> (i64, u32) {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let seconds = 0i64.checked_sub_unsigned(before.as_secs()).unwrap_or(i64::MIN);
            match before.subsec_nanos() {
                0 => (seconds, 0),
                nanos => (seconds.saturating_sub(1), 1_000_000_000 - nanos),
            }
        }
    }
}

/// The reverse; `None` for what no system has.
pub(crate) fn to_time(seconds: i64, nanos: u32) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let base = if seconds < 0 { epoch.checked_sub(whole) } else { epoch.checked_add(whole) };
    base?.checked_add(Duration::from_nanos(nanos.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for (seconds, nanos) in [(0, 0), (1, 999_999_999), (-1, 1), (-1, 0), (-5_000_000, 7)] {
            let time = to_time(seconds, nanos).expect("a time");
            assert_eq!(to_seconds(time), (seconds, nanos));
        }
        // No time that the kernel can send overflows.
        for seconds in [i64::MIN, i64::MAX] {
            let _ = to_time(seconds, u32::MAX).map(to_seconds);
        }
    }
}
