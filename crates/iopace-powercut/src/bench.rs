//! iopace over a recorder, in this process, for as long as it is needed.

use crate::recorder::Recorder;
use crate::tree::Shared;
use fuser::BackgroundSession;
use iopace_daemon::config::{DaemonConfig, MountConfig};
use iopace_daemon::daemon::Daemon;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

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
    /// What does not start, in words.
    pub fn new(
        tree: &Shared,
        start: impl FnOnce(&Path, &Path) -> (PathBuf, DaemonConfig),
    ) -> io::Result<Bench> {
        let folder = tempfile::tempdir()?;
        let below = folder.path().join("below");
        fs::create_dir(&below)?;
        let recorder = Some(Recorder::mount(tree, &below)?);
        let tree = tree.clone();
        let mut bench = Bench { tree, at: below.clone(), daemon: None, recorder, folder };
        let (at, config) = start(&below, bench.folder.path());
        let started = Daemon::start(config);
        bench.daemon = Some(started.map_err(|error| io::Error::other(error.to_string()))?);
        bench.at = at;
        Ok(bench)
    }

    /// A mount.
    ///
    /// # Errors
    /// What does not start, in words.
    pub fn mounted(over: Over) -> io::Result<Bench> {
        Bench::mounted_with(&Shared::default(), over)
    }

    /// A mount of what is in a tree.
    ///
    /// # Errors
    /// What does not start, in words.
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
        let lazily = rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(self.folder.path().join("at"), lazily);
        if let Some(recorder) = self.recorder.take() {
            let _ = recorder.umount_and_join();
        }
        let _ = rustix::mount::unmount(self.folder.path().join("below"), lazily);
    }
}
