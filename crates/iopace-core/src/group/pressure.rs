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

/// By how much it changes how many wait and how many are at the disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    waiting: i32,
    flying: i32,
}

impl Change {
    pub(super) const ARRIVED: Change = Change { waiting: 1, flying: 0 };
    pub(super) const STARTED: Change = Change { waiting: -1, flying: 1 };
    pub(super) const FINISHED: Change = Change { waiting: 0, flying: -1 };
}

/// The pressure of one group; first of it what changes with every request.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Pressure {
    /// Its own requests that wait, and the groups directly below of which any waits.
    waiting_count: u32,
    /// The same of those at the disk.
    flying_count: u32,
    /// Accounted for up to here.
    at: Instant,
    period_began: Instant,
    /// Total time of *some* and of *full*, and whether they hold now.
    totals_ns: [u64; 2],
    holds: [bool; 2],
    averages: [Averages; 2],
}

impl Pressure {
    /// Takes a change in; what of it the group above has to take in, if there is any: that one
    /// waits now, or none any more, and the same of those at the disk.
    #[inline(always)]
    pub(super) fn change(&mut self, now: Instant, by: Change) -> Option<Change> {
        let is_waiting_told = count(&mut self.waiting_count, by.waiting);
        let is_flying_told = count(&mut self.flying_count, by.flying);
        if !is_waiting_told && !is_flying_told {
            return None;
        }
        let some = self.waiting_count > 0;
        let full = some && self.flying_count == 0;
        if [some, full] != self.holds {
            self.turn(now, [some, full]);
        }
        Some(Change {
            waiting: if is_waiting_told { by.waiting } else { 0 },
            flying: if is_flying_told { by.flying } else { 0 },
        })
    }

    /// Takes over the state that holds from `now` on.
    #[inline(never)]
    fn turn(&mut self, now: Instant, holds: [bool; 2]) {
        self.advance(now);
        self.holds = holds;
    }

    /// Brings totals and averages up to `now`.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        if now >= self.period_began + PERIOD {
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
            self.end_period();
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

    fn end_period(&mut self) {
        for (averages, total_ns) in self.averages.iter_mut().zip(self.totals_ns) {
            averages.end_period(total_ns);
        }
    }

    fn account(&mut self, now: Instant) {
        let passed = now.since(self.at).0;
        for (total_ns, holds) in self.totals_ns.iter_mut().zip(self.holds) {
            *total_ns += if holds { passed } else { 0 };
        }
        self.at = self.at.max(now);
    }
}

/// Counts one more, one less or neither. True if there is now the first one, or none any more.
#[inline(always)]
fn count(count: &mut u32, by: i32) -> bool {
    *count = count.wrapping_add_signed(by);
    debug_assert!(*count <= u32::MAX >> 1, "one was taken away that had not come");
    by != 0 && *count == u32::from(by > 0)
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
        pressure.change(at(10), Change::ARRIVED);
        pressure.change(at(10), Change::ARRIVED);
        pressure.change(at(11), Change::STARTED); // full for 1 s
        pressure.change(at(13), Change::STARTED); // some for 3 s
        pressure.change(at(20), Change::FINISHED);
        pressure.change(at(20), Change::FINISHED);
        pressure.advance(at(30));
        let text = pressure.to_string();
        assert!(text.starts_with("some avg10=") && text.ends_with(" total=1000000\n"), "{text}");
        assert!(text.contains("total=3000000\nfull"), "{text}");
    }

    #[test]
    fn averages_rise_to_all_of_the_time_and_fall_to_nothing() {
        let mut pressure = Pressure::default();
        pressure.change(at(0), Change::ARRIVED);
        pressure.advance(at(10));
        let text = pressure.to_string();
        // 1 - exp(-1) = 63 %.
        assert!(text.starts_with("some avg10=63."), "{text}");
        pressure.advance(at(3_000));
        assert!(pressure.to_string().starts_with("some avg10=99.9"), "{pressure}");
        pressure.change(at(3_000), Change::STARTED);
        pressure.change(at(3_000), Change::FINISHED);
        pressure.advance(at(100_000));
        let text = pressure.to_string();
        assert!(text.starts_with("some avg10=0.00 avg60=0.00 avg300=0.0"), "{text}");
        assert!(text.contains("total=3000000000\n"), "{text}");
    }
}
