//! Numbers, sizes and times as fio reads them.
//!
//! Sizes: a whole number, decimal or with `0x`, and k, m, g, t or p, in any case, with an optional
//! `b`. With `kb_base=1024`, the default, `k` is 1024 and `ki` is 1000; with `kb_base=1000` it is
//! the other way round. Times: a whole number and d, h, m, s, ms, us; what it is without a unit the
//! option says.

use iopace_core::time::Nanos;

/// What a letter counts in.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuffixBase(pub(super) u64);

fn split(text: &str) -> Option<(u64, String)> {
    let lower = text.trim().to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(rest) => (rest, 16),
        None => (&lower[..], 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = u64::from_str_radix(&digits[..end], radix).ok()?;
    Some((number, digits[end..].trim().to_owned()))
}

/// A size in bytes.
pub(super) fn size(text: &str, base: SuffixBase) -> Result<u64, String> {
    let wrong = || {
        format!(
            "'{text}' is no size: write a whole number of bytes, or with k, m, g, t or p; percent \
             and zones are not understood"
        )
    };
    let (number, unit) = split(text).ok_or_else(wrong)?;
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, is_iec) = match unit.strip_suffix('i') {
        Some(letter) if !letter.is_empty() => (letter, true),
        _ => (unit, false),
    };
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(wrong()),
    };
    let other = if base.0 == 1_000 { 1_024 } else { 1_000 };
    let factor = if is_iec { other } else { base.0 };
    number.checked_mul(u64::pow(factor, power)).ok_or_else(wrong)
}

/// A time; without a unit it counts in `unit`.
pub(super) fn time(text: &str, unit: Nanos) -> Result<Nanos, String> {
    let wrong =
        || format!("'{text}' is no time: write a whole number, or with d, h, m, s, ms or us");
    let (number, suffix) = split(text).ok_or_else(wrong)?;
    let unit = match suffix.as_str() {
        "" => unit,
        "d" => Nanos::from_secs(86_400),
        "h" => Nanos::from_secs(3_600),
        "m" => Nanos::from_secs(60),
        "s" => Nanos::from_secs(1),
        "ms" | "msec" => Nanos::from_millis(1),
        "us" | "usec" => Nanos::from_micros(1),
        _ => return Err(wrong()),
    };
    number.checked_mul(unit.0).map(Nanos).ok_or_else(wrong)
}

/// A whole number within bounds.
pub(super) fn count(text: &str, min: u64, max: u64) -> Result<u64, String> {
    match split(text) {
        Some((number, unit)) if unit.is_empty() && (min..=max).contains(&number) => Ok(number),
        _ => Err(format!("'{text}' is no whole number from {min} to {max}")),
    }
}

/// A switch: without a value it is on.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "" | "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(format!("'{text}' is neither 0 nor 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_as_in_fio() {
        let cases = [
            ("4k", 4_096, 4_000),
            ("4KiB", 4_000, 4_096),
            ("1M", 1 << 20, 1_000_000),
            ("2gb", 2 << 30, 2_000_000_000),
            ("0x1000", 4_096, 4_096),
            ("512", 512, 512),
            ("7b", 7, 7),
        ];
        for (text, binary, decimal) in cases {
            assert_eq!(size(text, SuffixBase(1_024)), Ok(binary), "{text}");
            assert_eq!(size(text, SuffixBase(1_000)), Ok(decimal), "{text}");
        }
        for text in ["", "k", "20%", "3z", "-1", "1.5k", "99999999999999999999", "99999999p"] {
            assert!(size(text, SuffixBase(1_024)).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_the_unit_of_their_option() {
        let second = Nanos::from_secs(1);
        assert_eq!(time("30", second), Ok(Nanos::from_secs(30)));
        assert_eq!(time("10m", second), Ok(Nanos::from_secs(600)));
        assert_eq!(time("50", Nanos::from_micros(1)), Ok(Nanos::from_micros(50)));
        assert_eq!(time("50ms", Nanos::from_micros(1)), Ok(Nanos::from_millis(50)));
        for text in ["", "s", "1.5s", "1 year", "99999999999999d"] {
            assert!(time(text, second).is_err(), "{text}");
        }
    }
}
