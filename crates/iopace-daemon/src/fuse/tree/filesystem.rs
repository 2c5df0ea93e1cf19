//! The requests of the kernel: each is handed on and its reply given.

use super::super::pending_replies::Kept;
use super::attr::Wanted;
use super::names::New;
use super::replies::Turn::{Change, ChangeName, ChangeNames, Link, Look, LookAtNames};
use super::replies::{attr, caller, created, done, entry, found, give, space, value};
use super::replies::{listed_found, opened, opened_directory};
use super::wishes::ask;
use super::writing::{self, Write};
use super::{Served, Tree};
use crate::clock::FileTime;
use iopace_fuse::{
    CopyFileRangeFlags, FileHandle, FileLock, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, ReleaseFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, SetxattrFlags, TimeOrNow, WriteFlags,
};
use rustix::fs::AtFlags;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        ask(&self.0.options, config);
        Ok(())
    }

    fn destroy(&self) {
        self.0.locks.end();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.turn(request, LookAtNames, [name], reply, move |tree, _, [name], reply| {
            found(tree, tree.lookup(parent, name), reply);
        });
    }

    fn forget(&self, _: &Request, id: INodeNo, lookups: u64) {
        self.0.forget(id.0, lookups);
    }

    fn getattr(&self, request: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.pass(request, reply, |tree, _, reply| {
            attr(tree, tree.inode(id).and_then(|inode| tree.attributes(&inode)), reply);
        });
    }

    fn setattr(
        &self,
        request: &Request,
        id: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<FileTime>,
        handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let wanted = Wanted { mode, uid, gid, size, atime, mtime, handle };
        self.turn(request, Change(id), [], reply, move |tree, from, [], reply| {
            attr(tree, tree.set_attributes(from, id, &wanted), reply);
        });
    }

    fn readlink(&self, request: &Request, id: INodeNo, reply: ReplyData) {
        self.pass(request, reply, |tree, _, reply| {
            give(tree.target(id), reply, |reply, target| reply.data(&target));
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        self.turn(request, ChangeName(parent), [name], reply, move |tree, from, [name], reply| {
            let new = New::Node { mode, device };
            entry(tree, tree.make(from, umask, parent, name, new), reply);
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.turn(request, ChangeName(parent), [name], reply, move |tree, from, [name], reply| {
            let new = New::Directory { mode };
            entry(tree, tree.make(from, umask, parent, name, new), reply);
        });
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (turn, names) = (ChangeName(parent), [name, target.as_os_str()]);
        self.turn(request, turn, names, reply, move |tree, from, [name, to], reply| {
            let new = New::Symlink { target: Path::new(to) };
            entry(tree, tree.make(from, 0, parent, name, new), reply);
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turn(request, ChangeName(parent), [name], reply, move |tree, from, [name], reply| {
            done(tree.remove(from, (parent, name), AtFlags::empty()), reply);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turn(request, ChangeName(parent), [name], reply, move |tree, from, [name], reply| {
            done(tree.remove(from, (parent, name), AtFlags::REMOVEDIR), reply);
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let names = [name, new_name];
        let turn = ChangeNames(parent, new_parent);
        self.turn(request, turn, names, reply, move |tree, from, [name, new], reply| {
            done(tree.rename(from, (parent, name), (new_parent, new), flags.bits()), reply);
        });
    }

    fn link(
        &self,
        request: &Request,
        id: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.turn(request, Link(id, parent), [name], reply, move |tree, from, [name], reply| {
            entry(tree, tree.link(from, id, parent, name), reply);
        });
    }

    fn open(&self, request: &Request, id: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.turn(request, Look, [], reply, move |tree, from, [], reply| {
            opened(tree, tree.open(from, id, flags), reply);
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.turn(request, ChangeName(parent), [name], reply, move |tree, from, [name], reply| {
            let made = tree.create(from, (mode, umask), (parent, name), flags);
            created(tree, made, reply);
        });
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // As it is now: `fcntl(F_SETFL)` may have changed it since the open.
        let is_direct = flags.0 & libc::O_DIRECT != 0;
        let kept = if is_direct { Kept::Direct } else { Kept::Cached };
        match self.0.file(handle) {
            Ok(file) => self.0.data.read(caller(request), &file, (offset, len), kept, reply),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = match self.0.file(handle) {
            Ok(file) => file,
            Err(error) => return reply.error(error.into()),
        };
        let (from, mode) = (caller(request), Tree::write_mode(flags, write_flags));
        let strips = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        writing::write(&self.0, &Write { from, file, offset, mode, strips }, (data, None), reply);
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.pass(request, reply, |tree, _, reply| done(tree.flush(handle, owner), reply));
    }

    fn getlk(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        lock: &FileLock,
        reply: ReplyLock,
    ) {
        self.pass(request, reply, |tree, from, reply| {
            let found = tree.lock_in_the_way(from, handle, *lock);
            give(found, reply, |reply, found| reply.locked(&found));
        });
    }

    fn setlk(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        lock: &FileLock,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        self.pass(request, reply, |tree, from, late| {
            tree.set_lock(from, handle, *lock, waits, late);
        });
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: ReleaseFlags,
        reply: ReplyEmpty,
    ) {
        self.0.release_by_opener(handle);
        reply.ok();
    }

    fn fsync(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        match self.0.file(handle) {
            Ok(file) => self.0.data.sync(caller(request), &file, data_only, reply),
            Err(error) => reply.error(error.into()),
        }
    }

    fn opendir(&self, request: &Request, id: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.pass(request, reply, |tree, from, reply| {
            opened_directory(tree, tree.open_directory(from, id), reply);
        });
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.turn(request, LookAtNames, [], reply, move |tree, _, [], reply| {
            give(tree.list(handle, offset, reply), reply, |reply, ()| reply.ok());
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.turn(request, LookAtNames, [], reply, move |tree, _, [], reply| {
            listed_found(tree, handle, offset, reply);
        });
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.release_directory(handle);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        match self.0.listing(handle) {
            Ok(found) => self.0.data.sync(caller(request), &found.opened, data_only, reply),
            Err(error) => reply.error(error.into()),
        }
    }

    fn statfs(&self, request: &Request, id: INodeNo, reply: ReplyStatfs) {
        self.pass(request, reply, |tree, _, reply| space(tree.space(id), reply));
    }

    fn setxattr(
        &self,
        request: &Request,
        id: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: SetxattrFlags,
        reply: ReplyEmpty,
    ) {
        let names = [name, OsStr::from_bytes(value)];
        self.turn(request, Change(id), names, reply, move |tree, from, [name, value], reply| {
            done(tree.set_xattr(from, id, name, value.as_bytes(), flags), reply);
        });
    }

    fn getxattr(&self, request: &Request, id: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.pass(request, reply, |tree, from, reply| {
            value(tree.xattr(from, id, name, size), reply);
        });
    }

    fn listxattr(&self, request: &Request, id: INodeNo, size: u32, reply: ReplyXattr) {
        self.pass(request, reply, |tree, from, reply| value(tree.xattrs(from, id, size), reply));
    }

    fn removexattr(&self, request: &Request, id: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.turn(request, Change(id), [name], reply, move |tree, from, [name], reply| {
            done(tree.remove_xattr(from, id, name), reply);
        });
    }

    fn ioctl(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        flags: IoctlFlags,
        command: u32,
        input: &[u8],
        room: u32,
        reply: ReplyIoctl,
    ) {
        let directory = flags.contains(IoctlFlags::FUSE_IOCTL_DIR);
        let (turn, input) =
            (if input.is_empty() { Look } else { Change(id) }, [OsStr::from_bytes(input)]);
        self.turn(request, turn, input, reply, move |tree, from, [input], reply| {
            let done = tree.control(from, (handle, directory), command, input.as_bytes(), room);
            give(done, reply, |reply, output| reply.ioctl(0, &output));
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.turn(request, Change(id), [], reply, move |tree, from, [], reply| {
            done(tree.allocate(from, handle, (offset, len), mode), reply);
        });
    }

    fn lseek(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.pass(request, reply, |tree, _, reply| {
            give(tree.seek(handle, offset, whence), reply, |reply, offset| reply.offset(offset));
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        source: FileHandle,
        source_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let places = ((source, source_offset), (to, to_offset));
        writing::copy_between(&self.0, caller(request), places, len, reply);
    }
}
