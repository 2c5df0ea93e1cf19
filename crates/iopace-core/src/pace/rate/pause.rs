//! How much a task may dirty in one go, and how long it pauses then.
//!
//! Each task has a clock: up to there it has paid for what it dirtied, at the rate of the moment.
//! ```text
//!        debt = clock - now
//!    T  ├ ─ ─ ─ ╱│─ ─ ─ ─ ─ ─╱│      a write passes while the debt is below T/2, in portions that
//!   T/2 ├ ─ ─ ╱  │╲ ─ ─ ─ ╱   │╲     take it to T at most, or one page; from T/2 on the task waits
//!    0  └───╱────┴──╲───╱─────┴──    until the debt is paid
//!          writes    pause
//! ```
//! T is the pause target, 8 ms where none is set, up to 16 writers and doubles for every four times
//! as many: 16 ms for 64, 64 ms for 1024, at most 100 ms; and no more than an eighth of the time in
//! which the device can write back what is dirty. With many writers short pauses would cost more
//! processor time than they are worth, and nobody of 1000 notices the difference.
//!
//! Time in which a task does nothing is paid as well, up to a second; after that it begins anew, so
//! that no credit is hoarded.

use crate::limits::PAUSE_TARGET_MAX;
use crate::time::{Instant, Nanos};
use crate::units::{BytesPerSec, scaled};

/// T at most, in ns: a pause and one page more is then below [`PAUSE_MAX`].
const TARGET_MAX: u64 = PAUSE_TARGET_MAX * 1_000_000;

/// Writers up to which T is the pause target: a disk with up to ten has to have pauses below 10 ms.
const WRITERS_FEW: u64 = 16;

/// T where hardly anything is dirty.
const TARGET_DRAIN_MIN: u64 = 1_000_000;

/// The longest pause (MAX_PAUSE of Linux): longer ones can be felt.
pub(super) const PAUSE_MAX: Nanos = Nanos::from_millis(200);

/// Longest idle time that is paid (Linux: one second).
pub(super) const THINK_MAX: Nanos = Nanos::from_secs(1);

/// The memory that is dirtied at least when anything is.
pub(super) const PAGE: u64 = 4096;

/// Fraction bits of the time per byte.
const FRACTION: u32 = 20;

/// What holds for a task at one position.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tempo {
    /// Its rate, bytes per second; 0: nobody may go on.
    pub(super) rate: u64,
    /// Time per byte in 2^-20 ns, 0 with the rate.
    slowness: u64,
    /// T, in ns.
    pub(super) target: u64,
    /// How long to wait before asking again with a rate of 0: an eighth of the time to drain.
    pub(super) stop: Nanos,
}

impl Tempo {
    /// `base` is the base rate, `bandwidth` what its group gets of the device, `drain` the time in
    /// which the device writes back all that is dirty, `pause` the pause target.
    pub(super) fn new(
        rate: u64,
        (base, bandwidth): (u64, BytesPerSec),
        drain: Nanos,
        pause: Nanos,
    ) -> Tempo {
        let slowness = (1_000_000_000u64 << FRACTION).checked_div(rate).unwrap_or(0);
        let target = target(bandwidth.0 / base.max(1), pause.0);
        let target = target.min((drain.0 / 8).max(TARGET_DRAIN_MIN));
        Tempo { rate, slowness, target, ..Tempo::stopped(drain) }
    }

    /// Nobody may go on.
    pub(super) fn stopped(drain: Nanos) -> Tempo {
        let stop = Nanos((drain.0 / 8).clamp(TARGET_DRAIN_MIN, PAUSE_MAX.0));
        Tempo { stop, ..Tempo::default() }
    }

    /// The time that so many bytes take.
    pub(super) fn cost(&self, size: u64) -> u64 {
        let cost = (u128::from(size) * u128::from(self.slowness)) >> FRACTION;
        u64::try_from(cost).unwrap_or(u64::MAX)
    }

    /// How many bytes a task with that debt may dirty: one page, or as many as take it to T.
    pub(super) fn portion(&self, debt: u64) -> u64 {
        let size = scaled(self.target.saturating_sub(debt), self.rate, 1_000_000_000);
        (size / PAGE * PAGE).max(PAGE)
    }

    /// Whether a task with that debt may go on.
    pub(super) fn passes(&self, debt: u64) -> bool {
        self.rate > 0 && debt < self.target / 2
    }
}

/// T for so many writers, `least` for few.
fn target(writers: u64, least: u64) -> u64 {
    let (mut target, mut upto) = (least, WRITERS_FEW);
    while writers > upto && target < TARGET_MAX {
        target *= 2;
        upto *= 4;
    }
    target.min(TARGET_MAX)
}

/// The clock of a task at a new portion: what it did not use for longer than a second is forgotten.
pub(super) fn settled(clock: Instant, now: Instant) -> Instant {
    if now.since(clock) > THINK_MAX { now } else { clock }
}

/// Until when a task waits whose clock is there, and the clock that it has then: an excess over the
/// longest pause is remembered up to once that pause.
pub(super) fn pause(clock: Instant, now: Instant) -> (Instant, Instant) {
    let clock = clock.min(now + PAUSE_MAX.times(2));
    (clock.min(now + PAUSE_MAX), clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_number_of_writers() {
        let ms = |writers| target(writers, 8_000_000) / 1_000_000;
        assert_eq!([0, 1, 10, 16].map(ms), [8; 4]);
        assert_eq!([51, 64, 256, 1_000, 1_024].map(ms), [16, 16, 32, 64, 64]);
        assert_eq!([10_000, 1 << 40, u64::MAX].map(ms), [100, 100, 100]);
        let ms = |writers| target(writers, 5_000_000) / 1_000_000;
        assert_eq!([1, 16, 64, 1_024, u64::MAX].map(ms), [5, 5, 10, 40, 100]);
    }

    #[test]
    fn a_portion_is_a_page_or_fills_the_target() {
        let drain = Nanos::from_secs(10);
        let at = |rate, part, drain| Tempo::new(rate, part, drain, Nanos::from_millis(8));
        let tempo = at(10_000_000, (10_000_000, BytesPerSec(100_000_000)), drain);
        assert_eq!(tempo.portion(0), 80_000 / PAGE * PAGE);
        assert_eq!(tempo.portion(7_999_999), PAGE);
        assert!(tempo.passes(3_999_999) && !tempo.passes(4_000_000));
        let slow = at(10_000, (10_000, BytesPerSec(100_000_000)), drain);
        assert_eq!(slow.portion(0), PAGE);
        assert_eq!(slow.cost(PAGE) / 1_000_000, 409);
        let short = at(10_000_000, (10_000_000, BytesPerSec(10_000_000)), Nanos(0));
        assert_eq!(short.target, 1_000_000);
        let none = at(0, (10, BytesPerSec(10)), drain);
        assert!(!none.passes(0));
    }

    #[test]
    fn a_pause_is_bounded_and_its_excess_remembered_once() {
        let now = Instant(5_000_000_000);
        let after = |millis| now + Nanos::from_millis(millis);
        assert_eq!(pause(after(50), now), (after(50), after(50)));
        assert_eq!(pause(after(300), now), (after(200), after(300)));
        assert_eq!(pause(Instant::NEVER, now), (after(200), after(400)));
        assert_eq!(settled(Instant(4_000_000_000), now), Instant(4_000_000_000));
        assert_eq!(settled(Instant(3_999_999_999), now), now);
        assert_eq!(settled(after(50), now), after(50));
    }
}
