//! Counts of what a device did. Whole numbers; nothing here decides anything.

use crate::request::{Op, Outcome, StageTimes};
use crate::time::Nanos;
use crate::units::Bytes;
use core::fmt;

/// Sub-buckets per power of two: a quantile is exact to 1/16, about 6 %.
const SUB_BUCKETS: usize = 16;
/// Powers of two covered: up to 2^40 ns, some 18 minutes; longer times count in the last bucket.
const POWERS: usize = 40;

/// A log-linear histogram of times: fixed size, O(1) to record, mergeable.
#[derive(Clone)]
pub struct Histogram {
    buckets: [u32; SUB_BUCKETS * POWERS],
    count: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: [0; SUB_BUCKETS * POWERS], count: 0, max_ns: 0, sum_ns: 0 }
    }
}

impl Histogram {
    /// Counts one time.
    pub fn record(&mut self, time: Nanos) {
        let bucket = &mut self.buckets[Self::index(time.0)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.max_ns = self.max_ns.max(time.0);
        self.sum_ns += u128::from(time.0);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All of them together; at most 2^64 ns are told.
    pub fn sum(&self) -> Nanos {
        Nanos(u64::try_from(self.sum_ns).unwrap_or(u64::MAX))
    }

    /// How many were shorter than so many powers of two of nanoseconds, one after the other: exact,
    /// as the buckets end there.
    ///
    /// # Panics
    /// If a power is above 40.
    pub fn below_powers(&self, powers: impl IntoIterator<Item = u32>) -> Vec<u64> {
        let (mut from, mut seen) = (0, 0);
        let mut all = Vec::new();
        for power in powers {
            let end = Self::index((1u64 << power) - 1) + 1;
            let between = self.buckets.get(from..end).unwrap_or_default();
            seen += between.iter().map(|count| u64::from(*count)).sum::<u64>();
            from = from.max(end);
            all.push(seen);
        }
        all
    }

    /// The longest one.
    pub fn max(&self) -> Nanos {
        Nanos(self.max_ns)
    }

    /// The mean, zero when nothing was counted.
    pub fn mean(&self) -> Nanos {
        let mean = self.sum_ns.checked_div(u128::from(self.count)).unwrap_or(0);
        Nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The time that `permille` of 1000 did not exceed, rounded up to its bucket's end; zero when
    /// nothing was counted. 500 is the median, 990 the 99th percentile.
    pub fn quantile(&self, permille: u64) -> Nanos {
        let wanted = u128::from(self.count) * u128::from(permille.min(1000));
        let rank = wanted.div_ceil(1000).max(1);
        let mut seen = 0u128;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += u128::from(*bucket);
            if seen >= rank {
                return Nanos(Self::end_of(index).min(self.max_ns));
            }
        }
        Nanos(self.max_ns)
    }

    /// Adds all that another one counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// Values below 16 have a bucket each; above, the top five bits choose.
    fn index(nanos_ns: u64) -> usize {
        if nanos_ns < SUB_BUCKETS as u64 {
            return nanos_ns as usize;
        }
        let power = 63 - nanos_ns.leading_zeros() as usize;
        let sub = (nanos_ns >> (power - 4)) as usize & (SUB_BUCKETS - 1);
        ((power - 3) * SUB_BUCKETS + sub).min(SUB_BUCKETS * POWERS - 1)
    }

    /// The largest value that falls into the bucket.
    fn end_of(index: usize) -> u64 {
        if index < SUB_BUCKETS {
            return index as u64;
        }
        let (power, sub) = (index / SUB_BUCKETS + 3, (index % SUB_BUCKETS) as u64);
        let width = 1u64 << (power - 4);
        (1 << power) + (sub + 1) * width - 1
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times, mean {}, max {}", self.count, self.mean(), self.max())
    }
}

/// What a device did for one direction.
#[derive(Clone, Debug, Default)]
pub struct DirectionStats {
    /// Requests finished, failed ones included.
    pub finished_count: u64,
    /// Requests that ended with an error.
    pub failed_count: u64,
    /// Bytes of those that were carried out.
    pub bytes: Bytes,
    /// From arrival to completion.
    pub latency: Histogram,
}

/// What somebody's requests moved and where their time went, as in `io.stat`.
#[derive(Clone, Debug, Default)]
pub struct OpCounts {
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written, zeroes included.
    pub written: Bytes,
    /// Reads finished.
    pub reads_count: u64,
    /// Writes finished, zeroes included.
    pub writes_count: u64,
    /// Bytes discarded.
    pub discarded: Bytes,
    /// Discards (trims) finished.
    pub discards_count: u64,
    /// Flushes finished.
    pub flushes_count: u64,
    /// Requests that ended with an error; their bytes are not counted.
    pub failed_count: u64,
    /// Time spent per stage, summed.
    pub stages: StageTimes,
}

impl OpCounts {
    /// Counts one finished request.
    pub(crate) fn finish(&mut self, op: Op, size: Bytes, outcome: Outcome, times: &StageTimes) {
        let (ios, bytes) = match op {
            Op::Read | Op::Cache => (&mut self.reads_count, &mut self.read),
            Op::Write | Op::WriteZeroes => (&mut self.writes_count, &mut self.written),
            Op::Trim => (&mut self.discards_count, &mut self.discarded),
            Op::Flush => (&mut self.flushes_count, &mut self.written),
        };
        *ios += 1;
        match outcome {
            Outcome::Ok => *bytes += size,
            Outcome::Failed(_) | Outcome::Refused => self.failed_count += 1,
        }
        self.stages.add(times);
    }
}

/// What a device did.
#[derive(Clone, Debug, Default)]
pub struct DeviceStats {
    /// Reads and cache hints.
    pub read: DirectionStats,
    /// Writes, trims and write-zeroes.
    pub write: DirectionStats,
    /// Flushes.
    pub flush: DirectionStats,
    /// Requests refused at the door because the table was full.
    pub refused_count: u64,
    /// Time spent per stage, summed over all finished requests.
    pub stages: StageTimes,
    /// Schedulers exchanged on purpose.
    pub exchanged_count: u64,
    /// Schedulers replaced because they failed.
    pub failed_over_count: u64,
}

impl DeviceStats {
    /// Counts one finished request.
    pub(crate) fn finish(&mut self, op: Op, size: Bytes, outcome: Outcome, times: &StageTimes) {
        let direction = match op {
            Op::Read | Op::Cache => &mut self.read,
            Op::Write | Op::Trim | Op::WriteZeroes => &mut self.write,
            Op::Flush => &mut self.flush,
        };
        direction.finished_count += 1;
        match outcome {
            Outcome::Ok => direction.bytes += size,
            Outcome::Failed(_) | Outcome::Refused => direction.failed_count += 1,
        }
        direction.latency.record(times.total());
        self.stages.add(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for power in 0..39 {
            for value in [(1u64 << power) - 1, 1 << power, (1 << power) + 1, 3 << power >> 1] {
                let index = Histogram::index(value);
                assert!(value <= Histogram::end_of(index), "{value}");
                assert!(index == 0 || value > Histogram::end_of(index - 1), "{value}");
            }
        }
        assert_eq!(Histogram::index(u64::MAX), SUB_BUCKETS * POWERS - 1);
    }

    #[test]
    fn powers_of_two_are_counted_exactly() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 15, 16, 31, 32, 1 << 20, (1 << 20) - 1, 1 << 35] {
            histogram.record(Nanos(value));
        }
        assert_eq!(histogram.below_powers([4, 5, 20, 21, 35, 36]), [3, 5, 7, 8, 8, 9]);
        assert_eq!(histogram.sum().0, 95 + (2 << 20) - 1 + (1 << 35));
    }

    #[test]
    fn quantiles_are_exact_to_a_sixteenth() {
        let mut histogram = Histogram::default();
        for value in 1..=10_000u64 {
            histogram.record(Nanos(value * 1_000));
        }
        for (permille, exact) in [(500, 5_000_000u64), (990, 9_900_000), (1000, 10_000_000)] {
            let got = histogram.quantile(permille).0;
            assert!(got >= exact && got <= exact + exact / 16, "{permille}: {got}");
        }
        assert_eq!(histogram.mean(), Nanos(5_000_500));
        assert_eq!(Histogram::default().quantile(990), Nanos::ZERO);
    }
}
