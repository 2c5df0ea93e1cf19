//! The base rate: what one task gets at the set point (`dirty_ratelimit`).
//!
//! ```text
//!   balanced = task_rate x bandwidth / dirty_rate       task_rate = base rate x position
//! ```
//! N tasks that each dirty `task_rate` make `dirty_rate = N x task_rate`, so `balanced` is
//! `bandwidth / N` without anybody having counted tasks; a task that writes less than it may leaves
//! the rest to the others. The base rate moves towards it every 200 ms, but only when position and
//! rate agree on the direction, and by less the smaller the gap: position alone corrects a few
//! per cent.
//!
//! Two bounds are ours: with n tasks seen the true value lies between `bandwidth / n` and
//! `bandwidth`, and so does the estimate; and a gap of more than a factor of two, on which the last
//! two estimates and position agree, is no noise and is closed at once.
//!
//! 1. With estimates free of noise the balanced rate is `bandwidth / N` after one interval, for any
//!    number of tasks and any base rate.
//! 2. The base rate does not move while position and estimate disagree.
//! 3. It is within 30 % of the balanced rate after 20 intervals (4 s), from a ten-thousandth or
//!    ten thousand times of it.
//! 4. It is never 0 and never more than the bandwidth after an update.
//!
//! Source: wb_update_dirty_ratelimit of Linux (mm/page-writeback.c), Wu Fengguang.

use super::position::{ONE, scale};
use crate::units::{BytesPerSec, scaled};

/// No task is slower, whatever the estimate: 100 000 tasks at a disk of 10 MB/s.
const RATE_MIN: u64 = 64;

/// The part of a gap that is closed in an interval, at most: one in so many.
const STEPS: u64 = 8;

/// The base rate of one group of tasks, bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BaseRate {
    pub(super) rate: u64,
    /// The last estimate.
    pub(super) balanced: u64,
}

/// What an interval has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct IntervalFigures {
    /// Position, in 1/65536.
    pub(super) position: u64,
    pub(super) dirty_rate: BytesPerSec,
    pub(super) bandwidth: BytesPerSec,
    /// Tasks seen.
    pub(super) tasks_count: u32,
}

impl BaseRate {
    pub(super) fn new(rate: BytesPerSec) -> BaseRate {
        BaseRate { rate: rate.0, balanced: rate.0 }
    }

    /// What a task gets at a position.
    pub(super) fn task_rate(&self, position: u64) -> u64 {
        scale(self.rate, position)
    }

    /// Goes down at once to what is right if all tasks seen want all they can get.
    pub(super) fn brake(&mut self, bandwidth: BytesPerSec, tasks_count: u32) {
        let rate = (bandwidth.0 / u64::from(tasks_count.max(1))).max(RATE_MIN);
        self.rate = self.rate.min(rate);
        self.balanced = self.balanced.min(rate);
    }

    /// Learns from an interval.
    pub(super) fn update(&mut self, shown: &IntervalFigures) {
        let bandwidth = shown.bandwidth.0.max(RATE_MIN);
        self.rate = self.rate.clamp(RATE_MIN, bandwidth);
        let task_rate = self.task_rate(shown.position);
        let balanced = scaled(task_rate, bandwidth, shown.dirty_rate.0);
        let least = bandwidth / u64::from(shown.tasks_count.max(1));
        let balanced = balanced.clamp(least, bandwidth).max(RATE_MIN);
        let last = std::mem::replace(&mut self.balanced, balanced);
        if shown.position > ONE {
            let agreed = last.min(balanced).min(task_rate).min(bandwidth);
            let gap = agreed.saturating_sub(self.rate);
            self.rate += if gap >= self.rate { gap } else { step(self.rate, gap) };
        } else {
            let agreed = last.max(balanced).max(task_rate);
            let gap = self.rate.saturating_sub(agreed);
            self.rate -= if gap >= self.rate / 2 { gap } else { step(self.rate, gap) };
        }
        self.rate = self.rate.clamp(RATE_MIN, bandwidth);
    }
}

/// The kernel's step: an eighth of the gap, and half of that again for each time that twice the
/// gap goes into the rate.
fn step(rate: u64, gap: u64) -> u64 {
    let shift = rate / (2 * gap + 1);
    if shift >= 64 { 0 } else { (gap >> shift).div_ceil(STEPS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(position: u64, dirty_rate: u64, bandwidth: u64, tasks_count: u32) -> IntervalFigures {
        let (dirty_rate, bandwidth) = (BytesPerSec(dirty_rate), BytesPerSec(bandwidth));
        IntervalFigures { position, dirty_rate, bandwidth, tasks_count }
    }

    const BANDWIDTH: u64 = 100_000_000;

    #[test]
    fn p1_the_balanced_rate_is_right_after_one_interval() {
        for tasks in [1, 10, 100, 1_000, 10_000] {
            for start in [1_000, 1_000_000, BANDWIDTH] {
                for position in [ONE / 2, ONE, ONE * 3 / 2] {
                    let mut base = BaseRate::new(BytesPerSec(start));
                    let dirty_rate = base.task_rate(position) * tasks;
                    base.update(&shown(position, dirty_rate, BANDWIDTH, u32::MAX));
                    let gap = base.balanced.abs_diff(BANDWIDTH / tasks);
                    assert!(gap <= BANDWIDTH / tasks / 100, "{tasks} {start} {base:?}");
                }
            }
        }
    }

    #[test]
    fn p2_it_does_not_move_while_position_and_estimate_disagree() {
        // Twice as fast as it should be, and dirty memory below the set point all the same.
        let mut base = BaseRate::new(BytesPerSec(2_000_000));
        base.update(&shown(ONE + 1, 200_000_000, BANDWIDTH, 100));
        base.update(&shown(ONE + 1, 200_000_000, BANDWIDTH, 100));
        assert_eq!((base.rate, base.balanced), (2_000_000, 1_000_015));
        // Half as fast, and above it.
        let mut base = BaseRate::new(BytesPerSec(500_000));
        base.update(&shown(ONE, 50_000_000, BANDWIDTH, 100));
        base.update(&shown(ONE, 50_000_000, BANDWIDTH, 100));
        assert_eq!((base.rate, base.balanced), (500_000, 1_000_000));
    }

    #[test]
    fn p3_it_comes_near_in_four_seconds_from_any_start() {
        for tasks in [1, 10, 100, 1_000, 10_000] {
            for start in [10_000, 100_000, 10_000_000, BANDWIDTH] {
                let wanted = BANDWIDTH / tasks;
                let mut base = BaseRate::new(BytesPerSec(start));
                for _ in 0..20 {
                    // Position as it is far from the set point on the side where the error leads.
                    let position = if base.rate < wanted { ONE * 2 } else { ONE / 4 };
                    let dirty_rate = base.task_rate(position) * tasks;
                    base.update(&shown(position, dirty_rate, BANDWIDTH, tasks as u32));
                }
                assert!(base.rate.abs_diff(wanted) <= wanted * 3 / 10, "{tasks} {start} {base:?}");
            }
        }
    }

    #[test]
    fn p4_it_is_never_zero_and_never_above_the_bandwidth() {
        for position in [0, 1, ONE, 32 * ONE] {
            for dirty_rate in [0, 1, BANDWIDTH, u64::MAX] {
                for bandwidth in [0, 1, BANDWIDTH, 1 << 56] {
                    for tasks in [0, 1, u32::MAX] {
                        let mut base = BaseRate::new(BytesPerSec(BANDWIDTH));
                        for _ in 0..5 {
                            base.update(&shown(position, dirty_rate, bandwidth, tasks));
                            let most = bandwidth.max(RATE_MIN);
                            assert!((RATE_MIN..=most).contains(&base.rate));
                        }
                    }
                }
            }
        }
    }
}
