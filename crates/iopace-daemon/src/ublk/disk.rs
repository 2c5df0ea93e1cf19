//! An export of a daemon as a ublk device: from its beginning to its end.

use super::abi::SECTOR_BYTES;
use super::left::{self, UblkStanding};
use super::making::{Plan, Running, remove};
use super::port::{ControlPort, UblkError};
use super::server::{ServerThread, UblkSubject};
use super::{block_path, char_path};
use crate::attached::{Record, Seen, UblkFacts, file_of, started_ticks};
use crate::below;
use crate::config::DaemonConfig;
use crate::exports::ExportTable;
use crate::groups::payer::Payer;
use crate::insertion::Inserted;
use crate::memory::Memory;
use crate::runtime_files::Kept;
use crate::start_error::StartError;
use iopace_core::request::TaskId;
use rustix::ioctl::{NoArg, Opcode, ioctl, opcode};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;
use tokio::sync::watch;

/// Writes what is dirty of a block device and of the file system on it (`BLKFLSBUF` of linux/fs.h).
const FLUSH_BUFFERS: Opcode = opcode::none(0x12, 97);

/// A volume that cannot be taken out is tried so often, once a second: by the watcher after that.
const TAKE_OUT_TRIES: u32 = 30;
const TAKE_OUT_STEP: Duration = Duration::from_secs(1);

/// How an export is to be attached.
#[derive(Debug, Default)]
pub struct UblkWish {
    /// The user's name for it; `None` for a disk in memory.
    pub source: Option<PathBuf>,
    /// Smallest request in bytes, if not what suits the device.
    pub block_bytes: Option<u32>,
    /// Records that killed daemons have left of the same: one that still waits is taken over.
    pub left: Vec<Seen>,
    /// The volume that it is to be inserted into.
    pub inserted: Option<Inserted>,
}

/// A device that was attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkAttached {
    /// Where it is, as `/dev/ublkb0`.
    pub path: PathBuf,
    /// Whether it was there, and waited.
    pub is_recovered: bool,
}

/// The ublk device of a daemon, if it has one.
#[derive(Default)]
pub struct UblkDisk {
    served: Mutex<Option<ServedDisk>>,
    /// Whether it is served; none if it never was.
    live: Arc<watch::Sender<Option<bool>>>,
}

struct ServedDisk {
    record: Record,
    kept: Option<Kept>,
    /// `None` once it has ended.
    thread: Option<ServerThread>,
    /// Whether the device is deleted: nothing of it has to be known any more.
    is_deleted: bool,
    on_leave: Box<dyn Fn() + Send>,
}

impl UblkDisk {
    fn lock(&self) -> MutexGuard<'_, Option<ServedDisk>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is served.
    pub(crate) fn is_served(&self) -> bool {
        self.lock().is_some()
    }

    /// Resolves when there was a device and somebody has stopped it, also if that was before.
    pub async fn ended(&self) {
        let _ = self.live.subscribe().wait_for(|live| *live == Some(false)).await;
    }

    /// Attaches the first export; the device is deleted when the daemon ends.
    ///
    /// # Errors
    /// See [`UblkError`].
    pub(crate) fn attach(
        &self,
        (config, exports, memory): (&DaemonConfig, &Arc<ExportTable>, &Arc<Memory>),
        wish: UblkWish,
    ) -> Result<UblkAttached, StartError> {
        let (payer, number) = (Arc::<Payer>::default(), exports.next_task());
        let joined = exports.groups().join((number, &payer, None), 0, None);
        joined.map_err(|error| StartError::Group(error.to_string()))?;
        let table = Arc::clone(exports);
        let on_leave = Box::new(move || table.groups().leave(number));
        let served = self.plan((config, exports, memory), &wish, (payer, number));
        let served = served.and_then(|plan| {
            let (running, is_recovered) = serve(&plan, &wish.left).map_err(setting)?;
            let mut record = plan.record;
            record.loop_device = block_path(running.facts.id);
            record.ublk = Some(running.facts);
            Ok((running, record, is_recovered))
        });
        let (running, record, is_recovered) = served.inspect_err(|_| on_leave())?;
        let Running { kept, thread, .. } = running;
        let path = record.loop_device.clone();
        let (kept, thread) = (Some(kept), Some(thread));
        *self.lock() = Some(ServedDisk { record, kept, thread, is_deleted: false, on_leave });
        // Unless it was stopped in the meantime.
        self.live.send_if_modified(|live| live.is_none() && live.replace(true).is_none());
        Ok(UblkAttached { path, is_recovered })
    }

    /// Has all requests for the volume go through the device from now on. Nothing happens if they
    /// do already.
    ///
    /// # Errors
    /// The volume was changed meanwhile, or the kernel refuses: all is as before then.
    pub(crate) fn turn_in(&self) -> Result<(), StartError> {
        let record = self.lock().as_ref().map(|served| served.record.clone());
        let facts = record.and_then(|record| Some((record.number()?, record.inserted?)));
        let (number, inserted) =
            facts.ok_or_else(|| StartError::Setting("there is nothing to insert".into()))?;
        inserted.turn_in(number).map_err(|error| StartError::Setting(error.to_string()))
    }

    fn plan(
        &self,
        (config, exports, memory): (&DaemonConfig, &Arc<ExportTable>, &Arc<Memory>),
        wish: &UblkWish,
        (payer, number): (Arc<Payer>, u64),
    ) -> Result<Plan, StartError> {
        let missing = |what: &str| StartError::Setting(what.into());
        let first = exports.all().first().cloned();
        let first = first.ok_or_else(|| missing("there is no export to attach"))?;
        let (export, device) = (&first.config, &first.device);
        let runtime = config.runtime.clone();
        let runtime = runtime.ok_or_else(|| missing("there is no directory for its record"))?;
        let info = device.info();
        let least = info.block_bytes.0.max(SECTOR_BYTES as u32);
        let block_bytes = wish.block_bytes.unwrap_or(least);
        if block_bytes < least {
            return Err(StartError::Setting(format!(
                "sectors of {block_bytes} bytes: device '{}' takes requests of {least} bytes and \
                 their multiples; say --block-size {least}, or leave out --direct",
                info.name
            )));
        }
        let record = Record {
            loop_device: PathBuf::new(),
            image: PathBuf::new(),
            mountpoint: PathBuf::new(),
            source: wish.source.clone(),
            device: info.name.clone(),
            size_bytes: info.size_bytes,
            read_only: export.read_only || info.read_only,
            pid: std::process::id(),
            started_ticks: started_ticks(std::process::id()),
            control: config.control.clone(),
            log: config.log.clone(),
            ublk: Some(UblkFacts {
                id: 0,
                mark: 0,
                block_bytes,
                file: wish.source.as_deref().and_then(file_of),
            }),
            inserted: wish.inserted.clone(),
        };
        let (device, read_only, live) =
            (Arc::clone(device), record.read_only, Arc::clone(&self.live));
        Ok(Plan {
            runtime,
            record,
            rotational: info.rotational,
            discards: info.path.as_deref().is_none_or(below::discards),
            memory: Arc::clone(memory),
            subject: Box::new(move || {
                let (device, payer) = (Arc::clone(&device), Arc::clone(&payer));
                UblkSubject { device, task: TaskId(number), payer, read_only }
            }),
            on_end: Arc::new(move || {
                live.send_replace(Some(false));
            }),
        })
    }

    /// Has the device written, stopped and deleted, each within its patience. If it cannot be
    /// written it is left alone: it waits for another daemon, and nothing is lost.
    pub(crate) fn end(&self, patience: Duration) {
        let Some((record, thread)) = self.lock().as_mut().and_then(|served| {
            (served.on_leave)();
            Some((served.record.clone(), served.thread.take()?))
        }) else {
            return;
        };
        let is_deleted = end(&record, patience);
        if is_deleted {
            let _ = thread.join();
        }
        if let Some(served) = &mut *self.lock() {
            served.is_deleted = is_deleted;
        }
    }

    /// All is durable: the record goes, but for one of a device that still waits.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }
}

impl Drop for ServedDisk {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take().filter(|_| !self.is_deleted) {
            kept.leave();
        }
    }
}

fn setting(error: UblkError) -> StartError {
    StartError::Setting(error.to_string())
}

/// Takes over one of those that are left, or makes a device; whether it was taken over.
fn serve(plan: &Plan, left: &[Seen]) -> Result<(Running, bool), UblkError> {
    let mut port = ControlPort::open()?;
    for one in left {
        let running = plan.recover(&mut port, one)?;
        let mark = |seen: &Seen| seen.record.ublk.map(|ublk| ublk.mark);
        // Also what those have left who were killed while they took it over. What had our number
        // has made room for our own.
        let is_same =
            |other: &&Seen| mark(other) == mark(one) && other.record.pid != std::process::id();
        left.iter().filter(is_same).for_each(Seen::remove);
        if let Some(running) = running {
            return Ok((running, true));
        }
    }
    Ok((plan.make(&mut port)?, false))
}

/// Whether the device is deleted.
fn end(record: &Record, patience: Duration) -> bool {
    let (Some(ublk), shown) = (record.ublk, record.loop_device.display()) else { return true };
    if !take_out(record) {
        return false;
    }
    match left::standing(record) {
        UblkStanding::There => {}
        UblkStanding::Unknown => {
            tracing::error!("{shown}: the driver cannot be asked; it is left as it is");
            return false;
        }
        // Somebody else has stopped it.
        UblkStanding::Gone | UblkStanding::Unused => return left::clear_away(record),
    }
    let path = record.loop_device.clone();
    let waits = "it waits for 'iopace attach --ublk' of the same file, or 'iopace detach --force'";
    match within(patience, move || write_all(&path)) {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            tracing::error!(%error, "{shown}: not everything could be written: {waits}");
            return false;
        }
        None => {
            tracing::error!("{shown} is not written in time: {waits}");
            return false;
        }
    }
    let stopped = within(patience, move || {
        let mut port = ControlPort::open().ok()?;
        remove(&mut port, ublk.id).ok()
    });
    if stopped.flatten().is_none() {
        tracing::warn!("{shown} is being ended: who uses it gets errors");
        return false;
    }
    if !left::wait_until_gone(record) {
        let served_by = char_path(ublk.id);
        tracing::warn!("{shown} is in use: who uses it gets errors; {served_by:?} stays as long");
    }
    if let Some(inserted) = &record.inserted
        && let Err(error) = inserted.remove_below()
    {
        tracing::warn!("{error}");
    }
    true
}

/// Has requests go past a device that is inserted; whether they do. Those that are under way are
/// waited for, however long: it is served meanwhile.
fn take_out(record: &Record) -> bool {
    let Some(inserted) = &record.inserted else { return true };
    let shown = inserted.path();
    let shown = shown.display();
    for attempt in 0..TAKE_OUT_TRIES {
        match inserted.turn_back() {
            Ok(()) => {
                tracing::info!("{shown} goes past iopace again");
                return true;
            }
            Err(error) if attempt == 0 => tracing::error!("{error}"),
            Err(error) => tracing::debug!("{error}"),
        }
        // SLEEP: memory may be short, or LVM at it.
        thread::sleep(TAKE_OUT_STEP);
    }
    tracing::error!("{shown} is not taken out: 'iopace remove --rescue {shown}' tries it again");
    false
}

/// Has everything written that is dirty: by a file system on it, and in its own page cache. It is
/// durable then.
fn write_all(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: BLKFLSBUF takes no argument and touches no memory of ours.
    unsafe { ioctl(&file, NoArg::<FLUSH_BUFFERS>::new())? };
    file.sync_all()
}

/// Does it in a thread of its own; `None` if that takes longer.
fn within<T: Send + 'static>(
    patience: Duration,
    act: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let started = thread::Builder::new().name("ublk-end".into()).spawn(move || {
        let _ = sender.send(act());
    });
    started.ok().and_then(|_| receiver.recv_timeout(patience).ok())
}
