//! Sizes and rates as types, so that bytes are not taken for sectors or milliseconds for
//! microseconds.

use crate::time::Nanos;
use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// `amount x part / whole`, rounded down; [`u64::MAX`] if it is more. A whole of nothing counts as
/// one. The product is formed in 128 bits.
#[inline]
pub(crate) fn scaled(amount: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(amount) * u128::from(part);
    u64::try_from(product / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// Size of a page: what memory and its write-back are counted in.
pub const PAGE: u64 = 4096;

/// A number of bytes, or a position on a device in bytes. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Nothing.
    pub const ZERO: Bytes = Bytes(0);

    /// From KiB (1024 bytes), saturating.
    pub const fn from_kib(kib: u64) -> Bytes {
        Bytes(kib.saturating_mul(1 << 10))
    }

    /// From MiB (1024 KiB), saturating.
    pub const fn from_mib(mib: u64) -> Bytes {
        Bytes(mib.saturating_mul(1 << 20))
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The distance between two positions, whichever comes first.
    #[must_use]
    pub const fn distance(self, other: Bytes) -> Bytes {
        Bytes(self.0.abs_diff(other.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        *self = *self + other;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    /// Zero when `other` is larger.
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, name) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            let unit = 1u64 << shift;
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{} {name}", self.0 / unit);
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A rate in bytes per second. Zero means "does not move".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BytesPerSec(pub u64);

impl BytesPerSec {
    /// The time that `size` takes at this rate, rounded up; [`u64::MAX`] ns at rate zero.
    ///
    /// The product is formed in 128 bits where it needs them: it cannot overflow for any `size`.
    #[must_use]
    pub const fn time_for(self, size: Bytes) -> Nanos {
        if self.0 == 0 {
            return Nanos(u64::MAX);
        }
        if let Some(nanos) = size.0.checked_mul(1_000_000_000) {
            return Nanos(nanos.div_ceil(self.0));
        }
        let nanos = (size.0 as u128 * 1_000_000_000).div_ceil(self.0 as u128);
        if nanos > u64::MAX as u128 { Nanos(u64::MAX) } else { Nanos(nanos as u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_gives_the_time_of_a_size_without_overflow() {
        assert_eq!(BytesPerSec(72_000_000).time_for(Bytes(72_000_000)), Nanos::from_secs(1));
        assert_eq!(BytesPerSec(3).time_for(Bytes(1)), Nanos(333_333_334));
        assert_eq!(BytesPerSec(0).time_for(Bytes(1)), Nanos(u64::MAX));
        assert_eq!(BytesPerSec(1).time_for(Bytes(u64::MAX)), Nanos(u64::MAX));
    }

    #[test]
    fn sizes_print_in_whole_binary_units() {
        assert_eq!(Bytes(4096).to_string(), "4 KiB");
        assert_eq!(Bytes(4097).to_string(), "4097 B");
        assert_eq!(Bytes::from_mib(2048).to_string(), "2 GiB");
    }
}
