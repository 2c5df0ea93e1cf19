//! Stage 4: requests to the device and back.

use super::{Engine, Finish, Output, Start};
use crate::admit::Ask;
use crate::ledger::{Entry, State};
use crate::request::{DiskError, Done, Op, Outcome, RequestId, StageTimes, Submit};
use crate::window;

impl Engine {
    pub(super) fn in_flight(&self) -> u32 {
        u32::try_from(self.ledger.count(State::InFlight)).expect("bounded by NR_REQUESTS_MAX")
    }

    /// A request leaves for the device.
    pub(super) fn start(&mut self, id: RequestId) -> Start {
        let (now, epoch) = (self.now, self.epoch);
        self.held_since = None;
        let beside = self.in_flight() + 1;
        let entry = self.ledger.advance(id, State::InFlight);
        entry.beside = beside;
        entry.started = now;
        self.accounting.started(entry);
        entry.epoch = epoch;
        let write_back = entry.run.is_some();
        let Submit { tag, task, group, op, extent, fua, sync } = entry.submit;
        self.groups.started(now, group, sync);
        self.window.on_start(now, &window::Started { op, size: extent.len(), sync });
        if sync && op != Op::Flush {
            self.memory.reads(now);
        }
        Start { id, tag, task, op, extent, fua, write_back }
    }

    /// The device has finished a request.
    pub(super) fn completed(&mut self, id: RequestId, outcome: Outcome) {
        let state = self.ledger.get(id).map(|entry| entry.state);
        assert_eq!(state, Some(State::InFlight), "completed {id:?}, which is not in flight");
        let entry = self.ledger.leave(id);
        let times = entry.times(self.now);
        let Submit { tag, task, group, op, extent, sync, .. } = entry.submit;
        // A flush whose write-back failed has not made everything durable.
        let lost = entry.written.1 && outcome == Outcome::Ok;
        let outcome = if lost { Outcome::Failed(DiskError::Io) } else { outcome };
        let (started, ok) = (entry.started, outcome == Outcome::Ok);
        self.admit.release(self.now, Ask::new(id, &entry.submit));
        self.count(&entry, outcome, &times);
        self.followed(&entry, &times);
        if sync {
            self.targets.finished(&self.groups, group, times.total());
        }
        let done = Done { id, task, group, op, extent, started, sync, ok };
        self.window.on_done(self.now, &done);
        match entry.run {
            Some(run) => self.written_back(&run, ok),
            None => {
                let finish = Finish { tag, task, op, extent, outcome, times };
                self.outputs.push_back(Output::Finish(finish));
                self.memory.ask();
            }
        }
        if op != Op::Flush
            && entry.epoch == self.epoch
            && let Err(fault) = self.sched.on_done(self.now, &done)
        {
            self.fail_over(fault);
        }
        self.forget_if_dead(group);
    }

    /// Counts a finished request for its group, its task and the device.
    pub(super) fn count(&mut self, entry: &Entry, outcome: Outcome, times: &StageTimes) {
        let Submit { group, op, extent, sync, .. } = entry.submit;
        let moved = (op, extent.len(), outcome);
        self.groups.finished(self.now, group, moved, times, sync);
        self.stats.finish(op, extent.len(), outcome, times);
        self.accounting.finished(self.now, entry.task, moved, times, sync);
        if self.accounting.is_on() {
            self.groups.by_stage(group, times);
            self.stats.by_stage.record(times);
        }
    }
}
