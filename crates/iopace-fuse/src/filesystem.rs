//! The methods that a file system has.

use crate::attributes::TimeOrNow;
use crate::errno::Errno;
use crate::flags::{
    AccessFlags, CopyFileRangeFlags, FopenFlags, IoctlFlags, ReleaseFlags, RenameFlags,
    SetxattrFlags, WriteFlags,
};
use crate::init::KernelConfig;
use crate::reply::directory::{ReplyDirectory, ReplyDirectoryPlus};
use crate::reply::{
    ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use crate::request::Request;
use crate::types::{FileHandle, FileLock, INodeNo, LockOwner, OpenFlags};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// One with a reply that says `ENOSYS` until the file system has its own.
macro_rules! unsupported {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($parameter:ident: $kind:ty),*; $reply:ident: $to:ty $(,)?);
    )*) => {
        $(
            $(#[$doc])*
            #[allow(unused_variables, clippy::too_many_arguments)]
            fn $name(&self, request: &Request, $($parameter: $kind,)* $reply: $to) {
                $reply.error(Errno::ENOSYS);
            }
        )*
    };
}

/// A file system. Its methods are called by several threads; each gives its reply, now or later.
pub trait Filesystem: Send + Sync + 'static {
    /// The kernel begins to ask: before everything else.
    ///
    /// # Errors
    /// There is no file system then.
    fn init(&mut self, request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = (request, config);
        Ok(())
    }

    /// Nobody can reach it any more: after everything else.
    fn destroy(&self) {}

    /// The kernel forgets that many lookups of a file. There is no reply.
    fn forget(&self, request: &Request, ino: INodeNo, lookups: u64) {
        let _ = (request, ino, lookups);
    }

    /// Sets attributes.
    #[allow(clippy::too_many_arguments)]
    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let _ = (request, ino, (mode, uid, gid, size), (atime, mtime, ctime), handle);
        reply.error(Errno::ENOSYS);
    }

    /// Nobody has a file open any more. The owner's lock of `flock(2)` goes where `how` says so.
    #[allow(clippy::too_many_arguments)]
    fn release(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        how: ReleaseFlags,
        reply: ReplyEmpty,
    ) {
        let _ = (request, ino, handle, flags, lock_owner, how);
        reply.ok();
    }

    /// Opens a directory.
    fn opendir(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _ = (request, ino, flags);
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    /// Nobody has a directory open any more.
    fn releasedir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let _ = (request, ino, handle, flags);
        reply.ok();
    }

    /// How much space there is.
    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let _ = (request, ino);
        reply.statfs(0, 0, 0, 0, 0, 512, 255, 0);
    }

    unsupported! {
        /// Looks a name up. The file counts as looked up once more.
        fn lookup(parent: INodeNo, name: &OsStr; reply: ReplyEntry);

        /// The attributes of a file.
        fn getattr(ino: INodeNo, handle: Option<FileHandle>; reply: ReplyAttr);

        /// The target of a symbolic link.
        fn readlink(ino: INodeNo; reply: ReplyData);

        /// Makes a file that is no directory.
        fn mknod(
            parent: INodeNo,
            name: &OsStr,
            mode: u32,
            umask: u32,
            rdev: u32;
            reply: ReplyEntry,
        );

        /// Makes a directory.
        fn mkdir(parent: INodeNo, name: &OsStr, mode: u32, umask: u32; reply: ReplyEntry);

        /// Removes a name of a file.
        fn unlink(parent: INodeNo, name: &OsStr; reply: ReplyEmpty);

        /// Removes a directory.
        fn rmdir(parent: INodeNo, name: &OsStr; reply: ReplyEmpty);

        /// Makes a symbolic link.
        fn symlink(parent: INodeNo, name: &OsStr, target: &Path; reply: ReplyEntry);

        /// Gives a file another name.
        fn rename(
            parent: INodeNo,
            name: &OsStr,
            new_parent: INodeNo,
            new_name: &OsStr,
            flags: RenameFlags;
            reply: ReplyEmpty,
        );

        /// Gives a file one more name.
        fn link(ino: INodeNo, parent: INodeNo, name: &OsStr; reply: ReplyEntry);

        /// Opens a file.
        fn open(ino: INodeNo, flags: OpenFlags; reply: ReplyOpen);

        /// Reads from a file.
        fn read(
            ino: INodeNo,
            handle: FileHandle,
            offset: u64,
            size: u32,
            flags: OpenFlags,
            lock_owner: Option<LockOwner>;
            reply: ReplyData,
        );

        /// Writes to a file.
        fn write(
            ino: INodeNo,
            handle: FileHandle,
            offset: u64,
            data: &[u8],
            write_flags: WriteFlags,
            flags: OpenFlags,
            lock_owner: Option<LockOwner>;
            reply: ReplyWrite,
        );

        /// A descriptor of a file was closed; the owner's locks of `fcntl(2)` go.
        fn flush(ino: INodeNo, handle: FileHandle, lock_owner: LockOwner; reply: ReplyEmpty);

        /// Makes a file durable.
        fn fsync(ino: INodeNo, handle: FileHandle, data_only: bool; reply: ReplyEmpty);

        /// Lists a directory from an offset on.
        fn readdir(ino: INodeNo, handle: FileHandle, offset: u64; reply: ReplyDirectory);

        /// The same with attributes; each file counts as looked up once more.
        fn readdirplus(ino: INodeNo, handle: FileHandle, offset: u64; reply: ReplyDirectoryPlus);

        /// Makes a directory durable.
        fn fsyncdir(ino: INodeNo, handle: FileHandle, data_only: bool; reply: ReplyEmpty);

        /// Sets an extended attribute.
        fn setxattr(
            ino: INodeNo,
            name: &OsStr,
            value: &[u8],
            flags: i32,
            how: SetxattrFlags;
            reply: ReplyEmpty,
        );

        /// An extended attribute, or its size if `size` is 0.
        fn getxattr(ino: INodeNo, name: &OsStr, size: u32; reply: ReplyXattr);

        /// The names of all, or their size if `size` is 0.
        fn listxattr(ino: INodeNo, size: u32; reply: ReplyXattr);

        /// Removes an extended attribute.
        fn removexattr(ino: INodeNo, name: &OsStr; reply: ReplyEmpty);

        /// Whether the caller may do that. Not asked where the kernel decides.
        fn access(ino: INodeNo, mask: AccessFlags; reply: ReplyEmpty);

        /// Makes a regular file and opens it.
        fn create(
            parent: INodeNo,
            name: &OsStr,
            mode: u32,
            umask: u32,
            flags: i32;
            reply: ReplyCreate,
        );

        /// Which lock is in the way of this one.
        fn getlk(ino: INodeNo, handle: FileHandle, lock: &FileLock; reply: ReplyLock);

        /// Takes or gives back a lock; if it `waits`, the reply waits until it is there.
        fn setlk(ino: INodeNo, handle: FileHandle, lock: &FileLock, waits: bool; reply: ReplyEmpty);

        /// Where a block lies.
        fn bmap(ino: INodeNo, block_size: u32, block: u64; reply: ReplyBmap);

        /// A command.
        fn ioctl(
            ino: INodeNo,
            handle: FileHandle,
            flags: IoctlFlags,
            command: u32,
            input: &[u8],
            room: u32;
            reply: ReplyIoctl,
        );

        /// Allocates space, or gives it back.
        fn fallocate(
            ino: INodeNo,
            handle: FileHandle,
            offset: u64,
            len: u64,
            mode: i32;
            reply: ReplyEmpty,
        );

        /// Where the next data or hole is.
        fn lseek(ino: INodeNo, handle: FileHandle, offset: i64, whence: i32; reply: ReplyLseek);

        /// Copies from one file to another.
        fn copy_file_range(
            ino: INodeNo,
            source: FileHandle,
            source_offset: u64,
            to_ino: INodeNo,
            to: FileHandle,
            to_offset: u64,
            len: u64,
            flags: CopyFileRangeFlags;
            reply: ReplyWrite,
        );
    }
}
