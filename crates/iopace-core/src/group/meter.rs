//! One rate per second, held exactly: a virtual clock that every admitted request pushes forward.
//!
//! # Model
//! ```text
//!         cost = amount x 1 s / rate, the remainder carried to the next request
//!   clock ──┬──────────────┬────┬───────────► time        open while clock - tolerance <= now
//!           request 1      2    3
//! ```
//! A request of any size passes while the meter is open and then closes it for as long as it
//! costs, so that a large request is paid for by the wait of the next one. The long-run rate is
//! exact for every mix of sizes. A meter that has nothing to do earns no credit beyond its
//! tolerance (the burst) and a millisecond; one that kept somebody waiting keeps the lateness of
//! the caller's timer to its account, and write-back the time until its turn.
//!
//! # Properties
//! 1. While something always waits, the amount that passes in a time t is `rate x t` plus at most
//!    the tolerance, the lateness and one request.
//! 2. After an idle time at most the tolerance and a millisecond pass at once, and one request.
//! 3. Remainders are carried: no rate drifts.
//! 4. Write-back that comes in turns of up to a second gets the whole rate.
//!
//! # Sources
//! The generic cell rate algorithm (ITU-T I.371) in its virtual scheduling form, with the size as
//! cell count; carried remainders in place of fractions.

use crate::time::{Instant, Nanos};
use crate::units::scaled;
use core::num::NonZeroU64;

/// Lateness of the caller that a waiting request does not pay for: timers of a loaded host are
/// late by milliseconds. Beyond it the time is lost, so that a host that stood still does not let
/// everything through afterwards.
pub const LATENESS_MAX: Nanos = Nanos::from_millis(20);

/// Idle time that write-back does not lose: a group's pages are written in turns, and the turns of
/// others take so long ([`crate::flush::TURN_MAX`]). What is written is paced at the door already.
pub const TURN_MAX: Nanos = Nanos::from_secs(1);

/// Idle time that is not lost: a client with few requests leaves gaps of some 10 µs between them,
/// which would cost it 5 % of a limit of 20 000 a second. A hundredth of a tenth of a second.
const GAP_MAX: Nanos = Nanos::from_millis(1);

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A virtual clock for one rate.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// Amount per second: bytes or operations.
    rate: NonZeroU64,
    /// How far the clock may be ahead while the meter is still open: the burst, as time at `rate`.
    tolerance: Nanos,
    /// What was admitted is paid for up to here.
    clock: Instant,
    /// Numerator left over from the last division by `rate`.
    remainder: u64,
    /// Idle time that the next charge does not lose.
    kept: Nanos,
}

impl Meter {
    /// A meter that is open now.
    pub fn new(now: Instant, rate: NonZeroU64, tolerance: Nanos) -> Meter {
        Meter { rate, tolerance, clock: now, remainder: 0, kept: GAP_MAX }
    }

    /// Takes over rate and burst of a new meter. What is owed stays owed, at the new rate; but no
    /// change closes the meter for longer than it was closed before, so that a limit set too low by
    /// mistake can be put right, and one that is lowered does not make those pay who went by the
    /// old one.
    pub fn set(&mut self, now: Instant, new: &Meter) {
        let Meter { rate, tolerance, .. } = *new;
        if (rate, tolerance) == (self.rate, self.tolerance) {
            return;
        }
        let closed = self.opens().since(now);
        let owed = Nanos(scaled(self.clock.since(now).0, self.rate.get(), rate.get()));
        self.clock = self.clock.min(now + owed.min(closed + tolerance));
        if rate != self.rate {
            self.remainder = 0;
        }
        (self.rate, self.tolerance) = (rate, tolerance);
    }

    /// From when on it is open.
    pub fn opens(&self) -> Instant {
        Instant(self.clock.0.saturating_sub(self.tolerance.0))
    }

    /// Somebody waits for it: lateness from now on is not lost.
    pub fn wait(&mut self) {
        self.kept = self.kept.max(LATENESS_MAX);
    }

    /// What passes next could not ask before it was its turn.
    pub fn turn(&mut self) {
        self.kept = self.kept.max(TURN_MAX);
    }

    /// The clock is brought back to that instant, if it is ahead of it.
    pub fn owe_until(&mut self, at: Instant) {
        self.clock = self.clock.min(at);
    }

    /// What is owed beyond the burst is forgotten.
    pub fn forgive(&mut self, now: Instant) {
        self.owe_until(now + self.tolerance);
    }

    /// Charges what passes now: so many bytes or operations.
    pub fn charge(&mut self, now: Instant, units_count: u64) {
        let floor = Instant(now.0.saturating_sub(self.kept.0));
        if self.clock < floor {
            self.clock = floor;
            self.remainder = 0;
        }
        let rate = u128::from(self.rate.get());
        let numerator = u128::from(units_count) * NANOS_PER_SEC + u128::from(self.remainder);
        let cost = u64::try_from(numerator / rate).unwrap_or(u64::MAX);
        self.remainder = (numerator % rate) as u64;
        self.clock = Instant(self.clock.0.saturating_add(cost).min(Instant::NEVER.0 - 1));
        self.kept = GAP_MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(rate: u64, tolerance: Nanos) -> Meter {
        Meter::new(Instant(0), NonZeroU64::new(rate).expect("not zero"), tolerance)
    }

    /// Amount that passes in `secs` when something always waits and timers are `late_ns` late.
    fn passed(meter: &mut Meter, size: u64, secs: u64, late_ns: u64) -> u64 {
        let (mut now, mut total) = (Instant(0), 0);
        while now.0 < secs * 1_000_000_000 {
            if meter.opens() <= now {
                meter.charge(now, size);
                total += size;
            }
            meter.wait();
            now = Instant(now.0.max(meter.opens().0 + late_ns));
        }
        total
    }

    #[test]
    fn p1_the_rate_is_exact_for_every_size_and_late_timer() {
        for rate in [1_000, 999_983, 10 << 20, 3_000_000_000] {
            for size in [512, 4096, 65_536, 1 << 20] {
                for late_ns in [0, 50_000, 3_000_000] {
                    let secs = (size * 400 / rate).max(10);
                    let total = passed(&mut meter(rate, Nanos::ZERO), size, secs, late_ns);
                    // One request at the beginning, and what the last timer was late.
                    let slack = size + rate * late_ns / 1_000_000_000 + 1;
                    let wanted = rate * secs;
                    assert!(total.abs_diff(wanted) <= slack, "{rate}/s of {size}: {total}");
                }
            }
        }
    }

    #[test]
    fn p2_idle_time_earns_the_tolerance_and_no_more() {
        let mut meter = meter(1_000, Nanos::from_secs(2));
        let now = Instant(3_600_000_000_000);
        let mut total = 0;
        while meter.opens() <= now {
            meter.charge(now, 1);
            total += 1;
        }
        assert_eq!(total, 2_002);
    }

    #[test]
    fn p3_remainders_are_carried() {
        // 3 per second: 333 333 333.3 ns each.
        let mut meter = meter(3, Nanos::ZERO);
        for _ in 0..3_000 {
            meter.charge(Instant(0), 1);
        }
        assert_eq!(meter.opens(), Instant(1_000_000_000_000));
    }

    #[test]
    fn a_stand_still_of_the_host_is_not_made_up_for() {
        let mut meter = meter(1_000, Nanos::ZERO);
        meter.charge(Instant(0), 1);
        meter.wait();
        let now = Instant(10_000_000_000);
        let mut total = 0;
        while meter.opens() <= now {
            meter.wait();
            meter.charge(now, 1);
            total += 1;
        }
        assert_eq!(total, 21, "20 ms of lateness and the one that is due");
    }

    #[test]
    fn a_limit_set_too_low_can_be_put_right() {
        let mut meter = meter(1, Nanos::ZERO);
        meter.charge(Instant(0), 32 << 20);
        assert!(meter.opens() > Instant(30_000_000_000_000_000), "a year");
        let right = NonZeroU64::new(1 << 30).expect("not zero");
        meter.set(Instant(1_000), &Meter::new(Instant(0), right, Nanos::ZERO));
        // 32 MiB at 1 GiB/s: what is owed is owed.
        let opens = meter.opens();
        assert!((31_250_000..=31_251_001).contains(&opens.0), "{opens:?}");
    }

    #[test]
    fn no_change_closes_it_for_longer() {
        let second = Nanos::from_secs(1);
        let start = |tolerance| {
            let mut meter = meter(1_000_000, tolerance);
            meter.charge(Instant(0), 500_000);
            meter
        };
        let mut slower = start(Nanos::ZERO);
        slower.set(Instant(0), &meter(1, Nanos::ZERO));
        assert_eq!(slower.opens(), Instant(500_000_000));
        // Half of a burst is used; without the burst it is no debt.
        let mut without = start(second);
        without.set(Instant(0), &meter(1_000_000, Nanos::ZERO));
        assert_eq!(without.opens(), Instant(0));
        // With a shorter one the rest of it is there, if any.
        let mut shorter = start(second);
        shorter.set(Instant(0), &meter(1_000_000, Nanos::from_millis(600)));
        shorter.charge(Instant(0), 100_001);
        assert_eq!(shorter.opens(), Instant(1_000));
        // The same again changes nothing, nor does a change in time that is not owed.
        let mut same = start(second);
        same.set(Instant(7), &meter(1_000_000, second));
        assert_eq!(same.clock, Instant(500_000_000));
    }

    #[test]
    fn no_size_overflows() {
        let mut meter = meter(1, Nanos::ZERO);
        meter.charge(Instant(0), u64::MAX);
        meter.charge(Instant(0), u64::MAX);
        assert!(meter.opens() < Instant::NEVER);
    }

    #[test]
    fn p4_write_back_that_comes_in_turns_gets_the_whole_rate() {
        let mut meter = meter(1_000, Nanos::ZERO);
        let (mut now, mut total) = (Instant(0), 0);
        for _ in 0..60 {
            now = now + Nanos::from_millis(900);
            while meter.opens() <= now {
                meter.turn();
                meter.charge(now, 10);
                total += 10;
            }
        }
        assert!((53_990..=54_010).contains(&total), "{total} in 54 s");
        // A pause earns one turn.
        let (later, mut burst) = (now + Nanos::from_secs(60), 0);
        while meter.opens() <= later {
            meter.turn();
            meter.charge(later, 10);
            burst += 10;
        }
        assert!((1_000..=1_010).contains(&burst), "{burst}");
    }
}
