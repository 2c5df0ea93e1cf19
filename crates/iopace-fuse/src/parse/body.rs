//! The arguments of each operation.

use super::{CopyFileRange, Init, Layout, Operation, SetAttr, Write};
use crate::attributes::{TimeOrNow, to_time};
use crate::flags::{
    AccessFlags, CopyFileRangeFlags, IoctlFlags, ReleaseFlags, RenameFlags, SetxattrFlags,
    WriteFlags,
};
use crate::types::{FileHandle, FileLock, INodeNo, LockOwner, OpenFlags, Version};
use crate::wire::input::{self, fattr};
use crate::wire::opcode;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use zerocopy::FromBytes;

/// The bytes of the arguments that are not read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// A layout.
    fn get<T: FromBytes>(&mut self) -> Option<T> {
        let (value, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// A name, which ends with a zero byte.
    fn name(&mut self) -> Option<&'a OsStr> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let name = OsStr::from_bytes(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        Some(name)
    }

    /// So many bytes.
    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len as usize)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// `None`: the arguments are not as they have to be. `Some(None)`: the operation is not known.
pub(super) fn operation(opcode: u32, body: &[u8], layout: Layout) -> Option<Option<Operation<'_>>> {
    let rest = &mut Rest(body);
    let operation = match opcode {
        opcode::INIT => init(rest)?,
        opcode::DESTROY => Operation::Destroy,
        opcode::INTERRUPT => {
            Operation::Interrupt { unique: rest.get::<input::InterruptIn>()?.unique }
        }
        opcode::FORGET => Operation::Forget { lookups: rest.get::<input::ForgetIn>()?.nlookup },
        opcode::BATCH_FORGET => {
            let count = rest.get::<input::BatchForgetIn>()?.count;
            let len = count.checked_mul(size_of::<input::ForgetOne>() as u32)?;
            Operation::BatchForget { files: rest.bytes(len)? }
        }
        opcode::STATFS => Operation::StatFs,
        opcode::ACCESS => {
            let mask = rest.get::<input::AccessIn>()?.mask.cast_signed();
            Operation::Access { mask: AccessFlags::from_bits_retain(mask) }
        }
        _ => return names(opcode, rest, layout),
    };
    Some(Some(operation))
}

/// Operations on names and attributes.
fn names<'a>(opcode: u32, rest: &mut Rest<'a>, layout: Layout) -> Option<Option<Operation<'a>>> {
    let operation = match opcode {
        opcode::LOOKUP => Operation::Lookup { name: rest.name()? },
        opcode::GETATTR => {
            let input::GetattrIn { getattr_flags, fh, .. } = rest.get()?;
            let is_open = getattr_flags & input::GETATTR_FH != 0;
            Operation::GetAttr { handle: is_open.then_some(FileHandle(fh)) }
        }
        opcode::SETATTR => Operation::SetAttr(set_attr(&rest.get()?)),
        opcode::READLINK => Operation::ReadLink,
        opcode::SYMLINK => Operation::Symlink { name: rest.name()?, target: rest.name()? },
        opcode::MKNOD => {
            let input::MknodIn { mode, rdev, umask, .. } = rest.get()?;
            Operation::MkNod { name: rest.name()?, mode, umask, rdev }
        }
        opcode::MKDIR => {
            let input::MkdirIn { mode, umask } = rest.get()?;
            Operation::MkDir { name: rest.name()?, mode, umask }
        }
        opcode::UNLINK => Operation::Unlink { name: rest.name()? },
        opcode::RMDIR => Operation::RmDir { name: rest.name()? },
        opcode::RENAME => {
            let to = INodeNo(rest.get::<input::RenameIn>()?.newdir);
            let (name, new_name) = (rest.name()?, rest.name()?);
            Operation::Rename { name, to, new_name, flags: RenameFlags::empty() }
        }
        opcode::RENAME2 => {
            let input::Rename2In { newdir, flags, .. } = rest.get()?;
            let (name, new_name) = (rest.name()?, rest.name()?);
            let flags = RenameFlags::from_bits_retain(flags);
            Operation::Rename { name, to: INodeNo(newdir), new_name, flags }
        }
        opcode::LINK => {
            let file = INodeNo(rest.get::<input::LinkIn>()?.oldnodeid);
            Operation::Link { file, name: rest.name()? }
        }
        opcode::SETXATTR => set_xattr(rest, layout)?,
        opcode::GETXATTR => {
            let size = rest.get::<input::GetxattrIn>()?.size;
            Operation::GetXattr { name: rest.name()?, size }
        }
        opcode::LISTXATTR => Operation::ListXattr { size: rest.get::<input::GetxattrIn>()?.size },
        opcode::REMOVEXATTR => Operation::RemoveXattr { name: rest.name()? },
        _ => return opened(opcode, rest),
    };
    Some(Some(operation))
}

/// Operations that open, and those on what is open.
fn opened<'a>(opcode: u32, rest: &mut Rest<'a>) -> Option<Option<Operation<'a>>> {
    let operation = match opcode {
        opcode::OPEN => Operation::Open { flags: flags(rest.get::<input::OpenIn>()?.flags) },
        opcode::OPENDIR => Operation::OpenDir { flags: flags(rest.get::<input::OpenIn>()?.flags) },
        opcode::CREATE => {
            let input::CreateIn { flags, mode, umask, .. } = rest.get()?;
            Operation::Create { name: rest.name()?, mode, umask, flags: flags.cast_signed() }
        }
        opcode::READ => {
            let read: input::ReadIn = rest.get()?;
            let is_owned = read.read_flags & input::READ_LOCKOWNER != 0;
            Operation::Read {
                handle: FileHandle(read.fh),
                offset: read.offset,
                size: read.size,
                flags: flags(read.flags),
                owner: is_owned.then_some(LockOwner(read.lock_owner)),
            }
        }
        opcode::READDIR | opcode::READDIRPLUS => {
            let input::ReadIn { fh, offset, size, .. } = rest.get()?;
            let plus = opcode == opcode::READDIRPLUS;
            Operation::ReadDir { handle: FileHandle(fh), offset, size, plus }
        }
        opcode::WRITE => Operation::Write(write(rest)?),
        opcode::RELEASE => {
            let input::ReleaseIn { fh, flags: open, release_flags, lock_owner } = rest.get()?;
            let how = ReleaseFlags::from_bits_retain(release_flags);
            let (handle, flags) = (FileHandle(fh), flags(open));
            Operation::Release { handle, flags, owner: LockOwner(lock_owner), how }
        }
        opcode::RELEASEDIR => {
            let input::ReleaseIn { fh, flags: open, .. } = rest.get()?;
            Operation::ReleaseDir { handle: FileHandle(fh), flags: flags(open) }
        }
        opcode::FLUSH => {
            let input::FlushIn { fh, lock_owner, .. } = rest.get()?;
            Operation::Flush { handle: FileHandle(fh), owner: LockOwner(lock_owner) }
        }
        opcode::FSYNC | opcode::FSYNCDIR => {
            let input::FsyncIn { fh, fsync_flags, .. } = rest.get()?;
            let (handle, data_only) = (FileHandle(fh), fsync_flags & input::FSYNC_FDATASYNC != 0);
            match opcode {
                opcode::FSYNC => Operation::Fsync { handle, data_only },
                _ => Operation::FsyncDir { handle, data_only },
            }
        }
        _ => return others(opcode, rest),
    };
    Some(Some(operation))
}

/// The rest of those on what is open.
fn others<'a>(opcode: u32, rest: &mut Rest<'a>) -> Option<Option<Operation<'a>>> {
    let operation = match opcode {
        opcode::GETLK => {
            let (handle, lock) = lock(&rest.get()?);
            Operation::GetLk { handle, lock }
        }
        opcode::SETLK | opcode::SETLKW => {
            let (handle, lock) = lock(&rest.get()?);
            Operation::SetLk { handle, lock, waits: opcode == opcode::SETLKW }
        }
        opcode::BMAP => {
            let input::BmapIn { block, blocksize, .. } = rest.get()?;
            Operation::Bmap { block, block_size: blocksize }
        }
        opcode::IOCTL => {
            let ioctl: input::IoctlIn = rest.get()?;
            Operation::Ioctl {
                handle: FileHandle(ioctl.fh),
                flags: IoctlFlags::from_bits_retain(ioctl.flags),
                command: ioctl.cmd,
                input: rest.bytes(ioctl.in_size)?,
                room: ioctl.out_size,
            }
        }
        opcode::FALLOCATE => {
            let input::FallocateIn { fh, offset, length, mode, .. } = rest.get()?;
            let (handle, mode) = (FileHandle(fh), mode.cast_signed());
            Operation::Fallocate { handle, offset, len: length, mode }
        }
        opcode::LSEEK => {
            let input::LseekIn { fh, offset, whence, .. } = rest.get()?;
            Operation::Lseek { handle: FileHandle(fh), offset, whence: whence.cast_signed() }
        }
        opcode::COPY_FILE_RANGE => {
            let copy: input::CopyFileRangeIn = rest.get()?;
            Operation::CopyFileRange(CopyFileRange {
                source: (FileHandle(copy.fh_in), copy.off_in),
                to: (INodeNo(copy.nodeid_out), FileHandle(copy.fh_out), copy.off_out),
                len: copy.len,
                flags: CopyFileRangeFlags::from_bits_retain(copy.flags),
            })
        }
        _ => return Some(None),
    };
    Some(Some(operation))
}

fn flags(flags: u32) -> OpenFlags {
    OpenFlags(flags.cast_signed())
}

fn init(rest: &mut Rest<'_>) -> Option<Operation<'static>> {
    let input::InitIn { major, minor, max_readahead, flags } = rest.get()?;
    // Older kernels end here.
    let more = rest.get::<input::InitInExt>().map_or(0, |ext| ext.flags2);
    let is_extended = u64::from(flags) & crate::flags::InitFlags::FUSE_INIT_EXT.bits() != 0;
    let more = if is_extended { u64::from(more) << 32 } else { 0 };
    let version = Version(major, minor);
    Some(Operation::Init(Init { version, max_readahead, flags: u64::from(flags) | more }))
}

fn set_attr(set: &input::SetattrIn) -> SetAttr {
    let has = |bit| set.valid & bit != 0;
    let time = |bit, now, seconds, nanos| match (has(bit), has(now)) {
        (true, true) => Some(TimeOrNow::Now),
        (true, false) => to_time(seconds, nanos).map(TimeOrNow::SpecificTime),
        (false, _) => None,
    };
    SetAttr {
        mode: has(fattr::MODE).then_some(set.mode),
        uid: has(fattr::UID).then_some(set.uid),
        gid: has(fattr::GID).then_some(set.gid),
        size: has(fattr::SIZE).then_some(set.size),
        atime: time(fattr::ATIME, fattr::ATIME_NOW, set.atime, set.atimensec),
        mtime: time(fattr::MTIME, fattr::MTIME_NOW, set.mtime, set.mtimensec),
        ctime: has(fattr::CTIME).then(|| to_time(set.ctime, set.ctimensec)).flatten(),
        handle: has(fattr::FH).then_some(FileHandle(set.fh)),
        kills_privileges: has(fattr::KILL_SUIDGID),
    }
}

fn write<'a>(rest: &mut Rest<'a>) -> Option<Write<'a>> {
    let write: input::WriteIn = rest.get()?;
    let how = WriteFlags::from_bits_retain(write.write_flags);
    let is_owned = how.contains(WriteFlags::FUSE_WRITE_LOCKOWNER);
    Some(Write {
        handle: FileHandle(write.fh),
        offset: write.offset,
        data: rest.bytes(write.size)?,
        how,
        flags: flags(write.flags),
        owner: is_owned.then_some(LockOwner(write.lock_owner)),
    })
}

fn set_xattr<'a>(rest: &mut Rest<'a>, layout: Layout) -> Option<Operation<'a>> {
    let input::SetxattrIn { size, flags } = rest.get()?;
    let more = if layout.setxattr_ext { rest.get()? } else { input::SetxattrExt::default() };
    let (name, value) = (rest.name()?, rest.bytes(size)?);
    let how = SetxattrFlags::from_bits_retain(more.setxattr_flags);
    Some(Operation::SetXattr { name, value, flags: flags.cast_signed(), how })
}

fn lock(lock: &input::LkIn) -> (FileHandle, FileLock) {
    let asked = FileLock {
        owner: LockOwner(lock.owner),
        start: lock.start,
        end: lock.end,
        kind: lock.kind.cast_signed(),
        pid: lock.pid,
        is_flock: lock.lk_flags & input::LK_FLOCK != 0,
    };
    (FileHandle(lock.fh), asked)
}
