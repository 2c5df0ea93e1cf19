//! Shared mechanism: what a scheduler remembers of a task, in fixed point.
//!
//! Averages are exponential with weight 1/8, as in gsched_rr and the Linux anticipatory scheduler:
//! `sum <- sum + sample - sum/8`, `n <- n + 1 - n/8`, value = `sum/n`. Both are kept in 1/256
//! units, so that small values do not stick.

use crate::request::Extent;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// Fixed-point one.
const ONE: u64 = 256;

/// Samples after which an average is trusted: with weight 1/8 the first sample then has lost a
/// third of its weight. gsched_rr waits for 8, which at its depth of one costs a newcomer nearly a
/// slice.
const SAMPLES_TRUSTED: u64 = 4;

/// An exponential average of whole numbers below 2^48.
#[derive(Clone, Copy, Debug, Default)]
pub struct Average {
    sum: u64,
    weight: u64,
    samples_count: u64,
}

impl Average {
    /// Takes one more sample.
    pub fn add(&mut self, sample: u64) {
        let sample = sample.min(1 << 47) * ONE;
        self.sum = self.sum + sample - self.sum / 8;
        self.weight = self.weight + ONE - self.weight / 8;
        self.samples_count += 1;
    }

    /// The average, once there are samples enough to trust it.
    pub fn get(&self) -> Option<u64> {
        (self.samples_count >= SAMPLES_TRUSTED).then(|| self.sum / self.weight)
    }
}

/// What is known of one task.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskStats {
    /// From the completion of its last request to the submission of its next, in nanoseconds; taken
    /// only when it has nothing else queued or in flight.
    think: Average,
    /// Distance in bytes from the end of its last request to the next one.
    seek: Average,
    last_end: Option<Bytes>,
    last_done: Option<Instant>,
    last_used: Instant,
}

impl TaskStats {
    /// It submits a request. `is_alone`: nothing of it is queued or in flight. Longer think times
    /// and distances than the caps count as the caps, so that one pause is forgotten soon.
    pub fn submits(
        &mut self,
        now: Instant,
        extent: Extent,
        is_alone: bool,
        think_max: Nanos,
        seek_max: Bytes,
    ) {
        if let Some(done) = self.last_done.filter(|_| is_alone) {
            self.think.add(now.since(done).0.min(think_max.0));
        }
        if let Some(end) = self.last_end {
            self.seek.add(end.distance(extent.offset()).get().min(seek_max.get()));
        }
        self.last_end = Some(extent.end());
        self.last_used = now;
    }

    /// A request of it is done.
    pub fn done(&mut self, now: Instant) {
        self.last_done = Some(now);
        self.last_used = now;
    }

    /// Its mean think time, if known.
    pub fn think(&self) -> Option<Nanos> {
        self.think.get().map(Nanos)
    }

    /// Its mean seek distance, if known.
    pub fn seek(&self) -> Option<Bytes> {
        self.seek.get().map(Bytes)
    }

    /// When it was last heard of.
    pub fn last_used(&self) -> Instant {
        self.last_used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_follows_its_samples() {
        let mut average = Average::default();
        for _ in 0..3 {
            average.add(1_000);
        }
        assert_eq!(average.get(), None, "three samples are not trusted");
        average.add(1_000);
        assert!((998..=1_000).contains(&average.get().expect("trusted")));
        for _ in 0..60 {
            average.add(10);
        }
        let now = average.get().expect("known");
        assert!((9..=12).contains(&now), "{now}");
    }

    #[test]
    fn think_time_is_taken_only_when_the_task_is_alone() {
        let mut stats = TaskStats::default();
        let extent = |offset| Extent::new(Bytes(offset), Bytes(4096)).expect("small");
        let cap = (Nanos::from_millis(20), Bytes(65_536));
        for round in 0..10u64 {
            let now = Instant(round * 10_000_000);
            stats.submits(now, extent(round * 4096), round % 2 == 0, cap.0, cap.1);
            stats.done(now + Nanos::from_millis(if round % 2 == 0 { 1 } else { 7 }));
        }
        let think_us = stats.think().expect("trusted").0 / 1_000;
        assert!((2_990..=3_000).contains(&think_us), "{think_us} us");
        assert_eq!(stats.seek(), Some(Bytes(0)), "it was sequential");
    }
}
