//! Users who block what they ask for: a file system of theirs that has stopped, leases that they do
//! not give back. Only they themselves wait for it.

use crate::{CUT, Mounted, wait_for};
use iopace_fuse::limits::USER_THREADS;
use iopace_fuse::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags, spawn_mount,
};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

/// Calls of each of the two strangers.
const CALLS: usize = 100;

const STOPPED: u32 = 1001;
const OTHER: u32 = 1002;
const LEASING: u32 = 1003;

/// Requests that are not answered, each with what fails it; `None` once all of them are.
type Kept = Arc<Mutex<Option<Vec<Box<dyn FnOnce() + Send>>>>>;

/// A file system that has stopped: names that begin with `l` are not found for ever, files of other
/// names can be opened, and nothing can be done with them.
struct Stopped(Kept);

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
        let number = name.to_str().and_then(|name| name.strip_prefix('f')?.parse::<u64>().ok());
        match number {
            Some(number) => {
                let attr = attributes(INodeNo(100 + number));
                reply.entry(&Duration::from_secs(60), &attr, Generation(0));
            }
            None => self.keep(|| reply.error(Errno::ENOENT)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::from_secs(60), &attributes(ino));
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

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.keep(|| reply.error(Errno::EIO));
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.keep(|| reply.error(Errno::EIO));
    }
}

/// Answers what it has kept, and everything from now on; when it goes, too.
struct Opener {
    kept: Kept,
    session: Option<BackgroundSession>,
    /// Tells the watchdog, when it goes, that the test is over.
    _watch: mpsc::Sender<()>,
}

fn fail_all(kept: &Kept) {
    let kept = kept.lock().expect("whole").take();
    kept.into_iter().flatten().for_each(|fail| fail());
}

impl Opener {
    fn mount(at: &Path) -> Opener {
        let kept: Kept = Arc::new(Mutex::new(Some(Vec::new())));
        let config = Config { allow_other: true, user: Some(STOPPED), ..Config::default() };
        let session = spawn_mount(Stopped(Arc::clone(&kept)), at, &config);
        let (watch, over) = mpsc::channel::<()>();
        let session = Some(session.expect("it mounts"));
        let opener = Opener { kept, session, _watch: watch };
        // Threads of this process that wait for it could not be ended otherwise.
        let own = Arc::clone(&opener.kept);
        thread::spawn(move || {
            while over.recv_timeout(CUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                fail_all(&own);
            }
        });
        opener
    }

    fn open(&self) {
        fail_all(&self.kept);
    }

    /// Stops again.
    fn stop(&self) {
        *self.kept.lock().expect("whole") = Some(Vec::new());
    }

    /// How many requests it keeps.
    fn count(&self) -> usize {
        self.kept.lock().expect("whole").as_ref().map_or(0, Vec::len)
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.open();
        drop(self.session.take());
    }
}

/// Programs that are ended when they go, also when the test has failed.
struct Programs(Vec<Child>);

impl Programs {
    fn kill(&mut self) {
        self.0.iter_mut().for_each(|child| drop(child.kill()));
    }

    fn wait(&mut self, what: &str) {
        for child in &mut self.0 {
            wait_for(what, || child.try_wait().expect("it is ours").is_some());
        }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        self.kill();
    }
}

fn as_user(uid: u32, program: &str, arguments: &[&OsStr]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command.uid(uid).gid(uid).spawn().expect("it starts")
}

/// A program of that user with a lease on each of its files, which it does not give back.
fn lease(folder: &Path) -> Option<Programs> {
    let text = "import fcntl,os,signal,sys\n\
                signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
                for i in range(int(sys.argv[2])):\n\
                \tfd = os.open(f'{sys.argv[1]}/l{i}', os.O_RDWR | os.O_CREAT, 0o600)\n\
                \tfcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
                print('ready', flush=True)\n\
                sys.stdin.read()\n";
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", text]).arg(folder).arg(CALLS.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(LEASING).gid(LEASING);
    let mut child = command.spawn().ok()?;
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("it says something");
    let program = Programs(vec![child]);
    (line == "ready\n").then_some(program)
}

/// Another user and root read a file.
fn others_go_on(mounted: &Mounted) {
    for uid in [0, OTHER] {
        let mut reads = Programs(vec![as_user(uid, "cat", &[mounted.at("other").as_os_str()])]);
        reads.wait("what another user reads");
        assert!(reads.0[0].wait().expect("ended").success(), "user {uid}");
    }
}

#[test]
fn a_stranger_stops_only_himself() {
    let mut stopped = None;
    let prepare = |below: &Path| {
        let folder = below.parent().expect("a folder");
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("set");
        fs::write(below.join("other"), "read").expect("written");
        for (name, uid) in [("stopped", STOPPED), ("leases", LEASING)] {
            fs::create_dir(below.join(name)).expect("made");
            chown(below.join(name), Some(uid), Some(uid)).expect("given");
        }
        stopped = Some(Opener::mount(&below.join("stopped")));
    };
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    let stopped = stopped.expect("prepared");
    let waiting = || mounted.daemon().mounts().reports()[0].waiting_count;
    let call = |folder: &str, uid, program: &str| {
        let call = |number| {
            let path = mounted.at(folder).join(format!("l{number}"));
            as_user(uid, program, &[path.as_os_str()])
        };
        Programs((0..CALLS).map(call).collect())
    };
    let mut asking = call("stopped", STOPPED, "stat");
    wait_for("calls of him who has stopped", || waiting() == CALLS - USER_THREADS);
    others_go_on(&mounted);
    if let Some(mut holder) = lease(&mounted.below("leases")) {
        let mut opening = call("leases", LEASING, "cat");
        // Not all: the system takes a lease away after some time, and each lets one call go on.
        let most = 2 * (CALLS - USER_THREADS) - CALLS / 2;
        wait_for("calls that wait for leases", || waiting() >= most);
        others_go_on(&mounted);
        holder.kill();
        opening.wait("calls that waited for leases");
    } else {
        println!("skipped in part: leases need python3");
    }
    assert_eq!(waiting(), CALLS - USER_THREADS, "the other one still waits");
    // Killed, they end at once, also those that wait for a thread.
    asking.kill();
    asking.wait("the end of killed programs");
    assert_eq!(waiting(), 0);
    others_go_on(&mounted);
    stopped.open();
    let mut again = Programs(vec![as_user(STOPPED, "cat", &[mounted.at("other").as_os_str()])]);
    again.wait("a call of him who has stopped no more");
    assert!(again.0[0].wait().expect("ended").success());
    drop(mounted);
    drop(stopped);
}

/// Programs that use a file of a file system that has stopped, `$1`, and in what way.
const USES: [(&str, &str); 8] = [
    ("direct reads", "dd if=$1 of=/dev/null bs=4k count=1 iflag=direct"),
    ("reads", "cat $1"),
    ("direct writes", "dd if=/dev/zero of=$1 bs=4k count=1 conv=notrunc oflag=direct"),
    ("writes", "dd if=/dev/zero of=$1 bs=4k count=1 conv=notrunc"),
    ("syncs", "sync $1"),
    ("truncates", "truncate -s 1 $1"),
    ("closes", "true 3<> $1"),
    ("descriptors that are let go", "true 3< $1"),
];

/// Programs of each kind: more than the device has at the disk at a time, and than root may have
/// threads.
const USERS: usize = 80;

/// What others do meanwhile, in a directory of their own: with and without the page cache, and
/// durable.
const OTHERS: &str = "set -e; cd \"$1\"; dd if=/dev/zero of=a bs=4k count=4 conv=fsync
    dd if=a of=b bs=4k oflag=direct; dd if=b of=/dev/null bs=4k iflag=direct; sync a
    truncate -s 5 a; mv a c; rm b c";

#[test]
fn a_stranger_whose_files_have_stopped_stops_only_himself() {
    let mut stopped = None;
    let prepare = |below: &Path| {
        let folder = below.parent().expect("a folder");
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("set");
        for (name, uid) in [("stopped", STOPPED), ("others", OTHER), ("roots", 0)] {
            fs::create_dir(below.join(name)).expect("made");
            chown(below.join(name), Some(uid), Some(uid)).expect("given");
        }
        stopped = Some(Opener::mount(&below.join("stopped")));
    };
    let Some(mounted) = Mounted::over(prepare, |_| {}) else { return };
    let stopped = stopped.expect("prepared");
    // All are started while it answers: a child has the descriptors of this process, which the
    // daemon is a part of, and closes them before it becomes another program.
    let shell = |uid, script: &str, path: &Path, each: &str| {
        let script = format!("read go; {script}");
        let words =
            ["-c".as_ref(), script.as_ref(), "sh".as_ref(), path.as_os_str(), each.as_ref()];
        let mut command = Command::new("sh");
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::piped());
        Programs(vec![command.uid(uid).gid(uid).spawn().expect("it starts")])
    };
    let go = |programs: &mut Programs| drop(programs.0[0].stdin.take());
    let all = format!("for n in $(seq {USERS}); do sh -c \"$2\" sh \"$1/f$n\" & done; wait");
    for (what, each) in USES {
        stopped.open();
        let mut using = shell(STOPPED, &all, &mounted.at("stopped"), each);
        let others = [(0, "roots"), (OTHER, "others")];
        let others = others.map(|(uid, folder)| (uid, shell(uid, OTHERS, &mounted.at(folder), "")));
        stopped.stop();
        go(&mut using);
        wait_for(what, || stopped.count() >= USER_THREADS);
        for (uid, mut other) in others {
            go(&mut other);
            other.wait(&format!("user {uid} beside {what} of him who has stopped"));
            let status = other.0[0].wait().expect("ended");
            assert!(status.success(), "user {uid} beside {what}: {status}");
        }
        stopped.open();
        using.wait(what);
    }
    stopped.open();
    drop(mounted);
    drop(stopped);
}
