//! Sizes, times and rates as they stand in a scenario file: a whole number and its unit, in quotes.

use core::fmt;
use core::str::FromStr;
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};
pub use iopace_disk::units::{RATES, Rate, SIZES, Size, TIMES, Time, UnitError, text};
use serde::{Deserialize, Deserializer, de};

/// How often something comes, from a file: `"200/s"`, `"5/min"`, or bytes as `"10MB/s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerSecond {
    /// So many in that time.
    Requests(u64, Nanos),
    /// As many as move so many bytes.
    Bytes(BytesPerSec),
}

impl PerSecond {
    /// So many requests of a size, in that time.
    pub fn over(self, size: Bytes) -> (u64, Nanos) {
        match self {
            PerSecond::Requests(requests, time) => (requests, time),
            PerSecond::Bytes(rate) => (rate.0, Nanos::from_secs(1).times(size.0)),
        }
    }
}

impl FromStr for PerSecond {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<PerSecond, UnitError> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number = text[..split].parse::<u64>().ok();
        let time = match text[split..].trim() {
            "/s" => Some(Nanos::from_secs(1)),
            "/min" => Some(Nanos::from_secs(60)),
            "/h" => Some(Nanos::from_secs(3_600)),
            _ => None,
        };
        let parsed = match (number, time) {
            (Some(number), Some(time)) => Some(PerSecond::Requests(number, time)),
            _ => text.parse::<Rate>().ok().map(|rate| PerSecond::Bytes(rate.0)),
        };
        let is_some = |rate: &PerSecond| rate.over(Bytes(1)).0 > 0;
        parsed.filter(is_some).ok_or_else(|| {
            UnitError::new(format!(
                "\"{text}\" is not a rate: write a whole number above 0 and one of /s, /min, /h, \
                 or a size per second, as \"10MB/s\""
            ))
        })
    }
}

impl<'de> Deserialize<'de> for PerSecond {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PerSecond, D::Error> {
        deserializer.deserialize_str(Quoted)
    }
}

/// Reads a quoted rate, and says what to write when it is a bare number.
struct Quoted;

impl de::Visitor<'_> for Quoted {
    type Value = PerSecond;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number with its unit in quotes, as \"200/s\"")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<PerSecond, E> {
        text.parse().map_err(E::custom)
    }
}
