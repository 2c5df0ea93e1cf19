//! File handles: how a file whose descriptor was closed is found again, whatever its name is by
//! then.
//!
//! The kernel has such handles for NFS servers (`name_to_handle_at`, `open_by_handle_at`). On the
//! file systems below a handle holds the number of the inode and a generation, so the handle of a
//! file that was removed leads nowhere (`ESTALE`), also once its number is that of another file.
//!
//! | file system | handle |
//! | --- | --- |
//! | ext2, ext3, ext4, XFS, btrfs, F2FS, tmpfs | trusted, if a trial succeeds |
//! | FUSE | the server, which may be anybody's, decides where a handle leads: not used |
//! | NFS, SMB, overlayfs and all others | may be lost or ambiguous: not used |
//!
//! A handle is opened through the mount that the file was found through, so that what this mount
//! forbids (`nosuid`, read-only) stays forbidden.

use super::descriptors::descriptors;
use rustix::fs::{FileType, Mode, OFlags, Stat, StatxFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// The longest handle that is kept: that of btrfs has 20 bytes, the others fewer.
const BYTES_MAX: usize = 24;

/// Magic numbers (`linux/magic.h`) of file systems whose handles are stable and hold a generation:
/// ext2 to ext4, XFS, btrfs, F2FS, tmpfs.
const TRUSTED: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// A file of a file system, now and later. Laid out as `struct file_handle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Handle {
    len: u32,
    kind: i32,
    bytes: [u8; BYTES_MAX],
}

impl Handle {
    /// The handle of an open file.
    ///
    /// # Errors
    ///
    /// The file system has none, or one that is too long.
    pub(super) fn of(file: BorrowedFd<'_>) -> io::Result<Handle> {
        let mut handle = Handle { len: BYTES_MAX as u32, kind: 0, bytes: [0; BYTES_MAX] };
        let mut mount_id: libc::c_int = 0;
        // SAFETY: `handle` begins as `struct file_handle` does and has room for as many bytes as it
        // says; the name is an empty C string; all of them live through the call.
        let done = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                file.as_raw_fd(),
                c"".as_ptr(),
                &raw mut handle,
                &raw mut mount_id,
                libc::AT_EMPTY_PATH,
            )
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(handle) }
    }

    /// A descriptor of its file that opens nothing, through the mount that `directory` is on.
    fn open(&self, directory: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let mut handle = *self;
        let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: `handle` is a whole `struct file_handle` and lives through the call.
        let opened = unsafe {
            libc::syscall(
                libc::SYS_open_by_handle_at,
                directory.as_raw_fd(),
                &raw mut handle,
                flags,
            )
        };
        if opened < 0 {
            return Err(io::Error::last_os_error());
        }
        let opened = i32::try_from(opened).map_err(io::Error::other)?;
        // SAFETY: the kernel has just opened this descriptor for us, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(opened) })
    }
}

/// A mount below, through which files were found.
#[derive(Debug)]
pub(super) struct Origin {
    /// A directory on it that is open; none if files are not opened by handle there.
    directory: Option<OwnedFd>,
}

impl Origin {
    /// The mount that `file` is on.
    pub(super) fn of(file: BorrowedFd<'_>) -> Arc<Origin> {
        Arc::new(Origin { directory: tried(file).ok() })
    }

    /// Whether its files can be opened by handle.
    pub(super) fn has_handles(&self) -> bool {
        self.directory.is_some()
    }
}

/// The number of the mount that `file` is on, where the kernel tells it (Linux 5.8).
pub(super) fn mount_number(file: BorrowedFd<'_>) -> Option<u64> {
    let flags = rustix::fs::AtFlags::EMPTY_PATH | rustix::fs::AtFlags::STATX_DONT_SYNC;
    let seen = rustix::fs::statx(file, "", flags, StatxFlags::MNT_ID).ok()?;
    (seen.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(seen.stx_mnt_id)
}

/// The directory `file`, opened, if the files of its mount can be opened by handle.
fn tried(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let space = rustix::fs::fstatfs(file)?;
    #[expect(clippy::cast_sign_loss, reason = "a magic number of 32 bits")]
    let magic = space.f_type as u64 & 0xffff_ffff;
    if !TRUSTED.contains(&magic) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let own = file.as_raw_fd().to_string();
    let directory = rustix::fs::openat(descriptors()?, own, flags, Mode::empty())?;
    let again = Handle::of(directory.as_fd())?.open(directory.as_fd())?;
    let (before, after) = (rustix::fs::fstat(file)?, rustix::fs::fstat(&again)?);
    if Identity::of(&before) != Identity::of(&after) {
        return Err(io::Error::from_raw_os_error(libc::ESTALE));
    }
    Ok(directory)
}

/// Device, number and type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) number: u64,
    pub(super) kind: FileType,
}

impl Identity {
    pub(super) fn of(stat: &Stat) -> Identity {
        let kind = FileType::from_raw_mode(stat.st_mode);
        Identity { device: stat.st_dev, number: stat.st_ino, kind }
    }
}

/// Where a file is found that has no descriptor.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) identity: Identity,
    pub(super) origin: Arc<Origin>,
    pub(super) handle: Handle,
}

impl Address {
    /// A descriptor of the file that opens nothing.
    ///
    /// # Errors
    ///
    /// `ESTALE` if the file is gone, or no longer the same; there is no descriptor free.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let stale = || io::Error::from_raw_os_error(libc::ESTALE);
        let directory = self.origin.directory.as_ref().ok_or_else(stale)?;
        let path = self.handle.open(directory.as_fd())?;
        if Identity::of(&rustix::fs::fstat(&path)?) != self.identity {
            return Err(stale());
        }
        Ok(path)
    }
}
