//! Shared mechanism: what a scheduler remembers of a task, and for how long.
//!
//! Averages are exponential with weight 1/8, as in gsched_rr and the Linux anticipatory scheduler:
//! `sum <- sum + sample - sum/8`, `n <- n + 1 - n/8`, value = `sum/n`. Both are kept in 1/256
//! units, so that small values do not stick.

use super::roster::Roster;
use crate::limits::TASKS_MAX;
use crate::request::{Area, Position, RequestId, TaskId};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use core::ops::{Deref, DerefMut};

/// Fixed-point one.
const ONE: u64 = 256;

/// Samples after which an average is trusted: with weight 1/8 the first sample then has lost a
/// third of its weight. gsched_rr waits for 8, which at its depth of one costs a newcomer nearly a
/// slice.
const SAMPLES_TRUSTED: u32 = 4;

/// The weight after so many samples; it grows with each of them.
const WEIGHT_TRUSTED: u64 = {
    let (mut weight, mut samples) = (0, 0);
    while samples < SAMPLES_TRUSTED {
        weight += ONE - weight / 8;
        samples += 1;
    }
    weight
};

/// A task without requests is forgotten after this long (geom_sched's expire_secs).
pub(super) const FORGET: Nanos = Nanos::from_secs(10);

/// An exponential average of whole numbers below 2^48.
#[derive(Clone, Copy, Debug, Default)]
pub struct Average {
    sum: u64,
    weight: u64,
}

impl Average {
    /// Takes one more sample.
    #[inline]
    pub fn add(&mut self, sample: u64) {
        let sample = sample.min(1 << 47) * ONE;
        self.sum = self.sum + sample - self.sum / 8;
        self.weight = self.weight + ONE - self.weight / 8;
    }

    /// The average, once there are samples enough to trust it.
    pub fn get(&self) -> Option<u64> {
        (self.weight >= WEIGHT_TRUSTED).then(|| self.sum / self.weight)
    }
}

/// What is known of one task.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskStats {
    /// From the completion of its last request to the submission of its next, in nanoseconds; taken
    /// only when it has nothing else queued or in flight.
    think: Average,
    /// Distance in bytes from the end of its last request to the next one.
    seek: Average,
    last_end: Option<Position>,
    last_done: Option<Instant>,
    last_used: Instant,
}

impl TaskStats {
    /// It submits a request. `is_alone`: nothing of it is queued or in flight. Longer think times
    /// and distances than the caps count as the caps, so that one pause is forgotten soon.
    #[inline]
    pub fn submits(
        &mut self,
        now: Instant,
        area: Area,
        is_alone: bool,
        think_max: Nanos,
        seek_max: Bytes,
    ) {
        if let Some(done) = self.last_done.filter(|_| is_alone) {
            self.think.add(now.since(done).0.min(think_max.0));
        }
        if let Some(end) = self.last_end {
            self.seek.add(end.distance(area.begin()).get().min(seek_max.get()));
        }
        self.last_end = Some(area.end());
        self.last_used = now;
    }

    /// A request of it is done.
    #[inline]
    pub fn done(&mut self, now: Instant) {
        self.last_done = Some(now);
        self.last_used = now;
    }

    /// Its mean think time, if known.
    pub fn think(&self) -> Option<Nanos> {
        self.think.get().map(Nanos)
    }

    /// Its mean seek distance, if known.
    pub fn seek(&self) -> Option<Bytes> {
        self.seek.get().map(Bytes)
    }

    /// When it was last heard of.
    pub fn last_used(&self) -> Instant {
        self.last_used
    }
}

/// One task.
#[derive(Debug, Default)]
pub(super) struct ScheduledTask<Q> {
    pub(super) stats: TaskStats,
    pub(super) queued: u32,
    pub(super) in_flight: u32,
    /// Its requests, if they are kept by task.
    pub(super) queue: Q,
}

impl<Q> ScheduledTask<Q> {
    /// Whether nothing of it is queued or at the disk.
    pub(super) fn is_idle(&self) -> bool {
        self.queued == 0 && self.in_flight == 0
    }
}

/// The tasks of a scheduler, by number. Now and then those that were not heard of for [`FORGET`]
/// are forgotten; when there are too many, all idle ones.
#[derive(Debug, Default)]
pub(super) struct ScheduledTasks<Q> {
    roster: Roster<TaskId, ScheduledTask<Q>>,
    /// The task of the request in each slot of the engine's table.
    by_slot: Vec<u32>,
    /// When idle tasks are looked for next, or at how many tasks.
    forget_at: (Instant, usize),
}

impl<Q: Default> ScheduledTasks<Q> {
    /// The number of the task of a request, which is known from then on.
    #[inline(always)]
    pub(super) fn enter(&mut self, id: RequestId, key: TaskId) -> u32 {
        let known = self.roster.find(key);
        let task = known.unwrap_or_else(|| self.roster.insert(key, |_| ScheduledTask::default()));
        match self.by_slot.get_mut(id.slot as usize) {
            Some(place) => *place = task,
            None => self.grow(id.slot as usize, task),
        }
        task
    }

    #[cold]
    fn grow(&mut self, slot: usize, task: u32) {
        self.by_slot.resize(slot, u32::MAX);
        self.by_slot.push(task);
    }

    /// The number of the task of a request that has come by [`ScheduledTasks::enter`].
    #[inline]
    pub(super) fn of(&self, id: RequestId) -> u32 {
        self.by_slot[id.slot as usize]
    }

    /// Looks for tasks to forget if it is time; `kept` is not forgotten.
    #[inline]
    pub(super) fn forget(&mut self, now: Instant, kept: Option<u32>) {
        if now >= self.forget_at.0 || self.roster.len() >= self.forget_at.1 {
            self.forget_idle(now, kept);
        }
    }

    #[cold]
    fn forget_idle(&mut self, now: Instant, kept: Option<u32>) {
        let is_full = self.roster.len() >= self.forget_at.1;
        self.roster.retain(|number, task| {
            let is_recent = !is_full && now.since(task.stats.last_used()) < FORGET;
            is_recent || !task.is_idle() || kept == Some(number)
        });
        // More busy tasks than the limit: not a walk for each request.
        self.forget_at = (now + FORGET, TASKS_MAX.max(self.roster.len() * 2));
    }
}

impl<Q> Deref for ScheduledTasks<Q> {
    type Target = Roster<TaskId, ScheduledTask<Q>>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.roster
    }
}

impl<Q> DerefMut for ScheduledTasks<Q> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.roster
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Extent;

    #[test]
    fn an_average_follows_its_samples() {
        let mut average = Average::default();
        for _ in 0..3 {
            average.add(1_000);
        }
        assert_eq!(average.get(), None, "three samples are not trusted");
        average.add(1_000);
        assert!((998..=1_000).contains(&average.get().expect("trusted")));
        for _ in 0..60 {
            average.add(10);
        }
        let now = average.get().expect("known");
        assert!((9..=12).contains(&now), "{now}");
    }

    #[test]
    fn think_time_is_taken_only_when_the_task_is_alone() {
        let mut stats = TaskStats::default();
        let extent = |offset| Extent::new(Bytes(offset), Bytes(4096)).expect("small");
        let cap = (Nanos::from_millis(20), Bytes(65_536));
        for round in 0..10u64 {
            let now = Instant(round * 10_000_000);
            stats.submits(now, extent(round * 4096).into(), round % 2 == 0, cap.0, cap.1);
            stats.done(now + Nanos::from_millis(if round % 2 == 0 { 1 } else { 7 }));
        }
        let think_us = stats.think().expect("trusted").0 / 1_000;
        assert!((2_990..=3_000).contains(&think_us), "{think_us} us");
        assert_eq!(stats.seek(), Some(Bytes(0)), "it was sequential");
    }
}
