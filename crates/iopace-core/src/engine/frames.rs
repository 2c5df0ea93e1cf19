//! Page frames for those who read: how much of its budget a device uses while tasks wait for it.

use super::memory::Memory;
use crate::pace::{Budget, Thresholds};
use crate::request::GroupId;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

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

/// What is dirty already stays allowed, and this part more: there a task has about half of its rate
/// (position 0.57), so dirty memory goes down and nobody stands still meanwhile.
const SPARE_PART: u64 = 32;

impl Memory {
    /// A task waits for the disk, or has waited until now.
    pub(super) fn reads(&mut self, now: Instant) {
        self.readers_at = Some(now);
    }

    /// How much may be dirty for the sake of those who read: all of the budget, or what write-back
    /// writes in [`HOLD`] seconds.
    pub(super) fn hold(&mut self, now: Instant) {
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
        let dirty = self.flusher.dirty(GroupId::ROOT).device.0;
        let now_dirty = dirty.saturating_add(dirty / SPARE_PART);
        let limit = wanted.max(self.held.limit.min(Bytes(now_dirty)));
        if limit != self.held.limit {
            self.use_of_budget(now, limit);
        }
    }

    /// Uses so much of the budget.
    pub(super) fn use_of_budget(&mut self, now: Instant, limit: Bytes) {
        let whole = self.budget.device;
        let background =
            u128::from(limit.0) * u128::from(whole.background.0) / u128::from(whole.limit.0.max(1));
        self.held = Thresholds { background: Bytes(background as u64), limit };
        self.pace.set_budget(now, &Budget { device: self.held, ..self.budget });
        self.door.ask_all(now);
    }
}
