//! Operations on names and attributes of groups with a limit: they ask stage admit first, as
//! requests of no bytes. Nobody else's ask anything.

use super::super::caller::{Caller, Operation};
use super::super::tree::data::Kind;
use super::Scheduled;
use crate::clock;
use crate::job::Job;
use crate::limits::OPERATION_PATIENCE;
use iopace_core::request::{Area, GroupId, Op, TaskId};

impl Scheduled {
    pub(super) fn submit(&self, job: Job) {
        self.device.submit(&mut vec![job]);
    }

    /// Who pays for an operation of this caller, if there is a limit to be asked.
    pub(super) fn pays_if_limited(&self, from: Caller) -> Option<(TaskId, GroupId)> {
        if !self.device.has_limits() {
            return None;
        }
        let pays = self.who.of(from);
        self.device.is_limited(pays.group()).then(|| (pays.task(), pays.group()))
    }

    /// Has an operation stand in line: it counts as one read or write of no bytes.
    pub(super) fn hold_operation(
        &self,
        from: Caller,
        pays: (TaskId, GroupId),
        kind: Kind,
        operation: Operation,
    ) {
        let deadline = kind.locks.then(|| clock::now() + OPERATION_PATIENCE);
        let ticket =
            self.pending.hold_operation((from.pid, from.uid), operation, (pays.1, deadline));
        let Some(ticket) = ticket else { return };
        let op = if kind.changes { Op::Write } else { Op::Read };
        self.submit(self.job(pays, op, Area::default(), (None, Box::new(ticket))));
    }
}
