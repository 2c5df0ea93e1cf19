//! Time as an argument: a point in time and a length of time, both in whole nanoseconds.
//!
//! Nothing in this crate reads a clock. Whoever turns the crank (the daemon with a monotonic clock,
//! the simulator with a counter) hands `now` in. The origin is arbitrary; only differences matter.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A length of time in nanoseconds. Holds up to 584 years; arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// From whole microseconds (saturating).
    pub const fn from_micros(micros_us: u64) -> Nanos {
        Nanos(micros_us.saturating_mul(1_000))
    }

    /// From whole milliseconds (saturating).
    pub const fn from_millis(millis_ms: u64) -> Nanos {
        Nanos(millis_ms.saturating_mul(1_000_000))
    }

    /// From whole seconds (saturating).
    pub const fn from_secs(secs_s: u64) -> Nanos {
        Nanos(secs_s.saturating_mul(1_000_000_000))
    }

    /// The number of nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This length times `n`, saturating.
    #[must_use]
    pub const fn times(self, n: u64) -> Nanos {
        Nanos(self.0.saturating_mul(n))
    }

    /// This length and another one, both of times that have passed: far from what it holds.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn with(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }

    /// This length without a part of it.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn without(self, part: Nanos) -> Nanos {
        Nanos(self.0 - part.0)
    }

    /// This length minus `other`, zero when `other` is longer.
    #[must_use]
    pub const fn saturating_sub(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        *self = *self + other;
    }
}

impl fmt::Display for Nanos {
    /// Prints in the largest unit that keeps the number at or above one, to three places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        write!(f, "{}.{:03} {name}", self.0 / unit, (self.0 % unit) * 1_000 / unit)
    }
}

/// A point in time: nanoseconds since an arbitrary origin, never running backwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    /// The origin.
    pub const ZERO: Instant = Instant(0);

    /// A time that does not come: "only an input can change this".
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The time from `earlier`, which is not later, to this instant.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn behind(self, earlier: Instant) -> Nanos {
        Nanos(self.0 - earlier.0)
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// Whether this instant will never come.
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    /// Saturates at [`Instant::NEVER`].
    fn add(self, length: Nanos) -> Instant {
        Instant(self.0.saturating_add(length.0))
    }
}

impl Sub<Nanos> for Instant {
    type Output = Instant;
    /// Saturates at [`Instant::ZERO`].
    fn sub(self, length: Nanos) -> Instant {
        Instant(self.0.saturating_sub(length.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Instant::NEVER + Nanos(1), Instant::NEVER);
        assert_eq!(Instant::ZERO - Nanos(1), Instant::ZERO);
        assert_eq!(Instant(5).since(Instant(9)), Nanos::ZERO);
        assert_eq!(Nanos::from_secs(u64::MAX), Nanos(u64::MAX));
    }

    #[test]
    fn lengths_print_in_a_readable_unit() {
        assert_eq!(Nanos(999).to_string(), "999 ns");
        assert_eq!(Nanos(1_500).to_string(), "1.500 us");
        assert_eq!(Nanos::from_millis(12).to_string(), "12.000 ms");
        assert_eq!(Nanos(61_020_000_000).to_string(), "61.020 s");
    }
}
