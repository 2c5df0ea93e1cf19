//! A device: an engine, the disk behind it, and the pump between them, under one lock
//! (`shell.rs`).

mod alarm;
mod beginning;
pub mod emulated;
pub(crate) mod events;
pub mod file;
mod limited;
pub(crate) mod pieces;
mod portion;
pub mod remote;
mod resize;
mod shell;
mod turn_mark;

pub use events::{DeviceEvent, EventLog, LoggedEvent};
pub use resize::ResizeError;
pub use turn_mark::RunningTurn;

use crate::below::Below;
use crate::clock;
use crate::config::DeviceConfig;
use crate::io::file::Allocation;
use crate::io::file::File;
use crate::io::remote::RemoteStatus;
use crate::io::target::Target;
use crate::job::Job;
use crate::limits::{LIVE_TASKS_LOOK, LOOK_PAUSE};
use crate::timer::Tick;
use iopace_core::admit::GroupSlots;
use iopace_core::engine::{Control, ControlError, Engine, Status, WaitingNow};
use iopace_core::group::Settings;
use iopace_core::group::accounts::Account;
use iopace_core::pace::{self, Dirty, Thresholds};
use iopace_core::request::{Area, Extent, GroupId, TaskId};
use iopace_core::stats::{DeviceStats, Histogram, TaskAccount};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use iopace_core::{sched, window};
use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Weak;
use std::thread;

/// What a device is, fixed from its start.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its name.
    pub name: String,
    /// `file`, `block device`, `emulated` or `remote`.
    pub kind: &'static str,
    /// The file behind it; `None` for an emulated disk in memory.
    pub path: Option<PathBuf>,
    /// The model of an emulated disk.
    pub model: Option<String>,
    /// Its size in bytes when it was opened; [`u64::MAX`] of a directory.
    pub size_bytes: u64,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether it bypasses the page cache.
    pub direct: bool,
    /// Whether it has a head that seeks.
    pub rotational: bool,
    /// How its disk is read and written: `io_uring`, `threads`, `model` or `nbd`.
    pub io_engine: &'static str,
    /// The scheduler of the device when none is inserted.
    pub base: &'static str,
    /// Smallest and best size of a request in bytes.
    pub block_bytes: (u32, u32),
    /// Most slots of each group without a value of its own.
    pub nr_group_requests: Option<u32>,
    /// Bytes per second that it never gives more than, if that is known: of an emulated disk, from
    /// its model.
    pub bytes_s_max: Option<u64>,
    /// The disk below, if it is on one that the kernel knows.
    pub below: Option<Below>,
}

impl DeviceInfo {
    /// What is known of a device with that file, or store, before its disk is looked at.
    pub(crate) fn new(config: &DeviceConfig, kind: &'static str, file: &File) -> DeviceInfo {
        DeviceInfo {
            name: config.name.clone(),
            kind,
            path: None,
            model: None,
            size_bytes: file.size_bytes(),
            read_only: config.read_only,
            direct: config.direct,
            rotational: false,
            io_engine: "",
            base: sched::recommended().name,
            block_bytes: (file.block_bytes(), 4096),
            nr_group_requests: config.nr_group_requests,
            bytes_s_max: None,
            below: None,
        }
    }

    /// Its size in bytes; none of a directory, whose files have a size each.
    pub fn size(&self) -> Option<u64> {
        (self.size_bytes != u64::MAX).then_some(self.size_bytes)
    }

    /// Whether its data goes through the kernel's page cache.
    pub(crate) fn in_page_cache(&self) -> bool {
        !self.direct && self.model.is_none()
    }
}

/// A device as it stands.
#[derive(Debug)]
pub struct DeviceStatus {
    /// The engine's own view.
    pub engine: Status,
    /// Counts since the start.
    pub stats: DeviceStats,
    /// Reads answered from the page cache without a disk request.
    pub cached_reads_count: u64,
    /// Writes taken by the page cache without a disk request.
    pub buffered_writes_count: u64,
    /// How long each exchange of schedulers held up dispatch.
    pub hold_up: Histogram,
    /// The latest events, oldest first.
    pub events: Vec<LoggedEvent>,
    /// The scheduler that fifo stands in for.
    pub failed: Option<FailedScheduler>,
    /// Dirty memory and how its writers are paced; `None` if nothing is buffered.
    pub memory: Option<MemoryStatus>,
    /// How stage window stands.
    pub window: window::WindowPicture,
    /// Whether its window is a share of the queue of a volume of several hosts.
    pub has_host_share: bool,
    /// The connection to its disk, if another server has it.
    pub remote: Option<RemoteStatus>,
}

/// A scheduler that failed, and that fifo stands in for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedScheduler {
    /// Its name.
    pub name: &'static str,
    /// Its parameters by name.
    pub params: Vec<(&'static str, u64)>,
    /// The event, in words.
    pub text: String,
    /// When it failed.
    pub at: Instant,
}

/// Dirty memory of a device and how its writers are paced.
#[derive(Clone, Debug)]
pub struct MemoryStatus {
    /// Dirty memory.
    pub dirty: Dirty,
    /// The most that the device may have dirty at present.
    pub thresholds: Thresholds,
    /// How stage pace sees the device.
    pub picture: pace::PacePicture,
    /// The pauses of buffered writes.
    pub pauses: Histogram,
}

impl MemoryStatus {
    pub(crate) fn of(engine: &Engine, thresholds: Thresholds) -> MemoryStatus {
        MemoryStatus {
            dirty: engine.dirty(GroupId::ROOT),
            thresholds,
            picture: engine.pace_picture(),
            pauses: engine.pauses().clone(),
        }
    }
}

/// What a device uses of the kernel's page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Dirty memory.
    pub dirty: Bytes,
    /// What was written back since the start.
    pub written_back: Bytes,
}

/// What a device calls when it is half full of dirty memory. It must not call the device.
pub(crate) type HalfDirty = Box<dyn Fn() + Send + Sync>;

/// What somebody wants to know of a device, see [`Device::look`]. It must not call the device.
pub type Look<'a> = dyn FnMut(&Engine, &mut EventLog) + 'a;

/// What a group did on a device, and how it stands there.
#[derive(Clone, Debug, Default)]
pub struct GroupStatus {
    /// What holds for it there.
    pub settings: Settings,
    /// Counts, latency and pressure, of the group and all below it.
    pub account: Account,
    /// How it stands in stage admit.
    pub slots: GroupSlots,
    /// Its dirty memory, without that of the groups below it.
    pub dirty: Dirty,
    /// How stage pace sees it, if its policy has a view of groups.
    pub pace: Option<pace::PacePicture>,
}

impl GroupStatus {
    /// As of now; `None` if the device does not know the group.
    pub(crate) fn of(engine: &Engine, id: GroupId) -> Option<GroupStatus> {
        let (mut account, slots) = engine.group(id)?;
        account.pressure.advance(clock::now());
        let (dirty, pace) = (engine.dirty(id), engine.group_pace_picture(id));
        let settings = *engine.groups().settings(id);
        Some(GroupStatus { settings, account, slots, dirty, pace })
    }
}

/// What a device may have dirty when it could have `limit`: its own settings over that. Half of the
/// limit is the background, as `vm.dirty_background_ratio` is half of `vm.dirty_ratio`, also where
/// the setting would leave no room above it.
pub(crate) fn thresholds(config: &DeviceConfig, limit: Bytes) -> Thresholds {
    let limit = config.dirty_limit.map_or(limit, |own| own.min(limit));
    let half = Bytes(limit.get() / 2);
    let background = config.dirty_background.filter(|own| *own < limit).unwrap_or(half);
    Thresholds { background, limit }
}

/// What the frontends and the control socket need of a device.
pub trait Device: Tick {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Its size in bytes as of now; [`u64::MAX`] of a directory.
    fn size_bytes(&self) -> u64 {
        self.info().size_bytes
    }

    /// Has it reach as far as its file or disk does by now, after that was made `to` bytes long if
    /// that is named. Its size then, in bytes.
    ///
    /// # Errors
    /// See [`ResizeError`]; nothing is changed then.
    fn resize(&self, _to: Option<u64>, _may_shrink: bool) -> Result<u64, ResizeError> {
        Err(ResizeError::Fixed(self.info().kind))
    }

    /// Gives the lock of its file away: nobody uses the device any more. As long as the result can
    /// be upgraded, a file of it is not closed yet.
    fn let_go(&self) -> Weak<dyn Any + Send + Sync> {
        Weak::<()>::new()
    }

    /// Reads from the page cache into `into`, if all of it is there and no disk is needed, and no
    /// limit of the group has to be asked.
    fn read_cached(&self, _group: GroupId, _extent: Extent, _into: &mut [u8]) -> bool {
        false
    }

    /// A descriptor to send the extent from, if all of it is in the page cache, and no limit of the
    /// group has to be asked.
    fn cached_file(&self, _group: GroupId, _extent: Extent) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether any group has a limit here.
    fn has_limits(&self) -> bool {
        true
    }

    /// Whether a limit of the group has to be asked, also for what the page cache has.
    fn is_limited(&self, _group: GroupId) -> bool {
        true
    }

    /// The caller has read from the page cache by itself.
    fn read_by_caller(&self) {}

    /// Writes `data` into the page cache of a file at once, if stage pace lets all of it go on now;
    /// else the write waits its turn as the job that `make` makes, and there is no result.
    fn write_at_once(
        &self,
        _who: (TaskId, GroupId, Area),
        (_data, _target): (&[u8], &Target),
        make: &mut dyn FnMut() -> Job,
    ) -> Option<Result<(), (u64, io::Error)>> {
        self.submit(&mut vec![make()]);
        None
    }

    /// A file for the flushes of one client, whose errors are told to it whoever else was told; the
    /// device's own where nothing is written or no error is kept.
    fn flushed_by_client(&self) -> Option<Target> {
        None
    }

    /// The content of the area is void: nothing of it need be written back.
    fn void(&self, _area: Area) {}

    /// Which of these areas have nothing dirty in them.
    fn are_clean(&self, areas: &[Area]) -> Vec<bool> {
        vec![true; areas.len()]
    }

    /// Takes requests that arrived together. Each is answered exactly once, some before this
    /// returns, the others by the thread that learns of their completion.
    fn submit(&self, jobs: &mut Vec<Job>);

    /// The pieces of `extent`, at least one, in order; they may reach less far than asked.
    ///
    /// # Errors
    /// What the file said.
    fn allocation(&self, extent: Extent) -> io::Result<Vec<Allocation>>;

    /// Changes the running device.
    ///
    /// # Errors
    /// See [`ControlError`]; nothing is changed then.
    fn control(&self, control: Control) -> Result<(), ControlError>;

    /// Looks at the engine and at the log of events, both under the device's lock: shortly.
    fn look(&self, look: &mut Look<'_>);

    /// What a group did here, as of now; `None` if it is not known.
    fn group(&self, id: GroupId) -> Option<GroupStatus> {
        let mut found = None;
        self.look(&mut |engine, _| found = GroupStatus::of(engine, id));
        found
    }

    /// What tasks did: those with something here, and those that had something here at `since` or
    /// later. `into` is emptied first. For many of them this takes pauses.
    fn tasks(&self, since: Instant, into: &mut Vec<TaskAccount>) {
        into.clear();
        let (mut next, mut places_count) = (0, 0);
        loop {
            let end = next + LIVE_TASKS_LOOK;
            self.look(&mut |engine, _| places_count = engine.tasks_in(next..end, since, into));
            if end >= places_count {
                return;
            }
            next = end;
            thread::sleep(LOOK_PAUSE);
        }
    }

    /// Where every request and buffered write that is not finished stands now, by group.
    fn waiting_now(&self, into: &mut WaitingNow) {
        self.look(&mut |engine, _| engine.waiting_now(clock::now(), into));
    }

    /// The turn that goes on, if one does. Takes no lock that a turn has.
    fn running_turn(&self) -> Option<RunningTurn> {
        None
    }

    /// What it uses of the kernel's page cache; `None` for a device that buffers nothing there.
    fn memory_use(&self) -> Option<MemoryUse> {
        None
    }

    /// `wake` is to be called when dirty memory has come to half of its limit since the limit was
    /// set: once for each limit, and not if it was there already.
    fn on_half_dirty(&self, _wake: HalfDirty) {}

    /// Forgets a group that was removed, unless a request of it is left. True when it is forgotten:
    /// another group may have its number then.
    fn forget_group(&self, id: GroupId) -> bool;

    /// The device as it stands.
    fn status(&self) -> DeviceStatus;

    /// Makes everything durable, blocking: the last act of a shutdown.
    ///
    /// # Errors
    /// What the file said.
    fn flush_all(&self) -> io::Result<()>;
}
