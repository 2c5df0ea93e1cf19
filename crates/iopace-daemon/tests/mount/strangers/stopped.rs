//! A user's file system that has stopped.

use super::STOPPED;
use crate::CUT;
use iopace_fuse::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags, spawn_mount,
};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};
use std::{fs, io};

/// Requests that are not answered, each with what fails it; `None` once all of them are.
type Kept = Arc<Mutex<Option<Vec<Box<dyn FnOnce() + Send>>>>>;

/// What it was asked for.
#[derive(Default)]
pub(super) struct Asked {
    /// Descriptors that were closed: by any thread, and by those that receive the requests of the
    /// kernel for a mount over it.
    pub(super) closes: AtomicUsize,
    pub(super) closes_by_receivers: AtomicUsize,
    /// Names that begin with `g` are those of other files from now on.
    pub(super) is_renewed: AtomicBool,
    /// Of the files that had these names before: attributes, and how many were forgotten.
    pub(super) old_looks: AtomicUsize,
    pub(super) old_forgotten: AtomicUsize,
}

impl Asked {
    fn is_old(&self, ino: INodeNo) -> bool {
        self.is_renewed.load(SeqCst) && (OLD..RENEWED).contains(&ino.0)
    }
}

/// The first numbers of files whose names begin with `g`.
const OLD: u64 = 10_000;
const RENEWED: u64 = 20_000;

/// A file system that has stopped: names that begin with `l` are not found for ever, files of other
/// names can be opened, and nothing can be done with them.
struct Stopped(Kept, Arc<Asked>);

impl Stopped {
    fn keep(&self, fail: impl FnOnce() + Send + 'static) {
        let mut kept = self.0.lock().expect("whole");
        match kept.as_mut() {
            Some(kept) => kept.push(Box::new(fail)),
            None => {
                drop(kept);
                fail();
            }
        }
    }
}

fn attributes(ino: INodeNo) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    let is_root = ino.0 == 1;
    FileAttr {
        ino,
        size: if is_root { 0 } else { 1 << 20 },
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        kind: if is_root { FileType::Directory } else { FileType::RegularFile },
        perm: 0o777,
        nlink: 2,
        uid: STOPPED,
        gid: STOPPED,
        rdev: 0,
        blksize: 4096,
    }
}

impl Filesystem for Stopped {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Else only one lookup comes at a time.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let numbered =
            |prefix| name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u64>().ok());
        if let Some(number) = numbered('g') {
            let first = if self.1.is_renewed.load(SeqCst) { RENEWED } else { OLD };
            let attr = attributes(INodeNo(first + number));
            return reply.entry(&Duration::ZERO, &attr, Generation(0));
        }
        match numbered('f') {
            Some(number) => {
                let attr = attributes(INodeNo(100 + number));
                reply.entry(&Duration::from_secs(60), &attr, Generation(0));
            }
            None => self.keep(|| reply.error(Errno::ENOENT)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.1.old_looks.fetch_add(usize::from(self.1.is_old(ino)), SeqCst);
        let fresh = if ino.0 < OLD { Duration::from_secs(60) } else { Duration::ZERO };
        reply.attr(&fresh, &attributes(ino));
    }

    fn forget(&self, _: &Request, ino: INodeNo, _: u64) {
        self.1.old_forgotten.fetch_add(usize::from(self.1.is_old(ino)), SeqCst);
    }

    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.keep(|| reply.error(Errno::EIO));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.keep(|| reply.error(Errno::EIO));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.keep(|| reply.error(Errno::EIO));
    }

    fn flush(&self, request: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let name = fs::read_to_string(format!("/proc/{}/comm", request.pid())).unwrap_or_default();
        self.1.closes_by_receivers.fetch_add(usize::from(name.starts_with("fuse-")), SeqCst);
        self.1.closes.fetch_add(1, SeqCst);
        self.keep(|| reply.error(Errno::EIO));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.keep(|| reply.error(Errno::EIO));
    }
}

/// Answers what it has kept, and everything from now on; when it goes, too.
pub(super) struct Opener {
    kept: Kept,
    pub(super) asked: Arc<Asked>,
    session: Option<BackgroundSession>,
    /// Tells the watchdog, when it goes, that the test is over.
    _watch: mpsc::Sender<()>,
}

fn fail_all(kept: &Kept) {
    let kept = kept.lock().expect("whole").take();
    kept.into_iter().flatten().for_each(|fail| fail());
}

impl Opener {
    pub(super) fn mount(at: &Path) -> Opener {
        let kept: Kept = Arc::new(Mutex::new(Some(Vec::new())));
        let config = Config { allow_other: true, user: Some(STOPPED), ..Config::default() };
        let asked = Arc::<Asked>::default();
        let filesystem = Stopped(Arc::clone(&kept), Arc::clone(&asked));
        let session = spawn_mount(filesystem, at, &config);
        let (watch, over) = mpsc::channel::<()>();
        let session = Some(session.expect("it mounts"));
        let opener = Opener { kept, asked, session, _watch: watch };
        // Threads of this process that wait for it could not be ended otherwise.
        let own = Arc::clone(&opener.kept);
        thread::spawn(move || {
            while over.recv_timeout(CUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                fail_all(&own);
            }
        });
        opener
    }

    pub(super) fn open(&self) {
        fail_all(&self.kept);
    }

    /// Stops again.
    pub(super) fn stop(&self) {
        *self.kept.lock().expect("whole") = Some(Vec::new());
    }

    /// How many requests it keeps.
    pub(super) fn count(&self) -> usize {
        self.kept.lock().expect("whole").as_ref().map_or(0, Vec::len)
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.open();
        drop(self.session.take());
    }
}
