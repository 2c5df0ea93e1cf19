//! A file system below that keeps single calls waiting while it answers all others: what comes
//! later could go first there.

use iopace_fuse::{
    BackgroundSession, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, Session, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// So much is in each of its files at first.
pub const SIZE: usize = 64 << 10;

/// Its files: the first has the number 2.
pub const NAMES: [&str; 2] = ["source", "target"];

/// What is kept waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Nothing,
    /// Every read.
    Reads,
    /// The first look at the attributes of a file once it was opened for writing.
    LookWhenOpened,
    /// The next such look.
    Look,
}

enum Kept {
    Read(ReplyData, INodeNo, u64, u32),
    Look(ReplyAttr, INodeNo),
}

struct State {
    files: [Vec<u8>; 2],
    keep: Keep,
    kept: Vec<Kept>,
}

/// The file system; all clones are the same one.
#[derive(Clone)]
pub struct Gate(Arc<Mutex<State>>);

impl Gate {
    /// The first file is full of sevens, the second of eights.
    pub fn new() -> Gate {
        let files = [vec![7; SIZE], vec![8; SIZE]];
        Gate(Arc::new(Mutex::new(State { files, keep: Keep::Nothing, kept: Vec::new() })))
    }

    pub fn mount(&self, at: &Path) -> BackgroundSession {
        let session = Session::new(self.clone(), at, &Config::default()).expect("it mounts");
        session.spawn().expect("a thread")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps calls waiting from now on.
    pub fn keep(&self, keep: Keep) {
        self.lock().keep = keep;
    }

    /// How many calls wait.
    pub fn kept_count(&self) -> usize {
        self.lock().kept.len()
    }

    /// Answers all of them.
    pub fn open(&self) {
        let mut state = self.lock();
        state.keep = Keep::Nothing;
        for kept in std::mem::take(&mut state.kept) {
            match kept {
                Kept::Read(reply, id, offset, size) => reply.data(state.piece(id, offset, size)),
                Kept::Look(reply, id) => reply.attr(&Duration::ZERO, &state.attributes(id)),
            }
        }
    }

    /// What is in the second file.
    pub fn target(&self) -> Vec<u8> {
        self.lock().files[1].clone()
    }
}

impl State {
    fn of(&mut self, id: INodeNo) -> &mut Vec<u8> {
        &mut self.files[id.0 as usize - 2]
    }

    fn piece(&mut self, id: INodeNo, offset: u64, size: u32) -> &[u8] {
        let data = self.of(id);
        let from = data.len().min(offset as usize);
        let to = data.len().min(from + size as usize);
        &data[from..to]
    }

    fn attributes(&mut self, id: INodeNo) -> FileAttr {
        let is_root = id == INodeNo::ROOT;
        let size = if is_root { 0 } else { self.of(id).len() as u64 };
        let time = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: id,
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: 0o777,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
        }
    }
}

impl Filesystem for Gate {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match NAMES.iter().position(|known| name == *known) {
            Some(place) => {
                let found = self.lock().attributes(INodeNo(place as u64 + 2));
                reply.entry(&Duration::ZERO, &found, Generation(0));
            }
            None => reply.error(iopace_fuse::Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, id: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut state = self.lock();
        if state.keep == Keep::Look && id != INodeNo::ROOT {
            state.keep = Keep::Nothing;
            return state.kept.push(Kept::Look(reply, id));
        }
        reply.attr(&Duration::ZERO, &state.attributes(id));
    }

    fn setattr(
        &self,
        _: &Request,
        id: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let mut state = self.lock();
        if let Some(size) = size {
            state.of(id).resize(size as usize, 0);
        }
        reply.attr(&Duration::ZERO, &state.attributes(id));
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.lock();
        if state.keep == Keep::LookWhenOpened && flags.0 & libc::O_ACCMODE != libc::O_RDONLY {
            state.keep = Keep::Look;
        }
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.lock();
        if state.keep == Keep::Reads {
            return state.kept.push(Kept::Read(reply, id, offset, size));
        }
        reply.data(state.piece(id, offset, size));
    }

    fn write(
        &self,
        _: &Request,
        id: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.lock();
        let (file, from) = (state.of(id), offset as usize);
        let end = from + data.len();
        file.resize(end.max(file.len()), 0);
        file[from..end].copy_from_slice(data);
        reply.written(data.len() as u32);
    }
}
