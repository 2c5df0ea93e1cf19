//! What a load generator saw: bytes and requests in steps of 10 ms, latencies, and how even a rate
//! was over windows.

use iopace_core::stats::Histogram;
use iopace_core::time::Nanos;
use serde::Serialize;
use std::time::{Duration, Instant};

/// A step of the counters: windows are sums of whole steps.
pub const STEP: Duration = Duration::from_millis(10);

/// When a check begins, when it begins to count, and when it ends.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The first request.
    pub begin: Instant,
    /// Behind the start: queues are full, bursts used up.
    pub steady_from: Instant,
    /// Nothing is submitted any more.
    pub end: Instant,
}

impl Times {
    /// From now on.
    pub fn from_now(settle: Duration, steady: Duration) -> Times {
        let begin = Instant::now();
        Times { begin, steady_from: begin + settle, end: begin + settle + steady }
    }

    /// How long is counted.
    pub fn steady(&self) -> Duration {
        self.end - self.steady_from
    }
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Counts {
    /// Bytes.
    Bytes,
    /// Requests, each as so many.
    Requests(f64),
}

/// What one connection did.
#[derive(Clone, Debug)]
pub struct Tally {
    times: Times,
    /// Bytes and requests finished in each step of the steady time.
    steps: Vec<(u64, u64)>,
    /// Bytes finished before it.
    start_bytes: u64,
    /// Latencies of the requests that finished in the steady time.
    pub latencies: Histogram,
}

/// How far windows of one length were from the rate that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Windows {
    /// Their length.
    pub window_ms: u64,
    /// How many there were.
    pub count: usize,
    /// The lowest, in percent of what was asked for.
    pub lowest_percent: f64,
    /// The highest.
    pub highest_percent: f64,
    /// How many were above the bound and the one request that an edge can move.
    pub above_count: usize,
    /// How many were below it.
    pub below_count: usize,
}

impl Counts {
    /// Requests, each as one.
    pub const EACH: Counts = Counts::Requests(1.0);

    /// What so many bytes and requests are.
    fn amount(self, (bytes, requests): (u64, u64)) -> f64 {
        match self {
            Counts::Bytes => bytes as f64,
            Counts::Requests(each) => requests as f64 * each,
        }
    }
}

impl Tally {
    /// Nothing yet.
    pub fn new(times: Times) -> Tally {
        let steps = times.steady().as_nanos().div_ceil(STEP.as_nanos());
        let steps = vec![(0, 0); usize::try_from(steps).unwrap_or(0)];
        Tally { times, steps, start_bytes: 0, latencies: Histogram::default() }
    }

    /// A request has finished.
    pub fn record(&mut self, now: Instant, bytes: u64, latency: Duration) {
        let Some(since) = now.checked_duration_since(self.times.steady_from) else {
            self.start_bytes += bytes;
            return;
        };
        let step = usize::try_from(since.as_nanos() / STEP.as_nanos()).unwrap_or(usize::MAX);
        // What finishes behind the end was submitted in time, and counts nowhere.
        let Some(step) = self.steps.get_mut(step) else { return };
        step.0 += bytes;
        step.1 += 1;
        self.latencies.record(Nanos(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)));
    }

    /// Adds what another connection did in the same time.
    pub fn merge(&mut self, other: &Tally) {
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
        self.start_bytes += other.start_bytes;
        self.latencies.merge(&other.latencies);
    }

    /// Bytes and requests of the steady time.
    pub fn total(&self) -> (u64, u64) {
        self.steps.iter().fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1))
    }

    /// Bytes, or requests, per second of the steady time.
    pub fn rate(&self, counts: Counts) -> f64 {
        counts.amount(self.total()) / self.times.steady().as_secs_f64()
    }

    /// Bytes per second before the steady time.
    pub fn start_rate(&self) -> f64 {
        let start = (self.times.steady_from - self.times.begin).as_secs_f64();
        if start > 0.0 { self.start_bytes as f64 / start } else { 0.0 }
    }

    /// Windows one after the other: how far from `asked` per second they were. `bound` is a part of
    /// it, `one` is what one request counts: it may lie on either side of an edge.
    pub fn windows(
        &self,
        window: Duration,
        counts: Counts,
        asked: f64,
        (bound, one): (f64, f64),
    ) -> Option<Windows> {
        let per_window = usize::try_from(window.as_millis() / STEP.as_millis()).ok()?;
        let expected = asked * window.as_secs_f64();
        let sums: Vec<f64> = self
            .steps
            .chunks_exact(per_window)
            .map(|steps| steps.iter().map(|step| counts.amount(*step)).sum())
            .collect();
        let lowest = sums.iter().copied().reduce(f64::min)?;
        let highest = sums.iter().copied().reduce(f64::max)?;
        let room = expected * bound + one;
        Some(Windows {
            window_ms: u64::try_from(window.as_millis()).ok()?,
            count: sums.len(),
            lowest_percent: (lowest / expected - 1.0) * 100.0,
            highest_percent: (highest / expected - 1.0) * 100.0,
            above_count: sums.iter().filter(|sum| **sum > expected + room).count(),
            below_count: sums.iter().filter(|sum| **sum < expected - room).count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A second at the start, two that count, and a request of 1000 bytes every 10 ms.
    fn even() -> Tally {
        let times = Times::from_now(1000 * MS, 2000 * MS);
        let mut tally = Tally::new(times);
        for at in 0..300 {
            tally.record(times.begin + at * 10 * MS + MS, 1000, 2 * MS);
        }
        tally
    }

    #[test]
    fn the_start_is_told_apart_and_what_comes_late_counts_nowhere() {
        let mut tally = even();
        assert_eq!(tally.total(), (200_000, 200));
        assert!((tally.rate(Counts::Bytes) - 100_000.0).abs() < 1e-6);
        assert!((tally.rate(Counts::EACH) - 100.0).abs() < 1e-6);
        assert!((tally.rate(Counts::Requests(8.0)) - 800.0).abs() < 1e-6);
        assert!((tally.start_rate() - 100_000.0).abs() < 1e-6);
        tally.record(tally.times.end + MS, 1000, MS);
        assert_eq!((tally.total(), tally.latencies.count()), ((200_000, 200), 200));
        let twice = tally.clone();
        tally.merge(&twice);
        assert_eq!((tally.total(), tally.latencies.count()), ((400_000, 400), 400));
    }

    #[test]
    fn a_window_is_judged_with_the_request_on_its_edge() {
        let mut tally = even();
        let bound = (0.05, 1000.0);
        let windows = |tally: &Tally| tally.windows(100 * MS, Counts::Bytes, 100_000.0, bound);
        let is_even = windows(&tally).expect("there are some");
        assert_eq!((is_even.window_ms, is_even.count), (100, 20));
        assert_eq!((is_even.above_count, is_even.below_count), (0, 0));
        assert!(is_even.highest_percent.abs() < 1e-6 && is_even.lowest_percent.abs() < 1e-6);
        // One more request in a window may be one of its edges; two are not.
        let first = tally.times.steady_from + 50 * MS;
        tally.record(first, 1000, MS);
        assert_eq!(windows(&tally).map(|windows| windows.above_count), Some(0));
        tally.record(first, 1000, MS);
        assert_eq!(windows(&tally).map(|windows| windows.above_count), Some(1));
        let slow =
            tally.windows(100 * MS, Counts::Bytes, 200_000.0, bound).expect("there are some");
        assert_eq!(slow.below_count, 20);
        assert!(
            tally.windows(5000 * MS, Counts::Bytes, 1.0, bound).is_none(),
            "longer than the time"
        );
    }
}
