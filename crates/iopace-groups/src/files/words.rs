//! Numbers, sizes and times in the files of a group.

use super::SIZE_SUFFIXES;
use crate::tree::error::quoted;
use iopace_core::time::Nanos;

/// Suffixes of times, the longest first.
const TIMES: [(&str, u64); 4] =
    [("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];

/// A whole number with one of these units.
fn scaled(word: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    let (_, factor) = units.iter().find(|(name, _)| *name == &word[split..])?;
    word[..split].parse::<u64>().ok()?.checked_mul(*factor)
}

/// A whole number in ASCII digits, without a sign.
pub(super) fn number(word: &str) -> Option<u64> {
    scaled(word, &[("", 1)])
}

/// A number of bytes, with or without a unit.
pub(super) fn size(word: &str) -> Option<u64> {
    scaled(word, &SIZE_SUFFIXES)
}

/// A length of time; `bare` is the unit of a number without one, if there may be one.
pub(super) fn time(word: &str, bare: Option<&str>) -> Option<Nanos> {
    match bare {
        Some(unit) if number(word).is_some() => time(&format!("{word}{unit}"), None),
        _ => scaled(word, &TIMES).map(Nanos),
    }
}

/// A length of whole microseconds in the longest unit that leaves it whole.
pub(super) fn print_time(length: Nanos) -> String {
    let whole = |(_, unit): &&(&str, u64)| length.0.is_multiple_of(*unit);
    let (name, unit) = TIMES[1..].iter().find(whole).unwrap_or(&("us", 1_000));
    format!("{}{name}", length.0 / unit)
}

/// The halves of `key=value`.
pub(super) fn pair(word: &str) -> Result<(&str, &str), String> {
    word.split_once('=').ok_or_else(|| format!("{} is not key=value", quoted(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_take_units() {
        let sizes = [("0", 0), ("64k", 65_536), ("1MiB", 1 << 20), ("2MB", 2_000_000)];
        for (word, bytes) in sizes {
            assert_eq!(size(word), Some(bytes), "{word}");
        }
        for word in ["", "k", "-1", "+1", "1.5M", "1m", "٣", "1e3", "99999999999999T"] {
            assert_eq!(size(word), None, "{word}");
        }
        assert_eq!(time("5000", Some("us")), Some(Nanos::from_millis(5)));
        assert_eq!(time("2min", None), Some(Nanos::from_secs(120)));
        for word in ["5000", "5ns", "ms", "99999999999999999s"] {
            assert_eq!(time(word, None), None, "{word}");
        }
    }

    #[test]
    fn a_printed_time_is_read_as_the_same() {
        for (word, printed) in [("90s", "90s"), ("1500ms", "1500ms"), ("1000us", "1ms")] {
            let length = time(word, None).expect("legal");
            assert_eq!(print_time(length), printed);
            assert_eq!(time(printed, None), Some(length));
        }
    }
}
