//! Figures in thousandths: whole numbers inside, decimals outside.
//!
//! Everything the simulator reports is derived from counts and nanoseconds. Dividing those as
//! integers and rounding once gives the same digits on every machine and in every build.

use core::fmt;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number in thousandths, printed with up to three decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Milli(pub i64);

impl Milli {
    /// One.
    pub const ONE: Milli = Milli(1_000);

    /// `numerator / denominator`, rounded half up; `None` when the denominator is zero.
    pub fn ratio(numerator: u128, denominator: u128) -> Option<Milli> {
        if denominator == 0 {
            return None;
        }
        let thousandths = (numerator * 1_000 + denominator / 2) / denominator;
        Some(Milli(i64::try_from(thousandths).unwrap_or(i64::MAX)))
    }

    /// This number over another one, rounded half up; `None` when the other is not positive or
    /// this one is negative.
    pub fn over(self, other: Milli) -> Option<Milli> {
        let numerator = u128::try_from(self.0).ok()?;
        Milli::ratio(numerator, u128::try_from(other.0).ok()?)
    }

    /// The nearest floating-point number, for output only.
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1_000.0
    }

    /// The nearest thousandth of a floating-point number, for bounds read from a file.
    fn from_f64(value: f64) -> Option<Milli> {
        let thousandths = (value * 1_000.0).round();
        (thousandths.abs() < 9.0e15).then_some(Milli(thousandths as i64))
    }
}

impl fmt::Display for Milli {
    /// Always three decimals, unless the formatter's precision says fewer (cut after rounding).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = f.precision().unwrap_or(3).min(3);
        let step = 10i64.pow(3 - places as u32);
        let (sign, size) = if self.0 < 0 { ("-", -self.0) } else { ("", self.0) };
        let size = (size + step / 2) / step * step;
        let (whole, rest) = (size / 1_000, size % 1_000 / step);
        let text = match places {
            0 => format!("{sign}{whole}"),
            _ => format!("{sign}{whole}.{rest:0places$}"),
        };
        f.pad_integral(true, "", &text)
    }
}

impl Serialize for Milli {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 1_000 == 0 {
            return serializer.serialize_i64(self.0 / 1_000);
        }
        serializer.serialize_f64(self.as_f64())
    }
}

impl<'de> Deserialize<'de> for Milli {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Milli, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Milli;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a number, as 30 or 0.85")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Milli, E> {
                let thousandths = value.checked_mul(1_000).map(Milli);
                thousandths.ok_or_else(|| E::custom("too large a number"))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Milli, E> {
                let signed = i64::try_from(value).map_err(|_| E::custom("too large a number"))?;
                self.visit_i64(signed)
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Milli, E> {
                Milli::from_f64(value).ok_or_else(|| E::custom("too large a number"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_rounded_to_the_nearest_thousandth() {
        assert_eq!(Milli::ratio(2, 3), Some(Milli(667)));
        assert_eq!(Milli::ratio(1, 3), Some(Milli(333)));
        assert_eq!(Milli::ratio(1, 0), None);
        assert_eq!(Milli(30_000).over(Milli(72_000)), Some(Milli(417)));
        assert_eq!(Milli(-1).over(Milli(5)), None);
    }

    #[test]
    fn it_prints_as_a_decimal() {
        assert_eq!(Milli(72_040).to_string(), "72.040");
        assert_eq!(format!("{:.2}", Milli(72_046)), "72.05");
        assert_eq!(format!("{:.0}", Milli(999)), "1");
        assert_eq!(format!("{:.1}", Milli(-1_250)), "-1.3");
    }

    #[test]
    fn json_numbers_are_short() {
        let text = serde_json::to_string(&[Milli(417), Milli(72_000), Milli(-500)]);
        assert_eq!(text.expect("plain numbers"), "[0.417,72,-0.5]");
    }
}
