//! Gives every writing task the same rate, such that memory is dirtied as fast as the device cleans
//! it, and corrects the rate by how much is dirty.
//!
//! # Model
//! ```text
//!   rate of a task = base rate x position         pause = bytes dirtied / rate of the task
//!                        |           |
//!     bandwidth / N, learned         2 at the free-run mark, 1 at the set point, 0 at the limit:
//!     every 200 ms from what         pulls dirty memory back to the set point, where errors of the
//!     was dirtied and cleaned        base rate and counts that drift apart have put it
//! ```
//! Below the free-run mark nobody waits. Above it each task has a clock that every portion pushes
//! forward by its cost at the rate of the moment (`pause`); no list of tasks is kept and none is
//! walked, so that a write costs the same with one task and with 100 000.
//!
//! *Groups.* Every 200 ms the device's bandwidth is divided among the groups that dirtied lately,
//! by weight at each level of the tree, and what one leaves the others get (`shares`). Each group
//! has its own base rate, against its part of the bandwidth, so that the number of its tasks does
//! not count, trimmed by what the groups got against their shares; and its part of dirty memory: it
//! is slowed, down to a quarter, when it uses more. With one group all this is the rule of 2011 and
//! nothing else. Limits (`io.max`) are exact meters on top (`caps`), and so are caps of single
//! tasks (`task_caps`).
//!
//! *Against the source*: pauses are aimed at 8 ms, or what is set, and not tied to 32 pages; a
//! start of many tasks at once is noticed by what passes and braked without waiting for the
//! interval; tasks seen bound the estimate (`base`); a device that writes in bursts is averaged
//! over its bursts (`bandwidth`).
//!
//! # Properties
//! 1. N tasks converge to a rate of bandwidth / N within 5 % in 4 s, and to equal parts.
//! 2. Dirty memory stays between the free-run mark and the limit while tasks write all they can.
//! 3. No pause for the rate is longer than 200 ms; with up to ten writers 99 % are below 10 ms,
//!    with 51 below 50 ms. With another pause target they are as much shorter or longer.
//! 4. Groups share the bandwidth by weight within 2 %, whatever the number of their tasks.
//! 5. What a group does not take, the others get.
//! 6. A limit holds within 1 % (or a page) in any second, for one task or many, any size of write.
//! 7. Time in which a task does nothing is made up for if it is shorter than a second.
//! 8. A write is never stopped for ever, whatever device, budget and clock do.
//! 9. Counts that drift apart move dirty memory within its marks and do no more.
//! 10. From empty, dirty memory is at the set point within a second.
//! 11. A task with a cap dirties no more in any second, and the others get what it leaves.
//!
//! # When it does not know
//! A device that has written nothing is taken for 100 MiB/s until 200 ms of writing are measured. A
//! task that was not seen for a second starts anew, with one portion.
//!
//! # Limits
//! A device below 20 kB/s per task would need pauses over 200 ms for a page: there memory fills to
//! the limit, and the engine lets in what fits in order of arrival. Classes and `io.min` of groups
//! are not looked at here: they hold where the disk is shared.
//!
//! # Sources
//! Wu Fengguang, IO-less dirty throttling (2011), and Linux mm/page-writeback.c, where it was
//! merged: position, bandwidth and base rate. The other sources stand in the files of the parts.

use super::tasks::PacedTasks;
use super::{Budget, Dirty, Grant, Pace, PacePicture, PacePolicy, Thresholds, Total, Write};
use crate::group::table::Groups;
use crate::limits::PAUSE_TARGET_DEFAULT;
use crate::request::{GroupId, TaskId};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, BytesPerSec};
use crate::verdict::Reason;
use bandwidth::{Bandwidth, GUESS, INTERVAL};
use core::num::NonZeroU64;
use groups::{PacedGroup, States};
use pause::{PAGE, PAUSE_MAX, Tempo};
use portion::{Pass, charge, paced, portion_of, still_waits};
use position::{Curve, DevicePosition, FLOOR, ONE};
use shares::Shares;
use task::{PaceWait, PacedTask};
use task_caps::TaskCaps;

mod bandwidth;
mod base;
mod caps;
mod groups;
mod pause;
mod portion;
mod position;
mod shares;
mod task;
mod task_caps;
#[cfg(test)]
mod tests;
mod update;

/// The registry's line.
pub static POLICY: PacePolicy = PacePolicy {
    name: "rate",
    summary: "each task the same rate, such that memory is dirtied as fast as it is cleaned",
    build: || Box::new(Rate::default()),
};

/// A rate is computed anew when dirty memory has moved by this part of the limit (as a shift): a
/// thousandth of the way from the set point to the limit.
const MOVED_SHIFT: u32 = 13;

/// No portion is larger than this part of what is left up to the limit.
const PORTION_ROOM: u64 = 64;

/// The policy.
#[derive(Debug)]
pub struct Rate {
    now: Instant,
    /// Write-back begins above it.
    background: Bytes,
    place: DevicePosition,
    bandwidth: Bandwidth,
    tasks: PacedTasks<PacedTask>,
    task_caps: TaskCaps,
    groups: States,
    shares: Shares,
    /// Counts changes after which rates are computed anew.
    state: u32,
    /// Counts intervals, for tasks that were seen.
    interval: u16,
    /// When the interval began; none before the first call.
    began: Option<Instant>,
    /// Counts changes of limits.
    generation: u8,
    last_pause: Nanos,
    last_group: GroupId,
    /// The pause that is aimed at with few writers.
    pause_target: Nanos,
}

impl Default for Rate {
    /// One that knows of no budget and no group yet, and so paces nobody.
    fn default() -> Rate {
        let all = Thresholds { background: Bytes(u64::MAX / 2), limit: Bytes(u64::MAX) };
        let budget = Budget::alone(all);
        Rate {
            now: Instant::ZERO,
            background: budget.device.background,
            place: DevicePosition::new(&budget, GUESS, Nanos::ZERO),
            bandwidth: Bandwidth::default(),
            tasks: PacedTasks::default(),
            task_caps: TaskCaps::default(),
            groups: States::new(GUESS),
            shares: Shares::default(),
            state: 1,
            interval: 1,
            began: None,
            generation: 0,
            last_pause: Nanos::ZERO,
            last_group: GroupId::ROOT,
            pause_target: Nanos::from_millis(PAUSE_TARGET_DEFAULT),
        }
    }
}

impl Rate {
    /// Dirty memory that is on its way to the disk, or has to go there as soon as it may: both are
    /// work of the device, whose bandwidth is also what stage window lets it have.
    fn due(&self, dirty: &Dirty) -> Bytes {
        dirty.write_back.max(Bytes(dirty.device.0.saturating_sub(self.background.0)))
    }

    /// Time goes on.
    fn advance(&mut self, now: Instant, dirty: &Dirty, groups: &Groups) -> Instant {
        self.now = self.now.max(now);
        let due = self.due(dirty);
        if self.bandwidth.is_news(due) {
            self.bandwidth.see(self.now, due, Bytes::ZERO);
        }
        let began = *self.began.get_or_insert(self.now);
        if self.now.since(began) >= INTERVAL {
            self.bandwidth.see(self.now, due, Bytes::ZERO);
            self.update(dirty.device.0, groups);
        }
        self.now
    }

    /// The time in which the device writes back all that is dirty.
    fn drain(&self, dirty: u64) -> Nanos {
        self.bandwidth.average().time_for(Bytes(dirty))
    }

    /// Position of a group on the device.
    fn position(&self, group: &PacedGroup, dirty: u64) -> u64 {
        let position = self.place.position(dirty);
        if self.groups.active.len() < 2 || position == 0 {
            return position;
        }
        let part = self.place.part(group.share, dirty);
        // What the others leave of their parts it may use: who is written back sooner needs less.
        let of_others = self.place.device.setpoint.saturating_sub(part.setpoint);
        let left = of_others.saturating_sub(dirty.saturating_sub(group.dirty));
        position.min(part.position(group.dirty.saturating_sub(left)).max(FLOOR))
    }

    /// What holds for a task of the group now. The group's dirty memory is up to date.
    fn tempo(&mut self, id: GroupId, dirty: u64) -> Tempo {
        if dirty >= self.place.device.limit {
            return Tempo::stopped(self.drain(dirty));
        }
        let Some(group) = self.groups.get(id) else { return Tempo::default() };
        let (state, device, own) = group.tempo_of;
        let near = self.place.device.limit >> MOVED_SHIFT;
        let is_near = dirty.abs_diff(device) <= near && group.dirty.abs_diff(own) <= near;
        if state == self.state && is_near {
            return group.tempo;
        }
        let rate = group.base.task_rate(self.position(group, dirty));
        let part = (group.base.rate, group.bandwidth);
        let tempo = Tempo::new(rate, part, self.drain(dirty), self.pause_target);
        let state = self.state;
        if let Some(group) = self.groups.get_mut(id) {
            (group.tempo, group.tempo_of) = (tempo, (state, dirty, group.dirty));
        }
        tempo
    }

    /// Marks, and the rates of a group, for those who look.
    fn view(&self, group: Option<&PacedGroup>, marks: &Curve, dirty: &Dirty) -> PacePicture {
        let Some(group) = group else { return marks.picture() };
        let (position, pause) = (self.position(group, dirty.device.0), self.last_pause);
        group.picture(position, pause, marks.picture())
    }

    /// Notes that a task asks.
    fn seen(&mut self, id: GroupId, dirty: u64) {
        let group = self.groups.enter(id, self.bandwidth.average());
        group.dirty = dirty;
        if !group.is_active {
            self.groups.activate(id);
        }
    }
}

impl Pace for Rate {
    fn ask(&mut self, now: Instant, write: &Write, dirty: &Dirty, groups: &Groups) -> Grant {
        let now = self.advance(now, dirty, groups);
        let (id, device, size) = (write.group, dirty.device.0, write.size.0);
        self.seen(id, dirty.group.0);
        self.last_group = id;
        let is_free = self.place.is_free(device);
        let pass = if is_free { Pass::Free } else { Pass::Paced(self.tempo(id, device)) };
        let Some(task) = self.tasks.enter(now, write.task) else {
            return Grant::Wait(now + PAUSE_MAX, Reason::Dirty);
        };
        let is_due = match still_waits(task, now, self.generation, is_free, size) {
            Err(grant) => return grant,
            Ok(is_due) => is_due,
        };
        let mut cap = self.task_caps.of(write.task).filter(|_| write.fresh > Bytes::ZERO);
        if let Some(at) = cap.as_mut().and_then(|cap| cap.closed_until(now)) {
            return Grant::Wait(at, Reason::Budget);
        }
        let Some(group) = self.groups.get_mut(id) else {
            return Grant::Wait(now + PAUSE_MAX, Reason::Dirty);
        };
        if task.seen != self.interval {
            task.seen = self.interval;
            group.tasks_count += 1;
        }
        let portion = match &pass {
            Pass::Free => {
                group.ran_free = true;
                (self.place.margin(device) / 2).max(PAGE)
            }
            Pass::Paced(_) if write.fresh == Bytes::ZERO => size,
            Pass::Paced(tempo) => {
                let room = (self.place.device.limit.saturating_sub(device)) / PORTION_ROOM;
                match paced(task, group, (now, is_due), tempo, room) {
                    Err(until) => {
                        self.last_pause = until.since(now);
                        return Grant::Wait(until, Reason::Dirty);
                    }
                    Ok(fresh) => portion_of(write, fresh),
                }
            }
        };
        let capped = cap.as_ref().map_or(size, |cap| portion_of(write, cap.portion()));
        let granted = portion.min(capped).min(size).min(u64::from(u32::MAX));
        let at = (now, self.generation);
        let states = (&mut self.groups, groups);
        let (grant, fresh) = charge(states, task, at, write, granted, &pass);
        if let Some(cap) = cap {
            cap.charge(now, fresh);
        }
        if let Pass::Paced(tempo) = &pass {
            self.passed(id, fresh, tempo);
        }
        grant
    }

    fn gave_up(&mut self, task: TaskId) {
        if let Some(task) = self.tasks.get_mut(task) {
            task.stand = PaceWait::Free;
        }
    }

    fn dirtied(&mut self, _: Instant, group: GroupId, size: Bytes) {
        if let Some(group) = self.groups.get_mut(group) {
            group.dirtied = group.dirtied.saturating_add(size.0);
            group.dirty = group.dirty.saturating_add(size.0);
        }
    }

    fn cleaned(
        &mut self,
        now: Instant,
        group: GroupId,
        size: Bytes,
        dirty: &Dirty,
        groups: &Groups,
    ) {
        self.now = self.now.max(now);
        self.bandwidth.see(self.now, self.due(dirty), size);
        if let Some(group) = self.groups.get_mut(group) {
            group.dirty = dirty.group.0;
        }
        self.advance(now, dirty, groups);
    }

    fn spares_frames(&self) -> bool {
        true
    }

    fn set_budget(&mut self, _: Instant, budget: &Budget) {
        self.background = budget.device.background;
        self.place = DevicePosition::new(budget, self.bandwidth.average(), self.bandwidth.gap());
        self.state = self.state.wrapping_add(1).max(1);
    }

    fn set_pause_target(&mut self, pause: Nanos) {
        self.pause_target = pause;
        self.state = self.state.wrapping_add(1).max(1);
    }

    fn pause_target(&self) -> Option<Nanos> {
        Some(self.pause_target)
    }

    fn holds_limits(&self) -> bool {
        true
    }

    fn holds_caps(&self) -> bool {
        true
    }

    fn set_cap(&mut self, now: Instant, task: TaskId, rate: Option<NonZeroU64>) {
        self.now = self.now.max(now);
        self.task_caps.set(self.now, task, rate);
    }

    fn admitted(&mut self, now: Instant, id: GroupId, total: Total) {
        if let Some(group) = self.groups.get_mut(id) {
            group.caps.admitted(now, total);
        }
    }

    fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        self.now = self.now.max(now);
        let group = self.groups.enter(id, self.bandwidth.average());
        let is_changed = group.caps.set(self.now, &groups.settings(id).max);
        self.generation = self.generation.wrapping_add(u8::from(is_changed));
    }

    fn remove_group(&mut self, id: GroupId) {
        self.groups.remove(id);
    }

    /// Rates are those of the group that dirties most.
    fn picture(&self, dirty: &Dirty) -> PacePicture {
        let active = || self.groups.active.iter().filter_map(|&id| self.groups.get(id));
        let group = active().max_by_key(|group| group.dirty_rate);
        let group = group.or_else(|| self.groups.get(self.last_group));
        let position = self.place.position(dirty.device.0);
        PacePicture {
            dirty: dirty.device,
            write_bandwidth: self.bandwidth.average(),
            dirty_rate: BytesPerSec(active().map(|group| group.dirty_rate).sum()),
            position_permille: (position * 1_000 / ONE) as u32,
            ..self.view(group, &self.place.device, dirty)
        }
    }

    fn group_picture(&self, id: GroupId, dirty: &Dirty) -> Option<PacePicture> {
        let group = self.groups.get(id)?;
        let marks = self.place.part(group.share, dirty.device.0);
        let (dirty_rate, write_bandwidth) = (BytesPerSec(group.dirty_rate), group.bandwidth);
        Some(PacePicture {
            dirty: dirty.group,
            dirty_rate,
            write_bandwidth,
            ..self.view(Some(group), &marks, dirty)
        })
    }
}
