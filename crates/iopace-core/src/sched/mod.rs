//! Stage 3: which request goes to the disk next.
//!
//! [`Scheduler`] is the trait, [`REGISTRY`] the list. To add a scheduler: one file here, one line
//! in the registry and one page in `docs/policies/`. All others take it from the registry: command
//! line, help, tables, remedies, and the suites, which hold it to its [`Profile`].

use crate::group::table::Groups;
use crate::request::{GroupId, RequestId};
use crate::table::{Request, Table};
use crate::time::{Instant, Nanos};
use crate::verdict::Reason;
use core::fmt;

mod algorithm;
pub mod anticipatory;
pub mod deadline;
pub mod elevator;
pub mod fair;
pub mod fifo;
pub(crate) mod guard;
pub mod params;
pub mod profile;
pub mod registry;
mod roster;
pub mod rr;
pub mod sorted;
pub mod tasks;

pub use algorithm::{Algorithm, Build, CounterSpec};
pub use params::{Changes, ParamError, ParamSpec, Params};
pub use profile::{Load, Profile};
pub use registry::{
    AUTO, REGISTRY, Taken, add, all, divides, dividing, find, is_built_in, recommended, remove,
    replace,
};

/// The opinion of a scheduler about the disk, which it may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskView {
    /// Whether the disk has a head that must not be sent around without need; `None` while too few
    /// requests are done to say so.
    pub has_head: Option<bool>,
    /// Whether the scheduler found that out; else it was told so.
    pub is_learned: bool,
    /// The cost of a seek, as far as it is known.
    pub seek: Nanos,
}

/// The answer of a scheduler that is asked for the next request.
#[derive(Clone, Copy, Debug)]
pub enum Pop {
    /// This one goes to the device now. It cannot be taken back.
    Ready(RequestId),
    /// The same, and until a completion nothing else goes, whatever comes: it need not be asked, as
    /// all that is queued waits for the reason.
    Last(RequestId, Reason),
    /// Something is queued, but not now: ask again at the instant, or after the next push or
    /// completion ([`Instant::NEVER`]: only then).
    At(Instant, Reason),
    /// Nothing is queued.
    Empty,
}

/// An ordering algorithm for the requests of one device.
///
/// The engine calls it under one lock with time as an argument; it has no clock and must not block.
/// It holds names of requests, which are in the engine's table, and must give back what it is
/// given, exactly once, by `pop`. When it is exchanged, the engine gives what is queued to the next
/// one, and drops it. The smallest legal one is [`fifo::Fifo`].
pub trait Scheduler: fmt::Debug + Send {
    /// Takes a request of the table into the queue.
    fn push(&mut self, now: Instant, id: RequestId, table: &Table);

    /// The next request for the device, or when and why to ask again. Asked only while the window
    /// has room; a popped request starts at once.
    fn pop(&mut self, now: Instant, table: &Table) -> Pop;

    /// A queued request adjoins the one that was popped last, or what has joined that already, and
    /// is of the same task, group and direction: it may go to the device in one command with it.
    /// True if it is not queued here any more and is booked as one that was popped; false leaves it
    /// where it is, and nothing is merged under a scheduler that does not take part.
    fn join(&mut self, _now: Instant, _id: RequestId, _lead: RequestId, _table: &Table) -> bool {
        false
    }

    /// Whether the disk has a head; told once, before the first request, where it is known.
    fn set_rotational(&mut self, _is_rotational: bool) {}

    /// The scheduler's present opinion about the disk; `None` if it has none.
    fn disk(&self) -> Option<DiskView> {
        None
    }

    /// A flush of a task goes to the device: it passes the queue, as nothing orders it but what it
    /// covers.
    fn on_flush(&mut self, _now: Instant, _id: RequestId, _table: &Table) {}

    /// Whether it is to be told of what is done; asked once, when it is made.
    fn learns(&self) -> bool {
        true
    }

    /// A request that it popped is done; `ok`: it was carried out. It is in the table no more.
    fn on_done(&mut self, _now: Instant, _id: RequestId, _request: &Request, _ok: bool) {}

    /// A flush that it was told of is done.
    fn on_flushed(&mut self, _now: Instant, _id: RequestId, _flush: &Request) {}

    /// Takes over new parameters, already checked against the algorithm's specs, at once.
    fn configure(&mut self, _params: &Params, _table: &Table) {}

    /// Appends its counters' values in the order of the algorithm's `counters`.
    fn counters(&self, _into: &mut Vec<u64>) {}

    /// The settings of a group have changed; told for every group but the root before its first
    /// request, and again after a change. A parent is told before its children.
    fn set_group(&mut self, _now: Instant, _id: GroupId, _groups: &Groups) {}

    /// The group is gone: it has no request here and none at the disk.
    fn remove_group(&mut self, _id: GroupId) {}
}
