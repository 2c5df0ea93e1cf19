//! The charge of a request that goes to the device, by itself or with another one, and what
//! is put right afterwards.
//!
//! A command of several requests is one thing at the device: it is in [`super::flight`], on its
//! side and in the model as its lead, with the bytes and the cost of all. What joins it costs what
//! its bytes cost, as the device has to seek once, and is paid for by the same task.

use super::Fair;
use super::load::Side;
use super::rows::Right;
use super::rows::{JOINED, RequestRow};
use super::tasks::FairTask;
use super::tree::{AHEAD_MAX, Charge};
use crate::request::RequestId;
use crate::table::Table;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

impl Fair {
    /// The length of a slot in ns: on a disk with a head what is served in one go, else a request.
    pub(super) fn slot(&self) -> u64 {
        if self.model.has_head() { self.config.quantum.0 } else { self.mean / 16 }
    }

    /// Until when the many, and class idle, wait as it is the turn of the few, if it is.
    #[inline(always)]
    pub(super) fn turn_of_few(&self, now: Instant) -> Option<Instant> {
        if self.model.has_head() { None } else { self.sides.turn_of_few(now) }
    }

    /// Charges a task for more, or less, than was thought.
    pub(super) fn correct(&mut self, task: u32, cost: i64) {
        let charge = Charge { cost, slot: self.slot(), ahead: None };
        self.forest.correct(self.tasks[task].node, &charge);
    }

    /// The same for what belongs to a go of the task: it lasts the shorter, or the longer.
    pub(super) fn correct_go(&mut self, task: u32, cost: i64) {
        self.correct(task, cost);
        self.goes.correct(self.tasks[task].group, cost);
    }

    /// Books a request of a task that goes to the device, which is the one chosen; or, where shares
    /// alone decide (no goes, guarantees and seeks) and so none is, the task's next one.
    #[inline(always)]
    pub(super) fn starts<const BY_SHARE: bool>(
        &mut self,
        now: Instant,
        task: u32,
        chosen: Option<(RequestId, Option<Right>)>,
        table: &Table,
    ) -> Option<RequestId> {
        let FairTask { group, node, line } = &mut self.tasks[task];
        let ((id, request), right) = match chosen {
            Some((id, right)) => ((id, &table[id]), right),
            None => (line.pop_request(now, self.config.expire, &self.rows, table)?, None),
        };
        let row = &mut self.rows[id.slot];
        let bytes = request.service_bytes();
        let kind = self.model.starts(request, bytes.get());
        let cost = self.model.cost(kind) * u64::from(line.ratio) / 256;
        let sight = self.forest.sight(*group);
        let side = sight.side(&line.load, self.sides.few_piece());
        self.sides.leaves(row.side);
        self.sides.start(now, side);
        let is_of_go = !BY_SHARE && self.goes.start(task, cost, bytes.get());
        let own = if is_of_go { Right::Go } else { Right::Other };
        self.flight.start(now, row, right.unwrap_or(own), (kind, side, cost));
        line.in_flight += 1;
        let is_reserved = !BY_SHARE && request.is_reserved();
        if !is_reserved {
            line.set_position(request.end());
        }
        let is_guaranteed = is_reserved || right == Some(Right::Other);
        let (node, leaves) = (*node, line.is_empty());
        let is_priced = side != Side::Few && request.op().is_write();
        self.len -= 1;
        self.mean = self.mean - self.mean / 16 + cost;
        if !BY_SHARE && !self.guarantees.is_empty() {
            self.guarantees.serve(now, request, |id| self.forest.parent_of(id));
        }
        let ahead = is_guaranteed.then_some(AHEAD_MAX.0);
        let slot = if BY_SHARE { self.mean / 16 } else { self.slot() };
        // The turn of the few is paid for by what they leave to the many in theirs.
        let is_paid = !BY_SHARE
            && side == Side::Few
            && !(is_guaranteed || self.model.has_head())
            && self.sides.is_turn_paid(now);
        let cost = if is_paid { 0 } else { cost.cast_signed() };
        let charge = Charge { cost, slot, ahead };
        self.forest.start(now, node, &charge, leaves);
        if is_priced {
            self.writes(now, task, (side, bytes), is_guaranteed);
        }
        Some(id)
    }

    /// One with many requests writes: it pays for what that adds to the next flush of another.
    #[inline(never)]
    fn writes(
        &mut self,
        now: Instant,
        task: u32,
        (side, bytes): (Side, Bytes),
        is_guaranteed: bool,
    ) {
        // A guarantee serves whoever owes: a price would be a debt without end.
        let is_priced = self.model.has_head() && !is_guaranteed;
        let wait = if is_priced { self.config.wait } else { Nanos::ZERO };
        if self.tasks[task].line.is_of_others(now) {
            let pays = self.flushes.wrote(now, bytes, wait);
            if side == Side::Idle {
                self.flushes.idle_wrote(bytes);
            }
            if pays > Nanos::ZERO {
                self.correct_go(task, pays.0.cast_signed());
            }
        }
    }

    /// Takes a queued request out that goes with the one popped last; false if they are not of one
    /// task and group, or it waits elsewhere.
    pub(super) fn joins(
        &mut self,
        now: Instant,
        id: RequestId,
        lead: RequestId,
        table: &Table,
    ) -> bool {
        let task = self.rows[id.slot].task;
        if self.rows[lead.slot].task != task || table[id].is_reserved() {
            return false;
        }
        let FairTask { group, node, line } = &mut self.tasks[task];
        if !line.join(id, &self.rows, table) {
            return false;
        }
        line.in_flight += 1;
        let request = &table[id];
        let bytes = request.service_bytes();
        let ratio = u64::from(line.ratio);
        let (node, leaves) = (*node, line.is_empty());
        let side = self.forest.sight(*group).side(&line.load, self.sides.few_piece());
        self.sides.leaves(self.rows[id.slot].side);
        let longer = self.model.joins(request, &mut self.rows[lead.slot].kind, bytes.get());
        let cost = longer * ratio / 256;
        self.rows[id.slot].go = JOINED;
        self.flight.joins(&mut self.rows[lead.slot], cost);
        self.goes.start(task, cost, bytes.get());
        self.len -= 1;
        self.mean += cost;
        if !self.guarantees.is_empty() {
            self.guarantees.serve(now, request, |id| self.forest.parent_of(id));
        }
        let charge = Charge { cost: cost.cast_signed(), slot: self.slot(), ahead: None };
        self.forest.start(now, node, &charge, leaves);
        if side != Side::Few && request.op().is_write() {
            self.writes(now, task, (side, bytes), false);
        }
        true
    }

    /// A request is done that is not at the device by itself: it may have joined another one.
    #[cold]
    pub(super) fn joined_done(&mut self, now: Instant, id: RequestId, bytes: u64) {
        let Some(&RequestRow { task, .. }) = self.rows.land_joined(id) else { return };
        let FairTask { group, line, .. } = &mut self.tasks[task];
        self.forest.unload(*group, bytes);
        line.load.remove(bytes);
        line.in_flight -= 1;
        line.stats.done(now);
        if line.is_unused() {
            self.awaits(now, task);
        }
    }

    /// A request is done, and with it perhaps all that the device had to do for a task alone.
    #[inline(never)]
    pub(super) fn end_period(&mut self, now: Instant, task: u32, right: Right, is_spoilt: bool) {
        let Some(truth) = self.flight.end_period(now, right, is_spoilt) else { return };
        match right {
            _ if truth.amends == 0 => {}
            Right::Go => self.correct_go(task, truth.amends),
            Right::Light | Right::Other => self.correct(task, truth.amends),
        }
        if let Some(ratio) = truth.ratio {
            self.tasks[task].line.learn(ratio);
        }
    }
}
