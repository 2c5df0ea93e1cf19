//! A request as schedulers see it.

use super::RequestState;
use crate::request::{
    Area, Done, Extent, GroupId, Lane, Op, Position, RequestId, Space, Submit, TaskId,
};
use crate::time::Instant;
use crate::units::Bytes;
use core::fmt;

/// A request as schedulers see it: the first cache line of its slot.
#[derive(Clone, Copy)]
pub struct Request {
    /// Its arrival number; [`super::VACANT`] while the slot is free.
    pub(super) sequence: u64,
    pub(crate) submit: Submit,
    pub(super) arrived: Instant,
    /// The owner of its extent.
    pub(crate) space: Space,
    pub(super) state: RequestState,
    /// Whether a guarantee pays for it.
    pub(crate) reserved: bool,
}

const _: () = assert!(size_of::<Request>() <= 64);

impl Request {
    /// Who calls.
    pub fn task(&self) -> TaskId {
        self.submit.task
    }

    /// Who pays.
    pub fn group(&self) -> GroupId {
        self.submit.group
    }

    /// What to do.
    pub fn op(&self) -> Op {
        self.submit.op
    }

    /// Where, in the disk or in a file.
    pub fn extent(&self) -> Extent {
        self.submit.extent
    }

    /// The extent and its owner.
    #[inline]
    pub fn area(&self) -> Area {
        Area { space: self.space, extent: self.submit.extent }
    }

    /// Where it begins.
    #[inline]
    pub fn begin(&self) -> Position {
        self.area().begin()
    }

    /// Where it ends.
    #[inline]
    pub fn end(&self) -> Position {
        self.area().end()
    }

    /// Whether a task waits for it.
    pub fn is_sync(&self) -> bool {
        self.submit.sync
    }

    /// Whether a guarantee (`io.min`) pays for it, so that it goes before what weights decide.
    pub fn is_reserved(&self) -> bool {
        self.reserved
    }

    /// When it arrived at the engine.
    pub fn arrived(&self) -> Instant {
        self.arrived
    }

    /// The words for windows when the request is done, which went to the device at `started`.
    pub fn done(&self, id: RequestId, started: Instant, ok: bool) -> Done {
        let Submit { task, group, op, extent, sync, .. } = self.submit;
        Done { id, task, group, op, extent, started, sync, ok }
    }

    /// Which limits and guarantees count it, and with how many bytes ([`Submit::limit_bytes`]).
    pub fn counts(&self) -> (Lane, Bytes) {
        (Lane::of(self.submit.op), self.submit.limit_bytes())
    }

    /// The bytes it counts for in a service budget: its size for reads and writes; one 4 KiB block
    /// for trim and write-zeroes, which move no data however large they are.
    pub fn service_bytes(&self) -> Bytes {
        match self.submit.op {
            Op::Read | Op::Write => self.submit.extent.len(),
            op => rare_service_bytes(op, self.submit.extent.len()),
        }
    }
}

#[cold]
#[inline(never)]
fn rare_service_bytes(op: Op, len: Bytes) -> Bytes {
    match op {
        Op::Read | Op::Write | Op::Cache => len,
        Op::Trim | Op::WriteZeroes => Bytes(4096),
        Op::Flush => Bytes::ZERO,
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Submit { task, group, op, extent, .. } = self.submit;
        write!(f, "#{} {op:?} {extent} {task:?} {group:?}", self.sequence)
    }
}
