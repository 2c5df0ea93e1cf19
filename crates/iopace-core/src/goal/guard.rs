//! The guard of others: the rate of a program falls while they are late, and comes back.

use super::{Controller, Goals, Seen};

/// A verdict on others needs so many requests, or as many as came within so many ticks.
const OTHERS_COUNT: u64 = 100;
pub(super) const OTHERS_TICKS: u32 = 16;

/// The guard leaves a program this part of its best rate.
pub(super) const FLOOR: u64 = 256;

/// And not less than so many bytes a second: some requests in a window, and less than a hundredth
/// of the time of a disk.
pub(super) const FLOOR_BYTES_S: u64 = 32 << 10;

/// The rate that the guard allows grows by this part with each good verdict.
const RISE: u64 = 16;

/// Of so many requests of others one may be late: the 99th percentile.
const LATE_ONE_IN: u64 = 100;

/// The rate that a guarded program begins with, if earlier runs tell its best one.
pub(super) fn first(goals: &Goals) -> Option<u64> {
    let is_known = (goals.guarded || goals.by.is_some()) && goals.best.0 > 0;
    is_known.then_some((goals.best.0 / 64).max(FLOOR_BYTES_S))
}

impl Controller {
    /// The rate that the guard allows now; none if it does not hold the program back.
    pub(super) fn guarded(&self) -> Option<u64> {
        if self.quiet >= OTHERS_TICKS || self.probe.is_open {
            return None;
        }
        match &self.alone {
            Some(alone) if !alone.has_slack => None,
            Some(alone) if alone.is_pause() => Some(self.floor()),
            _ => self.guard,
        }
    }

    /// The least that the guard leaves a program.
    fn floor(&self) -> u64 {
        (self.best / FLOOR).max(FLOOR_BYTES_S)
    }

    /// Counts others, and cuts or raises the rate when there are enough of them for a verdict.
    pub(super) fn guard(&mut self, seen: &Seen<'_>) {
        let is_unseen = seen.others_count == 0 || seen.is_blind;
        self.quiet = match seen.is_blind {
            // The guard that was asked for stays as it is; the other one ends with those it is for.
            true if self.alone.is_none() => self.quiet,
            _ if is_unseen => self.quiet.saturating_add(1),
            _ => 0,
        };
        // Nothing is known of the others, or of the rate that would be cut.
        if seen.is_blind || !self.is_measured {
            return;
        }
        // It does not hold the program now, or the program waits: others say nothing of the rate.
        if self.alone.as_ref().is_some_and(|alone| alone.is_pause() || !alone.has_slack) {
            self.others = (0, 0, 0);
            return;
        }
        let new_late = self.alone.as_ref().map_or(seen.late_count, |alone| alone.late(seen.times));
        let (count, late, ticks) = &mut self.others;
        *count = count.saturating_add(seen.others_count);
        *late = late.saturating_add(new_late);
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
                Some((rate / 2).max(self.floor()))
            }
            Some(guard) if !is_alone => {
                let more = guard.saturating_add((guard / RISE).max(self.best / 128));
                (more < self.best.saturating_mul(2)).then_some(more)
            }
            guard => guard,
        };
    }
}
