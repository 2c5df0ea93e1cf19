//! What goes into the engine and what comes out of it.

use crate::admit::Mode;
use crate::group::Settings;
use crate::limits::NR_REQUESTS_DEFAULT;
use crate::request::{Extent, GroupId, Op, Outcome, RequestId, StageTimes, Submit, Tag, TaskId};
use crate::sched::{Algorithm, Params, fifo};
use crate::time::Instant;
use crate::trace::Event;
use crate::units::Bytes;
use crate::verdict::Reason;
use core::fmt;

/// What happened outside.
#[derive(Debug)]
pub enum Input {
    /// A task wants to dirty memory of this device (a buffered write): stage pace answers with
    /// [`Output::Resume`].
    Dirtied {
        /// The frontend's name for the write.
        tag: Tag,
        /// Who writes.
        task: TaskId,
        /// Who pays.
        group: GroupId,
        /// How much.
        size: Bytes,
    },
    /// A request for the device.
    Submit(Submit),
    /// The device has completed a request that was started.
    Done {
        /// Which one; as in [`Output::Start`].
        id: RequestId,
        /// How it went.
        outcome: Outcome,
    },
    /// Only time has passed.
    Tick,
}

/// What has to be done outside.
#[derive(Debug)]
pub enum Output {
    /// Give this request to the device now.
    Start(Start),
    /// A request has ended: tell its task.
    Finish(Finish),
    /// The write may dirty memory now.
    Resume {
        /// The frontend's name for the write.
        tag: Tag,
    },
    /// Something an operator should know.
    Event(Box<Event>),
    /// Drained. Come back at the instant, or with an input; why it waits is said with it.
    Wait(Instant, Reason),
}

/// A request on its way to the device.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The engine's name for it, to be given back with [`Input::Done`].
    pub id: RequestId,
    /// The frontend's name for it.
    pub tag: Tag,
    /// Who calls.
    pub task: TaskId,
    /// What to do.
    pub op: Op,
    /// Where.
    pub extent: Extent,
    /// Durable before it is done.
    pub fua: bool,
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
    /// Exchanges the inserted scheduler for another, or sets its parameters if it is the same.
    Configure(&'static Algorithm, Params),
    /// Takes the inserted scheduler out; the device goes on with its base scheduler.
    Destroy,
    /// Sets `nr_requests`.
    Slots(u32),
    /// Sets the depth of the window.
    Window(u32),
    /// Says what holds for a group (first) from now on, and its parent (second); a group is made by
    /// it. A group keeps its parent.
    SetGroup(GroupId, GroupId, Settings),
    /// The group is gone. Its requests go on; with the last of them it is forgotten.
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
        }
    }
}

impl std::error::Error for ControlError {}

/// How a device starts out.
#[derive(Debug)]
pub struct Config {
    /// The scheduler of a device where none is inserted.
    pub base: &'static Algorithm,
    /// Slots of the device.
    pub nr_requests: u32,
    /// Most requests at the disk.
    pub window_depth: u32,
    /// How slots are given.
    pub slots: Mode,
}

impl Default for Config {
    /// Fifo, the kernel's 128 slots, and a window that never closes before the slots are taken.
    fn default() -> Config {
        Config {
            base: &fifo::ALGORITHM,
            nr_requests: NR_REQUESTS_DEFAULT,
            window_depth: NR_REQUESTS_DEFAULT,
            slots: Mode::default(),
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
    /// Why nothing more starts at this moment.
    pub reason: Reason,
}
