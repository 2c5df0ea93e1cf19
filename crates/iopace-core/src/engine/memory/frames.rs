//! Page frames for those who read: how much of its budget a device uses while tasks wait for it.

use crate::limits::PORTION_MAX;
use crate::pace::{Budget, Thresholds};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, scaled};

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

/// The part of its budget that a device uses.
#[derive(Debug)]
pub(super) struct Frames {
    budget: Budget,
    /// The part of it that is used while readers need the frames.
    held: Thresholds,
    /// Written back since the last look, and per second on average.
    written: u64,
    written_rate: u64,
    looked_at: Instant,
}

impl Frames {
    /// All of a memory that nothing else uses.
    pub(super) fn new(thresholds: Thresholds) -> Frames {
        Frames {
            budget: Budget::alone(thresholds),
            held: thresholds,
            written: 0,
            written_rate: 0,
            looked_at: Instant::ZERO,
        }
    }

    /// The part that the device may use.
    pub(super) fn budget(&self) -> Budget {
        self.budget
    }

    /// The largest portion of a write: a quarter of the limit at most, so that none is larger than
    /// all the room that there is.
    pub(super) fn portion_max(&self) -> Bytes {
        PORTION_MAX.min(Bytes(self.budget.device.limit.0 / 4)).max(Bytes(1))
    }

    /// Whether so much may become dirty beside what is.
    pub(super) fn has_room(&self, dirty: Bytes, fresh: Bytes) -> bool {
        let all = dirty.0.saturating_add(fresh.0);
        fresh == Bytes::ZERO || dirty == Bytes::ZERO || all <= self.budget.device.limit.0
    }

    /// The part that it uses.
    pub(super) fn used(&self) -> Budget {
        Budget { device: self.held, ..self.budget }
    }

    /// It may use that from now on.
    pub(super) fn set_budget(&mut self, budget: &Budget) {
        let is_held = self.held.limit < self.budget.device.limit;
        self.budget = *budget;
        let limit = budget.device.limit;
        self.hold(if is_held { self.held.limit.min(limit) } else { limit });
    }

    /// So much was written back.
    pub(super) fn wrote(&mut self, size: Bytes) {
        self.written += size.0;
    }

    /// Learns how much may be dirty for the sake of those who read: all of the budget, or what
    /// write-back writes in [`HOLD`] seconds. True if that is another size than before. `read_at`:
    /// when a task last waited for the disk, if readers are to keep their frames.
    pub(super) fn look(&mut self, now: Instant, dirty: Bytes, read_at: Option<Instant>) -> bool {
        let passed = now.since(self.looked_at);
        self.looked_at = now;
        let rate = scaled(std::mem::take(&mut self.written), 1_000_000_000, passed.0);
        let old = self.written_rate;
        self.written_rate = old - old / WRITTEN_INTERVALS + rate / WRITTEN_INTERVALS;
        let whole = self.budget.device;
        let is_read = read_at.is_some_and(|at| now.since(at) < READERS_LAST);
        let least = HELD_MIN.max(Bytes(whole.limit.0 / HELD_PART));
        let wanted = match is_read {
            true => whole.limit.min(least.max(Bytes(self.written_rate.saturating_mul(HOLD)))),
            false => whole.limit,
        };
        let now_dirty = dirty.0.saturating_add(dirty.0 / SPARE_PART);
        let limit = wanted.max(self.held.limit.min(Bytes(now_dirty)));
        let is_news = limit != self.held.limit;
        if is_news {
            self.hold(limit);
        }
        is_news
    }

    /// Uses so much of the budget.
    fn hold(&mut self, limit: Bytes) {
        let whole = self.budget.device;
        let background = Bytes(scaled(limit.0, whole.background.0, whole.limit.0));
        self.held = Thresholds { background, limit };
    }
}
