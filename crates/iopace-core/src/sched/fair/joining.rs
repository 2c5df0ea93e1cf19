//! Requests that go to the device in one command with another one of their task.
//!
//! The command is one thing at the device: it is in [`super::flight`], on its side and in the model
//! as its lead, with the bytes and the cost of all. What joins it costs what its bytes cost, as the
//! device has to seek once, and is paid for by the same task.

use super::Fair;
use super::bound::Side;
use super::rows::{JOINED, Row};
use super::tasks::Task;
use super::tree::Charge;
use crate::request::RequestId;
use crate::table::Table;
use crate::time::Instant;

impl Fair {
    /// Takes a queued request out that goes with the one popped last; false if they are not of one
    /// task and group, or it waits elsewhere.
    pub(super) fn joins(
        &mut self,
        now: Instant,
        id: RequestId,
        lead: RequestId,
        table: &Table,
    ) -> bool {
        let (task, bytes) = (self.rows[id.slot].task, self.rows[id.slot].bytes);
        if self.rows[lead.slot].task != task || table[id].is_reserved() {
            return false;
        }
        let Task { group, node, line } = &mut self.tasks[task];
        if !line.join(id, &mut self.rows, table) {
            return false;
        }
        line.in_flight += 1;
        let request = &table[id];
        let ratio = u64::from(line.ratio);
        let (node, leaves) = (*node, line.is_empty());
        let is_few = self.forest.sight(*group).side(&line.load) == Side::Few;
        let longer = self.model.joins(request, &mut self.rows[lead.slot].kind, bytes);
        let cost = longer * ratio / 256;
        self.rows[id.slot].go = JOINED;
        self.flight.joins(&mut self.rows[lead.slot], cost);
        self.goes.start(task, cost, bytes);
        self.len -= 1;
        self.mean += cost;
        if !self.guarantees.is_empty() {
            self.guarantees.serve(now, request, |id| self.forest.parent_of(id));
        }
        let charge = Charge { cost: cost.cast_signed(), slot: self.slot(), ahead: None };
        self.forest.start(now, node, &charge, leaves);
        if !is_few && request.op().is_write() {
            self.writes(now, task, id, false);
        }
        true
    }

    /// A request is done that is not at the device by itself: it may have joined another one.
    #[cold]
    pub(super) fn joined_done(&mut self, now: Instant, id: RequestId) {
        let Some(&Row { task, bytes, .. }) = self.rows.land_joined(id) else { return };
        let Task { group, line, .. } = &mut self.tasks[task];
        self.forest.unload(*group, bytes);
        line.load.remove(bytes);
        line.in_flight -= 1;
        line.stats.done(now);
        if line.is_unused() {
            self.awaits(now, task);
        }
    }
}
