//! iopace over a recorder, in this process, for as long as it is needed.

use crate::recorder::Recorder;
use crate::tree::Shared;
use iopace_daemon::config::{DaemonConfig, MountConfig};
use iopace_daemon::daemon::Daemon;
use iopace_daemon::fuse::image::loops;
use iopace_daemon::fuse::mounting::abort::abort;
use iopace_daemon::mount_table;
use iopace_fuse::BackgroundSession;
use rustix::mount::UnmountFlags;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

/// A bench that stands longer than this hangs: it is cut, as nobody could kill it.
const CUT: Duration = Duration::from_secs(400);

/// The folders of all benches.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Cuts all that is mounted in a folder: whoever waits for it gets an error. A process that serves
/// its own mounts can neither end nor be killed while it waits for them.
fn cut(folder: &Path) {
    let all = mount_table::read().unwrap_or_default();
    // Of a loop device everything fails as soon as what is behind it is cut.
    let loops = loops::of_file(&folder.join("images/disk"));
    for entry in all.iter().rev().filter(|entry| entry.mountpoint.starts_with(folder)) {
        let _ = rustix::mount::unmount(&entry.mountpoint, UnmountFlags::DETACH);
        let _ = abort(entry.connection());
    }
    for path in loops {
        let _ = loops::detach(&path);
    }
}

/// Cuts all benches of this process, which is to end.
pub fn cut_all() {
    for folder in FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        cut(folder);
        let _ = fs::remove_dir_all(folder);
    }
}

/// How iopace stands over the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// Mounted elsewhere.
    Elsewhere,
    /// Mounted over the directory itself.
    Itself,
}

/// Both ways.
pub const WAYS: [Over; 2] = [Over::Elsewhere, Over::Itself];

/// The bench; everything is ended and removed when it goes.
pub struct Bench {
    /// The record.
    pub tree: Shared,
    /// Where callers go.
    pub at: PathBuf,
    /// iopace.
    pub daemon: Option<Arc<Daemon>>,
    recorder: Option<BackgroundSession>,
    folder: tempfile::TempDir,
    /// Tells the watchdog that it is over.
    _watch: mpsc::SyncSender<()>,
}

impl Bench {
    /// Why there can be none here, if there can be none.
    pub fn missing() -> Option<&'static str> {
        let can = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
        (!can).then_some("mounting needs /dev/fuse and root")
    }

    /// A recorder alone; `start` is told where it is, and says how iopace is to be started.
    ///
    /// # Errors
    /// The part that does not start, in words.
    pub fn new(
        tree: &Shared,
        start: impl FnOnce(&Path, &Path) -> (PathBuf, DaemonConfig),
    ) -> io::Result<Bench> {
        let folder = tempfile::tempdir()?;
        let below = folder.path().join("below");
        fs::create_dir(&below)?;
        let recorder = Some(Recorder::mount(tree, &below)?);
        let tree = tree.clone();
        let at = below.clone();
        FOLDERS.lock().unwrap_or_else(PoisonError::into_inner).push(folder.path().to_owned());
        let watched = folder.path().to_owned();
        let (watch, over) = mpsc::sync_channel::<()>(1);
        thread::spawn(move || {
            if over.recv_timeout(CUT) == Err(mpsc::RecvTimeoutError::Timeout) {
                cut(&watched);
            }
        });
        let mut bench = Bench { tree, at, daemon: None, recorder, folder, _watch: watch };
        let (at, config) = start(&below, bench.folder.path());
        let started = Daemon::start(config);
        bench.daemon = Some(started.map_err(|error| io::Error::other(error.to_string()))?);
        bench.at = at;
        Ok(bench)
    }

    /// A mount.
    ///
    /// # Errors
    /// The part that does not start, in words.
    pub fn mounted(over: Over) -> io::Result<Bench> {
        Bench::mounted_with(&Shared::default(), over)
    }

    /// A mount of what is in a tree.
    ///
    /// # Errors
    /// The part that does not start, in words.
    pub fn mounted_with(tree: &Shared, over: Over) -> io::Result<Bench> {
        Bench::new(tree, |below, folder| {
            let at = folder.join("at");
            let mountpoint = (over == Over::Elsewhere).then(|| at.clone());
            if mountpoint.is_some() {
                fs::create_dir(&at).expect("a new folder");
            }
            let shown = mountpoint.clone().unwrap_or(below.to_owned());
            let mount = MountConfig { mountpoint, ..MountConfig::new(below) };
            (shown, DaemonConfig { mounts: vec![mount], ..DaemonConfig::default() })
        })
    }

    /// Has the daemon attach its export to a loop device, which is where callers go then.
    ///
    /// # Errors
    /// The daemon's refusal, in words.
    pub fn attach(&mut self) -> io::Result<()> {
        let Some(daemon) = &self.daemon else { return Ok(()) };
        let attached = daemon.attach(None, Some(512));
        self.at = attached.map_err(|error| io::Error::other(error.to_string()))?.path;
        Ok(())
    }

    /// The folder that everything is in.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.shutdown();
        }
        let lazily = UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(self.folder.path().join("at"), lazily);
        if let Some(recorder) = self.recorder.take() {
            let _ = recorder.umount_and_join();
        }
        let _ = rustix::mount::unmount(self.folder.path().join("below"), lazily);
        let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
        folders.retain(|folder| folder != self.folder.path());
    }
}
