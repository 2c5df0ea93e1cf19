//! Requests that come by the clock, whether earlier ones are finished or not.
//!
//! # Model
//! `requests` in `time`, either evenly (*constant*: the first at once, the n-th after exactly n
//! times the interval, rounded down) or as a *Poisson* process: intervals are independent and
//! exponential with the same mean, as of many users who know nothing of each other.
//!
//! # How an exponential interval is drawn without floats
//! By von Neumann's method ("Various techniques used in connection with random digits", 1951): draw
//! numbers evenly until one is not smaller than the one before it. If that run of falling numbers
//! has an odd length, its first number is the fraction of the result, and the number of runs thrown
//! away before is the whole part. Only comparisons are needed, so the result is exact to 2^-63 of
//! the mean and the same on every machine; it takes some six draws.

use crate::random::Random;
use iopace_core::time::Nanos;

/// How the intervals are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Process {
    /// All alike.
    #[default]
    Constant,
    /// Exponential.
    Poisson,
}

/// How often requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// So many requests, above 0 ...
    pub requests: u64,
    /// ... in this time. Intervals are computed in 128 bits: 2^56 ns (two years) are enough.
    pub time: Nanos,
    /// How they are distributed.
    pub process: Process,
    /// The rate is a ceiling of a program that waits (as `rate` of fio): latency counts from the
    /// submission. Otherwise it counts from when the request was due.
    pub is_ceiling: bool,
}

/// The unit of an interval drawn: its mean.
const ONE_SHIFT: u32 = 63;

/// Gives one instant after the other.
#[derive(Debug)]
pub struct Clock {
    arrivals: Arrivals,
    random: Random,
    count: u64,
    last: Nanos,
}

impl Clock {
    /// Begins at time zero.
    pub fn new(arrivals: Arrivals, random: Random) -> Clock {
        assert!(arrivals.requests > 0, "something comes");
        Clock { arrivals, random, count: 0, last: Nanos::ZERO }
    }

    /// When the next request is due, from the beginning.
    pub fn tick(&mut self) -> Nanos {
        let Arrivals { requests, time, process, .. } = self.arrivals;
        let (requests, time) = (u128::from(requests), u128::from(time.0.min(1 << 56)));
        let whole = |nanos: u128| Nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        match process {
            Process::Constant => {
                self.last = whole(u128::from(self.count) * time / requests);
                self.count += 1;
            }
            Process::Poisson => {
                let gap = exponential(&mut self.random) * time / requests;
                self.last += whole(gap >> ONE_SHIFT);
            }
        }
        self.last
    }
}

/// An exponential number with mean 2^63, below 2^72.
fn exponential(random: &mut Random) -> u128 {
    let mut draw = || random.below(1 << ONE_SHIFT);
    for whole in 0..256u128 {
        let first = draw();
        let (mut last, mut is_odd) = (first, true);
        loop {
            let next = draw();
            if next >= last {
                break;
            }
            (last, is_odd) = (next, !is_odd);
        }
        if is_odd {
            return whole << ONE_SHIFT | u128::from(first);
        }
    }
    // Once in e^256 draws.
    256 << ONE_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(requests: u64, time: Nanos, process: Process) -> Clock {
        let arrivals = Arrivals { requests, time, process, is_ceiling: false };
        Clock::new(arrivals, Random::new(1, "clock"))
    }

    #[test]
    fn a_constant_clock_does_not_drift() {
        let mut clock = clock(3, Nanos::from_secs(1), Process::Constant);
        let all: Vec<u64> = (0..7).map(|_| clock.tick().0).collect();
        let second = 1_000_000_000;
        let (one, two) = (333_333_333, 666_666_666);
        assert_eq!(all, [0, one, two, second, second + one, second + two, 2 * second]);
    }

    #[test]
    fn poisson_intervals_are_exponential() {
        let mean = 1_000_000u64;
        let mut clock = clock(1, Nanos(mean), Process::Poisson);
        let mut gaps = Vec::new();
        let mut last = 0;
        for _ in 0..100_000 {
            let now = clock.tick().0;
            gaps.push(now - last);
            last = now;
        }
        let got = last / 100_000;
        assert!(got.abs_diff(mean) < mean / 100, "mean {got}");
        // P(gap > t) is e^-t: 0.3679, 0.1353, 0.0183 at once, twice and four times the mean.
        for (times, permille) in [(1, 368), (2, 135), (4, 18)] {
            let above = gaps.iter().filter(|gap| **gap > times * mean).count() as u64 / 100;
            assert!(above.abs_diff(permille) <= 6, "{above} of 1000 above {times} means");
        }
        // The variance of an exponential is its mean squared.
        let variance = gaps.iter().map(|gap| u128::from(gap.abs_diff(mean)).pow(2)).sum::<u128>();
        let ratio = variance / 100_000 * 1_000 / u128::from(mean).pow(2);
        assert!((950..1_050).contains(&ratio), "{ratio}");
    }

    #[test]
    fn far_rates_do_not_overflow() {
        for process in [Process::Constant, Process::Poisson] {
            let mut slow = clock(1, Nanos(u64::MAX), process);
            assert!((0..1_000).map(|_| slow.tick()).is_sorted());
            let mut fast = clock(u64::MAX, Nanos(1), process);
            assert!((0..1_000).all(|_| fast.tick() == Nanos::ZERO));
        }
    }
}
