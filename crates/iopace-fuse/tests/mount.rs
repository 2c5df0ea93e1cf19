//! Real mounts: who waits, who does not, and how it ends. As root; else skipped, aloud.

use iopace_fuse::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileLock, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReleaseFlags,
    ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen, Request, spawn_mount,
};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// A test that waits longer than this hangs, and fails.
const HANG: Duration = Duration::from_secs(60);

/// The state that the file system and its test share.
#[derive(Default)]
struct State {
    /// Lookups of `stuck...` end when this is true.
    is_open: Mutex<bool>,
    opened: Condvar,
    inside_count: AtomicUsize,
    /// Replies of `wait...`, which an interrupt takes.
    waiting: Mutex<Vec<Arc<Mutex<Option<ReplyEntry>>>>>,
    locks: Mutex<Vec<(FileLock, bool)>>,
    releases: Mutex<Vec<(Option<LockOwner>, ReleaseFlags)>>,
    is_destroyed: AtomicBool,
}

impl State {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

struct Fs(Arc<State>);

fn attributes(ino: u64) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
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

fn found(reply: ReplyEntry) {
    reply.entry(&Duration::ZERO, &attributes(2), Generation(0));
}

impl Filesystem for Fs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_POSIX_LOCKS,
            InitFlags::FUSE_FLOCK_LOCKS,
            InitFlags::FUSE_SETXATTR_EXT,
        ];
        for capability in wanted {
            config.add_capabilities(capability).expect("the kernel has it");
        }
        Ok(())
    }

    fn destroy(&self) {
        self.0.is_destroyed.store(true, SeqCst);
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.to_str().unwrap_or_default();
        if name.starts_with("stuck") {
            self.0.inside_count.fetch_add(1, SeqCst);
            let is_open = self.0.is_open.lock().unwrap();
            drop(self.0.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
            self.0.inside_count.fetch_sub(1, SeqCst);
            return found(reply);
        }
        if name.starts_with("wait") {
            let kept = Arc::new(Mutex::new(None));
            let told = Arc::downgrade(&kept);
            reply.on_interrupt(move || {
                let kept = told.upgrade().expect("its test holds it");
                let reply: Option<ReplyEntry> = kept.lock().unwrap().take();
                reply.expect("it is not answered").error(Errno::EINTR);
            });
            // An interrupt that was first has told of itself before there was a reply to take.
            assert!(!reply.is_interrupted(), "the caller is interrupted later");
            *kept.lock().unwrap() = Some(reply);
            return self.0.waiting.lock().unwrap().push(kept);
        }
        match name {
            "free" => found(reply),
            "panic" => panic!("as the test wants it"),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::ZERO, &attributes(ino.0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::empty());
    }

    fn setlk(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        lock: &FileLock,
        waits: bool,
        reply: ReplyEmpty,
    ) {
        self.0.locks.lock().unwrap().push((*lock, waits));
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        owner: Option<LockOwner>,
        how: ReleaseFlags,
        reply: ReplyEmpty,
    ) {
        self.0.releases.lock().unwrap().push((owner, how));
        reply.ok();
    }
}

/// A mount of it; what is stuck is let go with it, also when the test has failed.
struct Mounted {
    folder: tempfile::TempDir,
    session: Option<BackgroundSession>,
    state: Arc<State>,
}

impl Mounted {
    fn new() -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            println!("skipped: mounting needs /dev/fuse and root");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(folder.path(), mode).expect("set");
        let at = folder.path().join("at");
        fs::create_dir(&at).expect("made");
        let state = Arc::<State>::default();
        let config = Config { allow_other: true, ..Config::default() };
        let session = spawn_mount(Fs(Arc::clone(&state)), &at, &config).expect("it mounts");
        Some(Mounted { folder, session: Some(session), state })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("at").join(name)
    }

    fn session(&self) -> &BackgroundSession {
        self.session.as_ref().expect("it is there")
    }

    /// A program of this user that asks for the attributes.
    fn stat(&self, uid: u32, name: &str) -> Child {
        let mut command = Command::new("stat");
        command.arg(self.at(name)).stdout(Stdio::null()).stderr(Stdio::null());
        command.uid(uid).gid(uid).spawn().expect("stat starts")
    }

    /// Until so many requests wait for a thread.
    fn wait_parked(&self, count: usize) {
        let control = self.session().control();
        wait_for("requests in queues", || control.counts().1 == count);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.state.open();
        drop(self.session.take());
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < HANG, "{what}: it does not come");
        // SLEEP: between two looks at something that nobody tells of.
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ends within the time after which a test hangs.
fn end(mut child: Child) -> std::process::ExitStatus {
    let mut ended = None;
    wait_for("the end of a program", || {
        ended = child.try_wait().expect("it is ours");
        ended.is_some()
    });
    ended.expect("it has ended")
}

#[test]
fn a_user_who_is_stuck_stops_nobody_else() {
    const COUNT: usize = 100;
    let Some(mounted) = Mounted::new() else { return };
    let own = iopace_fuse::limits::USER_THREADS;
    let stuck: Vec<Child> =
        (0..COUNT).map(|number| mounted.stat(1001, &format!("stuck{number}"))).collect();
    mounted.wait_parked(COUNT - own);
    assert_eq!(mounted.state.inside_count.load(SeqCst), own);
    for uid in [0, 1002] {
        assert!(end(mounted.stat(uid, "free")).success(), "user {uid}");
    }
    // A call that waits and was interrupted is answered when somebody says so, and no other.
    let mut stuck = stuck.into_iter();
    let killed: Vec<Child> = stuck.by_ref().collect();
    let inside = || killed.iter().map(Child::id);
    let control = mounted.session().control();
    for pid in inside() {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a number");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
    }
    let mut count = 0;
    wait_for("interrupts of those in the queue", || {
        count += control.give_up_queued(|request| request.uid() == 1001);
        count == COUNT - own
    });
    assert_eq!(control.give_up_queued(|_| true), 0);
    mounted.state.open();
    for child in killed {
        assert_eq!(end(child).signal(), Some(libc::SIGKILL));
    }
    let most = 1 + iopace_fuse::limits::SPARE_THREADS;
    wait_for("the end of threads that are too many", || control.counts().0 <= most);
    assert_eq!(control.counts().1, 0);
    assert!(end(mounted.stat(1001, "free")).success());
}

#[test]
fn what_waited_is_carried_out() {
    let Some(mounted) = Mounted::new() else { return };
    let own = iopace_fuse::limits::USER_THREADS;
    let all: Vec<Child> = (0..2 * own).map(|n| mounted.stat(1001, &format!("stuck{n}"))).collect();
    mounted.wait_parked(own);
    mounted.state.open();
    assert!(all.into_iter().all(|child| end(child).success()));
}

#[test]
fn an_interrupt_is_told() {
    let Some(mounted) = Mounted::new() else { return };
    for (number, signal) in [libc::SIGTERM, libc::SIGKILL].into_iter().enumerate() {
        let child = mounted.stat(1001, "wait");
        wait_for("a call", || mounted.state.waiting.lock().unwrap().len() == number + 1);
        let kept = Arc::clone(&mounted.state.waiting.lock().unwrap()[number]);
        // Until its reply is kept.
        wait_for("its reply", || kept.lock().unwrap().is_some());
        let pid = rustix::process::Pid::from_child(&child);
        let named = rustix::process::Signal::from_named_raw(signal).expect("a signal");
        rustix::process::kill_process(pid, named).expect("it is there");
        assert_eq!(end(child).signal(), Some(signal));
        assert!(kept.lock().unwrap().is_none());
    }
}

#[test]
fn a_panic_is_an_error_of_one_call() {
    let Some(mounted) = Mounted::new() else { return };
    let error = fs::metadata(mounted.at("panic")).expect_err("it panics");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    assert!(fs::metadata(mounted.at("free")).is_ok());
    assert!(fs::metadata(mounted.at("none")).is_err_and(|e| e.kind() == io::ErrorKind::NotFound));
}

#[test]
fn locks_come_with_their_kind() {
    use rustix::fs::{FlockOperation, fcntl_lock, flock};
    let Some(mounted) = Mounted::new() else { return };
    let file = fs::File::options().write(true).open(mounted.at("free")).expect("opens");
    flock(&file, FlockOperation::LockExclusive).expect("locked");
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).expect("locked");
    let locks = std::mem::take(&mut *mounted.state.locks.lock().unwrap());
    let seen: Vec<_> =
        locks.iter().map(|(lock, waits)| (lock.is_flock, lock.kind, *waits)).collect();
    assert_eq!(seen, [(true, libc::F_WRLCK, true), (false, libc::F_WRLCK, false)]);
    drop(file);
    wait_for("its release", || !mounted.state.releases.lock().unwrap().is_empty());
    let (owner, how) = mounted.state.releases.lock().unwrap()[0];
    assert_eq!((owner, how), (Some(locks[0].0.owner), ReleaseFlags::FUSE_RELEASE_FLOCK_UNLOCK));
}

#[test]
fn unmounting_ends_all_threads() {
    let Some(mut mounted) = Mounted::new() else { return };
    assert!(end(mounted.stat(1001, "free")).success());
    let session = mounted.session.take().expect("it is there");
    assert!(!mounted.state.is_destroyed.load(SeqCst));
    session.umount_and_join().expect("it ends in order");
    assert!(mounted.state.is_destroyed.load(SeqCst));
    assert_eq!(Arc::strong_count(&mounted.state), 1, "no thread has it any more");
}

#[test]
fn a_cut_connection_ends_all_threads() {
    let Some(mut mounted) = Mounted::new() else { return };
    let stuck: Vec<Child> = (0..20).map(|n| mounted.stat(1001, &format!("stuck{n}"))).collect();
    mounted.wait_parked(20 - iopace_fuse::limits::USER_THREADS);
    // It is in use: the connection is cut all the same.
    let _ = rustix::mount::unmount(mounted.at(""), rustix::mount::UnmountFlags::FORCE);
    assert!(stuck.into_iter().all(|child| !end(child).success()));
    mounted.state.open();
    mounted.session.take().expect("it is there").umount_and_join().expect("it ends");
    assert_eq!(Arc::strong_count(&mounted.state), 1, "no thread has it any more");
}
