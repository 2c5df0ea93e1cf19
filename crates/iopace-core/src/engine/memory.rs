//! Stage 1 and the flusher at work: buffered writes into memory, dirty memory to the disk.
//!
//! ```text
//!  Dirtied ─► line of the task ─► stage pace ─► gate ─► Resume ═► Wrote ─► dirty ─► write-back
//!                      (portions)   (rate)     (limit)   (frontend writes)     (in line with all)
//! ```
//! The hard limit holds for every policy: a portion that has passed stage pace goes on only when it
//! fits, in order of arrival, and counts as dirty from then on.

use super::door::{Buffered, Door, Stand};
use super::frames::Frames;
use super::parked::Parked;
use super::write_back::Syncs;
use super::{Engine, Finish, Output, Resume, WriteId};
use crate::admit;
use crate::flush::{Flusher, Owner};
use crate::limits::{FRONTEND_REQUESTS_MAX, PORTION_MAX};
use crate::pace::{self, Budget, Grant, Pace, Thresholds, Write};
use crate::request::{Area, Extent, GroupId, Op, Outcome, StageTimes, Tag, TaskId};
use crate::stats::Histogram;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;
use crate::window;

/// A group below a limit is written back when more than this part of a second's worth of the limit
/// is dirty. The limit paces its writers and its write-back alike: what write-back leaves lie while
/// they write has to go at the limit afterwards, in a sync, so that the limit would be paid twice.
/// A quarter: little of a sync, and runs of full length from half a MiB per second on. The kernel
/// scales the background threshold of a `bdi_writeback` by its bandwidth likewise.
const LIMITED_BACKGROUND: u64 = 4;

/// Dirty memory of the device and all that is on its way into it.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) pace: Box<dyn Pace>,
    pub(super) policy: &'static pace::Policy,
    pub(super) flusher: Flusher,
    pub(super) door: Door,
    pub(super) frames: Frames,
    pub(super) syncs: Syncs,
    /// What stage window decides about, and how many requests beside it small syncs wait for.
    pub(super) in_line: window::WriteBack,
    pub(super) urgent_count: u32,
    /// What limits of groups hold up, which is not in line.
    pub(super) parked: Parked,
    /// Whether something has happened that may let write-back go on.
    pub(super) is_asked: bool,
    /// When stage window has to be asked again for write-back.
    pub(super) again: Instant,
    pub(super) chunk_at: Instant,
    pub(super) write_back_len: Bytes,
    pub(super) capacity: Bytes,
    /// Pauses that were given: from the first question for a portion until it goes on.
    pub(super) pauses: Histogram,
}

impl Memory {
    pub(super) fn new(
        policy: &'static pace::Policy,
        thresholds: Thresholds,
        (write_back_len, capacity): (Bytes, Bytes),
    ) -> Memory {
        let frames = Frames::new(thresholds);
        let mut pace = (policy.build)();
        pace.set_budget(Instant::ZERO, &frames.used());
        Memory {
            pace,
            policy,
            flusher: Flusher::new(),
            door: Door::default(),
            frames,
            syncs: Syncs::default(),
            in_line: window::WriteBack::default(),
            urgent_count: 0,
            parked: Parked::default(),
            is_asked: false,
            again: Instant::NEVER,
            chunk_at: Instant::ZERO,
            write_back_len,
            capacity,
            pauses: Histogram::default(),
        }
    }

    /// Whether a group still has something here.
    pub(super) fn holds(&self, group: GroupId) -> bool {
        self.flusher.has_dirty(group)
    }

    /// Everything that is not in the request table yet.
    pub(super) fn live_count(&self) -> usize {
        self.door.live_count() + self.syncs.count()
    }

    /// When something happens here by itself.
    pub(super) fn next(&self, now: Instant) -> Instant {
        if self.flusher.is_empty() {
            return self.door.next().0.min(self.again);
        }
        let expiry = self.flusher.next_due();
        // What is too old already waits for the window, whose answer is an instant or an event.
        let expiry = if expiry > now { expiry } else { Instant::NEVER };
        self.door.next().0.min(self.again).min(expiry)
    }

    /// Something has happened that may let write-back go on.
    pub(super) fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Whether write-back may have to go on.
    pub(super) fn is_asked(&self, now: Instant) -> bool {
        self.is_asked || self.again <= now || self.flusher.next_expiry() <= now
    }

    /// Whether there is nothing to write back, and nobody waits for write-back: then being asked
    /// changes nothing, but that now and then the flusher learns.
    pub(super) fn has_nothing(&self, now: Instant) -> bool {
        self.flusher.is_empty()
            && self.syncs.count() == 0
            && !self.in_line.is_awaited
            && self.parked.is_empty()
            && now < self.chunk_at
    }

    /// The largest portion: a quarter of the limit at most, so that none is larger than all the
    /// room that there is.
    fn portion_max(&self) -> Bytes {
        PORTION_MAX.min(Bytes(self.limit().0 / 4)).max(Bytes(1))
    }

    /// What may be dirty at most.
    fn limit(&self) -> Bytes {
        self.frames.budget().device.limit
    }

    fn has_room(&self, fresh: Bytes) -> bool {
        let dirty = self.flusher.dirty(GroupId::ROOT).device;
        dirty == Bytes::ZERO || dirty.0.saturating_add(fresh.0) <= self.limit().0
    }
}

impl Engine {
    /// There are too many requests already.
    #[cold]
    pub(super) fn refuse(&mut self, tag: Tag, task: TaskId, op: Op, extent: Extent) {
        self.stats.told.refused_count += 1;
        let (outcome, times) = (Outcome::Refused, StageTimes::default());
        self.outputs.push_back(Output::Finish(Finish { tag, task, op, extent, outcome, times }));
    }

    /// A buffered write comes.
    pub(super) fn dirtied(&mut self, tag: Tag, task: TaskId, group: GroupId, area: Area) {
        if self.live_count() >= FRONTEND_REQUESTS_MAX {
            return self.refuse(tag, task, Op::Write, area.extent);
        }
        self.groups.arrived(self.now, group, true);
        let who = (task, group, self.accounting.arrived(self.now, task, group));
        let (id, is_first) = self.memory.door.enter(self.now, tag, who, area);
        let followed = self.follow_write(task, group, area);
        self.memory.door.get(id).followed = followed;
        if is_first {
            self.ask_pace(id);
        }
    }

    /// Asks stage pace for the next portion of a write.
    fn ask_pace(&mut self, id: WriteId) {
        let (now, memory) = (self.now, &mut self.memory);
        let most = memory.portion_max();
        memory.door.book(now, id);
        let write = memory.door.get(id);
        let (task, group, rest) = (write.task, write.group, write.rest);
        let done = rest.extent.offset() - write.size.offset();
        let size = rest.extent.len().min(most);
        let fresh = memory.flusher.fresh(first(rest, size));
        let write = Write { task, group, done, size, fresh };
        match memory.pace.ask(now, &write, &memory.flusher.dirty(group)) {
            Grant::Pass(granted) => {
                assert!(granted > Bytes::ZERO && granted <= size, "a legal grant");
                let area = first(rest, granted);
                let fresh = if granted == size { fresh } else { self.memory.flusher.fresh(area) };
                self.passed(id, area, fresh);
            }
            Grant::Wait(at, reason) => memory.door.wait(id, at.max(now + Nanos(1)), reason),
        }
    }

    /// A portion has passed stage pace: into memory with it, if there is room.
    fn passed(&mut self, id: WriteId, area: Area, fresh: Bytes) {
        let memory = &mut self.memory;
        if memory.door.is_gated() || (fresh > Bytes::ZERO && !memory.has_room(fresh)) {
            memory.door.wait_for_room(id, area.extent.len());
            return memory.ask();
        }
        self.resume(id, area.extent, fresh);
    }

    fn resume(&mut self, id: WriteId, extent: Extent, promised: Bytes) {
        let memory = &mut self.memory;
        memory.door.book(self.now, id);
        let write = memory.door.get(id);
        let (size, tag, group) = (extent.len(), write.tag, write.group);
        write.stand = Stand::Writing { size, promised };
        let last = size == write.rest.extent.len();
        let done = write.rest.extent.offset() - write.size.offset();
        let waited = write.waited;
        let paused = waited.total();
        let pause = self.now.since(write.asked);
        memory.flusher.promise(group, promised);
        if memory.pace.holds_limits() {
            let dirty = memory.flusher.dirty(group).device;
            self.admit.buffered(self.now, group, &admit::Buffered { bytes: size, done, dirty });
        }
        if pause > Nanos::ZERO {
            memory.pauses.record(pause);
        }
        if last {
            self.groups.started(self.now, group, true);
        }
        self.outputs.push_back(Output::Resume(Resume { id, tag, extent, last, paused, waited }));
    }

    /// A portion is in memory, or could not be written there.
    pub(super) fn wrote(&mut self, id: WriteId, ok: bool) {
        let (now, memory) = (self.now, &mut self.memory);
        let write = memory.door.get(id);
        let Stand::Writing { size, promised } = write.stand else {
            panic!("{id:?} is in memory, which was not resumed")
        };
        let (task, group) = (write.task, write.group);
        let area = first(write.rest, size);
        let is_last = size == write.rest.extent.len();
        if ok {
            self.accounting.buffered(now, write.place, size);
            self.groups.buffered(group, size);
            self.stats.counts.buffered(size);
            let background = self.groups.write_limit(group).map(limited_background);
            memory.flusher.set_background(group, background);
            let fresh = memory.flusher.wrote(now, Owner { task, group }, area, promised);
            memory.pace.dirtied(now, group, fresh);
            memory.ask();
            if !is_last {
                let write = memory.door.get(id);
                write.rest = after(write.rest, size);
                write.asked = now;
                return self.ask_pace(id);
            }
        } else {
            memory.flusher.broken(group, promised);
            memory.pace.gave_up(task);
        }
        let (write, next) = memory.door.leave(now, id);
        if !is_last {
            self.groups.started(now, group, true);
        }
        self.count_paced(&write);
        if let Some(next) = next {
            self.ask_pace(next);
        }
        self.open_gate();
        self.forget_if_dead(group);
    }

    /// Counts a buffered write that is over.
    fn count_paced(&mut self, write: &Buffered) {
        let (group, waited) = (write.group, &write.waited);
        self.followed_write(write);
        let by_stage = self.accounting.is_on();
        self.groups.wrote(self.now, group, waited, by_stage);
        self.stats.paced(waited, by_stage);
        self.accounting.paced(self.now, write.place, waited);
    }

    /// Goes on with writes whose instant has come.
    #[inline]
    pub(super) fn wake_writes(&mut self) {
        if self.memory.door.has_timers() {
            self.wake_due();
        }
    }

    #[inline(never)]
    fn wake_due(&mut self) {
        while let Some(id) = self.memory.door.due(self.now) {
            self.ask_pace(id);
        }
    }

    /// Goes on with what fits, in order of arrival.
    pub(super) fn open_gate(&mut self) {
        while let Some((id, size)) = self.memory.door.at_gate() {
            // It may have passed when there was more memory; what is left of it asks anew.
            let size = size.min(self.memory.portion_max());
            let area = first(self.memory.door.get(id).rest, size);
            let fresh = self.memory.flusher.fresh(area);
            if fresh > Bytes::ZERO && !self.memory.has_room(fresh) {
                return;
            }
            self.memory.door.leave_gate();
            self.resume(id, area.extent, fresh);
        }
    }

    /// What the device may use of memory from now on.
    pub(super) fn set_budget(&mut self, budget: &Budget) {
        let memory = &mut self.memory;
        memory.frames.set_budget(budget);
        memory.use_budget(self.now);
        memory.ask();
        self.open_gate();
    }

    /// Exchanges the policy of stage pace.
    pub(super) fn set_pace(&mut self, policy: &'static pace::Policy) {
        let mut pace = (policy.build)();
        pace.set_budget(self.now, &self.memory.frames.used());
        for (id, parent, settings) in self.groups.all_settings() {
            pace.set_group(self.now, id, parent, &settings);
        }
        if !pace.holds_limits() {
            self.admit.forget_buffered(self.now);
        }
        (self.memory.pace, self.memory.policy) = (pace, policy);
        self.memory.door.ask_all(self.now);
    }

    /// Exchanges the policy of stage window.
    pub(super) fn set_window(&mut self, policy: &'static window::Policy) {
        self.window = (policy.build)(self.window_max);
        self.window_policy = policy;
        self.memory.ask();
    }

    /// Why nothing more goes into memory at this moment.
    pub(super) fn memory_reason(&self) -> Reason {
        if self.memory.door.is_gated() { Reason::Memory } else { self.memory.door.next().1 }
    }
}

/// How much of a group with that limit, in bytes per second, stays dirty without being written
/// back.
fn limited_background(rate: u64) -> Bytes {
    Bytes(rate / LIMITED_BACKGROUND)
}

/// The first `size` bytes of an area that is at least as long.
fn first(Area { space, extent }: Area, size: Bytes) -> Area {
    Area { space, extent: piece(extent.offset().get(), size.get()) }
}

/// The rest of an area behind its first `size` bytes.
fn after(Area { space, extent }: Area, size: Bytes) -> Area {
    let offset = extent.offset() + size;
    Area { space, extent: piece(offset.get(), (extent.end() - offset).get()) }
}

pub(super) fn piece(offset: u64, len: u64) -> Extent {
    Extent::new(Bytes(offset), Bytes(len)).expect("a piece of an extent")
}
