//! The second machine: buffered writes into memory (stage pace), dirty memory to the disk.
//!
//! ```text
//!  Dirtied ─► line of the task ─► stage pace ─► gate ─► Resume ═► Wrote ─► dirty
//!                      (portions)   (rate)     (limit)   (frontend writes)   │ runs
//!                                                                            ▼
//!  flush ─► behind the write-back of what it covers ──────────────────► the queue
//! ```
//! The hard limit holds for every policy: a portion that has passed stage pace goes on only when it
//! fits, in order of arrival, and counts as dirty from then on.
//!
//! It stands before the other machine, [`super::queue`], whose docs list what is asked and told
//! there. What comes back from it comes by two functions: [`Memory::admitted`], a request that
//! waited goes on, and [`Memory::written_back`], a run has ended.

use super::buffered::WriteStage;
use super::context::Context;
use super::queue::Queue;
use super::waiting::WaitingNow;
use super::{Config, ControlError, Resume, WriteId};
use crate::admit;
use crate::flush::{Flusher, Owner};
use crate::group::table::Groups;
use crate::pace::{Budget, Grant, Pace, PacePolicy, Write};
use crate::request::{Area, Extent, GroupId, Submit, TaskId};
use crate::stats::Histogram;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;
use crate::window;
use caps::DirtyRateCaps;
use core::num::NonZeroU64;
use door::Door;
use frames::Frames;
use parked::Parked;
use syncs::Syncs;

mod caps;
mod door;
mod frames;
mod parked;
mod syncs;
#[cfg(test)]
mod tests;
mod write_back;

/// Dirty memory of the device and all that is on its way into it.
#[derive(Debug)]
pub(super) struct Memory {
    pace: Box<dyn Pace>,
    /// Tasks that have a cap, for whichever policy holds caps.
    caps: DirtyRateCaps,
    flusher: Flusher,
    door: Door,
    frames: Frames,
    syncs: Syncs,
    /// Write-back that stage window decides about, and how many requests of small syncs beside it.
    in_line: window::WriteBack,
    urgent_count: u32,
    /// Write-back that limits of groups hold up, which is not in line.
    parked: Parked,
    /// Whether something has happened that may let write-back go on.
    is_asked: bool,
    /// When stage window has to be asked again for write-back.
    again: Instant,
    chunk_at: Instant,
    /// Until then nothing here can be written back, as of the last look.
    quiet_until: Instant,
    write_back_len: Bytes,
    capacity: Bytes,
    /// As [`Config::tells_cleaned`].
    tells_cleaned: bool,
    /// Pauses that were given: from the first question for a portion until it goes on.
    pauses: Histogram,
}

impl Memory {
    pub(super) fn new(config: &Config) -> Memory {
        let frames = Frames::new(config.memory);
        let mut pace = (config.pace.build)();
        pace.set_pause_target(config.pause_target);
        pace.set_budget(Instant::ZERO, &frames.used());
        Memory {
            pace,
            caps: DirtyRateCaps::default(),
            flusher: Flusher::default(),
            door: Door::default(),
            frames,
            syncs: Syncs::default(),
            in_line: window::WriteBack::default(),
            urgent_count: 0,
            parked: Parked::default(),
            is_asked: false,
            again: Instant::NEVER,
            chunk_at: Instant::ZERO,
            quiet_until: Instant::ZERO,
            write_back_len: config.write_back_len,
            capacity: config.capacity,
            tells_cleaned: config.tells_cleaned,
            pauses: Histogram::default(),
        }
    }

    /// The device is of that size from now on.
    pub(super) fn set_capacity(&mut self, capacity: Bytes) {
        self.capacity = capacity;
    }

    // Buffered writes.

    /// A buffered write comes, to that area.
    pub(super) fn dirtied(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        Submit { tag, task, group, .. }: Submit,
        area: Area,
    ) {
        let who = (task, group, cx.arrived(task, group, true).0);
        let (id, is_first) = self.door.enter(cx.now, tag, who, area);
        let write = self.door.get(id);
        write.followed = cx.observers.write_arrived(cx.now, write);
        if is_first {
            self.ask_pace(queue, cx, id);
        }
    }

    /// Asks stage pace for the next portion of a write.
    fn ask_pace(&mut self, queue: &mut Queue, cx: &mut Context, id: WriteId) {
        let most = self.frames.portion_max();
        self.door.book(cx.now, id);
        let write = self.door.get(id);
        let (task, group, rest) = (write.task, write.group, write.rest);
        let done = rest.extent.offset() - write.size.offset();
        let size = rest.extent.len().min(most);
        let fresh = self.flusher.fresh(first(rest, size));
        let write = Write { task, group, done, size, fresh };
        match self.pace.ask(cx.now, &write, &self.flusher.dirty(group), &cx.groups.table) {
            Grant::Pass(granted) => {
                assert!(granted > Bytes::ZERO && granted <= size, "a legal grant");
                let area = first(rest, granted);
                let fresh = if granted == size { fresh } else { self.flusher.fresh(area) };
                // Into memory with it, if there is room.
                if self.door.is_gated() || !self.has_room(fresh) {
                    self.door.wait_for_room(id, area.extent.len());
                    self.is_asked = true;
                } else {
                    self.resume(queue, cx, id, (area.extent, fresh));
                }
            }
            Grant::Wait(at, reason) => self.door.wait(id, at.max(cx.now + Nanos(1)), reason),
        }
    }

    /// A portion goes into memory, which is promised to it.
    fn resume(
        &mut self,
        queue: &mut Queue,
        cx: &mut Context,
        id: WriteId,
        (extent, promised): (Extent, Bytes),
    ) {
        self.door.book(cx.now, id);
        let write = self.door.get(id);
        let (size, tag, group) = (extent.len(), write.tag, write.group);
        write.stand = WriteStage::Writing { size, promised };
        let last = size == write.rest.extent.len();
        let done = write.rest.extent.offset() - write.size.offset();
        let waited = write.waited;
        let paused = waited.total();
        let pause = cx.now.since(write.asked);
        self.flusher.promise(group, promised);
        if self.pace.holds_limits() {
            let dirty = self.flusher.dirty(group).device;
            queue.buffered(cx, group, &admit::Buffered { bytes: size, done, dirty });
        }
        if pause > Nanos::ZERO {
            self.pauses.record(pause);
        }
        if last {
            cx.groups.started(cx.now, group, true);
        }
        cx.outputs.resume(Resume { id, tag, extent, last, paused, waited });
    }

    /// A portion is in memory, or could not be written there.
    pub(super) fn wrote(&mut self, queue: &mut Queue, cx: &mut Context, id: WriteId, ok: bool) {
        let now = cx.now;
        let write = self.door.get(id);
        let WriteStage::Writing { size, promised } = write.stand else {
            panic!("{id:?} is in memory, which was not resumed")
        };
        let (task, group) = (write.task, write.group);
        let area = first(write.rest, size);
        let is_last = size == write.rest.extent.len();
        if ok {
            cx.buffered(group, write.place, size);
            let background = cx.groups.write_limit(group).map(write_back::limited_background);
            self.flusher.set_background(group, background);
            let fresh = self.flusher.wrote(now, Owner { task, group }, area, promised);
            self.pace.dirtied(now, group, fresh);
            self.is_asked = true;
            if !is_last {
                let write = self.door.get(id);
                write.rest = after(write.rest, size);
                write.asked = now;
                return self.ask_pace(queue, cx, id);
            }
        } else {
            self.flusher.broken(group, promised);
            self.pace.gave_up(task);
        }
        let (write, next) = self.door.leave(now, id);
        if !is_last {
            cx.groups.started(cx.now, group, true);
        }
        cx.observers.write_ended(now, &write);
        cx.paced(group, write.place, &write.waited);
        if let Some(next) = next {
            self.ask_pace(queue, cx, next);
        }
        self.open_gate(queue, cx);
    }

    /// Goes on with writes whose instant has come.
    #[inline]
    pub(super) fn wake_writes(&mut self, queue: &mut Queue, cx: &mut Context) {
        if self.door.has_timers() {
            self.wake_due(queue, cx);
        }
    }

    #[inline(never)]
    fn wake_due(&mut self, queue: &mut Queue, cx: &mut Context) {
        while let Some(id) = self.door.due(cx.now) {
            self.ask_pace(queue, cx, id);
        }
    }

    /// Goes on with what fits, in order of arrival.
    fn open_gate(&mut self, queue: &mut Queue, cx: &mut Context) {
        while let Some((id, size)) = self.door.at_gate() {
            // It may have passed when there was more memory; what is left of it asks anew.
            let size = size.min(self.frames.portion_max());
            let area = first(self.door.get(id).rest, size);
            let fresh = self.flusher.fresh(area);
            if !self.has_room(fresh) {
                return;
            }
            self.door.leave_gate();
            self.resume(queue, cx, id, (area.extent, fresh));
        }
    }

    fn has_room(&self, fresh: Bytes) -> bool {
        self.frames.has_room(self.flusher.dirty(GroupId::ROOT).device, fresh)
    }

    // Changes.

    /// The device may use so much of memory from now on.
    pub(super) fn set_budget(&mut self, queue: &mut Queue, cx: &mut Context, budget: &Budget) {
        self.frames.set_budget(budget);
        self.use_budget(cx.now);
        self.is_asked = true;
        self.open_gate(queue, cx);
    }

    /// Uses another part of the budget, or of another one.
    fn use_budget(&mut self, now: Instant) {
        self.pace.set_budget(now, &self.frames.used());
        self.door.ask_all(now);
    }

    /// Exchanges the policy of stage pace.
    pub(super) fn set_pace(&mut self, queue: &mut Queue, cx: &Context, config: &Config) {
        let mut pace = (config.pace.build)();
        pace.set_pause_target(config.pause_target);
        pace.set_budget(cx.now, &self.frames.used());
        for id in cx.groups.table.in_order() {
            pace.set_group(cx.now, id, &cx.groups.table);
        }
        self.caps.tell(cx.now, &mut *pace);
        if !pace.holds_limits() {
            queue.forget_buffered(cx);
        }
        self.pace = pace;
        self.door.ask_all(cx.now);
    }

    /// Sets the pause that is aimed at.
    pub(super) fn set_pause_target(&mut self, now: Instant, pause: Nanos) {
        self.pace.set_pause_target(pause);
        self.door.ask_all(now);
    }

    /// Caps a task, or lifts its cap.
    ///
    /// # Errors
    /// The policy holds no caps, this one is too low, or there are as many as may be.
    pub(super) fn set_cap(
        &mut self,
        now: Instant,
        policy: &PacePolicy,
        task: TaskId,
        rate: Option<NonZeroU64>,
    ) -> Result<(), ControlError> {
        self.caps.set(policy, task, rate)?;
        self.pace.set_cap(now, task, rate);
        self.door.ask_all(now);
        Ok(())
    }

    /// Takes over the caps of another device, also if the policy here holds none.
    pub(super) fn take_over_caps(&mut self, now: Instant, from: &Memory) {
        self.caps.clone_from(&from.caps);
        self.caps.tell(now, &mut *self.pace);
    }

    /// Says what holds for a group.
    pub(super) fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        self.pace.set_group(now, id, groups);
        self.door.ask_all(now);
    }

    /// Forgets a group of which nothing is left.
    pub(super) fn remove_group(&mut self, id: GroupId) {
        self.pace.remove_group(id);
        self.flusher.remove_group(id);
    }

    // How it stands.

    /// Everything that is not in the queue yet.
    #[inline]
    pub(super) fn live_count(&self) -> usize {
        self.door.live_count() + self.syncs.count()
    }

    /// Buffered writes that have not ended.
    pub(super) fn paced_count(&self) -> usize {
        self.door.live_count()
    }

    /// Dirty memory itself.
    pub(super) fn flusher(&self) -> &Flusher {
        &self.flusher
    }

    /// Stage pace.
    pub(super) fn pace(&self) -> &dyn Pace {
        &*self.pace
    }

    /// The tasks that have a cap, with its bytes per second, by task.
    pub(super) fn caps(&self) -> impl Iterator<Item = (TaskId, NonZeroU64)> {
        self.caps.iter()
    }

    /// The pauses that were given.
    pub(super) fn pauses(&self) -> &Histogram {
        &self.pauses
    }

    /// The part of memory that the device may use.
    pub(super) fn budget(&self) -> Budget {
        self.frames.budget()
    }

    /// Why nothing more goes into memory at this moment.
    pub(super) fn reason(&self) -> Reason {
        if self.door.is_gated() { Reason::Memory } else { self.door.next().1 }
    }

    /// Adds all that has not ended.
    pub(super) fn waiting_now(&self, now: Instant, into: &mut WaitingNow) {
        self.door.waiting_now(now, into);
        for (group, since) in self.syncs.waiting() {
            into.add(group, now.since(since), Reason::Disk);
        }
    }
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

fn piece(offset: u64, len: u64) -> Extent {
    Extent::new(Bytes(offset), Bytes(len)).expect("a piece of an extent")
}
