//! Operations on names and attributes that wait for a limit: their answer is to be carried out, by
//! threads of their own.
//!
//! While one waits, the kernel may keep a directory locked, and everybody who needs a name in it
//! stands still. So such a one has a deadline: then it is carried out, and stays in line for what
//! it owes. What a group owes has a bound. Beyond it an operation still waits for its deadline, but
//! stands in no line and owes nothing.

use super::super::caller::Operation;
use super::super::inflight_operations::{Refuse, Touch};
use super::{PendingReplies, Reply, Ticket, Waiting};
use crate::limits::{OPERATIONS_OWED_MAX, OPERATIONS_OWED_TOTAL_MAX};
use iopace_core::request::GroupId;
use iopace_core::time::Instant;
use iopace_fuse::Errno;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operation that is to be carried out, unless that was done or given up meanwhile. Its ticket,
/// if it has it, is kept until then, so that its caller is looked after.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) waiting: Arc<Waiting>,
    pub(super) _ticket: Option<Ticket>,
}

impl Turn {
    fn carry_out(self) {
        match self.waiting.take() {
            Some(Reply::Operation(operation, _)) => operation.end(Ok(())),
            Some(other) => other.error(Errno::EIO),
            None => {}
        }
    }
}

/// When an operation is carried out at the latest, and who owes it from then on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    at: Instant,
    group: GroupId,
    /// Whether it stands in line; else nothing is owed for it.
    is_in_line: bool,
}

/// Operations that are in line for what they owe, by group.
#[derive(Debug, Default)]
pub(super) struct Owed(BTreeMap<GroupId, usize>);

impl Owed {
    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.0.values().sum()
    }

    fn has_room(&self, group: GroupId) -> bool {
        self.of(group) < OPERATIONS_OWED_MAX && self.count() < OPERATIONS_OWED_TOTAL_MAX
    }

    fn of(&self, group: GroupId) -> usize {
        self.0.get(&group).copied().unwrap_or_default()
    }

    /// The ticket of an operation goes: nothing is owed for it any more.
    pub(super) fn forget(&mut self, waiting: &Waiting) {
        let due = waiting.due.filter(|due| due.is_in_line && waiting.lock().is_owed);
        let Some(Due { group, .. }) = due else { return };
        match self.of(group).saturating_sub(1) {
            0 => drop(self.0.remove(&group)),
            rest => drop(self.0.insert(group, rest)),
        }
    }
}

impl Waiting {
    /// Whether its caller may have a signal pending, as far as the kernel says.
    pub(super) fn is_signalled(&self) -> bool {
        match &self.lock().reply {
            Some(Reply::Done(reply)) => reply.is_signalled(),
            Some(Reply::Piece(whole)) => whole.is_signalled(),
            Some(
                Reply::Data(..) | Reply::Write(..) | Reply::WholeWrite(..) | Reply::Operation(..),
            ) => true,
            None => false,
        }
    }

    /// Whether the kernel has said that it has.
    pub(super) fn is_interrupted(&self) -> bool {
        match &self.lock().reply {
            Some(Reply::Data(reply, _)) => reply.is_interrupted(),
            Some(Reply::Write(reply, _) | Reply::WholeWrite(reply, _)) => reply.is_interrupted(),
            Some(Reply::Done(reply)) => reply.is_interrupted(),
            Some(Reply::Piece(whole)) => whole.is_interrupted(),
            Some(Reply::Operation(operation, _)) => operation.is_interrupted(),
            None => false,
        }
    }

    /// The user of the operation, if it is one and still waits.
    pub(super) fn operation_of(&self) -> Option<u32> {
        match self.lock().reply {
            Some(Reply::Operation(_, uid)) => Some(uid),
            _ => None,
        }
    }

    /// Whether its deadline has come, while it still waits; true once.
    fn is_overdue(&self, now: Instant) -> bool {
        if self.due.is_none_or(|due| now < due.at) {
            return false;
        }
        let mut stand = self.lock();
        stand.reply.is_some() && !std::mem::replace(&mut stand.is_owed, true)
    }
}

impl PendingReplies {
    /// An operation that is carried out when its ticket is answered, or some time after its
    /// deadline, if it has one; that group pays for it. There is no ticket if the group owes too
    /// much already: then it waits for its deadline, and for nothing else.
    pub(crate) fn hold_operation(
        self: &Arc<Self>,
        (pid, uid): (u32, u32),
        operation: Operation,
        (group, deadline): (GroupId, Option<Instant>),
    ) -> Option<Ticket> {
        let is_in_line = deadline.is_none() || self.lock().owed.has_room(group);
        let due = deadline.map(|at| Due { at, group, is_in_line });
        // What it changes it says itself, once it is carried out.
        let (from, reply) = (((pid, uid), Touch::NOTHING), Some(Reply::Operation(operation, uid)));
        let mut ticket = self.hold_until(from, reply, (None, due));
        if is_in_line {
            return Some(ticket);
        }
        ticket.is_answered = true;
        self.lock().aside.insert(ticket.number, ticket);
        None
    }

    /// Whether the deadline of an operation has come; true once, and it is counted.
    pub(super) fn is_owed_from(&self, now: Instant, waiting: &Waiting) -> bool {
        // Under the lock, as the ticket counts down when it goes.
        let mut table = self.lock();
        let is_overdue = waiting.is_overdue(now);
        if let Some(due) = waiting.due.filter(|due| is_overdue && due.is_in_line) {
            *table.owed.0.entry(due.group).or_default() += 1;
        }
        is_overdue
    }

    /// The ticket of an operation that stands in no line.
    pub(super) fn take_aside(&self, number: u64) -> Option<Ticket> {
        self.lock().aside.remove(&number)
    }

    /// Has another thread carry out an operation, unless that was done or given up meanwhile.
    pub(super) fn carry_out(&self, turn: Turn) {
        let Some(uid) = turn.waiting.operation_of() else { return };
        match self.inflight.upgrade() {
            Some(inflight) => inflight.carry_out(uid, move || turn.carry_out()),
            None => turn.carry_out(),
        }
    }
}
