//! The description of a policy, as it says it itself: nothing in it is believed before it is
//! checked.

use crate::limits::{COUNTERS_MAX, NAME_BYTES_MAX, TEXT_CHARS_MAX};
use crate::text::{is_plain, printable};
use iopace_core::limits::PARAMETERS_MAX;
use serde::Deserialize;

/// The description, checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) summary: String,
    #[serde(default)]
    pub(crate) parameters: Vec<Parameter>,
    #[serde(default)]
    pub(crate) counters: Vec<Counter>,
    #[serde(default)]
    pub(crate) learns: bool,
    #[serde(default)]
    pub(crate) run_ahead: bool,
    #[serde(default)]
    pub(crate) divides: bool,
}

/// A parameter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) min: u64,
    pub(crate) default: u64,
    pub(crate) max: u64,
    pub(crate) doc: String,
}

/// A counter.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counter {
    pub(crate) name: String,
    pub(crate) doc: String,
}

impl Description {
    /// Reads and checks it.
    ///
    /// # Errors
    /// A sentence: the place, and what is wrong there.
    pub(crate) fn read(json: &[u8]) -> Result<Description, String> {
        let json = str::from_utf8(json).map_err(|error| format!("it is no UTF-8: {error}"))?;
        let description: Description = serde_json::from_str(json)
            .map_err(|error| printable(&error.to_string(), 2 * TEXT_CHARS_MAX))?;
        description.check()?;
        Ok(description)
    }

    fn check(&self) -> Result<(), String> {
        name("name", &self.name, false)?;
        text("version", &self.version)?;
        text("summary", &self.summary)?;
        let is_few = |list: &str, count: usize, most: usize| match count <= most {
            true => Ok(()),
            false => Err(format!("{list}: {count} are more than {most}")),
        };
        is_few("parameters", self.parameters.len(), PARAMETERS_MAX)?;
        is_few("counters", self.counters.len(), COUNTERS_MAX)?;
        for (i, parameter) in self.parameters.iter().enumerate() {
            parameter.check(&format!("parameters[{i}]"))?;
        }
        for (i, counter) in self.counters.iter().enumerate() {
            name(&format!("counters[{i}].name"), &counter.name, true)?;
            text(&format!("counters[{i}].doc"), &counter.doc)?;
        }
        differ("parameters", self.parameters.iter().map(|parameter| &parameter.name))?;
        differ("counters", self.counters.iter().map(|counter| &counter.name))
    }
}

impl Parameter {
    fn check(&self, place: &str) -> Result<(), String> {
        name(&format!("{place}.name"), &self.name, true)?;
        text(&format!("{place}.unit"), &self.unit)?;
        text(&format!("{place}.doc"), &self.doc)?;
        let Parameter { min, default, max, .. } = self;
        match min <= default && default <= max {
            true => Ok(()),
            false => Err(format!("{place}: {min} <= {default} <= {max} does not hold")),
        }
    }
}

/// A name: a letter, then letters, digits and hyphens, and underscores where those may be.
fn name(place: &str, name: &str, underscores: bool) -> Result<(), String> {
    let may_be = |char: u8| {
        matches!(char, b'a'..=b'z' | b'0'..=b'9' | b'-') || (underscores && char == b'_')
    };
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.starts_with(|char: char| char.is_ascii_lowercase())
        && name.bytes().all(may_be);
    let or = if underscores { ", - and _" } else { " and -" };
    match is_good {
        true => Ok(()),
        false => Err(format!(
            "{place} '{}' is not 1 to {NAME_BYTES_MAX} of a-z, 0-9{or}, a letter first",
            printable(name, NAME_BYTES_MAX)
        )),
    }
}

/// A text for people.
fn text(place: &str, text: &str) -> Result<(), String> {
    let length = text.chars().count();
    if length == 0 || length > TEXT_CHARS_MAX {
        return Err(format!("{place} has {length} characters, not 1 to {TEXT_CHARS_MAX}"));
    }
    match text.chars().all(is_plain) {
        true => Ok(()),
        false => Err(format!("{place} has control characters")),
    }
}

/// No name twice.
fn differ<'a>(list: &str, names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut names: Vec<&String> = names.collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(format!("{list}: '{}' is there twice", pair[0])),
    }
}
