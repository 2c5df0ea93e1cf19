//! A daemon in a temporary folder, and clients for it.
#![allow(dead_code)]

use iopace_daemon::config::{Backend, DaemonConfig, DeviceConfig, Listen};
use iopace_daemon::daemon::Daemon;
use iopace_nbd::client::{Client, Wanted};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running daemon; shut down and cleaned up when it goes, also when the test has failed.
pub struct Running {
    pub daemon: Arc<Daemon>,
    pub folder: TempDir,
}

impl Running {
    /// Serves one device named `disk`.
    pub fn start(backend: Backend, change: impl FnOnce(&mut DaemonConfig)) -> Running {
        Running::start_in(tempfile::tempdir().expect("a folder"), backend, change)
    }

    pub fn start_in(
        folder: TempDir,
        backend: Backend,
        change: impl FnOnce(&mut DaemonConfig),
    ) -> Running {
        let mut config = DaemonConfig {
            devices: vec![DeviceConfig::new("disk", backend)],
            listen: vec![Listen::Unix(folder.path().join("disk.sock"))],
            ..DaemonConfig::default()
        };
        change(&mut config);
        let daemon = Daemon::start(config).expect("starts");
        Running { daemon, folder }
    }

    /// A sparse image file of that size.
    pub fn image(folder: &TempDir, size_bytes: u64) -> PathBuf {
        let path = folder.path().join("disk.img");
        File::create(&path).and_then(|file| file.set_len(size_bytes)).expect("sparse");
        path
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("disk.sock")
    }

    /// A raw connection.
    pub fn raw(&self) -> UnixStream {
        UnixStream::connect(self.socket()).expect("connects")
    }

    /// A client with the export open.
    pub fn client(&self) -> Client<UnixStream> {
        self.open("disk")
    }

    /// A client with an export open, as `disk@/group`.
    pub fn open(&self, export: &str) -> Client<UnixStream> {
        let wanted = Wanted { structured: true, ..Wanted::default() };
        Client::connect(self.raw(), export, wanted).expect("opens")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.daemon.shutdown();
    }
}

/// A test that waits longer than this hangs, and fails.
pub const HANG: Duration = Duration::from_secs(60);

/// Looks from time to time until it holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < HANG, "{what} does not come");
        // SLEEP: the pause between two looks at the condition.
        thread::sleep(Duration::from_millis(1));
    }
}

/// Prints a measured figure beside its bound, as `scripts/nightly.py` reads it.
pub fn figure(name: &str, measured: &str, bound: &str, holds: bool) {
    println!("FIGURE\t{name}\t{measured}\t{bound}\t{holds}");
}

/// A disk model in memory.
pub fn emulated(model: &str) -> Backend {
    Backend::Emulated { model: model.into(), store: None, size: None, cache: None }
}
