//! Sizes, times and rates as they stand in a TOML file: a whole number and its unit, in quotes.

use core::fmt;
use core::str::FromStr;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};
use serde::{Deserialize, Deserializer, de};

/// A size from a file: `"128KiB"`, `"2GiB"`, `"512B"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub Bytes);

/// A length of time from a file: `"5s"`, `"2ms"`, `"45us"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Nanos);

/// A rate from a file: `"117MB/s"`, `"512KiB/s"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(pub BytesPerSec);

/// Units of size and their bytes. Decimal ones are there because disks are sold in them.
pub const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Units of rate and their bytes per second.
pub const RATES: &[(&str, u64)] = &[
    ("B/s", 1),
    ("KiB/s", 1 << 10),
    ("MiB/s", 1 << 20),
    ("GiB/s", 1 << 30),
    ("kB/s", 1_000),
    ("MB/s", 1_000_000),
    ("GB/s", 1_000_000_000),
];

/// Units of time and their nanoseconds.
pub const TIMES: &[(&str, u64)] =
    &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];

/// Why a text is not a size, a time or a rate: what was asked, what is wrong, what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError(String);

impl UnitError {
    /// With this message.
    pub fn new(message: String) -> UnitError {
        UnitError(message)
    }
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnitError {}

/// The shortest text that is read as `value`; of several the one with the smallest unit.
pub fn text(value: u64, units: &[(&str, u64)]) -> String {
    let whole = units.iter().filter(|(_, factor)| value.is_multiple_of(*factor));
    let texts = whole.map(|(unit, factor)| format!("{}{unit}", value / factor));
    texts.min_by_key(|text| text.find(|c: char| !c.is_ascii_digit())).unwrap_or_default()
}

/// Reads a whole number followed by one of the units.
fn parse(text: &str, kind: &str, units: &[(&str, u64)]) -> Result<u64, UnitError> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        return Err(UnitError(format!(
            "\"{text}\" is not a {kind}: write a whole number and one of {}",
            names.join(", ")
        )));
    };
    let value = number.parse::<u64>().ok().and_then(|n| n.checked_mul(*factor));
    value.ok_or_else(|| {
        UnitError(format!("\"{text}\" is not a {kind}: the number is missing or too large"))
    })
}

impl FromStr for Size {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Size, UnitError> {
        parse(text, "size", SIZES).map(|bytes| Size(Bytes(bytes)))
    }
}

impl FromStr for Time {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Time, UnitError> {
        parse(text, "time", TIMES).map(|nanos| Time(Nanos(nanos)))
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Rate, UnitError> {
        parse(text, "rate", RATES).map(|rate| Rate(BytesPerSec(rate)))
    }
}

/// Reads a quoted value, and says what to write when it is a bare number.
struct Quoted<T> {
    example: &'static str,
    made: core::marker::PhantomData<T>,
}

impl<T: FromStr<Err = UnitError>> de::Visitor<'_> for Quoted<T> {
    type Value = T;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number with its unit in quotes, as {}", self.example)
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        let (example, made) = ("\"128KiB\"", core::marker::PhantomData);
        deserializer.deserialize_str(Quoted { example, made })
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let (example, made) = ("\"5s\"", core::marker::PhantomData);
        deserializer.deserialize_str(Quoted { example, made })
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
        let (example, made) = ("\"117MB/s\"", core::marker::PhantomData);
        deserializer.deserialize_str(Quoted { example, made })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_exactly() {
        assert_eq!("128KiB".parse(), Ok(Size(Bytes(131_072))));
        assert_eq!("250 GB".parse(), Ok(Size(Bytes(250_000_000_000))));
        assert_eq!("45us".parse(), Ok(Time(Nanos(45_000))));
        assert_eq!("2min".parse(), Ok(Time(Nanos::from_secs(120))));
        assert_eq!("117MB/s".parse(), Ok(Rate(BytesPerSec(117_000_000))));
        assert!("117MB".parse::<Rate>().is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        for value in [0, 1, 512, 1_000, 1 << 20, 250_000_000_000, 8_333_333, u64::MAX] {
            assert_eq!(text(value, SIZES).parse(), Ok(Size(Bytes(value))));
            assert_eq!(text(value, TIMES).parse(), Ok(Time(Nanos(value))));
            assert_eq!(text(value, RATES).parse(), Ok(Rate(BytesPerSec(value))));
        }
        assert_eq!(text(0, SIZES), "0B");
        assert_eq!(text(250_000_000_000, SIZES), "250GB");
        assert_eq!(text(8_500_000, TIMES), "8500us");
    }

    #[test]
    fn a_wrong_text_says_what_would_be_right() {
        let error = "5".parse::<Time>().expect_err("no unit");
        assert_eq!(
            error.to_string(),
            "\"5\" is not a time: write a whole number and one of ns, us, ms, s, min"
        );
        for text in ["s", "-1s", "1.5s", "99999999999999999999s", "20000000000s"] {
            assert!(text.parse::<Time>().is_err(), "{text}");
        }
        assert!("".parse::<Size>().is_err());
    }
}
