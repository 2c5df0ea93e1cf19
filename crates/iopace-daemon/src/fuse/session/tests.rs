use super::super::tiny::Tiny;
use super::*;
use rustix::fs::{Mode, OFlags, open};
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tempfile::TempDir;

/// A wait that takes longer is a fault.
const HANG: Duration = Duration::from_secs(20);

/// What is given to a mount that is to be cut: enough to unmount it on a busy machine.
const SHORT: Duration = Duration::from_secs(3);

/// A directory with a file, and a place to mount it; unmounted whatever happens.
struct Bench {
    directory: TempDir,
    mountpoint: TempDir,
}

impl Bench {
    /// `None`, aloud, where nothing can be mounted.
    fn new() -> Option<Bench> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("file"), "content").expect("written");
        Some(Bench { directory, mountpoint: tempfile::tempdir().expect("a directory") })
    }

    fn root(&self) -> OwnedFd {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        open(self.directory.path(), flags, Mode::empty()).expect("opened")
    }

    fn options(&self) -> Options {
        Options::new(self.directory.path().display().to_string())
    }

    fn start(&self, filesystem: Tiny) -> Session {
        Session::start(filesystem, self.mountpoint.path(), &self.options(), |_, _, _| (), || ())
            .expect("mounted")
    }

    /// Unmounts it by other means than its session's; tests beside this one that list mounts have
    /// it in use for a moment.
    fn unmount(&self) {
        let id = MountId::of(&self.seen().expect("mounted"));
        let done = unless_used(|| Some(id.unmount(false)));
        done.expect("it says something").expect("unmounted");
    }

    fn file(&self) -> PathBuf {
        self.mountpoint.path().join("file")
    }

    fn seen(&self) -> Option<Entry> {
        let table = mount_table::read().expect("read");
        mount_table::at(&table, self.mountpoint.path()).cloned()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        for path in [self.mountpoint.path(), self.directory.path()] {
            while rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH).is_ok() {}
        }
    }
}

#[test]
fn a_mount_is_served_and_ends() {
    let Some(bench) = Bench::new() else { return };
    let session = bench.start(Tiny::new(bench.root()));
    assert_eq!(fs::read_to_string(bench.file()).expect("read"), "content");
    let seen = bench.seen().expect("mounted");
    assert_eq!((seen.fs_type.as_str(), &*seen.source), ("fuse.iopace", bench.directory.path()));
    assert!(seen.options.contains("default_permissions"), "{seen:?}");
    assert!(seen.options.contains("allow_other"), "{seen:?}");
    assert_eq!(seen.uid(), Some(0));
    assert_eq!(session.place().device, seen.device);
    assert_eq!(session.end(HANG), Ended::default());
    assert_eq!(bench.seen(), None);
    assert!(!bench.file().exists());
}

#[test]
fn over_the_directory_itself_paths_do_not_change() {
    let Some(bench) = Bench::new() else { return };
    let place = bench.directory.path();
    let session =
        Session::start(Tiny::new(bench.root()), place, &bench.options(), |_, _, _| (), || ());
    let session = session.expect("mounted");
    fs::write(place.join("new"), "through the mount").expect("written");
    assert_eq!(session.end(HANG), Ended::default());
    assert_eq!(fs::read_to_string(place.join("new")).expect("read"), "through the mount");
}

#[test]
fn the_flags_of_the_directory_are_inherited() {
    let Some(bench) = Bench::new() else { return };
    let flags = inherited();
    let options = Options { flags, ..bench.options() };
    let session = Session::start(
        Tiny::new(bench.root()),
        bench.mountpoint.path(),
        &options,
        |_, _, _| (),
        || (),
    );
    let table = fs::read_to_string("/proc/self/mountinfo").expect("read");
    let mountpoint = format!(" {} ", bench.mountpoint.path().display());
    let line = table.lines().find(|line| line.contains(&mountpoint)).expect("mounted");
    assert!(line.contains(&format!("{mountpoint}ro,nosuid,nodev,noexec")), "{line}");
    let error = fs::write(bench.mountpoint.path().join("x"), "").expect_err("read-only");
    assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(session.expect("mounted").end(HANG), Ended::default());
}

/// As of a file system that forbids everything: `/proc` has most, read-only is added.
fn inherited() -> MountFlags {
    let of_proc = super::super::mounting::inherited_flags(File::open("/proc").expect("opened"));
    of_proc.expect("asked")
        | MountFlags::RDONLY
        | MountFlags::NOSUID
        | MountFlags::NODEV
        | MountFlags::NOEXEC
}

#[test]
fn somebody_else_may_unmount() {
    let Some(bench) = Bench::new() else { return };
    let called = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&called);
    let on_end = move || {
        count.fetch_add(1, SeqCst);
    };
    let session = Session::start(
        Tiny::new(bench.root()),
        bench.mountpoint.path(),
        &bench.options(),
        |_, _, _| (),
        on_end,
    );
    let session = session.expect("mounted");
    assert!(!session.wait(Duration::from_millis(50)), "nobody has unmounted it");
    bench.unmount();
    assert!(session.wait(HANG));
    assert_eq!(called.load(SeqCst), 1);
    // What is at the place now is not ours: it stays.
    fs::write(bench.mountpoint.path().join("other"), "").expect("written");
    assert_eq!(session.end(HANG), Ended::default());
}

#[test]
fn what_was_mounted_since_at_the_same_place_stays() {
    let Some(bench) = Bench::new() else { return };
    let first = bench.start(Tiny::new(bench.root()));
    bench.unmount();
    let second = bench.start(Tiny::new(bench.root()));
    assert_eq!(first.end(HANG), Ended::default());
    assert_eq!(bench.seen().expect("still mounted").device, second.place().device);
    assert_eq!(fs::read_to_string(bench.file()).expect("read"), "content");
    assert_eq!(second.end(HANG), Ended::default());
}

#[test]
fn a_busy_mount_is_unmounted_lazily_and_its_user_is_named() {
    let Some(bench) = Bench::new() else { return };
    let session = bench.start(Tiny::new(bench.root()));
    let mut child = Command::new("sleep")
        .arg("60")
        .current_dir(bench.mountpoint.path())
        .stdin(Stdio::null())
        .spawn()
        .expect("sleep");
    // It has the name of its parent for a moment.
    let comm = format!("/proc/{}/comm", child.id());
    while fs::read_to_string(&comm).expect("procfs") != "sleep\n" {
        thread::yield_now();
    }
    let ended = session.end(SHORT);
    child.kill().expect("killed");
    child.wait().expect("waited");
    let users = ended.users.expect("it was in use");
    let uses = [crate::fuse::mounting::busy::Use::WorkingDirectory].into();
    assert_eq!(users, [User { pid: child.id(), name: "sleep".into(), uses }]);
    assert!(ended.was_cut, "the user did not end");
    assert!(!ended.is_stuck);
    assert_eq!(bench.seen(), None);
}

#[test]
fn users_who_end_in_time_are_not_cut() {
    let Some(bench) = Bench::new() else { return };
    let session = bench.start(Tiny::new(bench.root()));
    let file = File::options().write(true).open(bench.file()).expect("opened");
    let place = session.place().clone();
    let ending = thread::spawn(move || session.end(HANG));
    while mount_table::read().expect("read").iter().any(|entry| entry.device == place.device) {
        thread::yield_now();
    }
    file.write_all_at(b"CONTENT", 0).expect("still served");
    drop(file);
    let ended = ending.join().expect("ended");
    assert!(ended.users.is_some() && !ended.was_cut, "{ended:?}");
    let below = fs::read_to_string(bench.directory.path().join("file"));
    assert_eq!(below.expect("read"), "CONTENT");
}

#[test]
fn a_reader_of_a_stalled_disk_is_let_go() {
    let Some(bench) = Bench::new() else { return };
    let mut stalled = Tiny::new(bench.root());
    stalled.stalls = true;
    let session = bench.start(stalled);
    let file = File::open(bench.file()).expect("opened");
    let reader = thread::spawn(move || file.read_at(&mut [0; 8], 0));
    // The reader has its file open: it is busy, then does not end, then is cut.
    let ended = session.end(SHORT);
    assert!(ended.was_cut && !ended.is_stuck, "{ended:?}");
    let error = reader.join().expect("let go").expect_err("cut");
    let number = error.raw_os_error();
    assert!(number == Some(libc::ECONNABORTED) || number == Some(libc::ENOTCONN), "{error}");
    assert_eq!(bench.seen(), None);
}

#[test]
fn a_session_that_is_dropped_leaves_no_mount() {
    let Some(bench) = Bench::new() else { return };
    let session = bench.start(Tiny::new(bench.root()));
    let file = File::open(bench.file()).expect("opened");
    drop(session);
    assert_eq!(bench.seen(), None);
    let error = file.read_at(&mut [0; 1 << 16], 0).expect_err("cut");
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
}

#[test]
fn a_mount_that_lives_is_refused_and_a_dead_one_is_recovered() {
    let Some(bench) = Bench::new() else { return };
    assert_eq!(clear(bench.mountpoint.path()).expect("free"), Found::Free);
    let session = bench.start(Tiny::new(bench.root()));
    let refused = clear(bench.mountpoint.path()).expect_err("it lives").to_string();
    assert!(refused.contains("iopace is mounted there already"), "{refused}");
    assert_eq!(session.end(HANG), Ended::default());
    // What a killed daemon leaves: the connection is gone, the mount is not.
    let mountpoint = OpenDirectory::open(bench.mountpoint.path()).expect("opened");
    let how = How { fs_name: "x".into(), allow_other: true, flags: MountFlags::empty() };
    drop(mount(&mountpoint, &how).expect("mounted").device);
    let error = fs::metadata(bench.mountpoint.path()).expect_err("dead");
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
    assert_eq!(clear(bench.mountpoint.path()).expect("recovered"), Found::Recovered);
    assert_eq!(bench.seen(), None);
    let again = bench.start(Tiny::new(bench.root()));
    assert_eq!(fs::read_to_string(bench.file()).expect("read"), "content");
    assert_eq!(again.end(HANG), Ended::default());
}

#[test]
fn a_mount_whose_connection_is_cut_by_others_does_not_stay() {
    let Some(bench) = Bench::new() else { return };
    let (sender, ended) = mpsc::channel();
    let on_end = move || sender.send(()).expect("waited for");
    let session = Session::start(
        Tiny::new(bench.root()),
        bench.mountpoint.path(),
        &bench.options(),
        |_, _, _| (),
        on_end,
    );
    let session = session.expect("mounted");
    abort::abort(session.place().connection).expect("cut");
    ended.recv_timeout(HANG).expect("it ends");
    assert_eq!(bench.seen(), None);
    assert!(!bench.file().exists(), "the empty directory");
    assert_eq!(session.end(HANG), Ended::default());
}

#[test]
fn a_mount_in_a_directory_that_is_renamed_ends_in_order() {
    let Some(bench) = Bench::new() else { return };
    let above = bench.mountpoint.path();
    fs::create_dir_all(above.join("a/m")).expect("made");
    let (filesystem, options) = (Tiny::new(bench.root()), bench.options());
    let at = above.join("a/m");
    let session = Session::start(filesystem, &at, &options, |_, _, _| (), || ());
    let session = session.expect("mounted");
    fs::rename(above.join("a"), above.join("b")).expect("renamed");
    std::os::unix::fs::symlink(above.join("b"), above.join("a")).expect("linked");
    assert_eq!(session.end(HANG), Ended::default());
    assert!(!above.join("b/m/file").exists(), "the empty directory");
}

#[test]
fn a_place_that_cannot_be_mounted_says_why() {
    let Some(bench) = Bench::new() else { return };
    let cases = [
        (bench.mountpoint.path().join("none"), "there is no such directory"),
        (bench.directory.path().join("file"), "is not a directory"),
    ];
    for (path, reason) in cases {
        let refused =
            Session::start(Tiny::new(bench.root()), &path, &bench.options(), |_, _, _| (), || ());
        let error = refused.expect_err("no directory").to_string();
        assert!(error.contains(reason) && error.contains(&*path.to_string_lossy()), "{error}");
    }
}

#[test]
fn nobody_is_served_before_it_was_looked_again() {
    let Some(bench) = Bench::new() else { return };
    let mountpoint = OpenDirectory::open(bench.mountpoint.path()).expect("opened");
    let mut comer = None;
    let on_attached = || {
        assert!(bench.seen().is_some(), "whoever comes is held");
        let file = bench.file();
        comer = Some(thread::spawn(move || fs::read(file)));
        Err(MountError::InUse(bench.mountpoint.path().to_owned(), "is written".into()))
    };
    let options = bench.options();
    let refused = Session::start_at(
        Tiny::new(bench.root()),
        (&mountpoint, &options),
        on_attached,
        |_, _, _| panic!("it is not served"),
        || (),
    );
    assert!(matches!(refused, Err(MountError::InUse(..))), "{refused:?}");
    assert_eq!(bench.seen(), None);
    // It comes to the mount, which was cut, or later to the empty directory.
    let read = comer.expect("started").join().expect("let go");
    assert!(read.is_err(), "{read:?}");
}
