//! Where the time of a request goes: by reason, and by the stages that have these reasons.

use crate::time::Nanos;
use crate::verdict::Reason;

/// The stages of a request's way, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Waiting to dirty memory; buffered writes only.
    Pace,
    /// Waiting for a slot or budget.
    Admit,
    /// Queued because it was not its turn, or another task was anticipated.
    Sched,
    /// Queued while the window was full.
    Window,
    /// At the device.
    Disk,
}

impl Stage {
    /// All of them, in order.
    pub const ALL: [Stage; 5] =
        [Stage::Pace, Stage::Admit, Stage::Sched, Stage::Window, Stage::Disk];

    /// The word for it in tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Pace => "pace",
            Stage::Admit => "admit",
            Stage::Sched => "sched",
            Stage::Window => "window",
            Stage::Disk => "disk",
        }
    }
}

/// Where sums of times end.
const SUM_MAX: u64 = u64::MAX >> 1;

/// Where a finished request spent its time, by reason. The parts sum to the total exactly.
///
/// A buffered write spends time in stage pace only; what it moves is a request of its own later
/// (write-back). All other requests spend none there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Stage pace: memory is dirtied faster than the device cleans it.
    pub dirty: Nanos,
    /// Stage pace: as much is dirty as may be.
    pub memory: Nanos,
    /// Stage pace: a limit of the group or of one above it is used up, for which buffered writes
    /// wait before they are in memory.
    pub pace_budget: Nanos,
    /// Stage admit: no slot was free, or its group had all that it may have.
    pub slot: Nanos,
    /// Stage admit: a limit of the group or of one above it was used up.
    pub budget: Nanos,
    /// Stage sched: others had their turn.
    pub turn: Nanos,
    /// Stage sched: the disk was kept idle for the next request of the task in service.
    pub anticipation: Nanos,
    /// Stage window: it was to be next, and the device held as many requests as it may.
    pub window: Nanos,
    /// At the device. A flush waits here for the write-back of what it covers as well.
    pub disk: Nanos,
}

impl StageTimes {
    /// Time in stage pace.
    pub fn pace(&self) -> Nanos {
        self.dirty + self.memory + self.pace_budget
    }

    /// Time in stage admit.
    pub fn admit(&self) -> Nanos {
        self.slot + self.budget
    }

    /// Time in stage sched.
    pub fn sched(&self) -> Nanos {
        self.turn + self.anticipation
    }

    /// Time in a stage.
    pub fn by_stage(&self, stage: Stage) -> Nanos {
        match stage {
            Stage::Pace => self.pace(),
            Stage::Admit => self.admit(),
            Stage::Sched => self.sched(),
            Stage::Window => self.window,
            Stage::Disk => self.disk,
        }
    }

    /// Time for a reason, in whatever stage; none for [`Reason::Idle`].
    pub fn by_reason(&self, reason: Reason) -> Nanos {
        match reason {
            Reason::Idle => Nanos::ZERO,
            Reason::Dirty => self.dirty,
            Reason::Memory => self.memory,
            Reason::Slot => self.slot,
            Reason::Budget => self.budget + self.pace_budget,
            Reason::Turn => self.turn,
            Reason::Anticipation => self.anticipation,
            Reason::Window => self.window,
            Reason::Disk => self.disk,
        }
    }

    /// From arrival to completion.
    pub fn total(&self) -> Nanos {
        self.pace() + self.admit() + self.sched() + self.window + self.disk
    }

    /// Adds those of another request.
    pub fn add(&mut self, other: &StageTimes) {
        self.dirty += other.dirty;
        self.memory += other.memory;
        self.pace_budget += other.pace_budget;
        self.add_behind_pace(other, other.total());
    }

    /// Adds those of a request that spent nothing in stage pace, as all that are for the disk, and
    /// `total` in all. Most waited in stages sched and window and for the disk only. Sums end at
    /// 2^63 ns, some 292 years: so no addition of two wraps around, and one look at the highest
    /// bits says whether there is room.
    #[inline]
    pub(crate) fn add_behind_pace(&mut self, other: &StageTimes, total: Nanos) {
        let turn = self.turn.0.wrapping_add(other.turn.0);
        let anticipation = self.anticipation.0.wrapping_add(other.anticipation.0);
        let window = self.window.0.wrapping_add(other.window.0);
        let disk = self.disk.0.wrapping_add(other.disk.0);
        let is_full = (turn | anticipation | window | disk | total.0) > SUM_MAX;
        if other.slot.0 | other.budget.0 > 0 || is_full {
            return self.add_all(other);
        }
        (self.turn, self.anticipation) = (Nanos(turn), Nanos(anticipation));
        (self.window, self.disk) = (Nanos(window), Nanos(disk));
    }

    /// The same whatever it waited for, and whether or not there is room.
    #[inline(never)]
    fn add_all(&mut self, other: &StageTimes) {
        for (sum, time) in [
            (&mut self.slot, other.slot),
            (&mut self.budget, other.budget),
            (&mut self.turn, other.turn),
            (&mut self.anticipation, other.anticipation),
            (&mut self.window, other.window),
            (&mut self.disk, other.disk),
        ] {
            *sum = (*sum + time).min(Nanos(SUM_MAX));
        }
    }

    /// Adds time in stage pace. What is neither for memory nor for a limit is for the rate.
    pub(crate) fn pace_for(&mut self, reason: Reason, time: Nanos) {
        match reason {
            Reason::Memory => self.memory += time,
            Reason::Budget => self.pace_budget += time,
            _ => self.dirty += time,
        }
    }

    /// What was added since `earlier`, a former state of this sum.
    #[must_use]
    pub fn since(&self, earlier: &StageTimes) -> StageTimes {
        StageTimes {
            slot: self.slot.saturating_sub(earlier.slot),
            budget: self.budget.saturating_sub(earlier.budget),
            turn: self.turn.saturating_sub(earlier.turn),
            anticipation: self.anticipation.saturating_sub(earlier.anticipation),
            window: self.window.saturating_sub(earlier.window),
            disk: self.disk.saturating_sub(earlier.disk),
            ..self.pace_since(earlier)
        }
    }

    /// The time in stage pace since another reading of the same sums.
    pub(crate) fn pace_since(&self, earlier: &StageTimes) -> StageTimes {
        StageTimes {
            dirty: self.dirty.saturating_sub(earlier.dirty),
            memory: self.memory.saturating_sub(earlier.memory),
            pace_budget: self.pace_budget.saturating_sub(earlier.pace_budget),
            ..StageTimes::default()
        }
    }
}

/// Readings of the engine's clocks of queued time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Queued {
    /// The window was full.
    pub(crate) full: Nanos,
    /// The window was full until a request of the same task started.
    pub(crate) own: Nanos,
    /// A task was anticipated.
    pub(crate) anticipation: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_and_reasons_both_sum_to_the_total() {
        let times = StageTimes {
            dirty: Nanos(1),
            memory: Nanos(2),
            pace_budget: Nanos(4),
            slot: Nanos(8),
            budget: Nanos(16),
            turn: Nanos(32),
            anticipation: Nanos(64),
            window: Nanos(128),
            disk: Nanos(256),
        };
        let stages = Stage::ALL.map(|stage| times.by_stage(stage).0);
        assert_eq!(stages, [7, 24, 96, 128, 256]);
        let reasons = Reason::ALL.map(|reason| times.by_reason(reason).0);
        assert_eq!(reasons, [0, 1, 2, 8, 20, 32, 64, 128, 256]);
        let mut twice = times;
        twice.add(&times);
        assert_eq!((times.total(), twice.total()), (Nanos(511), Nanos(1022)));
    }

    #[test]
    fn a_sum_that_is_full_stays_full() {
        let disk = |ns| StageTimes { disk: Nanos(ns), turn: Nanos(1), ..StageTimes::default() };
        let mut sum = disk(SUM_MAX - 5);
        for (ns, expected) in [(5, SUM_MAX), (1, SUM_MAX), (u64::MAX, SUM_MAX), (7, SUM_MAX)] {
            sum.add(&disk(ns));
            assert_eq!(sum.disk, Nanos(expected));
        }
        assert_eq!(sum.turn, Nanos(5), "the others go on");
    }
}
