//! The smallest file system that a mount can be tried with: the files of one directory, without
//! those of its subdirectories. What the tests of mounting use.

use iopace_fuse::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, ReleaseFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat, fstat, openat, statat};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(1);

/// The files of `root`.
pub(crate) struct Tiny {
    root: File,
    /// Reads are not answered, as if the disk had stalled.
    pub(crate) stalls: bool,
    /// Set in the numbers of its files.
    pub(crate) high: u64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    names: BTreeMap<u64, OsString>,
    open: BTreeMap<u64, File>,
    last: u64,
    stalled: Vec<ReplyData>,
}

impl Tiny {
    pub(crate) fn new(root: OwnedFd) -> Tiny {
        Tiny { root: File::from(root), stalls: false, high: 0, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    fn attributes(&self, name: &OsStr) -> io::Result<FileAttr> {
        let stat = statat(self.root(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        let ino = stat.st_ino | self.high;
        self.inner().names.insert(ino, name.to_owned());
        attributes(ino, &stat, &self.root)
    }

    fn of(&self, ino: INodeNo) -> io::Result<FileAttr> {
        if ino == INodeNo::ROOT {
            return attributes(ino.0, &fstat(self.root())?, &self.root);
        }
        let name = self.inner().names.get(&ino.0).cloned();
        self.attributes(&name.ok_or(io::ErrorKind::NotFound)?)
    }

    fn opened(&self, name: &OsStr, flags: OFlags) -> io::Result<FileHandle> {
        let file = openat(self.root(), name, flags | OFlags::CLOEXEC, Mode::from(0o644))?;
        let mut inner = self.inner();
        inner.last += 1;
        let handle = inner.last;
        inner.open.insert(handle, File::from(file));
        Ok(FileHandle(handle))
    }

    fn file(&self, handle: FileHandle) -> io::Result<File> {
        let inner = self.inner();
        inner.open.get(&handle.0).ok_or(io::ErrorKind::NotFound)?.try_clone()
    }
}

/// All times are those of the directory: nobody here asks for them.
fn attributes(ino: u64, stat: &Stat, root: &File) -> io::Result<FileAttr> {
    let kind = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        _ => FileType::RegularFile,
    };
    let time = root.metadata()?.modified()?;
    Ok(FileAttr {
        ino: INodeNo(ino),
        size: stat.st_size.unsigned_abs(),
        blocks: stat.st_blocks.unsigned_abs(),
        atime: time,
        mtime: time,
        ctime: time,
        kind,
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: 1,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: 0,
        blksize: 4096,
    })
}

fn number(error: io::Error) -> Errno {
    Errno::from(error)
}

impl Filesystem for Tiny {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent != INodeNo::ROOT {
            return reply.error(Errno::ENOENT);
        }
        match self.attributes(name) {
            Ok(found) => reply.entry(&TTL, &found, Generation(0)),
            Err(error) => reply.error(number(error)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.of(ino) {
            Ok(found) => reply.attr(&TTL, &found),
            Err(error) => reply.error(number(error)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let name = self.inner().names.get(&ino.0).cloned().unwrap_or_default();
        match self.opened(&name, OFlags::from_bits_truncate(flags.0.cast_unsigned())) {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(number(error)),
        }
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OFlags::from_bits_truncate(flags.cast_unsigned()) | OFlags::CREATE;
        let made = self.opened(name, flags);
        match made.and_then(|handle| Ok((handle, self.attributes(name)?))) {
            Ok((handle, found)) => {
                reply.created(
                    &TTL,
                    &found,
                    (found.ino, Generation(0)),
                    handle,
                    FopenFlags::empty(),
                );
            }
            Err(error) => reply.error(number(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if self.stalls {
            return self.inner().stalled.push(reply);
        }
        let mut data = vec![0; size as usize];
        match self.file(handle).and_then(|file| file.read_at(&mut data, offset)) {
            Ok(read) => reply.data(&data[..read]),
            Err(error) => reply.error(number(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file(handle).and_then(|file| file.write_all_at(data, offset)) {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("a request is 1 MiB at most")),
            Err(error) => reply.error(number(error)),
        }
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
        self.inner().open.remove(&handle.0);
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(self.root(), ".", flags, Mode::empty()).and_then(Dir::new);
        let entries = match opened {
            Ok(entries) => entries.flatten().enumerate().skip(offset as usize),
            Err(error) => return reply.error(number(error.into())),
        };
        for (at, entry) in entries {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if reply.add(
                INodeNo(entry.ino() | self.high),
                at as u64 + 1,
                FileType::RegularFile,
                name,
            ) {
                break;
            }
        }
        reply.ok();
    }
}
