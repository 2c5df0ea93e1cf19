//! What a request is charged when it goes to the device, and what is put right afterwards.

use super::bound::Side;
use super::flight::{Flying, Right};
use super::tasks::Task;
use super::tree::Charge;
use super::{Choice, Fair};
use crate::table::Table;
use crate::time::{Instant, Nanos};

/// How far ahead of its siblings a guarantee may put a group, in service of all of them: one larger
/// than the share would otherwise leave a debt without end. Four quanta of the largest size.
const AHEAD_MAX: Nanos = Nanos::from_secs(2);

impl Fair {
    /// The length of a slot in ns: on a disk with a head what is served in one go, else a request.
    pub(super) fn slot(&self) -> u64 {
        if self.model.has_head() { self.config.quantum.0 } else { self.mean / 16 }
    }

    /// Charges a task for more, or less, than was thought.
    pub(super) fn correct(&mut self, task: u32, cost: i64) {
        let charge = Charge { cost, slot: self.slot(), ahead: None };
        self.forest.correct(self.tasks[task].node, charge);
    }

    /// The same for what belongs to a go of the task: it lasts the shorter, or the longer.
    pub(super) fn correct_go(&mut self, task: u32, cost: i64) {
        self.correct(task, cost);
        let group = self.tasks[task].group;
        if let Some(service) = self.service.as_mut().filter(|service| service.group == group) {
            service.used += cost;
        }
    }

    /// Books a request that goes to the device. `right`: why it goes before others, if it does.
    #[inline]
    pub(super) fn starts(
        &mut self,
        now: Instant,
        (task, id): Choice,
        table: &Table,
        right: Option<Right>,
    ) {
        let request = &table[id];
        let bytes = request.service_bytes();
        let kind = self.model.starts(request, bytes);
        let Task { group, node, line } = &mut self.tasks[task];
        let (node, leaves) = (*node, line.is_empty());
        let cost = self.model.cost(kind) * u64::from(line.ratio) / 256;
        line.in_flight += 1;
        if !request.is_reserved() {
            line.set_position(request.extent().end());
        }
        let sight = self.forest.sight(*group);
        let side = sight.side(&line.load);
        let is_guaranteed = request.is_reserved() || right == Some(Right::Other);
        let mut pays = Nanos::ZERO;
        if side != Side::Few && request.op().is_write() && line.is_of_others(now) {
            // A guarantee serves whoever owes: a price would be a debt without end.
            let is_priced = self.model.has_head() && !is_guaranteed;
            let wait = if is_priced { self.config.wait } else { Nanos::ZERO };
            pays = self.flushes.wrote(now, bytes, wait);
        }
        match side {
            Side::Idle => self.idle.in_flight += 1,
            Side::Many => self.bound.start(sight.weight),
            Side::Few => {}
        }
        self.mean = self.mean - self.mean / 16 + cost;
        if !self.guarantees.is_empty() {
            self.guarantees.serve(now, request, |id| self.forest.parent_of(id));
        }
        let ahead = is_guaranteed.then_some(AHEAD_MAX.0);
        let charge = Charge { cost: cost.cast_signed(), slot: self.slot(), ahead };
        self.forest.start(now, node, charge, leaves);
        let service = self.service.as_mut().filter(|service| service.task == task);
        let own = if service.is_some() { Right::Go } else { Right::Other };
        if let Some(service) = service {
            service.used += charge.cost;
            service.bytes += bytes;
        }
        let (number, right) = (id.sequence() + 1, right.unwrap_or(own));
        let (bytes, arrived, go) = (bytes.get(), request.arrived(), self.flight.go());
        let flying = Flying { number, task, kind, cost, right, side, bytes, arrived, go };
        self.flight.start(now, id, &flying);
        self.len -= 1;
        if pays > Nanos::ZERO {
            self.correct_go(task, pays.0.cast_signed());
        }
    }
}
