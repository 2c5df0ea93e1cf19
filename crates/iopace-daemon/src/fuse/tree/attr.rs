//! Attributes: owner, mode, size and times.

use super::super::caller::Caller;
use super::descriptors::descriptors;
use super::forbids::Forbids;
use super::inode::Inode;
use super::numbers::ROOT;
use super::{Tree, credentials, refused};
use crate::clock::{EPOCH, FileTime};
use iopace_fuse::{FileAttr, FileHandle, FileType, INodeNo, TimeOrNow};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::process::{Gid, Uid};
use std::io;
use std::time::Duration;

/// A device that cannot be: the kernel gives major numbers below 512.
pub(super) const NO_DEVICE: u32 = u32::MAX;

/// What is to change.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) atime: Option<TimeOrNow>,
    pub(super) mtime: Option<TimeOrNow>,
    pub(super) handle: Option<FileHandle>,
}

impl Tree {
    /// The attributes of a file as the kernel is to see them.
    pub(super) fn attributes(&self, inode: &Inode) -> io::Result<FileAttr> {
        Ok(to_attr(inode, &inode.stat()?))
    }

    /// Changes attributes and returns what they are then.
    pub(super) fn set_attributes(
        &self,
        from: Caller,
        id: INodeNo,
        wanted: &Wanted,
    ) -> io::Result<FileAttr> {
        let inode = self.inode(id)?;
        if let Some(size) = wanted.size {
            self.set_size(from, &inode, wanted.handle, size)?;
        }
        // Truncating below sets the time of modification, also for one who is not the owner.
        let is_truncated = wanted.size.is_some() && matches!(wanted.mtime, Some(TimeOrNow::Now));
        let times = wanted.atime.is_some() || wanted.mtime.is_some() && !is_truncated;
        let owner = wanted.uid.is_some() || wanted.gid.is_some();
        let is_nothing = wanted.mode.is_none() && wanted.size.is_none() && !times && !owner;
        if is_nothing {
            self.change_nothing(from, &inode)?;
        } else if times || owner || wanted.mode.is_some() {
            let mode = wanted.mode.map(|mode| self.mode_for(from, mode));
            self.act_for(from, &[&inode], || {
                if owner {
                    let uid = wanted.uid.map(Uid::from_raw);
                    let gid = wanted.gid.map(Gid::from_raw);
                    rustix::fs::chownat(&inode.path, "", uid, gid, AtFlags::EMPTY_PATH)?;
                }
                if let Some(mode) = mode {
                    set_mode(&inode, mode)?;
                }
                if times { set_times(&inode, wanted) } else { Ok(()) }
            })?;
        }
        self.attributes(&inode)
    }

    /// Carries out a request to change nothing.
    ///
    /// It is `chown(path, -1, -1)`, or the kernel has found that a write takes the set-user-id bit
    /// away: it does not say which. A chown without users does both, if its caller is the owner.
    /// Somebody else who has the file open may be about to write: the bit goes with the write
    /// itself then, as that request says who writes.
    fn change_nothing(&self, from: Caller, inode: &Inode) -> io::Result<()> {
        let chown = || Ok(rustix::fs::chownat(&inode.path, "", None, None, AtFlags::EMPTY_PATH)?);
        let is_refused = !self.acts_for_others
            && !credentials::is_own(from)
            && from.uid != 0
            && has_privileges(&inode.stat()?);
        let done = if is_refused {
            Err(refused(libc::EPERM))
        } else {
            self.act_for(from, &[inode], chown)
        };
        match done {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && self.is_writable(inode) => {
                Ok(())
            }
            done => done,
        }
    }

    /// Takes the set-user-id and set-group-id bits away, as the kernel does from a file that
    /// somebody without `CAP_FSETID` writes to: it leaves that to us. It is told at once: it
    /// goes by what it knows when it runs a program.
    ///
    /// Capabilities of the file are taken away by the file system below itself.
    pub(super) fn strip_privileges(&self, from: Caller, inode: &Inode) -> io::Result<()> {
        if !inode.is_file() || !has_privileges(&inode.stat()?) {
            return Ok(());
        }
        let strip = || Ok(rustix::fs::chownat(&inode.path, "", None, None, AtFlags::EMPTY_PATH)?);
        self.telling_of_mode(inode, || {
            if self.acts_for_others {
                return credentials::act_as_writer(from, &[inode], strip);
            }
            strip()
        })
    }

    /// The same, where the kernel does not say whether the caller has `CAP_FSETID`.
    pub(super) fn strip_privileges_unless_kept(
        &self,
        from: Caller,
        inode: &Inode,
    ) -> io::Result<()> {
        if credentials::keeps_set_id(from, inode) {
            return Ok(());
        }
        self.strip_privileges(from, inode)
    }

    /// Has the kernel ask anew for the attributes of a file if `act` has changed its mode, before
    /// whoever waits for that is answered.
    pub(super) fn telling_of_mode<T>(
        &self,
        inode: &Inode,
        act: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let before = inode.stat()?.st_mode;
        let done = act();
        if inode.stat()?.st_mode != before {
            self.inflight.attributes_changed(inode.id);
        }
        done
    }

    fn set_size(
        &self,
        from: Caller,
        inode: &Inode,
        handle: Option<FileHandle>,
        size: u64,
    ) -> io::Result<()> {
        if !inode.is_file() {
            return Err(refused(libc::EINVAL));
        }
        let before = inode.stat()?.st_size.cast_unsigned();
        let opened = handle.and_then(|handle| self.file(handle).ok());
        self.act_for(from, &[inode], || match &opened {
            Some(opened) => Ok(rustix::fs::ftruncate(&opened.file, size)?),
            None => Ok(rustix::fs::ftruncate(inode.reopen(OFlags::WRONLY)?, size)?),
        })?;
        self.data.reshaped(inode, (size.min(before), u64::MAX));
        Ok(())
    }
}

/// Whether it has a set-user-id or set-group-id bit.
fn has_privileges(stat: &Stat) -> bool {
    stat.st_mode & (libc::S_ISUID | libc::S_ISGID) != 0
}

/// Sets the times of a file.
fn set_times(inode: &Inode, wanted: &Wanted) -> io::Result<()> {
    let times =
        Timestamps { last_access: to_time(wanted.atime), last_modification: to_time(wanted.mtime) };
    // By way of its name among the descriptors, as not every kernel takes a descriptor that opens
    // nothing. A symbolic link is not followed further.
    Ok(rustix::fs::utimensat(descriptors()?, inode.name(), &times, AtFlags::empty())?)
}

fn set_mode(inode: &Inode, mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode & 0o7777);
    Ok(rustix::fs::chmodat(descriptors()?, inode.name(), mode, AtFlags::empty())?)
}

/// The attributes of `inode` as the kernel is to see them.
pub(super) fn to_attr(inode: &Inode, stat: &Stat) -> FileAttr {
    // The kernel knows the root by another number than the one it shows.
    let id = if inode.id == ROOT { stat.st_ino } else { inode.shown };
    shown(id, inode.forbidden.get(), stat)
}

/// The same, of the file with this number.
///
/// The type that counts is the one that is told: a file system that a user serves has files of one
/// number and two types, or changes them, and the kernel takes each for what we call it.
pub(super) fn shown(id: u64, forbids: Forbids, stat: &Stat) -> FileAttr {
    let (mut mode, mut device) = (stat.st_mode & 0o7777, stat.st_rdev as u32);
    let kind = to_kind(rustix::fs::FileType::from_raw_mode(stat.st_mode));
    if kind == FileType::RegularFile && forbids.has(Forbids::SET_ID) {
        mode &= !(libc::S_ISUID | libc::S_ISGID);
    }
    let is_device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
    if is_device && forbids.has(Forbids::DEVICES) {
        (mode, device) = (0, NO_DEVICE);
    }
    FileAttr {
        ino: INodeNo(id),
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        atime: from_time(stat.st_atime, stat.st_atime_nsec),
        mtime: from_time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: from_time(stat.st_ctime, stat.st_ctime_nsec),
        kind,
        perm: mode as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        // The kernel encodes device numbers here as it does there, in the lower 32 bits.
        rdev: device,
        blksize: u32::try_from(stat.st_blksize).unwrap_or(4096),
    }
}

/// The kernel's word for a type of files.
pub(super) fn to_kind(kind: rustix::fs::FileType) -> FileType {
    match kind {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// A time of the system; outside what a `FileTime` holds it is the epoch.
fn from_time(seconds: i64, nanos: u64) -> FileTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds < 0 { EPOCH.checked_sub(whole) } else { EPOCH.checked_add(whole) };
    base.and_then(|base| base.checked_add(Duration::from_nanos(nanos))).unwrap_or(EPOCH)
}

/// What `utimensat` wants.
fn to_time(wanted: Option<TimeOrNow>) -> Timespec {
    let nothing = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let time = match wanted {
        None => return nothing(rustix::fs::UTIME_OMIT),
        Some(TimeOrNow::Now) => return nothing(rustix::fs::UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => time,
    };
    match time.duration_since(EPOCH) {
        Ok(since) => Timespec {
            tv_sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: since.subsec_nanos().into(),
        },
        Err(before) => {
            let before = before.duration();
            let seconds = 0i64.checked_sub_unsigned(before.as_secs()).unwrap_or(i64::MIN);
            match before.subsec_nanos() {
                0 => Timespec { tv_sec: seconds, tv_nsec: 0 },
                nanos => Timespec {
                    tv_sec: seconds.saturating_sub(1),
                    tv_nsec: 1_000_000_000 - i64::from(nanos),
                },
            }
        }
    }
}

/// What is said of a name that is not there.
pub(super) fn nothing() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: EPOCH,
        mtime: EPOCH,
        ctime: EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
    }
}
