//! What stands behind a mount: the open directory, its device, and how files are placed before it.

use super::file_spaces::FileSpaces;
use super::inflight_operations::InflightOperations;
use super::layout::Layout;
use super::pending_replies::PendingReplies;
use super::read_ahead::ReadAhead;
use super::scheduled::{Placement, Scheduled};
use super::tree::{Options, Tree};
use super::watch::Watch;
use super::who::Who;
use crate::caps;
use crate::config::{Backend, DeviceConfig, IoEngineChoice, MountConfig};
use crate::device::Device;
use crate::device::emulated::EmulatedDevice;
use crate::device::file::FileDevice;
use crate::io::file::File;
use crate::start_error::StartError;
use crate::timer::Timers;
use iopace_core::units::Bytes;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

/// A directory with its device.
pub(crate) struct Backing {
    /// Its device.
    pub(crate) device: Arc<dyn Device>,
    placement: Placement,
    pending: Arc<PendingReplies>,
    inflight: Arc<InflightOperations>,
    /// Requests that were passed through.
    passed_count: Arc<AtomicU64>,
    /// Bytes that held writes may take.
    memory_max: u64,
    /// Looks after it once it is mounted.
    watch: OnceLock<Watch>,
    read_ahead: Arc<ReadAhead>,
}

impl Backing {
    /// Puts a device before a directory; `directory` is open for reading. Held writes may take so
    /// many bytes.
    ///
    /// # Errors
    /// No threads, or an unknown model.
    pub(crate) fn open(
        mount: &MountConfig,
        directory: OwnedFd,
        (choice, memory_max): (IoEngineChoice, u64),
        timers: &Arc<Timers>,
    ) -> Result<Backing, StartError> {
        let (config, path) = (&mount.device, &mount.directory);
        let directory = Arc::new(File::directory(fs::File::from(directory)));
        let (device, placement): (Arc<dyn Device>, Placement) = match &config.backend {
            Backend::Directory { model: Some(model), cache, .. } => {
                let device = emulated(config, model, *cache, path, timers)?;
                let layout = Layout::new(Bytes(device.info().size_bytes));
                (device, Placement::Emulated(Arc::new(layout)))
            }
            _ => {
                let spaces = FileSpaces::new(Arc::clone(&directory));
                let behind = (directory, Arc::clone(&spaces) as _);
                let device = FileDevice::over_directory(config, path, behind, choice, timers)?;
                (device, Placement::Real(spaces))
            }
        };
        let inflight = Arc::new(InflightOperations::default());
        let pending = Arc::new(PendingReplies::new(&inflight));
        let (passed_count, watch, read_ahead) = Default::default();
        Ok(Backing {
            device,
            placement,
            pending,
            inflight,
            passed_count,
            memory_max,
            watch,
            read_ahead,
        })
    }

    /// The file system over it; `root` is the directory itself.
    ///
    /// # Errors
    /// No thread, or see [`Tree::new`].
    pub(crate) fn tree(&self, root: OwnedFd, who: Arc<Who>, options: Options) -> io::Result<Tree> {
        let spaces = match &self.placement {
            Placement::Real(spaces) => Some(Arc::clone(spaces)),
            Placement::Emulated(_) => None,
        };
        let (pending, device) = (Arc::clone(&self.pending), Arc::downgrade(&self.device));
        let callers = Arc::clone(&who);
        let (swept, proc) = (Weak::clone(&device), who.proc());
        let read_ahead = Arc::clone(&self.read_ahead);
        let sweep = move || {
            callers.sweep();
            if let Some(device) = swept.upgrade() {
                caps::forget_ended(&*device, &*proc);
                read_ahead.look(&*device);
            }
        };
        let inflight = Arc::clone(&self.inflight);
        let waiting = (pending, Arc::clone(&inflight));
        let _ = self.watch.set(Watch::start(waiting, spaces, sweep, device)?);
        let (device, pending) = (Arc::clone(&self.device), Arc::clone(&self.pending));
        let (pending, passed_count) = ((pending, self.memory_max), Arc::clone(&self.passed_count));
        let waiting = (pending, Arc::clone(&inflight));
        let data = Scheduled::new(device, self.placement.clone(), who, waiting, passed_count);
        Tree::new(root, (Arc::new(data), inflight), options)
    }

    /// It is mounted, with this device number: the kernel's read-ahead goes by the disk from now
    /// on. That of an emulated one stays the kernel's own, as for a disk without iopace.
    pub(crate) fn mounted_as(&self, device: (u32, u32)) {
        if matches!(self.placement, Placement::Real(_)) {
            self.read_ahead.begin(device);
        }
    }

    /// How many files are kept open until what was written to them is on the disk.
    pub(crate) fn kept_count(&self) -> usize {
        match &self.placement {
            Placement::Real(spaces) => spaces.kept_count(),
            Placement::Emulated(_) => 0,
        }
    }

    /// How many requests wait for their answer.
    pub(crate) fn waiting_count(&self) -> usize {
        self.pending.count() + self.inflight.parked_count() + self.inflight.queued_count()
    }

    /// Callers that are being killed are known at once from now on, as far as the kernel tells.
    pub(crate) fn hear_interrupts(&self) {
        if let Some(watch) = self.watch.get() {
            self.inflight.on_interrupt(watch.on_interrupt());
        }
    }

    /// The mount is gone, and so is everybody who waited.
    pub(crate) fn give_up(&self) {
        self.pending.give_up();
        self.inflight.end();
    }

    /// The device alone; all else ends.
    pub(crate) fn into_device(self) -> Arc<dyn Device> {
        self.device
    }

    /// How many requests were for names, attributes and space.
    pub(crate) fn passed_count(&self) -> u64 {
        self.passed_count.load(Relaxed)
    }
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backing").field("placement", &self.placement).finish_non_exhaustive()
    }
}

fn emulated(
    config: &DeviceConfig,
    model: &str,
    cache: Option<Bytes>,
    path: &Path,
    timers: &Arc<Timers>,
) -> Result<Arc<EmulatedDevice>, StartError> {
    let backend = Backend::Emulated { model: model.to_owned(), store: None, size: None, cache };
    let config = DeviceConfig { backend, ..config.clone() };
    EmulatedDevice::over_directory(&config, path, timers)
}
