//! Where files have space, and how much there is.

use super::super::caller::Caller;
use super::{Tree, refused};
use iopace_fuse::{FileHandle, INodeNo};
use rustix::fs::{FallocateFlags, SeekFrom, StatVfs};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `FS_IOC_GETFLAGS`: what `lsattr` shows.
const GET_FLAGS: u32 = 0x8008_6601;
/// `FS_IOC_SETFLAGS`: what `chattr` sets.
const SET_FLAGS: u32 = 0x4008_6602;
/// `FS_IOC_FSGETXATTR`: the same and more, as XFS began it.
const GET_FSXATTR: u32 = 0x801c_581f;
/// `FS_IOC_FSSETXATTR`.
const SET_FSXATTR: u32 = 0x401c_5820;

/// The largest of what these read or write: `struct fsxattr`.
const ATTRIBUTES_BYTES: usize = 28;

impl Tree {
    /// Allocates space, or makes it a hole or zeroes.
    pub(super) fn allocate(
        &self,
        from: Caller,
        handle: FileHandle,
        (offset, len): (u64, u64),
        mode: i32,
    ) -> io::Result<()> {
        let opened = self.file(handle)?;
        let flags = FallocateFlags::from_bits_retain(mode.cast_unsigned());
        let allocate = || Ok(rustix::fs::fallocate(&opened.file, flags, offset, len)?);
        let inode = &opened.inode;
        self.telling_of_mode(inode, || {
            inode.hold.with_space(|| self.act_for(from, &[inode], allocate))
        })?;
        let moves = FallocateFlags::COLLAPSE_RANGE | FallocateFlags::INSERT_RANGE;
        let clears = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        let end = if flags.intersects(moves) {
            u64::MAX
        } else if flags.intersects(clears) {
            offset.saturating_add(len)
        } else {
            // Space for what is there or will be: nothing is void.
            offset
        };
        self.data.reshaped(&opened.inode, (offset, end));
        Ok(())
    }

    /// The next data or hole.
    pub(super) fn seek(&self, handle: FileHandle, offset: i64, whence: i32) -> io::Result<i64> {
        let offset = u64::try_from(offset).map_err(|_| refused(libc::ENXIO))?;
        let place = match whence {
            libc::SEEK_DATA => SeekFrom::Data(offset),
            libc::SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(refused(libc::EINVAL)),
        };
        let found = rustix::fs::seek(&self.file(handle)?.file, place)?;
        i64::try_from(found).map_err(|_| refused(libc::EOVERFLOW))
    }

    /// How much space the file system has that this file is on.
    pub(super) fn space(&self, id: INodeNo) -> io::Result<StatVfs> {
        Ok(rustix::fs::fstatvfs(&self.inode(id)?.path)?)
    }

    /// Reads or sets the flags of a file or directory, as far as the caller may do so below.
    pub(super) fn control(
        &self,
        from: Caller,
        (handle, directory): (FileHandle, bool),
        command: u32,
        input: &[u8],
        room: u32,
    ) -> io::Result<Vec<u8>> {
        if ![GET_FLAGS, SET_FLAGS, GET_FSXATTR, SET_FSXATTR].contains(&command) {
            return Err(refused(libc::ENOTTY));
        }
        let opened =
            if directory { self.listing(handle)?.opened.clone() } else { self.file(handle)? };
        let mut data = [0; ATTRIBUTES_BYTES];
        if input.len() > data.len() || room as usize > data.len() {
            return Err(refused(libc::EINVAL));
        }
        data[..input.len()].copy_from_slice(input);
        self.act_for(from, &[&opened.inode], || {
            control(rustix::fd::AsFd::as_fd(&opened.file), command, &mut data)
        })?;
        if [SET_FLAGS, SET_FSXATTR].contains(&command) {
            // The time of change.
            self.inflight.attributes_changed(opened.inode.id);
        }
        Ok(data[..room as usize].to_vec())
    }
}

/// One of the four commands above.
fn control(
    file: BorrowedFd<'_>,
    command: u32,
    data: &mut [u8; ATTRIBUTES_BYTES],
) -> io::Result<()> {
    #[expect(clippy::cast_lossless, reason = "some systems have a signed type here")]
    let command = command as libc::Ioctl;
    // SAFETY: the caller allows four commands only, which read or write at most a `struct fsxattr`
    // (28 bytes; the other two an `int`, whatever the command's number says), and `data` is that
    // long and lives through the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), command, data.as_mut_ptr()) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
