//! A vertical axis in whole numbers: equal steps, or equal factors where one value hides the rest.
//!
//! Positions come from integer arithmetic alone (a logarithm in fixed point), so that a picture has
//! the same bytes on every machine.

use core::ops::Range;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Values so many times apart do not fit on equal steps: of 260 pixels the least one has eight.
const HIDES: i64 = 30;

/// Most ticks of an axis.
const TICKS_MAX: usize = 8;

/// Fractional bits of a logarithm, and of the mantissa that it is worked out from.
const LOG_BITS: u32 = 16;
const MANTISSA_BITS: u32 = 31;

/// An axis of figures in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale {
    low: i64,
    high: i64,
    pub(super) is_log: bool,
}

impl Scale {
    /// The axis for values; `may_be_log` says whether equal factors would make sense of them.
    pub(super) fn of(values: &[i64], may_be_log: bool) -> Scale {
        let most = values.iter().copied().max().unwrap_or(0).max(1);
        let least = values.iter().copied().filter(|value| *value > 0).min().unwrap_or(most);
        let is_log = may_be_log && most / least >= HIDES;
        match is_log {
            true => Scale { low: (least - least / 5).max(1), high: most + most / 5, is_log },
            false => Scale { low: 0, high: most + (most / 10).max(1), is_log },
        }
    }

    /// The part of the axis below a value, in 2^-16.
    fn part(self, value: i64) -> i128 {
        let value = value.clamp(self.low, self.high);
        match self.is_log {
            true => {
                let of = |value: i64| i128::from(log2(value.unsigned_abs()));
                let whole = (of(self.high) - of(self.low)).max(1);
                ((of(value) - of(self.low)) << LOG_BITS) / whole
            }
            false => (i128::from(value - self.low) << LOG_BITS) / i128::from(self.high - self.low),
        }
    }
}

/// The logarithm to base 2, in 2^-16, rounded down; that of zero is that of one.
fn log2(value: u64) -> u64 {
    let value = value.max(1);
    let whole = value.ilog2();
    let mut mantissa = (u128::from(value) << MANTISSA_BITS) >> whole;
    let mut log = u64::from(whole) << LOG_BITS;
    for bit in (0..LOG_BITS).rev() {
        // The square of a number in [1, 2) is above 2 if the next bit of its logarithm is set.
        mantissa = (mantissa * mantissa) >> MANTISSA_BITS;
        if mantissa >> (MANTISSA_BITS + 1) > 0 {
            mantissa >>= 1;
            log |= 1 << bit;
        }
    }
    log
}

/// 1, 2 and 5 times each power of ten, from one thousandth on.
fn round_numbers() -> impl Iterator<Item = i64> {
    let powers = (0..18).map(|power| 10i64.pow(power));
    powers.flat_map(|power| [power, 2 * power, 5 * power])
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = i64;

    fn map(&self, value: &i64, limit: (i32, i32)) -> i32 {
        let length = i128::from(limit.1) - i128::from(limit.0);
        let pixels = (self.part(*value) * length) >> LOG_BITS;
        limit.0 + i32::try_from(pixels).expect("no longer than the axis")
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<i64> {
        let most = hint.max_num_points().clamp(2, TICKS_MAX);
        if !self.is_log {
            let step = round_numbers().find(|step| self.high / step < most as i64);
            let step = step.unwrap_or(self.high);
            return (0..).map(|n| n * step).take_while(|tick| *tick <= self.high).collect();
        }
        let is_shown = |tick: &i64| (self.low..=self.high).contains(tick);
        let ticks: Vec<i64> = round_numbers().filter(is_shown).collect();
        match ticks.len() > most {
            true => (0..18).map(|power| 10i64.pow(power)).filter(is_shown).collect(),
            false => ticks,
        }
    }

    fn range(&self) -> Range<i64> {
        self.low..self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::BoldPoints;

    #[test]
    fn the_logarithm_is_that_of_the_tables() {
        assert_eq!(log2(1), 0);
        assert_eq!(log2(1 << 40), 40 << LOG_BITS);
        // log2(10) = 3.321928: 217706 in 2^-16.
        assert_eq!(log2(10), 217_705);
        assert_eq!(log2(1_000), 653_117);
        assert!((0..100_000u64).is_sorted_by_key(log2));
    }

    #[test]
    fn a_value_that_hides_the_rest_makes_the_axis_one_of_factors() {
        let wide = [7_000, 400, 20_000_000];
        let (scale, plain) = (Scale::of(&wide, true), Scale::of(&wide, false));
        assert!(scale.is_log && !plain.is_log && !Scale::of(&[400, 7_000], true).is_log);
        let pixels = |scale: Scale, value| scale.map(&value, (200, 0));
        assert_eq!(pixels(plain, 400), pixels(plain, 7_000), "hidden");
        assert!(pixels(scale, 400) - pixels(scale, 7_000) > 30, "apart");
        assert!(pixels(scale, 0) == 200 && pixels(scale, i64::MAX) == 0, "within the panel");
        let ticks = scale.key_points(BoldPoints(6));
        assert_eq!(ticks, [1_000, 10_000, 100_000, 1_000_000, 10_000_000]);
        assert_eq!(
            Scale::of(&[1_900], true).key_points(BoldPoints(6)),
            [0, 500, 1_000, 1_500, 2_000]
        );
        assert_eq!(Scale::of(&[], true).range(), 0..2);
    }
}
