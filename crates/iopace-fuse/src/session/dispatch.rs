//! Which method of the file system a request is for.

use crate::errno::Errno;
use crate::filesystem::Filesystem;
use crate::flags::ReleaseFlags;
use crate::parse::{Operation, Parsed, forgotten};
use crate::reply::directory::{ReplyDirectory, ReplyDirectoryPlus};
use crate::reply::{
    Raw, ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use crate::request::Request;
use crate::types::INodeNo;
use std::path::Path;

/// Calls the method. It gives the reply.
pub(super) fn dispatch<F: Filesystem>(fs: &F, parsed: Parsed<'_>, raw: Raw) {
    let (from, ino) = (&Request::new(parsed.header), INodeNo(parsed.header.nodeid));
    match parsed.operation {
        Operation::Read { handle, offset, size, flags, owner } => {
            fs.read(from, ino, handle, offset, size, flags, owner, ReplyData::new(raw));
        }
        Operation::Write(write) => {
            let (how, reply) = ((write.how, write.flags, write.owner), ReplyWrite::new(raw));
            let (handle, offset, data) = (write.handle, write.offset, write.data);
            fs.write(from, ino, handle, offset, data, how.0, how.1, how.2, reply);
        }
        Operation::Forget { lookups } => {
            raw.none();
            fs.forget(from, ino, lookups);
        }
        Operation::BatchForget { files } => {
            raw.none();
            forgotten(files).for_each(|(ino, lookups)| fs.forget(from, ino, lookups));
        }
        // The kernel says so before it ends the connection.
        Operation::Destroy => raw.bytes(&[], &[]),
        // Both are looked after by whoever receives; here they came where they have no place.
        Operation::Interrupt { .. } => raw.none(),
        Operation::Init(_) => raw.error(Errno::EIO),
        other => names(fs, (from, ino), other, raw),
    }
}

/// Operations on names and attributes.
fn names<F: Filesystem>(
    fs: &F,
    (from, ino): (&Request, INodeNo),
    operation: Operation<'_>,
    raw: Raw,
) {
    match operation {
        Operation::Lookup { name } => fs.lookup(from, ino, name, ReplyEntry::new(raw)),
        Operation::GetAttr { handle } => fs.getattr(from, ino, handle, ReplyAttr::new(raw)),
        Operation::SetAttr(set) => {
            let (mode, uid, gid, size) = (set.mode, set.uid, set.gid, set.size);
            let (times, handle) = ((set.atime, set.mtime, set.ctime), set.handle);
            let reply = ReplyAttr::new(raw);
            fs.setattr(from, ino, mode, uid, gid, size, times.0, times.1, times.2, handle, reply);
        }
        Operation::ReadLink => fs.readlink(from, ino, ReplyData::new(raw)),
        Operation::Symlink { name, target } => {
            fs.symlink(from, ino, name, Path::new(target), ReplyEntry::new(raw));
        }
        Operation::MkNod { name, mode, umask, rdev } => {
            fs.mknod(from, ino, name, mode, umask, rdev, ReplyEntry::new(raw));
        }
        Operation::MkDir { name, mode, umask } => {
            fs.mkdir(from, ino, name, mode, umask, ReplyEntry::new(raw));
        }
        Operation::Unlink { name } => fs.unlink(from, ino, name, ReplyEmpty::new(raw)),
        Operation::RmDir { name } => fs.rmdir(from, ino, name, ReplyEmpty::new(raw)),
        Operation::Rename { name, to, new_name, flags } => {
            fs.rename(from, ino, name, to, new_name, flags, ReplyEmpty::new(raw));
        }
        Operation::Link { file, name } => fs.link(from, file, ino, name, ReplyEntry::new(raw)),
        Operation::SetXattr { name, value, flags, how } => {
            fs.setxattr(from, ino, name, value, flags, how, ReplyEmpty::new(raw));
        }
        Operation::GetXattr { name, size } => {
            fs.getxattr(from, ino, name, size, ReplyXattr::new(raw));
        }
        Operation::ListXattr { size } => fs.listxattr(from, ino, size, ReplyXattr::new(raw)),
        Operation::RemoveXattr { name } => {
            fs.removexattr(from, ino, name, ReplyEmpty::new(raw));
        }
        Operation::StatFs => fs.statfs(from, ino, ReplyStatfs::new(raw)),
        Operation::Access { mask } => fs.access(from, ino, mask, ReplyEmpty::new(raw)),
        other => opened(fs, (from, ino), other, raw),
    }
}

/// Operations that open, and those on what is open.
fn opened<F: Filesystem>(
    fs: &F,
    (from, ino): (&Request, INodeNo),
    operation: Operation<'_>,
    raw: Raw,
) {
    match operation {
        Operation::Open { flags } => fs.open(from, ino, flags, ReplyOpen::new(raw)),
        Operation::OpenDir { flags } => fs.opendir(from, ino, flags, ReplyOpen::new(raw)),
        Operation::Create { name, mode, umask, flags } => {
            fs.create(from, ino, name, mode, umask, flags, ReplyCreate::new(raw));
        }
        Operation::Flush { handle, owner } => {
            fs.flush(from, ino, handle, owner, ReplyEmpty::new(raw));
        }
        Operation::Release { handle, flags, owner, how } => {
            let is_owned = how.intersects(ReleaseFlags::all());
            let owner = is_owned.then_some(owner);
            fs.release(from, ino, handle, flags, owner, how, ReplyEmpty::new(raw));
        }
        Operation::ReleaseDir { handle, flags } => {
            fs.releasedir(from, ino, handle, flags, ReplyEmpty::new(raw));
        }
        Operation::Fsync { handle, data_only } => {
            fs.fsync(from, ino, handle, data_only, ReplyEmpty::new(raw));
        }
        Operation::FsyncDir { handle, data_only } => {
            fs.fsyncdir(from, ino, handle, data_only, ReplyEmpty::new(raw));
        }
        Operation::ReadDir { handle, offset, size, plus: false } => {
            fs.readdir(from, ino, handle, offset, ReplyDirectory::new(raw, size));
        }
        Operation::ReadDir { handle, offset, size, plus: true } => {
            fs.readdirplus(from, ino, handle, offset, ReplyDirectoryPlus::new(raw, size));
        }
        other => others(fs, (from, ino), other, raw),
    }
}

/// The rest of those on what is open.
fn others<F: Filesystem>(
    fs: &F,
    (from, ino): (&Request, INodeNo),
    operation: Operation<'_>,
    raw: Raw,
) {
    match operation {
        Operation::GetLk { handle, lock } => {
            fs.getlk(from, ino, handle, &lock, ReplyLock::new(raw));
        }
        Operation::SetLk { handle, lock, waits } => {
            fs.setlk(from, ino, handle, &lock, waits, ReplyEmpty::new(raw));
        }
        Operation::Bmap { block, block_size } => {
            fs.bmap(from, ino, block_size, block, ReplyBmap::new(raw));
        }
        Operation::Ioctl { handle, flags, command, input, room } => {
            fs.ioctl(from, ino, handle, flags, command, input, room, ReplyIoctl::new(raw));
        }
        Operation::Fallocate { handle, offset, len, mode } => {
            fs.fallocate(from, ino, handle, offset, len, mode, ReplyEmpty::new(raw));
        }
        Operation::Lseek { handle, offset, whence } => {
            fs.lseek(from, ino, handle, offset, whence, ReplyLseek::new(raw));
        }
        Operation::CopyFileRange(copy) => {
            let ((source, at), (to_ino, to, to_at)) = (copy.source, copy.to);
            let (len, flags, reply) = (copy.len, copy.flags, ReplyWrite::new(raw));
            fs.copy_file_range(from, ino, source, at, to_ino, to, to_at, len, flags, reply);
        }
        // All others were dealt with above.
        _ => raw.error(Errno::ENOSYS),
    }
}
