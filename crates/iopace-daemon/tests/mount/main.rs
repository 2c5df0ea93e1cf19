//! A directory mounted through a device: real programs' calls on real files.

mod caps;
mod closed;
mod cold;
mod default;
mod errors;
mod frozen;
mod fsx;
mod gate;
mod limits;
mod locks;
mod many;
mod overtaken;
mod pages;
#[cfg(feature = "nightly")]
mod rates;
mod stalled;
mod strangers;
#[path = "../support/mod.rs"]
mod support;

use iopace_daemon::config::{Backend, DaemonConfig, MountConfig};
use iopace_daemon::daemon::Daemon;
use iopace_daemon::device::Device;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A test that waits longer than this hangs, and fails.
const HANG: Duration = Duration::from_secs(60);

/// A test that takes longer than this is cut off its mount: while it waits for that it could not
/// even be killed.
const CUT: Duration = Duration::from_secs(240);

/// A directory `below`, mounted at `at`; unmounted when it goes, also when the test has failed.
struct Mounted {
    folder: tempfile::TempDir,
    daemon: Option<Arc<Daemon>>,
    /// Tells the watchdog that the test is over.
    _watch: mpsc::Sender<()>,
}

impl Mounted {
    /// `None`, aloud, where nothing can be mounted.
    fn new(change: impl FnOnce(&mut MountConfig)) -> Option<Mounted> {
        Mounted::over(|_| {}, |config| change(&mut config.mounts[0]))
    }

    /// The same; what is below is made by `prepare`.
    fn over(
        prepare: impl FnOnce(&Path),
        change: impl FnOnce(&mut DaemonConfig),
    ) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            println!("skipped: mounting needs /dev/fuse and root");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (below, at) = (folder.path().join("below"), folder.path().join("at"));
        fs::create_dir(&below).expect("made");
        fs::create_dir(&at).expect("made");
        prepare(&below);
        let mount = MountConfig { mountpoint: Some(at), ..MountConfig::new(below) };
        let mut config = DaemonConfig { mounts: vec![mount], ..DaemonConfig::default() };
        change(&mut config);
        let daemon = Daemon::start(config).expect("it mounts");
        let (watch, over) = mpsc::channel::<()>();
        let watched = Arc::clone(&daemon);
        thread::spawn(move || {
            if over.recv_timeout(CUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                watched.mounts().cut();
            }
        });
        Some(Mounted { folder, daemon: Some(daemon), _watch: watch })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("at").join(name)
    }

    fn below(&self, name: &str) -> PathBuf {
        self.folder.path().join("below").join(name)
    }

    fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().expect("it runs")
    }

    fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.daemon().devices()[0])
    }

    /// A group with this `io.max` on the device, which is named `below`.
    fn limit(&self, group: &str, max: &str) {
        let groups = self.daemon().groups();
        if groups.find(group).is_err() {
            groups.create(group, false).expect("made");
        }
        groups.write(group, "io.max", &format!("below {max}")).expect("written");
    }

    /// How many requests and buffered writes wait in the engine, those of programs that were killed
    /// since included.
    fn in_line(&self) -> usize {
        let engine = self.device().status().engine;
        engine.waiting_count + engine.paced_count
    }

    /// A shell command that pays as the group from its first request on.
    fn run_in(&self, group: &str, command: &str) -> Child {
        self.run_with("", group, command)
    }

    /// The same, with a file that was opened before: `3< at/file`.
    fn run_with(&self, open: &str, group: &str, command: &str) -> Child {
        let before = if open.is_empty() { String::new() } else { format!("exec {open}; ") };
        let mut child = Command::new("sh")
            .args(["-c", &format!("{before}read go; exec {command}")])
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let opened = PathBuf::from(format!("/proc/{}/fd/3", child.id()));
        wait_for("an open file", || open.is_empty() || opened.exists());
        self.daemon().groups().move_process(child.id(), group).expect("it is there");
        child.stdin.take().expect("piped").write_all(b"\n").expect("it reads");
        child
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.shutdown();
        }
        // Nothing is left if that went well.
        let lazily = rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(self.folder.path().join("at"), lazily);
        let _ = rustix::mount::unmount(self.folder.path().join("below"), lazily);
    }
}

/// Looks from time to time until it holds.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < HANG, "{what} does not come");
        // SLEEP: the pause between two looks at the condition.
        thread::sleep(Duration::from_millis(5));
    }
}

/// An emulated disk instead of the one below.
fn emulate(mount: &mut MountConfig, name: &str) {
    let path = mount.directory.clone();
    mount.device.backend = Backend::Directory { path, model: Some(name.into()), cache: None };
}

#[test]
fn what_is_written_is_read_and_durable_below() {
    let Some(mounted) = Mounted::new(|_| {}) else { return };
    let data: Vec<u8> = (0..5_000_000_u32).map(|number| (number / 7) as u8).collect();
    let mut file = fs::File::create(mounted.at("a")).expect("created");
    file.write_all(&data).expect("written");
    file.sync_all().expect("durable");
    drop(file);
    assert!(fs::read(mounted.at("a")).expect("read") == data);
    assert!(fs::read(mounted.below("a")).expect("read") == data);
    let mut small = [0; 10];
    fs::File::open(mounted.at("a")).expect("open").read_exact(&mut small).expect("read");
    assert_eq!(small, data[..10]);
    let status = mounted.device().status();
    assert!(status.buffered_writes_count >= 5, "{}", status.buffered_writes_count);
    assert_eq!(status.memory.expect("buffered").dirty.device.get(), 0, "all is written back");
}

/// Whoever asks late, on a busy machine, when all has ended: it has.
#[test]
fn a_mount_that_has_come_and_gone_has_ended() {
    let Some(mounted) = Mounted::new(|_| {}) else { return };
    let mounts = mounted.daemon().mounts();
    let waits = || async {
        tokio::time::timeout(Duration::from_millis(100), mounts.all_ended()).await.is_err()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    assert!(runtime.block_on(waits()), "it is there");
    rustix::mount::unmount(mounted.at(""), rustix::mount::UnmountFlags::DETACH).expect("unmounted");
    wait_for("its end", || mounts.reports().is_empty());
    wait_for("word of it", || !runtime.block_on(waits()));
}

/// Reads 8 MiB that are not cached, once; how much more than that is asked of the device, and how
/// much the kernel had read again meanwhile.
fn read_cold() -> Option<(u64, u64)> {
    let mounted = Mounted::new(|_| {})?;
    let data = vec![7; 8 << 20];
    fs::write(mounted.below("cold"), &data).expect("written");
    let file = fs::File::open(mounted.below("cold")).expect("open");
    file.sync_all().expect("durable");
    if !pages::evict(&file) {
        println!("skipped: the file system keeps what is not needed");
        return None;
    }
    let seen = || (mounted.device().status().stats.read.bytes.get(), pages::brought_back());
    let before = seen();
    assert!(fs::read(mounted.at("cold")).expect("read") == data);
    let (asked, back) = (seen().0 - before.0, seen().1 - before.1);
    assert!(asked >= 8 << 20, "never less: {asked}");
    Some((asked - (8 << 20), back))
}

/// The kernel reads nothing ahead below the mount, and nothing because we asked what is cached.
#[test]
fn cold_reads_are_requests() {
    // Some kernels take pages from everybody now and then, these too before they are used: then as
    // much is read again.
    for _ in 0..4 {
        let Some((more, back)) = read_cold() else { return };
        if more == 0 {
            return;
        }
        assert!(more <= back, "{more} bytes are read twice, {back} were taken");
    }
    panic!("the kernel takes pages each time");
}
