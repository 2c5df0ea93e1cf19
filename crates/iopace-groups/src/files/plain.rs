//! `io.weight`, `io.ioprio_class`, `io.latency` and `io.nr_group_requests`.

use super::value::{Figures, Value};
use super::words;
use crate::limits::LATENCY_TARGET_MAX;
use crate::own::Latency;
use crate::tree::Tree;
use crate::tree::error::quoted;
use iopace_core::group::{Class, Slots, Weight};
use iopace_core::limits::{GROUP_WEIGHT_MAX, GROUP_WEIGHT_MIN, NR_REQUESTS_MAX};
use iopace_core::request::GroupId;
use iopace_core::time::Nanos;

/// The only word of a value.
fn only<'a>(words: &[&'a str]) -> Result<&'a str, String> {
    match words {
        [word] => Ok(word),
        _ => Err(format!("one value expected, not {}", quoted(&words.join(" ")))),
    }
}

/// A number within bounds that fits into 32 bits.
fn bounded(word: &str, min: u32, max: u32) -> Option<u32> {
    let value = words::number(word).and_then(|value| u32::try_from(value).ok())?;
    (min..=max).contains(&value).then_some(value)
}

impl Value for Weight {
    const IS_PLAIN: bool = true;
    const HAS_DEFAULT: bool = true;

    fn parse(self, words: &[&str]) -> Result<Weight, String> {
        let word = only(words)?;
        let weight = bounded(word, GROUP_WEIGHT_MIN, GROUP_WEIGHT_MAX).and_then(Weight::new);
        weight.ok_or_else(|| {
            let word = quoted(word);
            format!(
                "a weight is a number from {GROUP_WEIGHT_MIN} to {GROUP_WEIGHT_MAX}, not {word}"
            )
        })
    }

    fn print(self, _: Weight) -> String {
        self.get().to_string()
    }
}

impl Value for Class {
    const IS_PLAIN: bool = true;
    const HAS_DEFAULT: bool = true;

    fn parse(self, words: &[&str]) -> Result<Class, String> {
        let word = only(words)?;
        match word.to_ascii_lowercase().as_str() {
            "1" | "rt" | "realtime" => Ok(Class::RealTime),
            "2" | "be" | "best-effort" => Ok(Class::BestEffort),
            "3" | "idle" => Ok(Class::Idle),
            _ => Err(format!("a class is RT, BE or IDLE (1, 2 or 3), not {}", quoted(word))),
        }
    }

    fn print(self, _: Class) -> String {
        match self {
            Class::RealTime => "RT".into(),
            Class::BestEffort => "BE".into(),
            Class::Idle => "IDLE".into(),
        }
    }
}

impl Value for Latency {
    const IS_PLAIN: bool = false;
    const HAS_DEFAULT: bool = true;

    fn parse(self, words: &[&str]) -> Result<Latency, String> {
        let word = only(words)?;
        if word == "max" {
            return Ok(Latency(None));
        }
        let (key, value) = words::pair(word)?;
        if key != "target" {
            return Err(format!("no key {}; there is: target", quoted(key)));
        }
        let target =
            if value == "max" { Some(Nanos::ZERO) } else { words::time(value, Some("us")) };
        match target {
            Some(Nanos::ZERO) => Ok(Latency(None)),
            Some(target) if target <= LATENCY_TARGET_MAX => Ok(Latency(Some(target))),
            _ => Err(format!(
                "a target is a time up to {}, in microseconds or with a unit (target=5000, \
                 target=5ms), not {}",
                words::print_time(LATENCY_TARGET_MAX),
                quoted(value)
            )),
        }
    }

    fn print(self, _: Latency) -> String {
        format!("target={}", self.0.unwrap_or_default().as_nanos() / 1_000)
    }
}

impl Value for Slots {
    const IS_PLAIN: bool = true;
    const HAS_DEFAULT: bool = true;

    fn parse(mut self, words: &[&str]) -> Result<Slots, String> {
        for (at, word) in words.iter().enumerate() {
            if at == 0 && *word == "max" {
                self.max = None;
            } else if let Some(guaranteed) = word.strip_prefix("guaranteed=") {
                self.guaranteed = bounded(guaranteed, 0, NR_REQUESTS_MAX).ok_or_else(|| {
                    format!(
                        "guaranteed is a number up to {NR_REQUESTS_MAX}, not {}",
                        quoted(guaranteed)
                    )
                })?;
            } else if at > 0 {
                return Err(format!("after the slots comes guaranteed=N, not {}", quoted(word)));
            } else {
                self.max = Some(bounded(word, 1, NR_REQUESTS_MAX).ok_or_else(|| {
                    format!(
                        "slots are a number from 1 to {NR_REQUESTS_MAX} or 'max', not {}",
                        quoted(word)
                    )
                })?);
            }
        }
        match self.max {
            Some(max) if max < self.guaranteed => {
                Err(format!("guaranteed={} is more than the {max} slots", self.guaranteed))
            }
            _ => Ok(self),
        }
    }

    fn print(self, base: Slots) -> String {
        let max = self.max.map_or("max".into(), |max| max.to_string());
        if self.guaranteed == 0 && base.guaranteed == 0 {
            return max;
        }
        format!("{max} guaranteed={}", self.guaranteed)
    }

    fn of_device(tree: &Tree, id: GroupId, device: Option<&str>) -> Option<Slots> {
        let max = Some(tree.group_requests(id, device)?);
        Some(Slots { max, guaranteed: 0 })
    }

    fn ceilings(self) -> Figures {
        [self.max.map(u64::from), None, None, None, None, None]
    }

    fn promises(self) -> Figures {
        let guaranteed = Some(u64::from(self.guaranteed)).filter(|slots| *slots > 0);
        [guaranteed, None, None, None, None, None]
    }

    fn figure(_: usize, value: u64) -> String {
        format!("{value} slots")
    }
}
