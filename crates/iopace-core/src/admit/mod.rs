//! Stage 2: has this request's group the budget for it, and a slot?
//!
//! [`Admission`] holds what waits, one queue per group (a group that may not go on yet must not
//! hold up the others), and says which request is next. [`guaranteed`] is what devices have;
//! [`plain`] is the single pool of 2009, kept as the baseline that it is measured against.

use crate::group::rates::pieces;
use crate::group::table::Groups;
use crate::request::{GroupId, Lane, RequestId, Submit, TaskId};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;
use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Deref, DerefMut};
use guaranteed::GuaranteedSlots;
use plain::PlainSlots;

pub mod guaranteed;
pub mod plain;

pub use crate::group::rates::Total;

/// One request that asks to be admitted.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Which one.
    pub id: RequestId,
    /// Who pays.
    pub group: GroupId,
    /// Who calls.
    pub task: TaskId,
    /// Which limits apply.
    pub lane: Lane,
    /// Bytes that it counts for in limits.
    pub bytes: Bytes,
    /// Whether a task waits for it.
    pub sync: bool,
}

impl Ask {
    /// What a submitted request asks for.
    pub fn new(id: RequestId, submit: &Submit) -> Ask {
        let Submit { group, task, op, sync, .. } = *submit;
        let bytes = submit.limit_bytes();
        Ask { id, group, task, lane: Lane::of(op), bytes, sync }
    }
}

/// What of a buffered write has passed the door.
#[derive(Clone, Copy, Debug)]
pub struct Buffered {
    /// So much.
    pub bytes: Bytes,
    /// Behind so much of the same write.
    pub done: Bytes,
    /// What is dirty with it, of all groups.
    pub dirty: Bytes,
}

impl Buffered {
    /// What it counts: operations as many as write-back makes of it.
    fn total(&self, iops_size: Option<NonZeroU64>) -> Total {
        let operations_count = pieces(self.done, self.bytes, iops_size);
        Total { bytes: self.bytes.get(), operations_count }
    }
}

/// The answer of the stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admit {
    /// This one goes on; it has its slot and is charged.
    Ready {
        /// Which one.
        id: RequestId,
        /// Whether a guarantee (`io.min`) pays for it.
        reserved: bool,
        /// How much of its wait was for a limit; the rest was for a slot.
        budget: Nanos,
        /// What limits of reads and writes together were charged, each with its group: the door has
        /// to know.
        totals: Vec<(GroupId, Total)>,
    },
    /// Something waits: ask again at the instant, or after the next input ([`Instant::NEVER`]: only
    /// then).
    At(Instant, Reason),
    /// Nothing waits.
    Empty,
}

/// How a group stands in this stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSlots {
    /// Slots that it and its descendants have.
    pub taken_count: u32,
    /// Requests of its own that wait.
    pub waiting_count: u32,
}

/// Whose request may enter the scheduler next.
pub trait Admission: fmt::Debug + Send {
    /// A request of so many bytes for limits comes. True if it goes on at once, with its slot: the
    /// short way, while nobody waits. Otherwise it is to be enqueued.
    fn pass(&mut self, _group: GroupId, _bytes: Bytes, _groups: &Groups) -> bool {
        false
    }

    /// Takes a request in, which waits until [`Admission::admit`] names it.
    fn enqueue(&mut self, now: Instant, ask: Ask, groups: &Groups);

    /// The next request that goes on.
    fn admit(&mut self, now: Instant, groups: &Groups) -> Admit;

    /// Whether a limit of the group, or of one above it, is used up for now in that lane.
    fn is_closed(&self, _now: Instant, _group: GroupId, _lane: Lane, _groups: &Groups) -> bool {
        false
    }

    /// Buffered writes of a group have passed the door, where its limits hold: those of reads and
    /// writes together are charged here as well.
    fn buffered(&mut self, _now: Instant, _group: GroupId, _passed: &Buffered, _groups: &Groups) {}

    /// The door holds no limits any more.
    fn forget_buffered(&mut self, _now: Instant, _groups: &Groups) {}

    /// A request of the group that was admitted has finished: its slot is free again.
    fn release(&mut self, now: Instant, group: GroupId, sync: bool, groups: &Groups);

    /// How many slots there are and how many are taken.
    fn slots(&self) -> (u32, u32);

    /// Changes the number of slots. Those taken beyond it are not revoked.
    fn set_slots(&mut self, nr_requests: u32);

    /// The settings of a group have changed. A parent is told before its children.
    fn set_group(&mut self, _now: Instant, _id: GroupId, _groups: &Groups) {}

    /// A lower cap for a group while somebody else's latency target is missed; `None` lifts it.
    fn narrow(&mut self, _now: Instant, _id: GroupId, _cap: Option<u32>, _groups: &Groups) {}

    /// The group is gone: nothing of it waits and nothing is taken.
    fn remove_group(&mut self, _id: GroupId) {}

    /// How a group stands.
    fn group(&self, id: GroupId) -> GroupSlots;

    /// What the requests of a group wait for in a lane, if they wait: [`Reason::Slot`] or
    /// [`Reason::Budget`].
    fn reason(&self, now: Instant, id: GroupId, lane: Lane, groups: &Groups) -> Reason;
}

/// The admission of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Shares of the slots by weight, guarantees first, limits: [`guaranteed`].
    #[default]
    Guaranteed,
    /// The single pool of 2009 with caps per group: [`plain`]. No limits.
    Plain,
}

impl Mode {
    /// Makes it, with so many slots.
    pub fn build(self, nr_requests: u32) -> AnySlots {
        match self {
            Mode::Guaranteed => AnySlots::Guaranteed(GuaranteedSlots::new(nr_requests)),
            Mode::Plain => AnySlots::Plain(PlainSlots::new(nr_requests)),
        }
    }
}

/// One of them: the two calls that every request makes are known when this is compiled.
#[derive(Debug)]
pub enum AnySlots {
    /// See [`Mode::Guaranteed`].
    Guaranteed(GuaranteedSlots),
    /// See [`Mode::Plain`].
    Plain(PlainSlots),
}

impl AnySlots {
    /// As [`Admission::pass`].
    #[inline(always)]
    pub fn pass(&mut self, group: GroupId, bytes: Bytes, groups: &Groups) -> bool {
        match self {
            AnySlots::Guaranteed(slots) => slots.pass(group, bytes, groups),
            AnySlots::Plain(slots) => slots.pass(group, bytes, groups),
        }
    }

    /// As [`Admission::release`].
    #[inline(always)]
    pub fn release(&mut self, now: Instant, group: GroupId, sync: bool, groups: &Groups) {
        match self {
            AnySlots::Guaranteed(slots) => slots.release(now, group, sync, groups),
            AnySlots::Plain(slots) => slots.release(now, group, sync, groups),
        }
    }
}

impl Deref for AnySlots {
    type Target = dyn Admission;

    fn deref(&self) -> &(dyn Admission + 'static) {
        match self {
            AnySlots::Guaranteed(slots) => slots,
            AnySlots::Plain(slots) => slots,
        }
    }
}

impl DerefMut for AnySlots {
    fn deref_mut(&mut self) -> &mut (dyn Admission + 'static) {
        match self {
            AnySlots::Guaranteed(slots) => slots,
            AnySlots::Plain(slots) => slots,
        }
    }
}
