//! Stage 4: requests to the device and back.

use super::{Engine, Finish, Output, Start};
use crate::request::{DiskError, Op, Outcome, RequestId, StageTimes, Submit};
use crate::stats::{Finished, TaskPlace};
use crate::table::{Entry, State};
use crate::window;

impl Engine {
    pub(super) fn in_flight(&self) -> u32 {
        u32::try_from(self.table.count(State::InFlight)).expect("bounded by NR_REQUESTS_MAX")
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
        self.groups.started(now, group, sync);
        self.window.on_start(now, &window::Started { op, size: extent.len(), sync });
        if sync && op != Op::Flush {
            self.memory.reads(now);
        }
        Start { id, tag, task, op, extent, fua, write_back }
    }

    /// The device has finished a request.
    pub(super) fn completed(&mut self, id: RequestId, outcome: Outcome) {
        let entry = self.table.leave(id, State::InFlight);
        let times = entry.times(self.now);
        let Entry { request, started, epoch, run, written, .. } = *entry;
        let submit = request.submit;
        let Submit { tag, task, group, op, extent, sync, .. } = submit;
        // A flush whose write-back failed has not made everything durable.
        let lost = written.1 && outcome == Outcome::Ok;
        let outcome = if lost { Outcome::Failed(DiskError::Io) } else { outcome };
        let ok = outcome == Outcome::Ok;
        self.admit.release(self.now, group, sync);
        self.count(&submit, request.account, outcome, &times);
        self.followed(id, &times);
        if sync {
            self.targets.finished(&self.groups, group, times.total());
        }
        let done = request.done(id, started, ok);
        self.window.on_done(self.now, &done);
        match run {
            Some(run) => self.written_back(&run, ok),
            None => {
                let finish = Finish { tag, task, op, extent, outcome, times };
                self.outputs.push_back(Output::Finish(finish));
                self.memory.ask();
            }
        }
        if op != Op::Flush
            && epoch == self.epoch
            && let Err(fault) = self.sched.on_done(self.now, &done)
        {
            self.fail_over(fault);
        }
        self.forget_if_dead(group);
    }

    /// Counts a finished request for its group, its task and the device.
    pub(super) fn count(
        &mut self,
        submit: &Submit,
        task: TaskPlace,
        outcome: Outcome,
        times: &StageTimes,
    ) {
        let finished = Finished::new(submit, outcome, times);
        let by_stage = self.accounting.is_on();
        self.groups.finished(self.now, submit.group, &finished, by_stage);
        self.stats.finish(&finished, by_stage);
        self.accounting.finished(self.now, task, &finished);
    }
}
