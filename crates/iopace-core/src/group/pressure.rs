//! How much of the time a group waits: `io.pressure`, in the kernel's PSI format.
//!
//! *some*: at least one request of the group (or of a group below it) waits in iopace. *full*: some
//! wait and none is at the disk. What waits *at the disk* is not counted: that is the disk's doing.
//!
//! Averages as in the kernel: every two seconds the share of the period is folded into exponential
//! averages over 10, 60 and 300 s (kernel/sched/psi.c).

use crate::time::{Instant, Nanos};
use core::fmt;

/// Length of a period (PSI_FREQ).
const PERIOD: Nanos = Nanos::from_secs(2);

/// Fixed-point one (FIXED_1 of include/linux/sched/loadavg.h).
const ONE: u64 = 2048;

/// exp(-2 s / 10 s), / 60 s, / 300 s in units of [`ONE`] (EXP_10s, EXP_60s, EXP_300s).
const DECAY: [u64; 3] = [1677, 1981, 2034];

/// Averages are kept finer than [`ONE`], so that small shares do not vanish: parts per million.
const SCALE: u64 = 1_000_000;

/// After so many periods without a change the 300 s average has settled to within 0.01 %.
const PERIODS_MAX: u64 = 1_400;

/// Averages of one of the two lines.
#[derive(Clone, Copy, Debug, Default)]
struct Averages {
    /// Total at the beginning of the present period.
    period_ns: u64,
    /// In parts per million.
    shares: [u64; 3],
}

impl Averages {
    fn end_period(&mut self, total_ns: u64) {
        let share = (total_ns - self.period_ns).min(PERIOD.0) * SCALE / PERIOD.0;
        self.period_ns = total_ns;
        for (average, decay) in self.shares.iter_mut().zip(DECAY) {
            *average = (*average * decay + share * (ONE - decay)) / ONE;
        }
    }
}

/// The pressure of one group; first of it what changes with every request.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Pressure {
    /// Requests of its own and of all below that wait.
    waiting_count: u32,
    /// The same of those at the disk.
    flying_count: u32,
    /// Accounted for up to here.
    at: Instant,
    period_began: Instant,
    /// Total time of *some* and of *full*.
    totals_ns: [u64; 2],
    averages: [Averages; 2],
}

impl Pressure {
    /// A request of the group or of one below it comes: *some* holds from now on.
    #[inline(always)]
    pub(super) fn arrived(&mut self, now: Instant) {
        if self.waiting_count == 0 {
            self.go_on(now);
        }
        self.waiting_count += 1;
    }

    /// One goes to the disk: *full* holds no more, nor *some* if it was the last to wait.
    #[inline(always)]
    pub(super) fn started(&mut self, now: Instant) {
        let waiting_count = self.waiting_count - 1;
        if waiting_count == 0 || self.flying_count == 0 {
            self.go_on(now);
        }
        self.waiting_count = waiting_count;
        self.flying_count += 1;
    }

    /// One has ended: *full* holds from now on if others wait and it was the last at the disk.
    #[inline(always)]
    pub(super) fn finished(&mut self, now: Instant) {
        if self.flying_count == 1 && self.waiting_count > 0 {
            self.go_on(now);
        }
        self.flying_count -= 1;
    }

    /// The time in which at least one request waited, as of the last [`Pressure::advance`].
    pub fn some(&self) -> Nanos {
        Nanos(self.totals_ns[0])
    }

    /// Brings totals and averages up to `now`.
    pub fn advance(&mut self, now: Instant) {
        self.go_on(now.max(self.at));
    }

    /// The same with a time that is not before the last one.
    #[inline(always)]
    fn go_on(&mut self, now: Instant) {
        if now.behind(self.period_began) >= PERIOD {
            self.end_periods(now);
        }
        self.account(now);
    }

    #[cold]
    #[inline(never)]
    fn end_periods(&mut self, now: Instant) {
        let mut periods = 0;
        while now >= self.period_began + PERIOD {
            self.account(self.period_began + PERIOD);
            for (averages, total_ns) in self.averages.iter_mut().zip(self.totals_ns) {
                averages.end_period(total_ns);
            }
            self.period_began = self.period_began + PERIOD;
            periods += 1;
            if periods == PERIODS_MAX {
                // Everything has settled: the rest of the time is one long period.
                self.account(now);
                self.period_began = now;
                for (averages, total_ns) in self.averages.iter_mut().zip(self.totals_ns) {
                    averages.period_ns = total_ns;
                }
            }
        }
    }

    #[inline(always)]
    fn account(&mut self, now: Instant) {
        let passed = now.behind(self.at).0;
        if self.waiting_count > 0 {
            self.totals_ns[0] += passed;
            self.totals_ns[1] += if self.flying_count == 0 { passed } else { 0 };
        }
        self.at = now;
    }
}

impl fmt::Display for Pressure {
    /// As of the last [`Pressure::advance`]; the two lines of `/proc/pressure/io`, totals in
    /// microseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, name) in ["some", "full"].into_iter().enumerate() {
            write!(f, "{name}")?;
            for (average, seconds) in self.averages[line].shares.iter().zip([10, 60, 300]) {
                let hundredths = average * 10_000 / SCALE;
                write!(f, " avg{seconds}={}.{:02}", hundredths / 100, hundredths % 100)?;
            }
            writeln!(f, " total={}", self.totals_ns[line] / 1_000)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant(secs * 1_000_000_000)
    }

    #[test]
    fn waiting_is_some_and_waiting_with_nothing_at_the_disk_is_full() {
        let mut pressure = Pressure::default();
        pressure.arrived(at(10));
        pressure.arrived(at(10));
        pressure.started(at(11)); // full for 1 s
        pressure.started(at(13)); // some for 3 s
        pressure.finished(at(20));
        pressure.finished(at(20));
        pressure.advance(at(30));
        let text = pressure.to_string();
        assert!(text.starts_with("some avg10=") && text.ends_with(" total=1000000\n"), "{text}");
        assert!(text.contains("total=3000000\nfull"), "{text}");
    }

    #[test]
    fn averages_rise_to_all_of_the_time_and_fall_to_nothing() {
        let mut pressure = Pressure::default();
        pressure.arrived(at(0));
        pressure.advance(at(10));
        let text = pressure.to_string();
        // 1 - exp(-1) = 63 %.
        assert!(text.starts_with("some avg10=63."), "{text}");
        pressure.advance(at(3_000));
        assert!(pressure.to_string().starts_with("some avg10=99.9"), "{pressure}");
        pressure.started(at(3_000));
        pressure.finished(at(3_000));
        pressure.advance(at(100_000));
        let text = pressure.to_string();
        assert!(text.starts_with("some avg10=0.00 avg60=0.00 avg300=0.0"), "{text}");
        assert!(text.contains("total=3000000000\n"), "{text}");
    }
}
