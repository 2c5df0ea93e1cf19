//! The latency of others, as reports tell it.

use crate::stats::Histogram;
use crate::time::Nanos;

/// How long requests of others took in a tick, as a report tells it of a task, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OthersTimes {
    /// Requests that ended.
    pub count: u64,
    /// The median.
    pub p50: Nanos,
    /// The 99th percentile.
    pub p99: Nanos,
    /// The longest.
    pub max: Nanos,
}

/// More requests of one report than so many weigh no more.
const WEIGHT_MAX: u64 = 1_000;

impl OthersTimes {
    /// How many took longer than the goal, as far as two quantiles say it.
    pub fn late_count(&self, goal: Nanos) -> u64 {
        match self {
            times if times.p50 > goal => times.count.div_ceil(2),
            times if times.p99 > goal => times.count.div_ceil(50),
            _ => 0,
        }
    }

    /// Adds times with these quantiles to a histogram; how many.
    pub(super) fn record(&self, histogram: &mut Histogram) -> u64 {
        let count = self.count.min(WEIGHT_MAX);
        // Those from the 99th percentile on, the longest one among them.
        let last = count - (count * 99).div_ceil(100) + 1;
        for place in 0..count {
            histogram.record(match count - place {
                1 => self.max,
                from_end if from_end <= last => self.p99,
                _ => self.p50,
            });
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: u64) -> OthersTimes {
        OthersTimes { count, p50: Nanos(5), p99: Nanos(20), max: Nanos(50) }
    }

    #[test]
    fn quantiles_say_how_many_are_late() {
        let late = |goal| of(300).late_count(Nanos(goal));
        assert_eq!((late(4), late(10), late(20)), (150, 6, 0));
    }

    #[test]
    fn a_histogram_has_the_quantiles_of_its_reports() {
        for count in [100, 200, 1_000, 1 << 40] {
            let mut histogram = Histogram::default();
            assert_eq!(of(count).record(&mut histogram), count.min(WEIGHT_MAX));
            let found = [500, 990, 1_000].map(|permille| histogram.quantile(permille).0);
            assert_eq!(found, [5, 20, 50], "{count}");
        }
        let mut histogram = Histogram::default();
        (0..100).for_each(|_| assert_eq!(of(1).record(&mut histogram), 1));
        assert_eq!((of(0).record(&mut histogram), histogram.quantile(10)), (0, Nanos(50)));
    }
}
