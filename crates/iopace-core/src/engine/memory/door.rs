//! Buffered writes between the door and memory: whose turn it is, until when each waits, and what
//! has passed stage pace but finds no room.
//!
//! Writes of one task stand in a line, and only the first of a line moves. It is asked for in
//! portions: it waits for stage pace until an instant, or for room behind all that came before it
//! (the gate), or is on its way into memory.

use crate::engine::buffered::{BufferedWrite, WriteStage};
use crate::engine::{WaitingNow, WriteId};
use crate::request::{Area, GroupId, StageTimes, Tag, TaskId};
use crate::stats::TaskPlace;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// The writes of one task.
#[derive(Debug)]
struct TaskWrites {
    /// The one that moves.
    first: WriteId,
    rest: VecDeque<WriteId>,
    /// Times that the first ones waited: clocks for those behind them.
    waited: StageTimes,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Door {
    entries: Vec<Option<BufferedWrite>>,
    free: Vec<u32>,
    last_sequence: u64,
    /// A task is in it while it has a write here.
    lines: BTreeMap<TaskId, TaskWrites>,
    /// Writes that wait for an instant; entries that are out of date are passed over.
    timers: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    gate: VecDeque<WriteId>,
}

impl Door {
    /// Takes a write in. True if it is the first of its task.
    pub(super) fn enter(
        &mut self,
        now: Instant,
        tag: Tag,
        (task, group, account): (TaskId, GroupId, TaskPlace),
        rest: Area,
    ) -> (WriteId, bool) {
        self.last_sequence += 1;
        let sequence = self.last_sequence;
        let waited = self.line_clocks(now, task);
        let entry = BufferedWrite {
            sequence,
            tag,
            task,
            group,
            size: rest.extent,
            rest,
            arrived: now,
            asked: now,
            stand: WriteStage::Line,
            place: account,
            waited,
            since: now,
            followed: 0,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = Some(entry);
                place
            }
            None => {
                self.entries.push(Some(entry));
                u32::try_from(self.entries.len() - 1).expect("bounded by DEVICE_REQUESTS_MAX")
            }
        };
        let id = WriteId { place, sequence };
        match self.lines.get_mut(&task) {
            Some(line) => {
                line.rest.push_back(id);
                (id, false)
            }
            None => {
                let (rest, waited) = (VecDeque::new(), StageTimes::default());
                self.lines.insert(task, TaskWrites { first: id, rest, waited });
                (id, true)
            }
        }
    }

    /// Times that the first writes of a task's line have waited until now.
    fn line_clocks(&mut self, now: Instant, task: TaskId) -> StageTimes {
        let Some(first) = self.lines.get(&task).map(|line| line.first) else {
            return StageTimes::default();
        };
        self.book(now, first);
        self.lines[&task].waited
    }

    /// Books what the first write of a line has waited for until now.
    pub(super) fn book(&mut self, now: Instant, id: WriteId) {
        let entry = self.get(id);
        let passed = now.since(entry.since);
        entry.since = now;
        let Some(reason) = entry.reason().filter(|_| passed > Nanos::ZERO) else { return };
        entry.waited.pace_for(reason, passed);
        let task = entry.task;
        let line = self.lines.get_mut(&task).expect("its task has a line");
        line.waited.pace_for(reason, passed);
    }

    /// The next write of a task is the first in line: it has waited for what those before it waited
    /// for, and for the rate of its task while they went into memory.
    fn lead(&mut self, now: Instant, id: WriteId, clocks: &StageTimes) {
        let entry = self.get(id);
        let in_line = now.since(entry.arrived);
        entry.waited = clocks.pace_since(&entry.waited);
        let rest = in_line.saturating_sub(entry.waited.total());
        entry.waited.pace_for(Reason::Dirty, rest);
        (entry.asked, entry.since) = (now, now);
    }

    /// Takes a write out; the next one of its task, if there is one.
    pub(super) fn leave(&mut self, now: Instant, id: WriteId) -> (BufferedWrite, Option<WriteId>) {
        let entry = self.entries[id.place as usize].take().expect("the write exists");
        assert_eq!(entry.sequence, id.sequence, "a write of the past was ended");
        self.free.push(id.place);
        let line = self.lines.get_mut(&entry.task).expect("its task has a line");
        let next = line.rest.pop_front();
        match next {
            Some(next) => {
                line.first = next;
                let clocks = line.waited;
                self.lead(now, next, &clocks);
            }
            None => {
                self.lines.remove(&entry.task);
            }
        }
        (entry, next)
    }

    /// The write, which must exist.
    pub(super) fn get(&mut self, id: WriteId) -> &mut BufferedWrite {
        let entry = self.entries[id.place as usize].as_mut().expect("the write exists");
        assert_eq!(entry.sequence, id.sequence, "a write of the past");
        entry
    }

    /// A write waits until an instant.
    pub(super) fn wait(&mut self, id: WriteId, at: Instant, reason: Reason) {
        self.get(id).stand = WriteStage::Pace(at, reason);
        self.timers.push(Reverse((at, id.sequence, id.place)));
    }

    /// Whether a write may wait for an instant.
    pub(super) fn has_timers(&self) -> bool {
        !self.timers.is_empty()
    }

    /// A write whose instant has come.
    pub(super) fn due(&mut self, now: Instant) -> Option<WriteId> {
        loop {
            let &Reverse((at, sequence, place)) = self.timers.peek()?;
            if at > now && self.stands_at(at, sequence, place) {
                return None;
            }
            self.timers.pop();
            if self.stands_at(at, sequence, place) {
                return Some(WriteId { place, sequence });
            }
        }
    }

    fn stands_at(&self, at: Instant, sequence: u64, place: u32) -> bool {
        let entry = self.entries[place as usize].as_ref();
        let entry = entry.filter(|entry| entry.sequence == sequence);
        entry.is_some_and(|entry| matches!(entry.stand, WriteStage::Pace(until, _) if until == at))
    }

    /// The first instant that somebody waits for, and why.
    pub(super) fn next(&self) -> (Instant, Reason) {
        let Some(&Reverse((at, _, place))) = self.timers.peek() else {
            return (Instant::NEVER, Reason::Idle);
        };
        match self.entries[place as usize].as_ref().map(|entry| entry.stand) {
            Some(WriteStage::Pace(_, reason)) => (at, reason),
            _ => (at, Reason::Dirty),
        }
    }

    /// Everything that waits for stage pace is to be asked for again now.
    pub(super) fn ask_all(&mut self, now: Instant) {
        for Reverse((at, sequence, place)) in std::mem::take(&mut self.timers).into_sorted_vec() {
            if self.stands_at(at, sequence, place) {
                let WriteStage::Pace(_, reason) = self.get(WriteId { place, sequence }).stand
                else {
                    continue;
                };
                self.wait(WriteId { place, sequence }, now, reason);
            }
        }
    }

    /// A write has passed and has to wait for room, behind those that wait already.
    pub(super) fn wait_for_room(&mut self, id: WriteId, size: Bytes) {
        self.get(id).stand = WriteStage::Gate(size);
        self.gate.push_back(id);
    }

    /// The first one that waits for room, with what of it has passed.
    pub(super) fn at_gate(&mut self) -> Option<(WriteId, Bytes)> {
        let id = *self.gate.front()?;
        let WriteStage::Gate(size) = self.get(id).stand else {
            unreachable!("it stands at the gate")
        };
        Some((id, size))
    }

    /// The first one at the gate goes on.
    pub(super) fn leave_gate(&mut self) {
        self.gate.pop_front();
    }

    /// Whether somebody waits for room.
    pub(super) fn is_gated(&self) -> bool {
        !self.gate.is_empty()
    }

    /// Adds all of them with the reasons under which their times are booked.
    pub(super) fn waiting_now(&self, now: Instant, into: &mut WaitingNow) {
        for write in self.entries.iter().flatten() {
            let reason = match write.stand {
                WriteStage::Writing { .. } => Reason::Idle,
                _ => match self.reason(write) {
                    Some(reason @ (Reason::Memory | Reason::Budget)) => reason,
                    _ => Reason::Dirty,
                },
            };
            into.add(write.group, now.since(write.arrived), reason);
        }
    }

    /// Why a write is not further yet: in line, for the reason of the first of its task.
    fn reason(&self, write: &BufferedWrite) -> Option<Reason> {
        if write.stand != WriteStage::Line {
            return write.reason();
        }
        let first = self.lines.get(&write.task)?.first;
        self.entries[first.place as usize].as_ref()?.reason()
    }

    /// Writes that are not in memory.
    pub(super) fn live_count(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}
