//! The words of the engine: inputs, outputs, changes, configuration, status.

use crate::admit::Mode;
use crate::group::{Class, Settings};
use crate::limits::{
    NR_REQUESTS_DEFAULT, PAUSE_TARGET_DEFAULT, TASK_CAPS_MAX, WINDOW_DEPTH_DEFAULT, WRITE_BACK_LEN,
};
use crate::pace::{self, Budget, Thresholds};
use crate::request::{
    Area, Cover, Extent, GroupId, Op, Outcome, RequestId, Space, StageTimes, Submit, Tag, TaskId,
};
use crate::sched::{Algorithm, Changes, DiskView, ParamError, Params, fifo};
use crate::shadow::Plan;
use crate::time::{Instant, Nanos};
use crate::trace::Event;
use crate::units::Bytes;
use crate::verdict::Reason;
use crate::window;
use core::fmt;
use core::num::NonZeroU64;

/// What happened outside.
#[derive(Debug)]
#[repr(u8)]
pub enum Input {
    /// A task wants to dirty memory of this device (a buffered write): stage pace answers with one
    /// [`Output::Resume`] for each portion of it, in order. Writes of one task go one after the
    /// other. If there are too many already, the answer is a [`Finish`] that says so.
    Dirtied {
        /// The frontend's name for the write.
        tag: Tag,
        /// Who writes.
        task: TaskId,
        /// Who pays.
        group: GroupId,
        /// Where. Not empty.
        area: Area,
    },
    /// A portion that was resumed is in memory (or could not be written there: then what is left of
    /// the write is given up).
    Wrote {
        /// Which write; as in [`Output::Resume`].
        id: WriteId,
        /// Whether it is in memory.
        ok: bool,
    },
    /// A request for the device; a flush covers everything.
    Submit(Submit),
    /// The same with an extent of this space.
    SubmitIn(Space, Submit),
    /// A flush that covers so much.
    Flush(Submit, Cover),
    /// The device has completed a request that was started.
    Done {
        /// Which one; as in [`Output::Start`].
        id: RequestId,
        /// How it went.
        outcome: Outcome,
    },
    /// The content of the area is void (a file was cut off or removed): what is dirty there need
    /// not be written back.
    Void(Area),
    /// Only time has passed.
    Tick,
}

/// What has to be done outside.
#[derive(Debug)]
#[repr(u8)]
pub enum Output {
    /// Give this request to the device now.
    Start(Start),
    /// A request has ended: tell its task.
    Finish(Finish),
    /// A portion of a buffered write may go into memory now; say [`Input::Wrote`] when it is there.
    Resume(Resume),
    /// These pages were dirty and are not any more: they are written back, or lost if that failed.
    /// Said if [`Config::tells_cleaned`].
    Cleaned(Area),
    /// Something an operator should know.
    Event(Box<Event>),
    /// Drained. Come back at the instant, or with an input; why it waits is said with it.
    Wait(Instant, Reason),
}

/// The engine's name for one buffered write on its way into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId {
    pub(super) place: u32,
    pub(super) sequence: u64,
}

/// A portion of a buffered write that may go into memory now.
#[derive(Clone, Copy, Debug)]
pub struct Resume {
    /// The engine's name for the write.
    pub id: WriteId,
    /// The frontend's name for it.
    pub tag: Tag,
    /// The portion: where in the space of the write.
    pub extent: Extent,
    /// Whether nothing of the write is left after it.
    pub last: bool,
    /// How long the whole write has waited until now: the sum of `waited`.
    pub paused: Nanos,
    /// What for: times in stage pace only. What its earlier portions took on their way into memory
    /// is not waiting.
    pub waited: StageTimes,
}

/// A request on its way to the device.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The engine's name for it, to be given back with [`Input::Done`].
    pub id: RequestId,
    /// The frontend's name for it; meaningless for write-back.
    pub tag: Tag,
    /// Who calls.
    pub task: TaskId,
    /// What to do.
    pub op: Op,
    /// Where, in the disk or in a file.
    pub extent: Extent,
    /// See `extent`.
    pub space: Space,
    /// Durable before it is done.
    pub fua: bool,
    /// For a scheduler below: idle if the group that pays or one above it is, else real-time if one
    /// of them is.
    pub class: Class,
    /// Write-back of dirty pages: the data is in memory, and nobody is told with a [`Finish`].
    pub write_back: bool,
    /// The next start is of the same command: it continues this extent, and the device is to do
    /// both, and what follows, as one. Each is completed by a [`Input::Done`] of its own.
    pub more: bool,
}

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Finish {
    /// The frontend's name for it.
    pub tag: Tag,
    /// Who called.
    pub task: TaskId,
    /// What was done.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// How it ended.
    pub outcome: Outcome,
    /// Where its time went.
    pub times: StageTimes,
}

/// A change of a live device.
#[derive(Debug)]
pub enum Control {
    /// Puts a scheduler in where none was inserted.
    Insert(&'static Algorithm, Params),
    /// Exchanges the inserted scheduler for another with its defaults, unless it is the same or
    /// none is named, and changes its parameters: merged here into those in force, so that no
    /// change is lost to another one that was asked for at the same time.
    Configure(Option<&'static Algorithm>, Changes),
    /// Takes the inserted scheduler out; the device goes on with its base scheduler.
    Destroy,
    /// Sets `nr_requests`.
    Slots(u32),
    /// Sets the depth of the window.
    Window(u32),
    /// Exchanges the policy of stage window; what it had learned is forgotten.
    WindowPolicy(&'static window::WindowPolicy),
    /// Others use the device too: this is the host's part in its queue from now on; none: nobody
    /// does. Kept when the policy of stage window is exchanged; only `latency` follows it.
    HostShare(Option<window::HostShare>),
    /// Exchanges the policy of stage pace; writes that wait are asked for anew.
    Pace(&'static pace::PacePolicy),
    /// Sets the pause that stage pace aims at.
    PauseTarget(Nanos),
    /// A task dirties no more than so many bytes per second from now on; `None`: its cap is gone.
    /// With another policy of stage pace it holds again when one that holds caps is back.
    TaskCap(TaskId, Option<NonZeroU64>),
    /// The size of the device: no write-back goes beyond it from now on.
    Capacity(Bytes),
    /// What the device may use of memory from now on.
    Memory(Budget),
    /// Says what holds for a group (first) from now on, and its parent (second); a group is made by
    /// it. A group keeps its parent.
    SetGroup(GroupId, GroupId, Settings),
    /// Tries other settings of the device in a shadow, which delays nothing, from the beginning;
    /// `None` ends it, for groups as well. See [`crate::shadow`].
    Recommend(Option<Plan>),
    /// Tries other settings of a group in the shadow, beside those of the device; `None`: as live.
    RecommendGroup(GroupId, Option<Settings>),
    /// Records what ends from now on, at most so many requests, from the beginning; `None` ends it
    /// and drops what was recorded. See [`crate::shadow::Recording`].
    Record(Option<usize>),
    /// The first so many of what was recorded have been copied: there is room for others.
    ForgetRecorded(usize),
    /// The group is gone. Its requests and its write-back go on, with its weight and class and
    /// within the limits of the groups above, but without limits, guarantees and targets of its
    /// own; with the last of them it is forgotten. The root cannot be removed.
    RemoveGroup(GroupId),
}

/// Why a change was refused; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlError {
    /// Insert: there is one already.
    AlreadyInserted(&'static str),
    /// Configure, destroy: there is none.
    NotInserted,
    /// The new scheduler panicked when it was built.
    BuildFailed(&'static str),
    /// Configure: the scheduler has no such parameter, or the value is out of its bounds.
    Param(&'static str, ParamError),
    /// Cap of a task: too low, or the policy at work holds none.
    Cap(pace::CapError),
    /// Cap of a task: as many as may be have one.
    TooManyCaps,
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::AlreadyInserted(name) => write!(
                f,
                "scheduler '{name}' is inserted already: use 'configure -a' to exchange it, or \
                 'destroy' to take it out first"
            ),
            ControlError::NotInserted => {
                write!(f, "no scheduler is inserted: use 'insert -a' to put one in")
            }
            ControlError::BuildFailed(name) => write!(f, "scheduler '{name}' failed to start"),
            ControlError::Param(name, error) => write!(f, "scheduler '{name}': {error}"),
            ControlError::Cap(error) => error.fmt(f),
            ControlError::TooManyCaps => {
                write!(f, "{TASK_CAPS_MAX} tasks have a cap already, which is the most")
            }
        }
    }
}

impl std::error::Error for ControlError {}

/// How a device starts out.
#[derive(Clone, Debug)]
pub struct Config {
    /// The scheduler of a device where none is inserted.
    pub base: &'static Algorithm,
    /// Slots of the device.
    pub nr_requests: u32,
    /// Most requests at the disk.
    pub window_depth: u32,
    /// How slots are given.
    pub slots: Mode,
    /// The policy of stage window.
    pub window: &'static window::WindowPolicy,
    /// The host's part in the queue of a device that other hosts use too.
    pub host_share: Option<window::HostShare>,
    /// The policy of stage pace.
    pub pace: &'static pace::PacePolicy,
    /// The pause that it aims at with few writers, if it aims at one.
    pub pause_target: Nanos,
    /// How much may be dirty: nothing else uses memory until [`Control::Memory`] says so.
    pub memory: Thresholds,
    /// Longest write-back request.
    pub write_back_len: Bytes,
    /// Size of the device: no write-back goes beyond it.
    pub capacity: Bytes,
    /// Whether whoever keeps the pages is told of those that are clean again ([`Output::Cleaned`]).
    /// The page cache of a kernel knows by itself.
    pub tells_cleaned: bool,
    /// Whether the disk has a head, where that is known: schedulers make use of it.
    pub rotational: Option<bool>,
    /// Most bytes of a command into which requests are merged that adjoin each other; zero: none
    /// are. See [`Start::more`].
    pub merge_max: Bytes,
    /// Whether time is accounted for by reason, task and stage. Without it every wait counts under
    /// the first reason of its stage, and nothing is known of tasks: only for measuring what
    /// accounting costs.
    pub accounting: bool,
}

impl Default for Config {
    /// Fifo, slots and a window that nobody comes up to who does not mean to, no pacing and no
    /// bound of dirty memory.
    fn default() -> Config {
        Config {
            base: &fifo::ALGORITHM,
            nr_requests: NR_REQUESTS_DEFAULT,
            window_depth: WINDOW_DEPTH_DEFAULT,
            slots: Mode::default(),
            window: &window::fixed::POLICY,
            host_share: None,
            pace: &pace::none::POLICY,
            pause_target: Nanos::from_millis(PAUSE_TARGET_DEFAULT),
            memory: Thresholds { background: Bytes(u64::MAX), limit: Bytes(u64::MAX) },
            write_back_len: WRITE_BACK_LEN,
            capacity: Bytes(u64::MAX),
            tells_cleaned: true,
            rotational: None,
            merge_max: Bytes::ZERO,
            accounting: true,
        }
    }
}

/// A device as it stands.
#[derive(Debug)]
pub struct Status {
    /// The scheduler at work.
    pub algorithm: &'static Algorithm,
    /// Whether it was inserted (or is the base scheduler, or stands in for a failed one).
    pub inserted: bool,
    /// Its parameters in force.
    pub params: Params,
    /// Its opinion about the disk, if it has one.
    pub disk: Option<DiskView>,
    /// Its counters, in the order of `algorithm.counters`.
    pub counters: Vec<u64>,
    /// Requests waiting for a slot.
    pub waiting_count: usize,
    /// Requests in the scheduler.
    pub queued_count: usize,
    /// Requests at the device.
    pub in_flight_count: usize,
    /// Requests submitted and finished since the beginning.
    pub totals_count: (u64, u64),
    /// `nr_requests`.
    pub nr_requests: u32,
    /// Depth of the window.
    pub window_depth: u32,
    /// The depth that was set: a policy may have less for a while.
    pub window_depth_set: u32,
    /// The policy of stage window.
    pub window: &'static window::WindowPolicy,
    /// The policy of stage pace.
    pub pace: &'static pace::PacePolicy,
    /// The pause that it aims at with few writers, if it aims at one.
    pub pause_target: Option<Nanos>,
    /// Buffered writes that wait for stage pace or for memory.
    pub paced_count: usize,
    /// Tasks that have a cap.
    pub caps_count: usize,
    /// Why nothing more starts at this moment.
    pub reason: Reason,
    /// Most bytes of a command of several requests; zero: none are merged.
    pub merge_max: Bytes,
    /// Requests that went to the device in the command of another one since the beginning.
    pub merged_count: u64,
}
