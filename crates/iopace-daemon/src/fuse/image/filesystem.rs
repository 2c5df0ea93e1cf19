//! A directory with one file for each export, and nothing else: what the kernel asks of it.

use super::file::ImageFile;
use crate::clock::FileTime;
use crate::fuse::caller::Caller;
use crate::io::target::Target;
use crate::limits::{FUSE_WRITE_BYTES_MAX, IMAGE_BACKGROUND_MAX};
use iopace_fuse::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReleaseFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use rustix::process::{getegid, geteuid};
use slab::Slab;
use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Nothing of names, sizes and modes ever changes.
const TTL: Duration = Duration::from_secs(3_600);

/// The block that sizes are told in; also how finely a loop device discards.
const BLOCK: u32 = 4096;

/// The number of the first file; that of the directory is 1.
const FIRST: u64 = 2;

/// What we ask of the kernel, each of it where it is there.
const CAPABILITIES: [InitFlags; 3] =
    [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP, InitFlags::FUSE_MAX_PAGES];

/// The directory.
pub(super) struct ImageTree {
    files: Arc<[ImageFile]>,
    made: FileTime,
    /// The open handles, each with the target that its syncs are carried out on.
    opened: Mutex<Slab<Option<Target>>>,
}

impl ImageTree {
    /// One with these files, all of that time.
    pub(super) fn new(files: Arc<[ImageFile]>, made: FileTime) -> ImageTree {
        ImageTree { files, made, opened: Mutex::default() }
    }

    fn opened(&self) -> MutexGuard<'_, Slab<Option<Target>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, id: INodeNo) -> Option<&ImageFile> {
        self.files.get(usize::try_from(id.0.checked_sub(FIRST)?).ok()?)
    }

    fn place(&self, name: &OsStr) -> Option<INodeNo> {
        let found = self.files.iter().position(|file| OsStr::new(&file.name) == name)?;
        Some(number(found))
    }

    fn attributes(&self, id: INodeNo) -> Option<FileAttr> {
        let file = self.file(id);
        let (kind, perm, size) = match file {
            Some(file) if file.read_only => (FileType::RegularFile, 0o444, file.size()),
            Some(file) => (FileType::RegularFile, 0o600, file.size()),
            None if id == INodeNo::ROOT => (FileType::Directory, 0o755, 0),
            None => return None,
        };
        Some(FileAttr {
            ino: id,
            size,
            blocks: size.div_ceil(512),
            atime: self.made,
            mtime: self.made,
            ctime: self.made,
            kind,
            perm,
            nlink: if file.is_some() { 1 } else { 2 },
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            rdev: 0,
            blksize: BLOCK,
        })
    }
}

fn number(place: usize) -> INodeNo {
    INodeNo(place as u64 + FIRST)
}

fn caller(request: &Request) -> Caller {
    Caller { pid: request.pid(), uid: request.uid(), gid: request.gid() }
}

impl Filesystem for ImageTree {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in CAPABILITIES {
            // What an old kernel does not have it does without.
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_write(FUSE_WRITE_BYTES_MAX);
        let _ = config.set_max_background(IMAGE_BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.place(name).filter(|_| parent == INodeNo::ROOT);
        match found.and_then(|id| self.attributes(id)) {
            Some(found) => reply.entry(&TTL, &found, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(id) {
            Some(found) => reply.attr(&TTL, &found),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// Nothing can be set, and the size can be set to what it is.
    fn setattr(
        &self,
        _: &Request,
        id: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<FileTime>,
        _: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let Some(found) = self.attributes(id) else { return reply.error(Errno::ENOENT) };
        let is_same = size == Some(found.size);
        if is_same && mode.is_none() && uid.is_none() && gid.is_none() {
            reply.attr(&TTL, &found);
        } else {
            reply.error(Errno::EPERM);
        }
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EPERM);
    }

    fn open(&self, _: &Request, id: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let Some(file) = self.file(id) else { return reply.error(Errno::ENOENT) };
        if file.read_only && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        let target = file.open();
        let key = self.opened().insert(target);
        reply.opened(FileHandle(key as u64), direct);
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
        let closed = self.opened().try_remove(handle.0 as usize);
        // Not under the lock: a file system may take its time.
        drop(closed);
        reply.ok();
    }

    fn read(
        &self,
        request: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.file(id) {
            Some(file) => file.read(caller(request), offset, size, reply),
            None => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        request: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let durable = flags.0 & libc::O_DSYNC != 0;
        match self.file(id) {
            Some(file) => file.write(caller(request), (offset, data), durable, reply),
            None => reply.error(Errno::EIO),
        }
    }

    /// Closing makes nothing durable, as with any disk: the kernel need not ask again.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(
        &self,
        request: &Request,
        id: INodeNo,
        handle: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let target = self.opened().get(handle.0 as usize).cloned().flatten();
        match self.file(id) {
            Some(file) => file.sync(caller(request), target, reply),
            None => reply.error(Errno::EIO),
        }
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        request: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match self.file(id) {
            Some(file) => file.allocate(caller(request), (offset, length), mode, reply),
            None => reply.error(Errno::EIO),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.file(id) {
            Some(file) => file.seek(offset, whence, reply),
            None => reply.error(Errno::EIO),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let own = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, name));
        let files = self.files.iter().enumerate();
        let files = files.map(|(at, file)| (number(at), FileType::RegularFile, &*file.name));
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        let all = own.into_iter().chain(files).enumerate().skip(skipped);
        for (at, (id, kind, name)) in all {
            if reply.add(id, at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.files.iter().map(|file| file.size().div_ceil(u64::from(BLOCK))).sum();
        reply.statfs(blocks, 0, 0, self.files.len() as u64, 0, BLOCK, 255, BLOCK);
    }
}
