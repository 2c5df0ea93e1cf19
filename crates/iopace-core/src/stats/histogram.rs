//! Histograms of times.

use crate::time::Nanos;
use core::fmt;

/// Powers of two covered: at least up to 2^40 ns, some 18 minutes; longer times count in the last
/// bucket.
const POWERS: usize = 40;

/// A log-linear histogram of times with `SUB` buckets per power of two (itself a power of two, 2 at
/// the least): fixed size, O(1) to record, mergeable.
#[derive(Clone)]
pub struct LogHistogram<const SUB: usize> {
    buckets: [[u32; SUB]; POWERS],
    /// How many found their bucket full.
    beyond_count: u64,
    max_ns: u64,
    sum_ns: u128,
}

/// Exact to 1/16, about 6 %; 2.5 KiB.
pub type Histogram = LogHistogram<16>;

/// Exact to 1/4; 0.7 KiB. For what there are thousands of.
pub type SmallHistogram = LogHistogram<4>;

/// A time with its place among buckets of a 16th: found once, where several histograms count it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) time: Nanos,
    place: usize,
}

impl Placed {
    #[inline(always)]
    pub(crate) fn new(time: Nanos) -> Placed {
        Placed { time, place: Histogram::place(time.0) }
    }
}

impl<const SUB: usize> Default for LogHistogram<SUB> {
    fn default() -> LogHistogram<SUB> {
        LogHistogram { buckets: [[0; SUB]; POWERS], beyond_count: 0, max_ns: 0, sum_ns: 0 }
    }
}

impl<const SUB: usize> LogHistogram<SUB> {
    /// Binary logarithm of the buckets per power.
    const SUB_POWER: usize = SUB.trailing_zeros() as usize;

    /// One that has counted nothing: made with the first time, which is rare.
    #[cold]
    #[inline(never)]
    pub(crate) fn empty() -> Box<Self> {
        Box::default()
    }

    /// The bucket here of each bucket of a 16th, which lies within it.
    const PLACES: &'static [u16; 16 * POWERS] = &{
        let (mut places, mut place) = ([0; 16 * POWERS], 0);
        while place < places.len() {
            places[place] = Self::index(Histogram::end_of(place)) as u16;
            place += 1;
        }
        places
    };

    /// Counts one time.
    #[inline]
    pub fn record(&mut self, time: Nanos) {
        self.count_at(Self::place(time.0), time);
    }

    /// The same of a time that others count as well.
    #[inline]
    pub(crate) fn record_placed(&mut self, placed: Placed) {
        let Placed { time, place } = placed;
        match Self::PLACES.get(place) {
            Some(place) if SUB < 16 => self.count_at(usize::from(*place), time),
            _ => self.count_at(place, time),
        }
    }

    #[inline]
    fn count_at(&mut self, place: usize, time: Nanos) {
        match self.buckets.as_flattened_mut().get_mut(place) {
            Some(bucket) => {
                *bucket = bucket.wrapping_add(1);
                if *bucket == 0 {
                    *bucket = u32::MAX;
                    self.count_at_end(place);
                }
            }
            None => self.count_at_end(place),
        }
        if time.0 > self.max_ns {
            self.max_ns = time.0;
        }
        self.sum_ns += u128::from(time.0);
    }

    /// Counts a time beyond the last bucket in that one, and one whose bucket is full.
    #[cold]
    #[inline(never)]
    fn count_at_end(&mut self, place: usize) {
        let place = place.min(SUB * POWERS - 1);
        add(&mut self.buckets.as_flattened_mut()[place], 1, &mut self.beyond_count);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        let buckets = self.buckets.as_flattened().iter();
        self.beyond_count + buckets.map(|bucket| u64::from(*bucket)).sum::<u64>()
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
            let between = self.buckets.as_flattened().get(from..end).unwrap_or_default();
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
        let mean = self.sum_ns.checked_div(u128::from(self.count())).unwrap_or(0);
        Nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// The time that `permille` of 1000 did not exceed, rounded up to its bucket's end; zero when
    /// nothing was counted. 500 is the median, 990 the 99th percentile.
    pub fn quantile(&self, permille: u64) -> Nanos {
        let wanted = u128::from(self.count()) * u128::from(permille.min(1000));
        let rank = wanted.div_ceil(1000).max(1);
        let mut seen = 0u128;
        for (index, bucket) in self.buckets.as_flattened().iter().enumerate() {
            seen += u128::from(*bucket);
            if seen >= rank {
                return Nanos(Self::end_of(index).min(self.max_ns));
            }
        }
        Nanos(self.max_ns)
    }

    /// Adds all that another one counted.
    pub fn merge(&mut self, other: &Self) {
        let theirs = other.buckets.as_flattened();
        for (mine, theirs) in self.buckets.as_flattened_mut().iter_mut().zip(theirs) {
            add(mine, *theirs, &mut self.beyond_count);
        }
        self.beyond_count += other.beyond_count;
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    /// The same with buckets of a larger part of a power, within which these lie.
    pub fn coarser<const LESS: usize>(&self) -> LogHistogram<LESS> {
        const { assert!(LESS <= SUB) };
        let mut coarser = LogHistogram::<LESS> {
            beyond_count: self.beyond_count,
            max_ns: self.max_ns,
            sum_ns: self.sum_ns,
            ..LogHistogram::default()
        };
        for (index, count) in self.buckets.as_flattened().iter().enumerate() {
            let place = LogHistogram::<LESS>::index(Self::end_of(index));
            let bucket = &mut coarser.buckets.as_flattened_mut()[place];
            add(bucket, *count, &mut coarser.beyond_count);
        }
        coarser
    }

    /// What was counted since `earlier`, a former state of this one. How long the longest took is
    /// known only if it is the longest of all; else it is told as the end of its bucket.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (mut since, mut longest_ns) = (self.clone(), 0);
        let both = since.buckets.as_flattened_mut().iter_mut().zip(earlier.buckets.as_flattened());
        for (place, (bucket, before)) in both.enumerate() {
            *bucket = bucket.saturating_sub(*before);
            if *bucket > 0 {
                longest_ns = Self::end_of(place).min(self.max_ns);
            }
        }
        since.beyond_count = self.beyond_count.saturating_sub(earlier.beyond_count);
        since.sum_ns = self.sum_ns.saturating_sub(earlier.sum_ns);
        let is_new = self.max_ns > earlier.max_ns;
        since.max_ns = if is_new { self.max_ns } else { longest_ns };
        since
    }

    /// Values below `SUB` have a bucket each; above, the top bits choose: what is left of a value
    /// of the power `shift` above `SUB` is from `SUB` to twice that.
    #[inline]
    const fn place(nanos_ns: u64) -> usize {
        let shift = (nanos_ns | SUB as u64).ilog2() as usize - Self::SUB_POWER;
        shift * SUB + (nanos_ns >> shift) as usize
    }

    /// The same of a time of whatever length: the longest ones are in the last bucket.
    const fn index(nanos_ns: u64) -> usize {
        let place = Self::place(nanos_ns);
        if place < SUB * POWERS { place } else { SUB * POWERS - 1 }
    }

    /// The largest value that falls into the bucket.
    const fn end_of(index: usize) -> u64 {
        if index < SUB {
            return index as u64;
        }
        let (shift, sub) = (index / SUB - 1, (index % SUB) as u64);
        (1 << (shift + Self::SUB_POWER)) + ((sub + 1) << shift) - 1
    }
}

/// Adds to a bucket as many as it can hold.
fn add(bucket: &mut u32, count: u32, beyond_count: &mut u64) {
    *beyond_count += (u64::from(*bucket) + u64::from(count)).saturating_sub(u32::MAX.into());
    *bucket = bucket.saturating_add(count);
}

impl<const SUB: usize> fmt::Debug for LogHistogram<SUB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times, mean {}, max {}", self.count(), self.mean(), self.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_buckets<const SUB: usize>() {
        for power in 0..39 {
            for value in [(1u64 << power) - 1, 1 << power, (1 << power) + 1, 3 << power >> 1] {
                let index = LogHistogram::<SUB>::index(value);
                assert!(value <= LogHistogram::<SUB>::end_of(index), "{value}");
                assert!(index == 0 || value > LogHistogram::<SUB>::end_of(index - 1), "{value}");
            }
        }
        assert_eq!(LogHistogram::<SUB>::index(u64::MAX), SUB * POWERS - 1);
    }

    #[test]
    fn every_value_lies_in_its_bucket() {
        check_buckets::<16>();
        check_buckets::<4>();
    }

    #[test]
    fn a_bucket_that_is_full_stays_full() {
        let mut histogram = Histogram::default();
        histogram.buckets[0][7] = u32::MAX - 1;
        (0..3).for_each(|_| histogram.record(Nanos(7)));
        let count = u64::from(u32::MAX) + 2;
        assert_eq!((histogram.buckets[0][7], histogram.count()), (u32::MAX, count));
        assert_eq!(histogram.coarser::<4>().count(), count);
        let once = histogram.clone();
        histogram.merge(&once);
        assert_eq!((histogram.buckets[0][7], histogram.count()), (u32::MAX, 2 * count));
        assert_eq!(histogram.since(&once).count(), count);
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
    fn quantiles_are_exact_to_a_bucket() {
        let (mut histogram, mut small) = (Histogram::default(), SmallHistogram::default());
        for value in 1..=10_000u64 {
            histogram.record(Nanos(value * 1_000));
            small.record(Nanos(value * 1_000));
        }
        for (permille, exact) in [(500, 5_000_000u64), (990, 9_900_000), (1000, 10_000_000)] {
            let got = histogram.quantile(permille).0;
            assert!(got >= exact && got <= exact + exact / 16, "{permille}: {got}");
            let got = small.quantile(permille).0;
            assert!(got >= exact && got <= exact + exact / 4, "{permille}: {got}");
        }
        assert_eq!(histogram.mean(), Nanos(5_000_500));
        let coarser: SmallHistogram = histogram.coarser();
        assert_eq!(coarser.buckets, small.buckets);
        assert_eq!((coarser.mean(), coarser.max()), (small.mean(), small.max()));
        assert_eq!(Histogram::default().quantile(990), Nanos::ZERO);
    }

    /// Five stages and ten thousand groups: some 35 MB on a device where all of them waited for
    /// everything.
    #[test]
    fn thousands_of_groups_can_have_histograms() {
        assert!(size_of::<SmallHistogram>() <= 700 && size_of::<Histogram>() <= 2_600);
    }

    #[test]
    fn what_came_since_is_what_another_would_have_counted() {
        let mut all = Histogram::default();
        [3, 900, 5_000_000].into_iter().for_each(|value| all.record(Nanos(value)));
        let earlier = all.clone();
        assert_eq!((all.since(&earlier).count(), all.since(&earlier).max()), (0, Nanos::ZERO));
        let mut later = Histogram::default();
        for value in (1..=500).map(|value| Nanos(value * 777)) {
            all.record(value);
            later.record(value);
        }
        let since = all.since(&earlier);
        assert_eq!(since.buckets, later.buckets);
        assert_eq!((since.count(), since.sum()), (500, later.sum()));
        assert_eq!(since.quantile(500), later.quantile(500));
        // The longest of all came earlier.
        let (longest, exact) = (since.max().0, later.max().0);
        assert!((exact..=exact + exact / 16).contains(&longest), "{longest}");
        all.record(Nanos(7_000_001));
        assert_eq!(all.since(&earlier).max(), Nanos(7_000_001));
    }
}
