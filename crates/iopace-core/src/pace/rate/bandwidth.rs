//! How fast the device writes back, learned from what it has written.
//!
//! Time counts only while something is on its way to the disk, so that an idle disk does not look
//! slow. At intervals of at least 200 ms of such time the mean of the last four seconds moves, and
//! the average follows as long as the mean keeps departing from it in one direction (the filter of
//! Linux, wb_update_write_bandwidth).
//!
//! Two changes. At first the mean is over all that was measured so far, so that the guess of the
//! beginning is gone with the first interval. And a device that completes in bursts (an NFS commit)
//! is averaged over four of its longest recent gaps: over four seconds, a burst every five looks
//! like a device that stops and restarts. What is longer than the longest gap that can be averaged
//! so is no gap between bursts: the device (or this program) stood still, which says little about
//! its rate. It is then taken for what it was before, less one such gap, until it writes again.
//!
//! 1. A steady rate is known after the first interval and kept exactly.
//! 2. Idle time does not count.
//! 3. After a change the average is within a tenth in 12 s.
//! 4. Bursts of whatever gap up to 5 s move the average by no more than a sixth.
//! 5. After a standstill of more than 8 s, however long and whether looked at or not, the average
//!    is three quarters of what it was, and within a tenth in 6 s.

use crate::time::{Instant, Nanos};
use crate::units::{Bytes, BytesPerSec, scaled};

/// What a device is taken for that has written nothing yet: 100 MiB/s (INIT_BW of Linux).
pub(super) const GUESS: BytesPerSec = BytesPerSec(100 << 20);

/// Between two updates (BANDWIDTH_INTERVAL of Linux).
pub(super) const INTERVAL: Nanos = Nanos::from_millis(200);

/// The mean is over so much time (3 s rounded up to a power of two of ticks).
const PERIOD: u64 = 4_096_000_000;

/// Gaps in a period, at least, and the longest period.
const GAPS: u64 = 4;
const PERIOD_MAX: u64 = 32_000_000_000;

/// A longer gap is a standstill.
const GAP_MAX: u64 = PERIOD_MAX / GAPS;

/// Shorter gaps are those of any device at work.
const GAP_MIN: u64 = 200_000_000;

/// When something is on its way now and nothing was at the last look, so much of the time between
/// is taken for writing at most.
const EDGE: u64 = 20_000_000;

const SECOND: u128 = 1_000_000_000;

/// The estimate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bandwidth {
    /// Mean over the period, bytes per second.
    mean: u64,
    average: u64,
    /// Written since the last update, and in how much time.
    written: u64,
    elapsed: u64,
    /// Time that was measured at all.
    measured: u64,
    /// Time since something was written, up to [`GAP_MAX`], and the longest such time lately.
    quiet: u64,
    gap: u64,
    /// Mean and average when something was last written; none before the first time.
    last: Option<(u64, u64)>,
    seen: Instant,
    was_busy: bool,
}

impl Default for Bandwidth {
    fn default() -> Bandwidth {
        Bandwidth {
            mean: GUESS.0,
            average: GUESS.0,
            written: 0,
            elapsed: 0,
            measured: 0,
            quiet: 0,
            gap: 0,
            last: None,
            seen: Instant::ZERO,
            was_busy: false,
        }
    }
}

impl Bandwidth {
    /// The average, never 0.
    pub(super) fn average(&self) -> BytesPerSec {
        BytesPerSec(self.average)
    }

    /// The longest time lately in which nothing was completed.
    pub(super) fn gap(&self) -> Nanos {
        if self.gap < GAP_MIN { Nanos::ZERO } else { Nanos(self.gap) }
    }

    /// Whether [`Bandwidth::see`] has anything to learn from this.
    pub(super) fn is_news(&self, write_back: Bytes) -> bool {
        self.was_busy != (write_back > Bytes::ZERO)
    }

    /// Learns what is on its way to the disk, and how much has been written by now.
    pub(super) fn see(&mut self, now: Instant, write_back: Bytes, written: Bytes) {
        let is_busy = write_back > Bytes::ZERO;
        let mut time = now.since(self.seen).0;
        if !self.was_busy {
            time = if is_busy || written > Bytes::ZERO { time.min(EDGE) } else { 0 };
        }
        (self.seen, self.was_busy) = (now, is_busy);
        let time = time.min(GAP_MAX - self.quiet);
        self.elapsed = self.elapsed.saturating_add(time);
        self.quiet += time;
        if self.quiet == GAP_MAX {
            self.stand_still();
        }
        self.written = self.written.saturating_add(written.0);
        if written > Bytes::ZERO {
            if self.quiet < GAP_MAX {
                self.gap = self.gap.max(self.quiet);
            }
            self.quiet = 0;
            self.last = Some((self.mean, self.average));
        }
        // Before the first completion there is nothing to learn, unless it never comes.
        let is_first = self.measured == 0 && self.written == 0;
        if self.elapsed >= if is_first { PERIOD } else { INTERVAL.0 } {
            self.update();
        }
    }

    /// Nothing was written for so long that it says nothing about the rate; called as long as that
    /// is so. Before anything was written there is no rate to go back to: what comes is new.
    fn stand_still(&mut self) {
        (self.written, self.elapsed) = (0, 0);
        let rest = |rate: u64| (rate - scaled(rate, GAP_MAX, PERIOD_MAX)).max(1);
        match self.last {
            Some((mean, average)) => (self.mean, self.average) = (rest(mean), rest(average)),
            None => (self.mean, self.average, self.measured) = (1, 1, 0),
        }
    }

    fn update(&mut self) {
        let (written, elapsed) = (u128::from(self.written), self.elapsed);
        (self.written, self.elapsed) = (0, 0);
        self.measured = self.measured.saturating_add(elapsed);
        let gap = self.gap.max(self.quiet);
        let period = PERIOD.max(gap.saturating_mul(GAPS)).min(PERIOD_MAX).min(self.measured);
        // A gap is forgotten by a half in 16 s.
        self.gap -= scaled(self.gap, elapsed.min(PERIOD), 4 * PERIOD_MAX / 5);
        if elapsed >= period {
            self.mean = bounded(written * SECOND / u128::from(elapsed));
            self.average = self.mean;
            return;
        }
        let (old, rest) = (self.mean, u128::from(period - elapsed));
        self.mean = bounded((written * SECOND + u128::from(old) * rest) / u128::from(period));
        if self.measured <= PERIOD {
            self.average = self.mean;
        } else if self.gap >= GAP_MIN {
            // The filter below takes only steps that are followed by another: a burst is one.
            self.average = self.average - self.average / 8 + self.mean / 8;
        } else if self.average > old && old >= self.mean {
            self.average -= (self.average - old) / 8;
        } else if self.average < old && old <= self.mean {
            self.average += (old - self.average) / 8;
        }
    }
}

/// At least 1, and small enough that eight seconds of it can be counted.
fn bounded(rate: u128) -> u64 {
    u64::try_from(rate).unwrap_or(u64::MAX).clamp(1, 1 << 56)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const MB: u64 = 1_000_000;

    /// Writes `rate` bytes/s for `secs`, told every `every_ms`.
    fn run(bandwidth: &mut Bandwidth, now: &mut u64, rate: u64, secs: u64, every_ms: u64) {
        for _ in 0..secs * 1_000 / every_ms {
            *now += every_ms * MS;
            bandwidth.see(Instant(*now), Bytes(1), Bytes(rate / 1_000 * every_ms));
        }
    }

    #[test]
    fn p1_a_steady_rate_is_known_after_the_first_interval() {
        for rate in [MB, 50 * MB, 3_000 * MB] {
            let (mut bandwidth, mut now) = (Bandwidth::default(), 0);
            bandwidth.see(Instant(0), Bytes(1), Bytes::ZERO);
            run(&mut bandwidth, &mut now, rate, 1, 10);
            assert_eq!(bandwidth.average().0, rate);
            run(&mut bandwidth, &mut now, rate, 60, 10);
            assert!(bandwidth.average().0.abs_diff(rate) <= rate / 1_000);
        }
    }

    #[test]
    fn p2_idle_time_does_not_count() {
        let (mut bandwidth, mut now) = (Bandwidth::default(), 0);
        for _ in 0..100 {
            bandwidth.see(Instant(now), Bytes(1), Bytes::ZERO);
            run(&mut bandwidth, &mut now, 80 * MB, 1, 10);
            bandwidth.see(Instant(now), Bytes::ZERO, Bytes::ZERO);
            now += 3_600_000 * MS;
            bandwidth.see(Instant(now), Bytes::ZERO, Bytes::ZERO);
        }
        assert!(bandwidth.average().0.abs_diff(80 * MB) < MB, "{bandwidth:?}");
    }

    #[test]
    fn before_the_first_completion_the_guess_holds_for_a_while() {
        let mut bandwidth = Bandwidth::default();
        for now in 0..40 {
            bandwidth.see(Instant(now * 100 * MS), Bytes(1), Bytes::ZERO);
            assert_eq!(bandwidth.average(), GUESS);
        }
        let mut dead = bandwidth;
        dead.see(Instant(4_200 * MS), Bytes(1), Bytes::ZERO);
        assert_eq!(dead.average().0, 1, "a dead device is not waited for for ever");
        bandwidth.see(Instant(4_000 * MS), Bytes(1), Bytes(40 * MB));
        assert_eq!(bandwidth.average().0, 10 * MB);
    }

    #[test]
    fn p3_a_change_is_followed() {
        for (from, to) in [(100 * MB, 20 * MB), (20 * MB, 100 * MB), (100 * MB, MB)] {
            let (mut bandwidth, mut now) = (Bandwidth::default(), 0);
            bandwidth.see(Instant(0), Bytes(1), Bytes::ZERO);
            run(&mut bandwidth, &mut now, from, 10, 10);
            run(&mut bandwidth, &mut now, to, 12, 10);
            let gap = bandwidth.average().0.abs_diff(to);
            assert!(gap <= from.max(to) / 10, "{from} to {to}: {}", bandwidth.average().0);
        }
    }

    #[test]
    fn p4_bursts_are_averaged() {
        for every_ms in [1_000, 2_000, 5_000] {
            let (mut bandwidth, mut now) = (Bandwidth::default(), 0);
            bandwidth.see(Instant(0), Bytes(1), Bytes::ZERO);
            for round in 0..40 {
                // Asked meanwhile, now and then.
                for _ in 0..every_ms / 50 {
                    now += 50 * MS;
                    bandwidth.see(Instant(now), Bytes(1), Bytes::ZERO);
                    let gap = bandwidth.average().0.abs_diff(100 * MB);
                    assert!(round < 8 || gap < 17 * MB, "{every_ms} {bandwidth:?}");
                }
                bandwidth.see(Instant(now), Bytes(1), Bytes(100 * MB / 1_000 * every_ms));
            }
        }
    }

    #[test]
    fn p5_a_standstill_says_little_about_the_rate() {
        for (still_s, every_ms) in
            [(9, 50), (30, 200), (600, 1_000), (9, 9_000), (10_800, 10_800_000)]
        {
            for rate in [MB, 100 * MB, 3_000 * MB] {
                let (mut bandwidth, mut now) = (Bandwidth::default(), 0);
                bandwidth.see(Instant(0), Bytes(1), Bytes::ZERO);
                run(&mut bandwidth, &mut now, rate, 20, 10);
                run(&mut bandwidth, &mut now, 0, still_s, every_ms);
                let part = bandwidth.average().0 * 1_000 / rate;
                assert!((749..=750).contains(&part), "{still_s} {every_ms} {part}");
                run(&mut bandwidth, &mut now, rate, 6, 10);
                let gap = bandwidth.average().0.abs_diff(rate);
                assert!(gap <= rate / 10, "{still_s} {every_ms} {rate} {gap}");
                assert_eq!(bandwidth.gap(), Nanos::ZERO, "it does not write in bursts");
            }
        }
    }

    #[test]
    fn a_device_that_is_late_at_first_is_known_at_once_then() {
        let (mut bandwidth, mut now) = (Bandwidth::default(), 0);
        bandwidth.see(Instant(0), Bytes(1), Bytes::ZERO);
        run(&mut bandwidth, &mut now, 0, 20, 100);
        assert_eq!(bandwidth.average().0, 1);
        run(&mut bandwidth, &mut now, 80 * MB, 1, 10);
        assert!(bandwidth.average().0.abs_diff(80 * MB) < 8 * MB, "{bandwidth:?}");
    }

    #[test]
    fn no_amount_overflows() {
        let mut bandwidth = Bandwidth::default();
        for now in [0, 1, 300 * MS, u64::MAX / 2, u64::MAX] {
            bandwidth.see(Instant(now), Bytes(u64::MAX), Bytes(u64::MAX));
            assert!(bandwidth.average().0 > 0);
        }
    }
}
