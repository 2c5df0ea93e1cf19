//! Sizes, times and settings as they are written on the command line and in the configuration file.

use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
pub use iopace_daemon::figures::{percent, reason_word, shell_word, size, time};
use iopace_groups::files::SIZE_SUFFIXES;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// Suffixes of times.
const TIMES: &[(&str, u64)] =
    &[("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];

fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim());
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor).filter(|value| *value > 0)
}

/// Reads a size, as `4GiB`.
///
/// # Errors
/// The right form.
pub fn parse_size(text: &str) -> Result<Bytes, String> {
    parse(text, &SIZE_SUFFIXES).map(Bytes).ok_or_else(|| {
        "a size is a whole number above 0 and a unit: 4GiB, 256MiB, 64k (k, M, G and T count in \
         1024; kB, MB, GB and TB in 1000)"
            .into()
    })
}

/// Reads a length of time, as `60s`.
///
/// # Errors
/// The right form.
pub fn parse_time(text: &str) -> Result<Nanos, String> {
    parse(text, TIMES)
        .map(Nanos)
        .ok_or_else(|| "a time is a whole number above 0 and a unit: 60s, 500ms, 2min".into())
}

/// Reads a setting, as `wait_ms=5`.
///
/// # Errors
/// The right form.
pub fn parse_setting(text: &str) -> Result<(String, u64), String> {
    let setting = text.split_once('=').and_then(|(name, value)| {
        let (name, value) = (name.trim(), value.trim());
        let value = value.parse::<u64>().ok()?;
        (!name.is_empty()).then(|| (name.to_owned(), value))
    });
    setting.ok_or_else(|| {
        "a setting is a parameter's name, '=', and a whole number: wait_ms=5 (see 'iopace sched \
         list')"
            .into()
    })
}

/// Reads a whole number of that range: with what is expected where the option's own words would
/// be those of a program.
pub fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            match (least, *most) {
                (0, u64::MAX) => "a whole number is needed".into(),
                (_, u64::MAX) => format!("a whole number from {least} on is needed"),
                _ => format!("a whole number from {least} to {most} is needed"),
            }
        })
    }
}

/// Reads an address with its port, as `127.0.0.1:10809`.
///
/// # Errors
/// The right form.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "a numeric address and a port are needed, as 127.0.0.1:10809 or [::1]:10809".into()
    })
}

/// Reads the mode of a socket, as `0660`: its owner may always connect.
///
/// # Errors
/// The right form.
pub fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    let is_right = |mode: &u32| *mode <= 0o777 && mode & 0o600 == 0o600;
    mode.filter(is_right).ok_or_else(|| {
        "a mode of four octal digits is needed, in which the owner may read and write: 0600, 0660, \
         0666"
            .into()
    })
}

/// Reads a group of users: a name of this system, or a number.
///
/// # Errors
/// The right form.
pub fn parse_users(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().or_else(|| iopace_daemon::group_number(text));
    number.ok_or_else(|| {
        format!("there is no group of users '{text}' here: see 'getent group', or write its number")
    })
}

/// A size in at most five letters, for a table, as `1.9G`; it counts in 1024 and may be entered so
/// where it is whole.
pub fn short_size(bytes: u64) -> String {
    for (shift, name) in [(60, "E"), (50, "P"), (40, "T"), (30, "G"), (20, "M"), (10, "k")] {
        let tenths = (u128::from(bytes) * 10) >> shift;
        match (tenths / 10, tenths % 10) {
            (0, _) => {}
            (whole, tenth @ 1..) if whole < 100 => return format!("{whole}.{tenth}{name}"),
            (whole, _) => return format!("{whole}{name}"),
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_users_write_them() {
        let cases = [
            ("4GiB", 4 << 30),
            ("4G", 4 << 30),
            ("64k", 65_536),
            ("512", 512),
            ("250 GB", 250_000_000_000),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "0", "G", "1.5G", "-1", "4gib", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn settings_have_a_name_and_a_number() {
        assert_eq!(parse_setting("wait_ms=5"), Ok(("wait_ms".into(), 5)));
        for text in ["wait_ms", "=5", "wait_ms=", "wait_ms=5ms", "wait_ms=-1"] {
            assert!(parse_setting(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_mode_is_octal_and_lets_the_owner_in() {
        let read = |text| parse_mode(text).ok();
        assert_eq!(
            (read("0660"), read("666"), read("0600")),
            (Some(0o660), Some(0o666), Some(0o600))
        );
        for text in ["", "0060", "0440", "1660", "0690", "rw", "-600"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!((parse_users("root"), parse_users("12")), (Ok(0), Ok(12)));
        assert!(parse_users("no such group").is_err());
    }

    #[test]
    fn whole_numbers_have_their_range() {
        let read = |range, text| whole::<u32>(range)(text);
        assert_eq!((read(1..=9, "9"), read(0..=u64::MAX, "0")), (Ok(9), Ok(0)));
        let wrong = |range, text| read(range, text).expect_err("refused");
        for text in ["", "abc", "-1", "1.5", "0", "10", "99999999999999999999"] {
            assert_eq!(wrong(1..=9, text), "a whole number from 1 to 9 is needed", "{text}");
        }
        assert_eq!(wrong(1..=u64::MAX, "x"), "a whole number from 1 on is needed");
        assert_eq!(wrong(0..=u64::MAX, "4294967296"), "a whole number is needed");
    }

    #[test]
    fn sizes_and_times_are_printed_short() {
        assert_eq!(size(1 << 30), "1 GiB");
        assert_eq!(size(3 << 29), "1.5 GiB");
        assert_eq!(size(u64::MAX), "16777215.9 TiB");
        assert_eq!(size(5), "5 B");
        let short = [(0, "0"), (1023, "1023"), (1024, "1k"), (1536, "1.5k"), (1_047_552, "1023k")];
        for (bytes, text) in short {
            assert_eq!(short_size(bytes), text);
        }
        assert_eq!(short_size(104_806_400), "99.9M");
        assert_eq!(short_size(104_964_096), "100M");
        assert_eq!(short_size(u64::MAX), "15.9E");
        assert_eq!(time(0), "0");
        assert_eq!(time(999), "999 ns");
        assert_eq!(time(4_230_000), "4.2 ms");
        assert_eq!(time(423_000_000), "423 ms");
        assert_eq!(time(90_000_000_000), "90.0 s");
    }
}
