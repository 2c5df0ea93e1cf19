//! A device is flushed before its file is free, and whoever removes its export hears what was lost.

use super::*;
use crate::config::{Backend, DaemonConfig, Listen};
use crate::device::emulated::EmulatedDevice;
use crate::device::{DeviceInfo, DeviceStatus, Look};
use crate::io::file::Allocation;
use crate::job::Job;
use crate::timer::Tick;
use iopace_core::engine::{Control, ControlError};
use iopace_core::request::{Extent, GroupId};
use iopace_core::units::Bytes;
use std::any::Any;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, Weak};
use tempfile::TempDir;

/// An emulated disk that notes the end of its file, and whose flushes can fail as those of Linux:
/// once.
struct NotingDevice {
    device: Arc<dyn Device>,
    notes: Mutex<Vec<&'static str>>,
    fails: AtomicBool,
}

impl NotingDevice {
    fn note(&self, what: &'static str) {
        self.notes.lock().expect("nobody panics").push(what);
    }

    fn noted(&self) -> Vec<&'static str> {
        self.notes.lock().expect("nobody panics").clone()
    }
}

impl Tick for NotingDevice {
    fn tick(&self) {
        self.device.tick();
    }
}

impl Device for NotingDevice {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn let_go(&self) -> Weak<dyn Any + Send + Sync> {
        self.note("let go");
        Weak::<()>::new()
    }

    fn submit(&self, jobs: &mut Vec<Job>) {
        self.device.submit(jobs);
    }

    fn allocation(&self, extent: Extent) -> io::Result<Vec<Allocation>> {
        self.device.allocation(extent)
    }

    fn control(&self, control: Control) -> Result<(), ControlError> {
        self.device.control(control)
    }

    fn look(&self, look: &mut Look<'_>) {
        self.device.look(look);
    }

    fn forget_group(&self, id: GroupId) -> bool {
        self.device.forget_group(id)
    }

    fn status(&self) -> DeviceStatus {
        self.device.status()
    }

    fn flush_all(&self) -> io::Result<()> {
        self.note("flushed");
        match self.fails.swap(false, SeqCst) {
            true => Err(io::ErrorKind::Other.into()),
            false => Ok(()),
        }
    }
}

fn emulated(name: &str) -> DeviceConfig {
    let (model, size) = ("null".to_owned(), Some(Bytes(1 << 20)));
    DeviceConfig::new(name, Backend::Emulated { model, store: None, size, cache: None })
}

/// A daemon with one device, whose socket is in the folder.
fn serving() -> (TempDir, Arc<Daemon>) {
    let folder = tempfile::tempdir().expect("a folder");
    let listen = vec![Listen::Unix(folder.path().join("s"))];
    let config =
        DaemonConfig { devices: vec![emulated("disk")], listen, ..DaemonConfig::default() };
    (folder, Daemon::start(config).expect("starts"))
}

/// An export 'web' that was added, and its device.
fn add_web(daemon: &Daemon) -> Arc<NotingDevice> {
    let config = emulated("web");
    let device: Arc<dyn Device> = EmulatedDevice::open(&config, &daemon.timers).expect("opens");
    let (notes, fails) = Default::default();
    let noting = Arc::new(NotingDevice { device, notes, fails });
    let device: Arc<dyn Device> = Arc::<NotingDevice>::clone(&noting);
    daemon.take_in(&config, &device).expect("threads");
    daemon.add_export(ExportConfig::new("web", "web"), None).expect("added");
    noting
}

#[test]
fn a_device_is_flushed_before_its_file_is_let_go() {
    let (_folder, daemon) = serving();
    let web = add_web(&daemon);
    daemon.add_export(ExportConfig::new("two", "web"), None).expect("added");
    let removed = daemon.remove_export("two", false).expect("removed");
    assert_eq!((removed.device, web.noted().len()), (RemovedDevice::Open, 0));
    let removed = daemon.remove_export("web", false).expect("removed");
    assert_eq!((removed.device, removed.may_be_lost), (RemovedDevice::Closed, false));
    assert_eq!(web.noted(), ["flushed", "let go"]);
    assert!(daemon.device("web").is_none());
    daemon.shutdown();
}

#[test]
fn who_removes_an_export_again_after_a_failed_flush_hears_what_may_be_lost() {
    let (_folder, daemon) = serving();
    let web = add_web(&daemon);
    web.fails.store(true, SeqCst);
    let refused = daemon.remove_export("web", false).expect_err("it cannot be flushed");
    assert!(matches!(refused, ExportError::Unflushed { .. }), "{refused}");
    assert!(daemon.export_named("web").is_ok() && daemon.device("web").is_some());
    assert_eq!(web.noted(), ["flushed"]);
    let removed = daemon.remove_export("web", false).expect("the disk has told of it");
    assert_eq!((removed.device, removed.may_be_lost), (RemovedDevice::Closed, true));
    daemon.shutdown();
}
