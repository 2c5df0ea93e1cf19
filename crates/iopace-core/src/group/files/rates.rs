//! `io.max` and `io.min`: lines of `key=value`.

use super::super::tree::error::quoted;
use super::super::{Limits, Rates};
use super::own::{Figures, Own, Table, Value};
use super::words;
use crate::limits::BURST_LENGTH_MAX;
use core::num::NonZeroU64;

/// The keys of [`Rates`] in the order in which they are printed, the kernel's four first, and
/// whether they count bytes.
const KEYS: [(&str, bool); 6] = [
    ("rbps", true),
    ("wbps", true),
    ("riops", false),
    ("wiops", false),
    ("bps", true),
    ("iops", false),
];

impl Rates {
    /// In the order of [`KEYS`].
    fn figures(self) -> [Option<NonZeroU64>; 6] {
        [self.rbps, self.wbps, self.riops, self.wiops, self.bps, self.iops]
    }

    /// The rate at a place of [`KEYS`].
    fn at(&mut self, index: usize) -> &mut Option<NonZeroU64> {
        match index {
            0 => &mut self.rbps,
            1 => &mut self.wbps,
            2 => &mut self.riops,
            3 => &mut self.wiops,
            4 => &mut self.bps,
            _ => &mut self.iops,
        }
    }

    /// As ` rbps=1 wiops=2`, each with `suffix` behind its key. What `base` has and this has not
    /// is printed as `none`.
    fn print_keys(self, base: Rates, suffix: &str, none: &str) -> String {
        let mut text = String::new();
        for ((key, _), (value, base)) in KEYS.iter().zip(self.figures().iter().zip(base.figures()))
        {
            match value {
                Some(value) => text.push_str(&format!(" {key}{suffix}={value}")),
                None if base.is_some() => text.push_str(&format!(" {key}{suffix}={none}")),
                None => {}
            }
        }
        text
    }
}

/// A rate, zero included.
fn rate(key: &str, is_bytes: bool, value: &str) -> Result<u64, String> {
    let rate = if is_bytes { words::size(value) } else { words::number(value) };
    let right = if is_bytes {
        "bytes per second, as 2097152, 2M or 2MiB"
    } else {
        "requests per second, a whole number"
    };
    rate.ok_or_else(|| format!("{key} is in {right}, not {}", quoted(value)))
}

/// The place of a key in [`KEYS`].
fn place(key: &str) -> Option<usize> {
    KEYS.iter().position(|(name, _)| *name == key)
}

/// Our name for a key of QEMU's throttling, in its present spelling (`bps-total-max`) or the old
/// one (`bps_max`, `throttling.bps_rd`).
fn from_qemu(key: &str) -> Option<String> {
    let key = key.strip_prefix("throttling.").unwrap_or(key).replace('_', "-");
    if key == "iops-size" {
        return Some(key);
    }
    let (key, is_length) = key.strip_suffix("-length").map_or((key.as_str(), false), |k| (k, true));
    let (key, is_burst) = key.strip_suffix("-max").map_or((key, false), |k| (k, true));
    let rate = match key.split_once('-').unwrap_or((key, "total")) {
        (rate @ ("bps" | "iops"), "total") => rate.to_string(),
        (rate @ ("bps" | "iops"), "read" | "rd") => format!("r{rate}"),
        (rate @ ("bps" | "iops"), "write" | "wr") => format!("w{rate}"),
        _ => return None,
    };
    match (is_length, is_burst) {
        (true, _) => Some("burst-length".into()),
        (false, true) => Some(format!("{rate}-burst")),
        (false, false) => Some(rate),
    }
}

/// There is no such key.
fn no_key(key: &str, there_are: &str) -> String {
    match from_qemu(key) {
        Some(ours) if ours != key => {
            format!("no key {}: what QEMU calls so is {ours} here", quoted(key))
        }
        _ => format!("no key {}; there are: {there_are}", quoted(key)),
    }
}

impl Limits {
    /// Sets one key.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "burst-length" => {
                let length = words::time(value, None).filter(|length| {
                    (1..=BURST_LENGTH_MAX.as_nanos()).contains(&length.as_nanos())
                });
                self.burst_length = length.ok_or_else(|| {
                    format!(
                        "burst-length is a time with a unit, above 0 and up to {}, as 10s or \
                         500ms, not {}",
                        words::print_time(BURST_LENGTH_MAX),
                        quoted(value)
                    )
                })?;
                return Ok(());
            }
            "iops-size" if value == "max" => {
                self.iops_size = None;
                return Ok(());
            }
            "iops-size" => {
                let size = words::size(value).and_then(NonZeroU64::new).ok_or_else(|| {
                    format!("iops-size is a size above 0, as 4096 or 4k, not {}", quoted(value))
                })?;
                self.iops_size = Some(size);
                return Ok(());
            }
            _ => {}
        }
        let (name, is_burst) = key.strip_suffix("-burst").map_or((key, false), |k| (k, true));
        let Some(index) = place(name) else {
            return Err(no_key(
                key,
                "rbps, wbps, riops, wiops, bps and iops, each with -burst, burst-length, iops-size",
            ));
        };
        let limit = match value {
            "max" => None,
            _ => Some(NonZeroU64::new(rate(key, KEYS[index].1, value)?).ok_or_else(|| {
                format!("{key}=0 would stop the group for ever; {key}=max lifts the limit")
            })?),
        };
        if is_burst {
            *self.burst.at(index) = limit;
        } else {
            *self.sustained.at(index) = limit;
            // A burst is above a limit; without the one there is not the other.
            if limit.is_none() {
                *self.burst.at(index) = None;
            }
        }
        Ok(())
    }

    /// Whether each burst is above its limit.
    fn check_bursts(&self) -> Result<(), String> {
        let rates = self.sustained.figures().into_iter().zip(self.burst.figures());
        for ((key, _), (sustained, burst)) in KEYS.iter().zip(rates) {
            match (sustained, burst) {
                (None, Some(_)) => {
                    return Err(format!("{key}-burst is for a moment above {key}; set {key} too"));
                }
                (Some(sustained), Some(burst)) if burst < sustained => {
                    return Err(format!(
                        "{key}-burst={burst} is below {key}={sustained}; a burst is at least the \
                         limit, and {key}-burst=max takes it away"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Value for Limits {
    const FILE: &'static str = "io.max";
    const IS_PLAIN: bool = false;
    const HAS_DEFAULT: bool = true;

    fn table(own: &Own) -> &Table<Limits> {
        &own.max
    }

    fn table_mut(own: &mut Own) -> &mut Table<Limits> {
        &mut own.max
    }

    fn parse(mut self, words: &[&str]) -> Result<Limits, String> {
        if words == ["max"] {
            return Ok(Limits::default());
        }
        for word in words {
            let (key, value) = words::pair(word)?;
            self.set(key, value)?;
        }
        self.check_bursts()?;
        Ok(self)
    }

    fn print(self, base: Limits) -> String {
        if self == Limits::default() {
            return "max".into();
        }
        let mut text = self.sustained.print_keys(base.sustained, "", "max");
        text.push_str(&self.burst.print_keys(base.burst, "-burst", "max"));
        if self.burst_length != base.burst_length
            || self.burst_length != Limits::default().burst_length
        {
            text.push_str(&format!(" burst-length={}", words::print_time(self.burst_length)));
        }
        match self.iops_size {
            Some(size) => text.push_str(&format!(" iops-size={size}")),
            None if base.iops_size.is_some() => text.push_str(" iops-size=max"),
            None => {}
        }
        text.trim_start().into()
    }

    fn ceilings(self) -> Figures {
        self.sustained.figures().map(|rate| rate.map(NonZeroU64::get))
    }

    fn figure(index: usize, value: u64) -> String {
        format!("{}={value}", KEYS[index].0)
    }
}

impl Value for Rates {
    const FILE: &'static str = "io.min";
    const IS_PLAIN: bool = false;
    const HAS_DEFAULT: bool = false;

    fn table(own: &Own) -> &Table<Rates> {
        &own.min
    }

    fn table_mut(own: &mut Own) -> &mut Table<Rates> {
        &mut own.min
    }

    fn parse(mut self, words: &[&str]) -> Result<Rates, String> {
        if words == ["0"] {
            return Ok(Rates::default());
        }
        for word in words {
            let (key, value) = words::pair(word)?;
            let Some(index) = place(key) else {
                return Err(no_key(key, "rbps, wbps, riops, wiops, bps, iops"));
            };
            if value == "max" {
                return Err(format!("{key} is a guarantee here; {key}=0 takes it away"));
            }
            *self.at(index) = NonZeroU64::new(rate(key, KEYS[index].1, value)?);
        }
        Ok(self)
    }

    fn print(self, base: Rates) -> String {
        if self == Rates::default() {
            return "0".into();
        }
        self.print_keys(base, "", "0").trim_start().into()
    }

    fn promises(self) -> Figures {
        self.figures().map(|rate| rate.map(NonZeroU64::get))
    }

    fn figure(index: usize, value: u64) -> String {
        format!("{}={value}", KEYS[index].0)
    }
}
