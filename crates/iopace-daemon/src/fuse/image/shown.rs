//! The exports of a daemon as files below a directory: from its beginning to its end.

use super::file::ImageFile;
use super::filesystem::ImageTree;
use super::loops::{self, Attached, How};
use super::payers::Payers;
use crate::attached::{Record, Seen, started_ticks};
use crate::config::DaemonConfig;
use crate::device::Device;
use crate::exports::{Export, ExportTable};
use crate::fuse::mounts::{check_own, place};
use crate::fuse::pending_replies::PendingReplies;
use crate::fuse::record;
use crate::fuse::session::{Ended, Found, Options, Place, Session, clear};
use crate::fuse::watch::Watch;
use crate::mount_error::MountError;
use crate::runtime_files::Kept;
use crate::start_error::StartError;
use iopace_core::request::TaskId;
use iopace_fuse::Control;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

/// What the table of mounts names instead of a directory.
const SOURCE: &str = "iopace-exports";

/// The exports as files, if they are shown.
#[derive(Debug)]
pub struct Images {
    shown: Mutex<Option<Shown>>,
    /// Whether they are shown; none if they never were.
    live: watch::Sender<Option<bool>>,
}

#[derive(Debug)]
struct Shown {
    place: Place,
    /// `None` once it is ending.
    session: Option<Session>,
    /// Looks after it as long as it is there.
    _watch: Watch,
    _record: Option<Kept>,
    loops: Vec<(PathBuf, PathBuf, Option<Kept>)>,
}

impl Default for Images {
    fn default() -> Images {
        Images { shown: Mutex::default(), live: watch::Sender::new(None) }
    }
}

/// Looks at the directory where the exports are to be shown, before there is anything to undo.
pub(crate) fn prepare(config: &DaemonConfig) -> Result<Option<PathBuf>, StartError> {
    let Some(path) = &config.fuse else { return Ok(None) };
    if config.devices.is_empty() {
        let text = "there is no export to be shown as a file: mounts have none; leave out `fuse`, \
                    or add a device";
        return Err(StartError::Setting(text.into()));
    }
    let mountpoint = place(path)?;
    if clear(&mountpoint)? == Found::Recovered {
        let shown = mountpoint.display();
        tracing::warn!("{shown}: the mount of a daemon that was killed is cleared away");
    }
    check_own(&mountpoint, config)?;
    if !mountpoint.is_dir() {
        return Err(MountError::NotADirectory(mountpoint).into());
    }
    // Writing back what is in memory must not need memory that is only there once it is written.
    // All threads that are started from here on have this too; it takes CAP_SYS_RESOURCE.
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(%error, "without the kernel's reserves of memory");
    }
    Ok(Some(mountpoint))
}

/// Shows the exports there.
pub(crate) fn start(
    images: &Arc<Images>,
    config: &DaemonConfig,
    exports: &Arc<ExportTable>,
    mountpoint: PathBuf,
) -> Result<(), StartError> {
    let pending = Arc::new(PendingReplies::default());
    let files = files(exports, &pending)?;
    let looked = Arc::clone(&files);
    let sweep = move || looked.iter().for_each(|file| file.payers().sweep());
    let any = Arc::downgrade(&exports.all()[0].device);
    let watch =
        Watch::start((pending, Arc::default()), None, sweep, any).map_err(StartError::Threads)?;
    let made = std::fs::metadata(&mountpoint).and_then(|found| found.modified());
    let made = made.map_err(|error| StartError::open(&mountpoint, &error))?;
    let (this, served) = (Arc::downgrade(images), Arc::clone(exports));
    let on_end = move || {
        if let Some(images) = this.upgrade() {
            ended_outside(&images, &served);
        }
    };
    // Held while it is mounted, so that an end that comes at once finds it here.
    let mut shown = images.lock();
    let tree = ImageTree::new(files, made);
    let told = watch.on_interrupt();
    let on_start = |_, control: Control, _: &Place| control.on_interrupt(told);
    let session = Session::start(tree, &mountpoint, &Options::new(SOURCE), on_start, on_end)?;
    let place = session.place().clone();
    let record = config.runtime.as_ref().and_then(|runtime| {
        let record = record::Record {
            mountpoint,
            directory: SOURCE.into(),
            device: exports.all()[0].config.device.clone(),
            pid: std::process::id(),
            control: config.control.clone(),
            log: config.log.clone(),
        };
        let kept = record::keep(runtime, place.connection, &record);
        kept.inspect_err(|error| tracing::warn!(%error, "the mount is not recorded")).ok()
    });
    let (session, loops) = (Some(session), Vec::new());
    *shown = Some(Shown { place, session, _watch: watch, _record: record, loops });
    images.live.send_replace(Some(true));
    Ok(())
}

fn files(
    exports: &ExportTable,
    pending: &Arc<PendingReplies>,
) -> Result<Arc<[ImageFile]>, StartError> {
    let all = exports.all();
    let files = all.iter().map(|Export { number, config: export, device }| {
        let name = export.name.as_str();
        if name.is_empty() || name.len() > 255 || name.contains('/') || [".", ".."].contains(&name)
        {
            return Err(StartError::Setting(format!(
                "export '{name}' cannot be shown as a file of that name: give it another"
            )));
        }
        let kernel = TaskId(exports.next_task());
        let payers = Payers::new(exports.groups(), *number, kernel)?;
        Ok(ImageFile::new((name, export.read_only), device, payers, pending))
    });
    files.collect()
}

/// The mount has ended. If it was not we who ended it, the daemon goes on for its other clients.
fn ended_outside(images: &Images, exports: &ExportTable) {
    // While `end` waits for it, the session is there no more.
    let session = images.lock().as_mut().and_then(|shown| shown.session.take());
    let Some(session) = session else { return };
    let at = session.place().mountpoint.clone();
    session.let_go();
    let at = at.display();
    tracing::info!("{at} was unmounted: exports are shown there no more, NBD clients are served");
    let all = exports.all();
    let mut seen: Vec<&Arc<dyn Device>> = Vec::new();
    for Export { device, .. } in all.iter() {
        if seen.iter().any(|known| Arc::ptr_eq(known, device)) {
            continue;
        }
        seen.push(device);
        if let Err(error) = device.flush_all() {
            let name = &device.info().name;
            tracing::error!(%error, "{name}: not everything could be made durable");
        }
    }
    *images.lock() = None;
    images.live.send_replace(Some(false));
}

impl Images {
    fn lock(&self) -> MutexGuard<'_, Option<Shown>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the exports are shown, if they are.
    pub fn mountpoint(&self) -> Option<PathBuf> {
        self.lock().as_ref().map(|shown| shown.place.mountpoint.clone())
    }

    /// Resolves when the exports were shown and somebody has unmounted them, also if that was
    /// before.
    pub async fn ended(&self) {
        let _ = self.live.subscribe().wait_for(|live| *live == Some(false)).await;
    }

    /// Attaches the first export to a loop device; it is detached when the daemon ends. `source` is
    /// what the user calls it; blocks of `block_bytes`, or of what suits the device.
    ///
    /// # Errors
    /// The exports are not shown, or see [`loops::LoopError`].
    pub(crate) fn attach(
        &self,
        (config, exports): (&DaemonConfig, &ExportTable),
        source: Option<PathBuf>,
        block_bytes: Option<u32>,
    ) -> Result<Attached, StartError> {
        let all = exports.all();
        let (Some(mountpoint), Some(first)) = (self.mountpoint(), all.first()) else {
            return Err(StartError::Setting("no export is shown as a file".into()));
        };
        let (export, info) = (&first.config, first.device.info());
        let least = info.block_bytes.0.max(512);
        let how = How {
            read_only: export.read_only || info.read_only,
            block_bytes: block_bytes.unwrap_or(least),
        };
        if how.block_bytes < least {
            return Err(StartError::Setting(format!(
                "blocks of {} bytes: device '{}' takes requests of {least} bytes and their \
                 multiples; say --block-size {least}, or leave out --direct",
                how.block_bytes, info.name
            )));
        }
        let image = mountpoint.join(&export.name);
        let attached = loops::attach(&image, how);
        let attached = attached.map_err(|error| StartError::Setting(error.to_string()))?;
        let record = config.runtime.as_ref().map(|runtime| {
            let record = Record {
                loop_device: attached.path.clone(),
                image: image.clone(),
                mountpoint,
                source,
                device: info.name.clone(),
                size_bytes: info.size_bytes,
                read_only: how.read_only,
                pid: std::process::id(),
                started_ticks: started_ticks(std::process::id()),
                control: config.control.clone(),
                log: config.log.clone(),
                ublk: None,
                inserted: None,
            };
            record.keep(runtime)
        });
        let kept = record.transpose();
        let failed = kept.as_ref().err().map(|error| error.to_string());
        if let Some(shown) = &mut *self.lock() {
            shown.loops.push((attached.path.clone(), image, kept.ok().flatten()));
        }
        match failed {
            Some(error) => Err(StartError::Setting(format!("it cannot be recorded: {error}"))),
            None => Ok(attached),
        }
    }

    /// Detaches loop devices and unmounts, each within its patience.
    pub(crate) fn end(&self, patience: Duration) -> Option<(PathBuf, Ended)> {
        let mut guard = self.lock();
        let shown = guard.as_mut()?;
        let session = shown.session.take()?;
        let loops: Vec<_> =
            shown.loops.iter().map(|(path, image, _)| (path.clone(), image.clone())).collect();
        drop(guard);
        for (path, image) in loops {
            release(path, image, patience);
        }
        let mountpoint = session.place().mountpoint.clone();
        Some((mountpoint, session.end(patience)))
    }

    /// All is durable: the records go.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    /// Takes the mount out of sight and cuts it, when there is no time to end in order.
    pub fn cut(&self) {
        if let Some(shown) = &*self.lock() {
            shown.place.cut();
            // What they wait for has failed by now.
            for (path, image, _) in &shown.loops {
                if loops::is_behind(path, image) {
                    let _ = loops::detach(path);
                }
            }
        }
    }
}

/// Has a loop device written and detached, unless another file is behind it by now.
fn release(path: PathBuf, image: PathBuf, patience: Duration) {
    if !loops::is_behind(&path, &image) {
        return;
    }
    let (shown, seen) = (path.display().to_string(), (path.clone(), image));
    let done = within(patience, move || {
        if let Err(error) = loops::sync(&path) {
            tracing::error!(%error, "{}: not everything could be written", path.display());
        }
        loops::detach(&path)
    });
    match done {
        Some(Ok(())) if loops::is_behind(&seen.0, &seen.1) => {
            tracing::warn!("{shown} is still in use: who uses it gets errors soon");
        }
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::warn!(%error, "{shown} is not detached"),
        None => tracing::warn!("{shown} is not written in time: it is cut"),
    }
}

/// Does it in a thread of its own; `None` if that takes longer.
fn within<T: Send + 'static>(
    patience: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let started = thread::Builder::new().name("detach".into()).spawn(move || sender.send(act()));
    started.ok().and_then(|_| receiver.recv_timeout(patience).ok())
}

/// Clears away what a killed daemon left: a loop device without a daemon and the mount behind it.
/// True if the loop device is free now; else somebody has it in use still.
pub fn clear_away(record: &Record, patience: Duration) -> bool {
    let (path, image) = (record.loop_device.clone(), record.image.clone());
    if loops::is_behind(&path, &image) {
        let _ = within(patience, move || loops::detach(&path));
    }
    while matches!(clear(&record.mountpoint), Ok(Found::Recovered)) {}
    remove(&record.mountpoint);
    !loops::is_behind(&record.loop_device, &record.image)
}

/// Removes what a daemon that is gone has left in the runtime directory: the record of its mount,
/// and what [`Seen::remove`] does.
pub fn remove_left(seen: &Seen) {
    if let Some(runtime) = seen.runtime() {
        record::remove_left(runtime, &seen.record.mountpoint);
    }
    seen.remove();
}

/// The directory of an attached export; only if it is empty, and not mounted.
pub fn remove(mountpoint: &Path) {
    let _ = std::fs::remove_dir(mountpoint);
}
