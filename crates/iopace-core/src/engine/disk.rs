//! Stage 4: requests to the device and back.

use super::{Dispatch, Engine, Finish, Output, Start};
use crate::flush::Run;
use crate::request::{Area, DiskError, Done, Op, Outcome, RequestId, Space, StageTimes, Submit};
use crate::stats::{Finished, TaskPlace};
use crate::table::State;
use crate::window;

impl Engine {
    pub(super) fn in_flight(&self) -> u32 {
        self.table.in_flight()
    }

    /// A flush goes to the device; `None` if the scheduler failed.
    #[inline(never)]
    pub(super) fn dispatch_flush(&mut self, id: RequestId) -> Option<Dispatch> {
        if let Err(fault) = self.sched.on_flush(self.now, id, &self.table) {
            self.barriers.push_front(id);
            self.fail_over(fault);
            return None;
        }
        Some(Dispatch::Start(id))
    }

    /// A request leaves for the device.
    pub(super) fn start(&mut self, id: RequestId) -> Start {
        let (now, epoch) = (self.now, self.epoch);
        self.held_since = None;
        let beside = self.in_flight() + 1;
        let entry = self.table.advance(id, State::InFlight);
        entry.beside = beside;
        entry.started = now;
        self.accounting.started(entry);
        entry.epoch = epoch;
        let write_back = entry.run.is_some();
        let Submit { tag, task, group, op, extent, fua, sync } = entry.request.submit;
        let (mut space, mut extent) = (Space::DISK, extent);
        if let Some(Run { area, .. }) = &entry.run
            && area.space != Space::DISK
        {
            Area { space, extent } = *area;
        }
        let class = self.groups.started(now, group, sync);
        self.window.on_start(now, &window::Started { op, size: extent.len(), sync });
        if sync && op != Op::Flush {
            self.memory.reads(now);
        }
        Start { id, tag, task, op, extent, space, fua, class, write_back }
    }

    /// The device has finished a request.
    pub(super) fn completed(&mut self, id: RequestId, outcome: Outcome) {
        let entry = self.table.leave(id, State::InFlight);
        let times = entry.times(self.now);
        // A flush whose write-back failed has not made everything durable.
        let lost = entry.written.1 && outcome == Outcome::Ok;
        let outcome = if lost { Outcome::Failed(DiskError::Io) } else { outcome };
        let ok = outcome == Outcome::Ok;
        let done = entry.request.done(id, entry.started, ok);
        let (tag, account) = (entry.request.submit.tag, entry.request.account);
        let (epoch, is_write_back) = (entry.epoch, entry.run.is_some());
        let Done { task, group, op, extent, sync, .. } = done;
        self.admit.release(self.now, group, sync);
        self.count(&done, account, outcome, &times);
        self.followed(id, &times);
        if sync && !self.targets.is_empty() {
            self.targets.finished(&self.groups, group, times.total());
            self.is_changed = true;
        }
        self.window.on_done(self.now, &done);
        if is_write_back {
            self.run_ended(id, ok);
        } else {
            let finish = Finish { tag, task, op, extent, outcome, times };
            self.outputs.push_back(Output::Finish(finish));
        }
        if is_write_back || !self.memory.has_nothing(self.now) {
            self.memory.ask();
            self.is_changed = true;
        }
        if epoch == self.epoch
            && let Err(fault) = self.sched.on_done(self.now, &done)
        {
            self.fail_over(fault);
        }
        self.forget_if_dead(group);
    }

    #[inline(never)]
    fn run_ended(&mut self, id: RequestId, ok: bool) {
        if let Some(run) = self.table.left(id).run {
            self.written_back(&run, ok);
        }
    }

    /// Counts a finished request for its group, its task and the device.
    pub(super) fn count(
        &mut self,
        done: &Done,
        account: TaskPlace,
        outcome: Outcome,
        times: &StageTimes,
    ) {
        let finished = Finished::new(done, outcome, times);
        let by_stage = self.accounting.is_on();
        self.groups.finished(self.now, done.group, &finished, by_stage);
        self.stats.finish(&finished, by_stage);
        self.accounting.finished(self.now, account, &finished);
    }
}
