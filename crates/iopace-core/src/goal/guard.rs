//! The guard of others: the rate of a program falls while they are late, and comes back.

use super::{Controller, Goals, Seen};

/// A verdict on others needs so many requests, or as many as came within so many ticks.
const OTHERS_COUNT: u64 = 100;
const OTHERS_TICKS: u32 = 16;

/// The guard leaves a program this part of its best rate.
const FLOOR: u64 = 256;

/// And not less than so many bytes a second: some requests in a window, and less than a hundredth
/// of the time of a disk.
pub(super) const FLOOR_BYTES_S: u64 = 32 << 10;

/// Of so many requests of others one may be late: the 99th percentile.
const LATE_ONE_IN: u64 = 100;

/// The rate that a guarded program begins with, if earlier runs tell its best one.
pub(super) fn first(goals: &Goals) -> Option<u64> {
    let is_known = goals.guarded && goals.best.0 > 0;
    is_known.then_some((goals.best.0 / 64).max(FLOOR_BYTES_S))
}

impl Controller {
    /// The rate that the guard allows now; none if it does not hold the program back.
    pub(super) fn guarded(&self) -> Option<u64> {
        self.guard.filter(|_| self.quiet < OTHERS_TICKS)
    }

    /// Counts others, and cuts or raises the rate when there are enough of them for a verdict.
    pub(super) fn guard(&mut self, seen: &Seen) {
        // Nothing is known of the others, or of the rate that would be cut.
        if seen.is_blind || !self.is_measured {
            return;
        }
        self.quiet = if seen.others_count == 0 { self.quiet.saturating_add(1) } else { 0 };
        let (count, late, ticks) = &mut self.others;
        *count = count.saturating_add(seen.others_count);
        *late = late.saturating_add(seen.late_count);
        *ticks += 1;
        // So many are late already that the rest of those for a verdict cannot make up for them.
        let is_late = late.saturating_mul(LATE_ONE_IN) > (*count).max(OTHERS_COUNT);
        if *count < OTHERS_COUNT && *ticks < OTHERS_TICKS && !is_late {
            return;
        }
        let is_late = late.saturating_mul(LATE_ONE_IN) > *count;
        let is_alone = *count == 0;
        self.others = (0, 0, 0);
        self.guard = match self.guard {
            guard if is_late => {
                let rate = guard.map_or(self.rate, |guard| guard.min(self.rate.max(guard / 2)));
                Some((rate / 2).max(self.best / FLOOR).max(FLOOR_BYTES_S))
            }
            Some(guard) if !is_alone => {
                let more = guard.saturating_add((guard / 8).max(self.best / 128));
                (more < self.best.saturating_mul(2)).then_some(more)
            }
            guard => guard,
        };
    }
}
