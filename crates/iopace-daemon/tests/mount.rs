//! A directory mounted through a device: real programs' calls on real files.

use iopace_daemon::config::{DaemonConfig, MountConfig};
use iopace_daemon::daemon::Daemon;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

struct Mounted {
    folder: tempfile::TempDir,
    daemon: Option<Arc<Daemon>>,
}

impl Mounted {
    fn new(change: impl FnOnce(&mut MountConfig)) -> Option<Mounted> {
        if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
            println!("skipped: mounting needs /dev/fuse and root");
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (below, at) = (folder.path().join("below"), folder.path().join("at"));
        fs::create_dir(&below).expect("made");
        fs::create_dir(&at).expect("made");
        let mut mount = MountConfig { mountpoint: Some(at), ..MountConfig::new(below) };
        change(&mut mount);
        let config = DaemonConfig { mounts: vec![mount], ..DaemonConfig::default() };
        let daemon = Some(Daemon::start(config).expect("it mounts"));
        Some(Mounted { folder, daemon })
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("at").join(name)
    }

    fn below(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("below").join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            daemon.shutdown();
        }
    }
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
    let status = mounted.daemon.as_ref().expect("it runs").devices()[0].status();
    assert!(status.buffered_writes_count >= 5, "{}", status.buffered_writes_count);
    assert_eq!(status.memory.expect("buffered").dirty.device.get(), 0, "all is written back");
}
