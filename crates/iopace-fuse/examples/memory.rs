//! A file system in memory with one file, `data`, past the page cache: to measure what the protocol
//! costs. As root: `memory MOUNTPOINT`, until it is unmounted.

use iopace_fuse::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, Session, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};

const SIZE: usize = 16 << 20;

struct Memory(RwLock<Vec<u8>>);

fn attributes(ino: u64) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(ino),
        size: if ino == 1 { 0 } else { SIZE as u64 },
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        kind: if ino == 1 { FileType::Directory } else { FileType::RegularFile },
        perm: 0o777,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
    }
}

impl Filesystem for Memory {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("data") => reply.entry(&Duration::ZERO, &attributes(2), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &attributes(ino.0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let data = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let from = SIZE.min(offset as usize);
        reply.data(&data[from..SIZE.min(from + size as usize)]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut file = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match file.get_mut(offset as usize..offset as usize + data.len()) {
            Some(place) => {
                place.copy_from_slice(data);
                reply.written(data.len() as u32);
            }
            None => reply.error(Errno::EFBIG),
        }
    }
}

fn main() -> io::Result<()> {
    let mountpoint = std::env::args_os().nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    Session::new(Memory(RwLock::new(vec![7; SIZE])), mountpoint, &Config::default())?.run()
}
