//! Stage 1 and the flusher at work: buffered writes into memory, dirty memory to the disk.
//!
//! ```text
//!  Dirtied ─► line of the task ─► stage pace ─► gate ─► Resume ═► Wrote ─► dirty ─► write-back
//!                      (portions)   (rate)     (limit)   (frontend writes)     (in line with all)
//! ```
//! The hard limit holds for every policy: a portion that has passed stage pace goes on only when it
//! fits, in order of arrival, and counts as dirty from then on.

use super::door::{Door, Stand};
use super::{Engine, Finish, Output, Resume, WriteId};
use crate::admit::Ask;
use crate::flush::{Flusher, Mark, Owner, Run};
use crate::ledger::Entry;
use crate::limits::{FRONTEND_REQUESTS_MAX, PORTION_MAX, WRITE_BACK_REQUESTS_MAX};
use crate::pace::{self, Budget, Dirty, Grant, Pace, Thresholds, Write};
use crate::request::{Extent, GroupId, Op, Outcome, StageTimes, Submit, Tag, TaskId};
use crate::stats::Histogram;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::{Reason, Verdict};
use crate::window;
use std::collections::VecDeque;

/// How often the flusher learns how much is worth a turn: the interval of the bandwidth estimate.
const CHUNK_INTERVAL: Nanos = Nanos::from_millis(200);

/// While tasks wait for the disk, no more is dirty than write-back writes in this time: what is
/// dirty holds page frames that readers need, and with a narrow window it would hold them for
/// minutes. Within it is room for the gaps that stage window leaves between batches.
const HOLD: u64 = 2;

/// Least of that: a batch or two of a disk with a head, and this part of the limit. At the usual
/// limit of a fifth of memory that is 0.6 % of the frames; a reader whose files nearly fit into
/// memory loses four times as much of its rate as of its frames.
const HELD_MIN: Bytes = Bytes::from_mib(2);
const HELD_PART: u64 = 32;

/// What is written back is averaged over so many intervals, some three seconds.
const WRITTEN_INTERVALS: u64 = 16;

/// Tasks count as waiting for the disk until so long after the last request.
const READERS_LAST: Nanos = Nanos::from_secs(1);

/// The limit goes down by this part of the way per interval, so that nobody stands still meanwhile
/// (Linux, `update_dirty_limit`: a 32nd).
const SHRINK_PART: u64 = 16;

/// Bounds of a turn: one owner's pages in a row. The smallest is what a disk writes while its head
/// could have moved twice; the largest keeps others from waiting for more than a second or two.
const CHUNK_MIN: Bytes = Bytes::from_mib(1);
const CHUNK_MAX: Bytes = Bytes::from_mib(64);

/// A flush that waits for write-back.
#[derive(Debug)]
struct Syncing {
    mark: Mark,
    submit: Submit,
    since: Instant,
}

/// Dirty memory of the device and all that is on its way into it.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) pace: Box<dyn Pace>,
    pub(super) policy: &'static pace::Policy,
    pub(super) flusher: Flusher,
    pub(super) door: Door,
    budget: Budget,
    /// What of the budget is used while readers need the frames.
    held: Thresholds,
    /// When a task last waited for the disk.
    readers_at: Option<Instant>,
    /// Written back since the last look, and per second on average.
    written: u64,
    written_rate: u64,
    looked_at: Instant,
    syncing: VecDeque<Syncing>,
    in_line: window::WriteBack,
    /// Whether something has happened that may let write-back go on.
    is_asked: bool,
    /// When stage window has to be asked again for write-back.
    again: Instant,
    chunk_at: Instant,
    write_back_len: Bytes,
    capacity: Bytes,
    /// Pauses that were given: from the first question for a portion until it goes on.
    pub(super) pauses: Histogram,
}

impl Memory {
    pub(super) fn new(
        policy: &'static pace::Policy,
        thresholds: Thresholds,
        (write_back_len, capacity): (Bytes, Bytes),
    ) -> Memory {
        let budget = Budget { device: thresholds, all: thresholds, dirty_elsewhere: Bytes::ZERO };
        let mut pace = (policy.build)();
        pace.set_budget(Instant::ZERO, &budget);
        Memory {
            pace,
            policy,
            flusher: Flusher::new(),
            door: Door::default(),
            budget,
            held: thresholds,
            readers_at: None,
            written: 0,
            written_rate: 0,
            looked_at: Instant::ZERO,
            syncing: VecDeque::new(),
            in_line: window::WriteBack::default(),
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

    /// Everything that is not in the ledger yet.
    pub(super) fn live_count(&self) -> usize {
        self.door.live_count() + self.syncing.len()
    }

    /// When something happens here by itself.
    pub(super) fn next(&self, now: Instant) -> Instant {
        let expiry = self.flusher.next_expiry();
        // What is too old already waits for the window, whose answer is an instant or an event.
        let expiry = if expiry > now { expiry } else { Instant::NEVER };
        self.door.next().0.min(self.again).min(expiry)
    }

    /// Something has happened that may let write-back go on.
    pub(super) fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Whether write-back may have to go on.
    fn is_asked(&self, now: Instant) -> bool {
        self.is_asked || self.again <= now || self.flusher.next_expiry() <= now
    }

    fn has_room(&self, fresh: Bytes) -> bool {
        let dirty = self.flusher.dirty(GroupId::ROOT).device;
        dirty == Bytes::ZERO || dirty.0.saturating_add(fresh.0) <= self.budget.device.limit.0
    }

    /// A task waits for the disk, or has waited until now.
    pub(super) fn reads(&mut self, now: Instant) {
        self.readers_at = Some(now);
    }

    /// How much may be dirty for the sake of those who read: all of the budget, or what write-back
    /// writes in [`HOLD`] seconds.
    fn hold(&mut self, now: Instant) {
        let passed = now.since(self.looked_at);
        self.looked_at = now;
        let rate = u128::from(std::mem::take(&mut self.written)) * 1_000_000_000;
        let rate = u64::try_from(rate / u128::from(passed.0.max(1))).unwrap_or(u64::MAX);
        let old = self.written_rate;
        self.written_rate = old - old / WRITTEN_INTERVALS + rate / WRITTEN_INTERVALS;
        let whole = self.budget.device;
        let is_read = self.readers_at.is_some_and(|at| now.since(at) < READERS_LAST)
            && self.pace.spares_frames();
        let least = HELD_MIN.max(Bytes(whole.limit.0 / HELD_PART));
        let wanted = match is_read {
            true => whole.limit.min(least.max(Bytes(self.written_rate.saturating_mul(HOLD)))),
            false => whole.limit,
        };
        // What is dirty already goes at its own pace, so that nobody stands still meanwhile.
        let dirty = self.flusher.dirty(GroupId::ROOT).device.0;
        let more = self.held.limit.0.min(dirty.saturating_add(dirty / 4)).saturating_sub(wanted.0);
        let limit = Bytes(wanted.0 + more - more.div_ceil(SHRINK_PART));
        if limit != self.held.limit {
            self.use_of_budget(now, limit);
        }
    }

    /// Uses so much of the budget.
    fn use_of_budget(&mut self, now: Instant, limit: Bytes) {
        let whole = self.budget.device;
        let background =
            u128::from(limit.0) * u128::from(whole.background.0) / u128::from(whole.limit.0.max(1));
        self.held = Thresholds { background: Bytes(background as u64), limit };
        self.pace.set_budget(now, &Budget { device: self.held, ..self.budget });
        self.door.ask_all(now);
    }
}

impl Engine {
    /// A buffered write comes.
    pub(super) fn dirtied(&mut self, tag: Tag, task: TaskId, group: GroupId, extent: Extent) {
        if self.live_count() >= FRONTEND_REQUESTS_MAX {
            self.stats.refused_count += 1;
            let (outcome, times) = (Outcome::Refused, StageTimes::default());
            let finish = Finish { tag, task, op: Op::Write, extent, outcome, times };
            return self.outputs.push_back(Output::Finish(finish));
        }
        self.groups.arrived(self.now, group, true);
        let (id, is_first) = self.memory.door.enter(self.now, tag, (task, group), extent);
        if is_first {
            self.ask_pace(id);
        }
    }

    /// Asks stage pace for the next portion of a write.
    fn ask_pace(&mut self, id: WriteId) {
        let (now, memory) = (self.now, &mut self.memory);
        let limit = memory.budget.device.limit;
        let write = memory.door.get(id);
        let (task, group, rest) = (write.task, write.group, write.rest);
        // A quarter of the limit at most: no portion is larger than all the room that there is.
        let most = PORTION_MAX.min(Bytes(limit.0 / 4)).max(Bytes(1));
        let size = rest.len().min(most);
        let fresh = memory.flusher.fresh(first(rest, size));
        let write = Write { task, group, size, fresh };
        match memory.pace.ask(now, &write, &memory.flusher.dirty(group)) {
            Grant::Pass(granted) => {
                assert!(granted > Bytes::ZERO && granted <= size, "a legal grant");
                self.passed(id, granted);
            }
            Grant::Wait(at, reason) => memory.door.wait(id, at.max(now + Nanos(1)), reason),
        }
    }

    /// A portion has passed stage pace: into memory with it, if there is room.
    fn passed(&mut self, id: WriteId, size: Bytes) {
        let memory = &mut self.memory;
        let extent = first(memory.door.get(id).rest, size);
        let fresh = memory.flusher.fresh(extent);
        if memory.door.is_gated() || (fresh > Bytes::ZERO && !memory.has_room(fresh)) {
            memory.door.wait_for_room(id, size);
            return memory.ask();
        }
        self.resume(id, extent, fresh);
    }

    fn resume(&mut self, id: WriteId, extent: Extent, promised: Bytes) {
        let memory = &mut self.memory;
        let write = memory.door.get(id);
        let (size, tag, group) = (extent.len(), write.tag, write.group);
        write.stand = Stand::Writing { size, promised };
        let last = size == write.rest.len();
        let paused = self.now.since(write.arrived);
        let pause = self.now.since(write.asked);
        memory.flusher.promise(group, promised);
        if pause > Nanos::ZERO {
            memory.pauses.record(pause);
        }
        if last {
            self.groups.started(self.now, group, true);
        }
        self.outputs.push_back(Output::Resume(Resume { id, tag, extent, last, paused }));
    }

    /// A portion is in memory, or could not be written there.
    pub(super) fn wrote(&mut self, id: WriteId, ok: bool) {
        let (now, memory) = (self.now, &mut self.memory);
        let write = memory.door.get(id);
        let Stand::Writing { size, promised } = write.stand else {
            panic!("{id:?} is in memory, which was not resumed")
        };
        let (task, group) = (write.task, write.group);
        let extent = first(write.rest, size);
        let is_last = size == write.rest.len();
        if ok {
            let fresh = memory.flusher.wrote(now, Owner { task, group }, extent, promised);
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
        }
        let (_, next) = memory.door.leave(id);
        if !is_last {
            self.groups.started(now, group, true);
        }
        self.groups.wrote(now, group);
        if let Some(next) = next {
            self.memory.door.get(next).asked = now;
            self.ask_pace(next);
        }
        self.open_gate();
        self.forget_if_dead(group);
    }

    /// Goes on with writes whose instant has come.
    pub(super) fn wake_writes(&mut self) {
        while let Some(id) = self.memory.door.due(self.now) {
            self.ask_pace(id);
        }
    }

    /// Goes on with what fits, in order of arrival.
    fn open_gate(&mut self) {
        while let Some((id, size)) = self.memory.door.at_gate() {
            let extent = first(self.memory.door.get(id).rest, size);
            let fresh = self.memory.flusher.fresh(extent);
            if fresh > Bytes::ZERO && !self.memory.has_room(fresh) {
                return;
            }
            self.memory.door.leave_gate();
            self.resume(id, extent, fresh);
        }
    }

    /// What the device may use of memory from now on.
    pub(super) fn set_budget(&mut self, budget: &Budget) {
        let memory = &mut self.memory;
        let is_held = memory.held.limit < memory.budget.device.limit;
        memory.budget = *budget;
        let limit = budget.device.limit;
        let limit = if is_held { memory.held.limit.min(limit) } else { limit };
        memory.use_of_budget(self.now, limit);
        memory.ask();
        self.open_gate();
    }

    /// Exchanges the policy of stage pace.
    pub(super) fn set_pace(&mut self, policy: &'static pace::Policy) {
        let mut pace = (policy.build)();
        pace.set_budget(self.now, &Budget { device: self.memory.held, ..self.memory.budget });
        for (id, parent, settings) in self.groups.all_settings() {
            pace.set_group(self.now, id, parent, &settings);
        }
        (self.memory.pace, self.memory.policy) = (pace, policy);
        self.memory.door.ask_all(self.now);
    }

    /// A flush comes: it covers all that is dirty now, so that has to be written back first. False
    /// if nothing is.
    pub(super) fn sync(&mut self, submit: Submit) -> bool {
        let mark = self.memory.flusher.sync();
        if self.memory.syncing.is_empty() && self.memory.flusher.is_synced(mark) {
            return false;
        }
        self.groups.hold(submit.group);
        self.memory.syncing.push_back(Syncing { mark, submit, since: self.now });
        self.memory.ask();
        true
    }

    /// Flushes whose write-back is done stand in line for the disk.
    fn end_syncs(&mut self) {
        while let Some(first) = self.memory.syncing.front() {
            if !self.memory.flusher.is_synced(first.mark) {
                return;
            }
            let syncing = self.memory.syncing.pop_front().expect("the first");
            let failed = self.memory.flusher.take_failure();
            let written = (self.now.since(syncing.since), failed);
            self.groups.release(syncing.submit.group);
            self.enter(syncing.submit, |entry| entry.written = written);
        }
    }

    /// Puts write-back into line, as far as something is due and stage window lets it.
    pub(super) fn write_back(&mut self) {
        if !self.memory.is_asked(self.now) {
            return;
        }
        self.end_syncs();
        self.memory.is_asked = false;
        self.memory.again = Instant::NEVER;
        self.learn_chunk();
        let dirty = self.memory.flusher.dirty(GroupId::ROOT).device;
        self.memory.in_line.is_awaited =
            !self.memory.syncing.is_empty() || dirty.0 / 2 > self.memory.held.limit.0;
        while self.memory.in_line.requests_count < WRITE_BACK_REQUESTS_MAX as u32 {
            let memory = &mut self.memory;
            let (background, pressed) = (memory.held.background, memory.door.is_gated());
            let len = memory.write_back_len;
            let Some(run) = memory.flusher.candidate(self.now, background, pressed, len) else {
                return;
            };
            let size = run.extent.len();
            match self.window.write_back(self.now, &memory.in_line, size) {
                Verdict::Pass => {}
                Verdict::Wait(at, _) => {
                    memory.again = at.max(self.now + Nanos(1));
                    return;
                }
            }
            memory.flusher.take(&run);
            memory.in_line.requests_count += 1;
            memory.in_line.size += size;
            let submit = Submit {
                tag: Tag(u64::MAX),
                task: run.owner.task,
                group: run.owner.group,
                op: Op::Write,
                extent: within(run.extent, memory.capacity),
                fua: false,
                sync: false,
            };
            self.enter(submit, |entry| entry.run = Some(run));
        }
    }

    /// Learns from the measured bandwidth how much is worth a turn: half a second of it, as in the
    /// kernel (`writeback_chunk_size`).
    fn learn_chunk(&mut self) {
        if self.now < self.memory.chunk_at {
            return;
        }
        self.memory.chunk_at = self.now + CHUNK_INTERVAL;
        self.memory.hold(self.now);
        let dirty = self.memory.flusher.dirty(GroupId::ROOT);
        let bandwidth = self.memory.pace.picture(&dirty).write_bandwidth.0;
        if bandwidth > 0 {
            let chunk = Bytes(bandwidth / 2).clamp(CHUNK_MIN, CHUNK_MAX);
            self.memory.flusher.set_chunk(chunk);
        }
    }

    /// A run is on the disk, or failed.
    pub(super) fn written_back(&mut self, run: &Run, ok: bool) {
        let (now, group, memory) = (self.now, run.owner.group, &mut self.memory);
        memory.in_line.requests_count -= 1;
        memory.in_line.size = memory.in_line.size - run.extent.len();
        let cleaned = memory.flusher.done(run, ok);
        // All of it was written, also pages that were dirtied again meanwhile and counted again.
        memory.pace.cleaned(now, group, run.extent.len(), &memory.flusher.dirty(group));
        memory.written += run.extent.len().0;
        self.tell_cleaned(run.extent, cleaned);
        self.memory.ask();
        self.open_gate();
    }

    /// Says which pages of an extent are clean now.
    fn tell_cleaned(&mut self, extent: Extent, cleaned: Bytes) {
        if cleaned == extent.len() {
            return self.outputs.push_back(Output::Cleaned(extent));
        }
        let end = extent.end().get();
        let mut offset = extent.offset().get();
        while offset < end {
            let page = piece(offset, crate::flush::PAGE.min(end - offset));
            if self.memory.flusher.fresh(page) > Bytes::ZERO {
                self.outputs.push_back(Output::Cleaned(page));
            }
            offset += crate::flush::PAGE;
        }
    }

    /// The content of an extent is void: what was dirty there is not.
    pub(super) fn discard(&mut self, extent: Extent) {
        let mut cleaned = Vec::new();
        self.memory.flusher.discard(extent, |group, size| cleaned.push((group, size)));
        if cleaned.is_empty() {
            return;
        }
        for (group, size) in cleaned {
            let memory = &mut self.memory;
            memory.pace.cleaned(self.now, group, size, &memory.flusher.dirty(group));
            self.forget_if_dead(group);
        }
        self.memory.ask();
        self.open_gate();
    }

    /// Exchanges the policy of stage window.
    pub(super) fn set_window(&mut self, policy: &'static window::Policy) {
        self.window = (policy.build)(self.window_max);
        self.window_policy = policy;
        self.memory.ask();
    }

    /// Submits a request of the engine or of a frontend; `fill` completes its entry.
    pub(super) fn enter(&mut self, submit: Submit, fill: impl FnOnce(&mut Entry)) {
        let id = self.ledger.enter(self.now, submit);
        fill(self.ledger.entered(id));
        self.groups.arrived(self.now, submit.group, submit.sync);
        if self.admit.enqueue(self.now, Ask::new(id, &submit)) {
            self.admitted(id, false);
        }
    }

    /// Dirty memory of the device, and of a group alone.
    pub fn dirty(&self, group: GroupId) -> Dirty {
        self.memory.flusher.dirty(group)
    }

    /// How stage pace sees the device; dirty memory and its limit are there for every policy.
    pub fn pace_picture(&self) -> pace::Picture {
        let dirty = self.memory.flusher.dirty(GroupId::ROOT);
        let limit = self.memory.budget.device.limit;
        pace::Picture { dirty: dirty.device, limit, ..self.memory.pace.picture(&dirty) }
    }

    /// How stage pace sees a group; `None` if its policy has no view of groups or does not know it.
    pub fn group_pace_picture(&self, id: GroupId) -> Option<pace::Picture> {
        self.memory.pace.group_picture(id, &self.memory.flusher.dirty(id))
    }

    /// How stage window stands.
    pub fn window_picture(&self) -> window::Picture {
        self.window.picture()
    }

    /// The pauses of buffered writes: from the first question for a portion until it went on.
    pub fn pauses(&self) -> &Histogram {
        &self.memory.pauses
    }

    /// Why nothing more goes into memory at this moment.
    pub(super) fn memory_reason(&self) -> Reason {
        if self.memory.door.is_gated() { Reason::Memory } else { self.memory.door.next().1 }
    }
}

/// The first `size` bytes of an extent that is at least as long.
fn first(extent: Extent, size: Bytes) -> Extent {
    piece(extent.offset().get(), size.get())
}

/// What is left of an extent without its first `size` bytes.
fn after(extent: Extent, size: Bytes) -> Extent {
    let offset = extent.offset() + size;
    piece(offset.get(), (extent.end() - offset).get())
}

/// Keeps whole pages within the device, whose size need not be a multiple of a page.
fn within(extent: Extent, capacity: Bytes) -> Extent {
    let end = extent.end().min(capacity).max(extent.offset());
    piece(extent.offset().get(), (end - extent.offset()).get())
}

fn piece(offset: u64, len: u64) -> Extent {
    Extent::new(Bytes(offset), Bytes(len)).expect("a piece of an extent")
}
