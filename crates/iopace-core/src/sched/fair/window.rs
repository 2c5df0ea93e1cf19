//! Rates of few and many: one measurement at some depth, and a rate over many.

use super::load::FEW;
use crate::time::{Instant, Nanos};

/// The few done in a window, or [`WINDOW_MAX`] is over: some 5 % of chance in what they got.
pub(super) const WINDOW_FEW: u64 = 24;

/// The many done in a window: as many as were there, twice.
const WINDOW_TURNS: u32 = 2;

/// Longest window.
pub(super) const WINDOW_MAX: Nanos = Nanos::from_secs(2);

/// If requests of the few are there for less than this part of the time, at most a tenth can be
/// gained for them: nothing is tried.
pub(super) const LITTLE: u64 = 10;

/// A rate is a mean over this time, about.
const TALLY_MAX: Nanos = Nanos::from_secs(2);

/// One measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ShareWindow {
    pub(super) since: Instant,
    /// Requests of the few that are done, and how long they took in all, waits included.
    pub(super) few: u64,
    pub(super) few_time: Nanos,
    /// Those of the many, and what was done by them.
    pub(super) many: u32,
    pub(super) work: u64,
    /// The most of the many that were at the disk.
    pub(super) peak: u32,
    /// Weights of the two sides when it began.
    pub(super) weights: [u32; 2],
}

impl ShareWindow {
    /// The change that one request more or less of the few would make in the score.
    pub(super) fn chance(&self) -> i64 {
        let [few, many] = self.weights.map(i64::from);
        2 * few * (log2(self.few + 1) - log2(self.few)) / (few + many).max(1)
    }

    /// Whether it has enough of both sides, or has lasted long enough.
    #[inline]
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let has_many = self.many >= WINDOW_TURNS * self.peak.max(FEW);
        (self.few >= WINDOW_FEW && has_many) || now.since(self.since) >= WINDOW_MAX
    }

    /// Whether the few would gain something if they were served at once.
    pub(super) fn pays(&self, now: Instant) -> bool {
        self.few_time.times(LITTLE) >= now.since(self.since)
    }

    /// Counts of both sides in it.
    pub(super) fn had(&self, now: Instant) -> Had {
        let tally = |count| ServiceTally { count, time: now.since(self.since) };
        Had { few: tally(self.few), many: tally(self.work) }
    }

    /// The logarithm of the product of the throughputs, with weights as exponents.
    pub(super) fn score(&self, now: Instant) -> i64 {
        let time = log2(now.since(self.since).0);
        let rates = [log2(self.few) - time, log2(self.work) - time];
        let [few, many] = self.weights.map(i64::from);
        2 * (few * rates[0] + many * rates[1]) / (few + many).max(1)
    }
}

/// Rates of both sides: requests of the few, work of the many.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Had {
    pub(super) few: ServiceTally,
    pub(super) many: ServiceTally,
}

impl Had {
    pub(super) fn join(&mut self, other: &Had) {
        self.few.add(other.few.count, other.few.time);
        self.many.add(other.many.count, other.many.time);
    }
}

/// So much in so much time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServiceTally {
    count: u64,
    time: Nanos,
}

impl ServiceTally {
    pub(super) fn add(&mut self, count: u64, time: Nanos) {
        (self.count, self.time) = (self.count + count, self.time + time);
        if self.time > TALLY_MAX {
            (self.count, self.time) = (self.count / 2, Nanos(self.time.0 / 2));
        }
    }

    pub(super) fn time(&self) -> Nanos {
        self.time
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// So much comes in that time.
    pub(super) fn in_time(&self, time: Nanos) -> u64 {
        let product = u128::from(self.count) * u128::from(time.0);
        u64::try_from(product / u128::from(self.time.0.max(1))).unwrap_or(u64::MAX)
    }

    /// The logarithm of the rate, see [`log2`].
    pub(super) fn rate(&self) -> i64 {
        log2(self.count) - log2(self.time.0)
    }
}

/// The binary logarithm in 256ths; of zero as of one.
pub(super) fn log2(x: u64) -> i64 {
    let x = x.max(1);
    let mut log = i64::from(x.ilog2());
    // A number of at least one and below two, with 63 bits behind the point, is squared: if that is
    // two or more the next bit of its logarithm is one.
    let mut rest = u128::from(x << x.leading_zeros());
    for _ in 0..8 {
        rest = (rest * rest) >> 63;
        let bit = rest >> 64;
        log = 2 * log + i64::from(bit != 0);
        rest >>= bit;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right() {
        assert_eq!([1, 2, 3, 1 << 63].map(log2), [0, 256, 405, 63 * 256]);
        assert_eq!(log2(u64::MAX), 64 * 256 - 1);
    }
}
