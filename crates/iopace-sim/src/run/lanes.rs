//! Closed loops: a lane submits, waits, and thinks; and how finished requests are counted.

use super::{CALL, COPIED_BYTES_NS, Due, World};
use crate::blocking::Blocking;
use crate::task::Action;
use iopace_core::group::table::Groups;
use iopace_core::pace::{Grant, Pace, Write};
use iopace_core::request::{GroupId, Op, Outcome, Submit, Tag, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::modelled::Io;
use iopace_disk::pump::End;

/// What counts at least of a call.
const PAGE: Bytes = Bytes(4_096);

/// The engine's name for a task, by its place in the scenario.
pub(super) fn task_id(index: usize) -> TaskId {
    TaskId(index as u64 + 1)
}

impl World<'_> {
    /// Lets programs that sleep for slots go on as far as they come.
    pub(super) fn turn_blocking(&mut self) {
        if self.blocking.is_empty() {
            return;
        }
        let tasks: Vec<usize> = self.blocking.keys().copied().collect();
        for task in tasks {
            let group = self.scenario.tasks[task].group;
            loop {
                let waits = self.machine.engine().group_slots(group).waiting_count > 0;
                let program = self.blocking.get_mut(&task).expect("one of its keys");
                program.set_sleeps(waits);
                let Some(lane) = program.next() else { break };
                self.submit(lane);
                self.drain();
            }
            let program = self.blocking.get_mut(&task).expect("one of its keys");
            if let Some((lane, end)) = program.reap() {
                self.book(lane, &end);
            }
        }
    }

    /// The program of a lane, if it sleeps for slots.
    pub(super) fn program(&mut self, lane: usize) -> Option<&mut Blocking> {
        if self.blocking.is_empty() {
            return None;
        }
        self.blocking.get_mut(&self.lanes[lane].task)
    }

    pub(super) fn submit(&mut self, index: usize) {
        let number = self.lanes[index].task;
        if self.parks(number, Due::Lane(index)) {
            return;
        }
        if self.has_ended(number) {
            self.lane_ended(number);
            return;
        }
        self.begun(number);
        self.take(number, self.lanes[index].action.extent.len());
        let lane = &mut self.lanes[index];
        lane.submitted = Some(self.now);
        self.waiting_count += 1;
        let action = lane.action;
        let submit = Submit {
            tag: Tag(index as u64),
            task: task_id(lane.task),
            group: self.turns[number].group,
            op: action.op,
            extent: action.extent,
            fua: action.fua,
            sync: true,
        };
        self.requests_count += 1;
        let io = Io { submit, buffered: action.buffered };
        self.machine.submit(self.now, io, &mut self.ended);
    }

    /// A request has ended.
    pub(super) fn finished(&mut self, tag: Tag, end: &End) {
        if self.book_sent(tag, end) {
            return;
        }
        let index = usize::try_from(tag.0).expect("tags are lane numbers");
        match self.program(index) {
            Some(program) => program.finished(index, end),
            None => self.book(index, end),
        }
    }

    /// A task takes notice of a finished request.
    fn book(&mut self, index: usize, end: &End) {
        let lane = &mut self.lanes[index];
        let submitted = lane.submitted.take().expect("finished once per submission");
        self.waiting_count -= 1;
        let (action, task) = (lane.action, lane.task);
        lane.at_once = match self.now > submitted || action.think > Nanos::ZERO {
            true => Bytes::ZERO,
            false => lane.at_once + action.extent.len().max(PAGE),
        };
        let is_endless = lane.at_once > self.memory;
        let copied = CALL + Nanos(action.extent.len().0 / COPIED_BYTES_NS);
        let call = if is_endless { copied } else { Nanos::ZERO };
        self.count(task, &action, submitted, end);
        let sleep = self.counted(task, &action, end);
        let action = self.workloads[task].next();
        self.lanes[index].action = action;
        self.due.add(self.now + call + action.think + sleep, Due::Lane(index));
    }

    /// How long a task sleeps after a read for which frames were needed while write-back was under
    /// way, if the scenario counts that like a write of the task.
    fn counted(&mut self, task: usize, action: &Action, end: &End) -> Nanos {
        let Some(counting) = &mut self.counting else { return Nanos::ZERO };
        let memory = self.scenario.memory.unwrap_or_default();
        let dirty = self.machine.engine().dirty(GroupId::ROOT);
        let is_counted = action.op == Op::Read && action.buffered && !end.cached;
        if !is_counted || dirty.device <= memory.dirty_background {
            return Nanos::ZERO;
        }
        let (group, size) = (self.turns[task].group, action.extent.len());
        let write = Write { task: task_id(task), group, done: Bytes(0), size, fresh: size };
        match counting.ask(self.now, &write, &dirty, &Groups::default()) {
            Grant::Pass(_) => Nanos::ZERO,
            Grant::Wait(at, _) => {
                // It is counted when it wakes up.
                counting.ask(at, &write, &dirty, &Groups::default());
                at.since(self.now)
            }
        }
    }

    /// Counts a finished request whose latency counts from `since`.
    pub(super) fn count(&mut self, tally: usize, action: &Action, since: Instant, finished: &End) {
        let (begin, end) = self.measured();
        let latency = self.now.since(since);
        if let Some(trace) = &mut self.trace {
            trace.booked(self.now, tally, action, latency, finished);
        }
        self.spans[tally].1 = self.now;
        if self.turns.get(tally).is_some_and(|turn| turn.commits) {
            self.count_commit(tally, action, since, finished);
        }
        if self.now >= end || !action.payload {
            return;
        }
        let size = action.extent.len();
        if self.scenario.keeps_timeline {
            self.tallies[tally].note(self.now, size);
        }
        if self.now >= begin {
            self.count_whole(tally, action, finished);
            let tally = &mut self.tallies[tally];
            tally.finish(size, finished.outcome, finished.cached, latency, &finished.times);
        }
    }

    /// Counts the end of a transaction: a durable write to the log, or the flush after one.
    fn count_commit(&mut self, tally: usize, action: &Action, since: Instant, finished: &End) {
        let turn = &mut self.turns[tally];
        let begin = match action.op {
            Op::Write if action.fua => since,
            Op::Write => {
                turn.commit_since = Some(since);
                return;
            }
            Op::Flush => turn.commit_since.take().unwrap_or(since),
            _ => return,
        };
        let (from, to) = self.measured();
        if finished.outcome == Outcome::Ok && (from..to).contains(&self.now) {
            let count = u64::from(self.scenario.tasks[tally].database.group_commit);
            self.tallies[tally].commit(count, self.now.since(begin));
        }
    }

    /// Counts a request for its group and for stage pace.
    fn count_whole(&mut self, tally: usize, action: &Action, finished: &End) {
        let Some(turn) = self.turns.get(tally) else { return };
        if finished.outcome == Outcome::Ok {
            self.group_bytes[turn.group] += action.extent.len().0;
        }
        if action.op == Op::Write && action.buffered && finished.times.pace() > Nanos::ZERO {
            self.pauses.record(finished.times.pace());
        }
    }

    pub(super) fn book_unfinished(&mut self, end: Instant) {
        for lane in &self.lanes {
            if let Some(submitted) = lane.submitted {
                self.tallies[lane.task].wait(end.since(submitted));
                self.trace.iter_mut().for_each(|t| t.unfinished(lane.task, end.since(submitted)));
            }
        }
        self.book_unfinished_sent(end);
    }
}
