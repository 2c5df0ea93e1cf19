//! `io.max` and `io.min`: lines of `key=value`.

use super::value::{Figures, Value};
use super::words;
use crate::limits::BURST_LENGTH_MAX;
use crate::tree::error::quoted;
use core::num::NonZeroU64;
use iopace_core::group::{Limits, Rates};

/// One of [`Rates`], and how it is written.
struct Key {
    name: &'static str,
    is_bytes: bool,
    rate: fn(&mut Rates) -> &mut Option<NonZeroU64>,
}

/// In the order in which they are printed, the kernel's four first.
const KEYS: [Key; 6] = [
    Key { name: "rbps", is_bytes: true, rate: |rates| &mut rates.rbps },
    Key { name: "wbps", is_bytes: true, rate: |rates| &mut rates.wbps },
    Key { name: "riops", is_bytes: false, rate: |rates| &mut rates.riops },
    Key { name: "wiops", is_bytes: false, rate: |rates| &mut rates.wiops },
    Key { name: "bps", is_bytes: true, rate: |rates| &mut rates.bps },
    Key { name: "iops", is_bytes: false, rate: |rates| &mut rates.iops },
];

/// In the order of [`KEYS`].
fn figures(mut rates: Rates) -> Figures {
    KEYS.map(|key| (key.rate)(&mut rates).map(NonZeroU64::get))
}

/// As ` rbps=1 wiops=2`, each with `suffix` behind its key. What `base` has and `rates` has not is
/// printed as `none`.
fn print_keys(rates: Rates, base: Rates, suffix: &str, none: &str) -> String {
    let mut text = String::new();
    for (key, (value, base)) in KEYS.iter().zip(figures(rates).into_iter().zip(figures(base))) {
        let key = key.name;
        match value {
            Some(value) => text.push_str(&format!(" {key}{suffix}={value}")),
            None if base.is_some() => text.push_str(&format!(" {key}{suffix}={none}")),
            None => {}
        }
    }
    text
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

fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
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

/// Both at once: of each key the lower limit, without bursts.
pub(crate) fn both(mut one: Limits, mut other: Limits) -> Limits {
    let mut both = Rates::default();
    for key in &KEYS {
        let limits = [&mut one, &mut other].map(|limits| *(key.rate)(&mut limits.sustained));
        *(key.rate)(&mut both) = limits.into_iter().flatten().min();
    }
    Limits { sustained: both, ..Limits::default() }
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

/// Sets one key.
fn set(limits: &mut Limits, key: &str, value: &str) -> Result<(), String> {
    match key {
        "burst-length" => {
            let length = words::time(value, None)
                .filter(|length| (1..=BURST_LENGTH_MAX.as_nanos()).contains(&length.as_nanos()));
            limits.burst_length = length.ok_or_else(|| {
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
            limits.iops_size = None;
            return Ok(());
        }
        "iops-size" => {
            let size = words::size(value).and_then(NonZeroU64::new).ok_or_else(|| {
                format!("iops-size is a size above 0, as 4096 or 4k, not {}", quoted(value))
            })?;
            limits.iops_size = Some(size);
            return Ok(());
        }
        _ => {}
    }
    let (name, is_burst) = key.strip_suffix("-burst").map_or((key, false), |k| (k, true));
    let Some(found) = find(name) else {
        return Err(no_key(
            key,
            "rbps, wbps, riops, wiops, bps and iops, each with -burst, burst-length, iops-size",
        ));
    };
    let limit = match value {
        "max" => None,
        _ => Some(NonZeroU64::new(rate(key, found.is_bytes, value)?).ok_or_else(|| {
            format!("{key}=0 would stop the group for ever; {key}=max lifts the limit")
        })?),
    };
    if is_burst {
        *(found.rate)(&mut limits.burst) = limit;
    } else {
        *(found.rate)(&mut limits.sustained) = limit;
        // A burst is above a limit; without the one there is not the other.
        if limit.is_none() {
            *(found.rate)(&mut limits.burst) = None;
        }
    }
    Ok(())
}

/// Whether each burst is above its limit.
fn check_bursts(limits: &Limits) -> Result<(), String> {
    let rates = figures(limits.sustained).into_iter().zip(figures(limits.burst));
    for (key, (sustained, burst)) in KEYS.iter().zip(rates) {
        let key = key.name;
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

impl Value for Limits {
    const IS_PLAIN: bool = false;
    const HAS_DEFAULT: bool = true;

    fn parse(mut self, words: &[&str]) -> Result<Limits, String> {
        if words == ["max"] {
            return Ok(Limits::default());
        }
        for word in words {
            let (key, value) = words::pair(word)?;
            set(&mut self, key, value)?;
        }
        check_bursts(&self)?;
        Ok(self)
    }

    fn print(self, base: Limits) -> String {
        if self == Limits::default() {
            return "max".into();
        }
        let mut text = print_keys(self.sustained, base.sustained, "", "max");
        text.push_str(&print_keys(self.burst, base.burst, "-burst", "max"));
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
        figures(self.sustained)
    }

    fn figure(index: usize, value: u64) -> String {
        format!("{}={value}", KEYS[index].name)
    }
}

impl Value for Rates {
    const IS_PLAIN: bool = false;
    const HAS_DEFAULT: bool = false;

    fn parse(mut self, words: &[&str]) -> Result<Rates, String> {
        if words == ["0"] {
            return Ok(Rates::default());
        }
        for word in words {
            let (key, value) = words::pair(word)?;
            let Some(found) = find(key) else {
                return Err(no_key(key, "rbps, wbps, riops, wiops, bps, iops"));
            };
            if value == "max" {
                return Err(format!("{key} is a guarantee here; {key}=0 takes it away"));
            }
            *(found.rate)(&mut self) = NonZeroU64::new(rate(key, found.is_bytes, value)?);
        }
        Ok(self)
    }

    fn print(self, base: Rates) -> String {
        if self == Rates::default() {
            return "0".into();
        }
        print_keys(self, base, "", "0").trim_start().into()
    }

    fn promises(self) -> Figures {
        figures(self)
    }

    fn figure(index: usize, value: u64) -> String {
        format!("{}={value}", KEYS[index].name)
    }
}
