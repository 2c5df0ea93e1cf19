//! How much is left, how long it will take, and the rate that it needs.

use super::{Controller, MARGIN, Seen, WHOLE};
use crate::time::Nanos;
use crate::units::{Bytes, BytesPerSec, scaled};

impl Controller {
    /// The rate that is expected for the rest.
    fn foreseen(&self, rest: Bytes, mean: u64, spent: Nanos) -> u64 {
        if self.recent == 0 || mean == 0 {
            return mean.max(self.recent);
        }
        let left = BytesPerSec(mean).time_for(rest);
        let part = scaled(spent.0 / 2, WHOLE, (spent.0 / 2).saturating_add(left.0));
        scaled(self.recent, part, WHOLE).saturating_add(scaled(mean, WHOLE - part, WHOLE))
    }

    /// How long the rest takes.
    pub(super) fn left(&self, rest: Bytes, mean: u64, plan: Option<Nanos>) -> Option<Nanos> {
        let spent = self.begun.map_or(Nanos::ZERO, |(began, _)| self.last.since(began));
        let rate = self.foreseen(rest, mean, spent);
        let rate = self.goals.limit.map_or(rate, |limit| rate.min(limit.0));
        let at_rate = (rate > 0).then(|| BytesPerSec(rate).time_for(rest));
        // Pushed, it has a quarter more than it needs: 1/1.25, and most of that is given.
        let at_most = plan.map(|plan| Nanos(plan.0 / 10 * 9));
        let left = match (at_rate, at_most) {
            (Some(left), Some(at_most)) => left.min(at_most),
            (left, at_most) => left.or(at_most)?,
        };
        match self.best {
            0 => Some(left),
            best => Some(left.max(BytesPerSec(best).time_for(rest))),
        }
    }
}

/// The bytes that are still to be moved, as far as they are known.
pub(super) fn rest(seen: &Seen<'_>) -> Option<Bytes> {
    let expected = seen.expected?;
    match seen.moved < expected {
        true => Some(expected - seen.moved),
        // So many more that nobody knows how much there is.
        false if seen.moved.0 - expected.0 > expected.0 / MARGIN => None,
        false => Some(Bytes((seen.moved.0 / 64).max(1))),
    }
}

/// The time that is planned for the rest: not the last thirty-second part, and not the last two
/// ticks, in which nothing can be put right any more.
pub(super) fn plan(left: Nanos, tick: Nanos) -> Nanos {
    Nanos(left.0 - left.0 / 32).saturating_sub(tick.times(2))
}

/// The mean of so many numbers of which the last one is `new`; zero is none yet.
pub(super) fn mean(before: u64, new: u64, count: u64) -> u64 {
    match before {
        0 => new,
        before => before - before / count + new / count,
    }
}

/// The rate that moves `bytes` in `time`; as much as there is if there is no time left.
pub(super) fn rate_for(bytes: Bytes, time: Nanos) -> u64 {
    match time {
        Nanos::ZERO => u64::MAX,
        time => scaled(bytes.0, 1_000_000_000, time.0),
    }
}

/// The rate at which `bytes` were moved in `time`; nothing in no time.
pub(super) fn rate_in(bytes: Bytes, time: Nanos) -> u64 {
    match time {
        Nanos::ZERO => 0,
        time => scaled(bytes.0, 1_000_000_000, time.0),
    }
}
