//! Where a scheduler is named on the command line: by its name, or by the file of a policy.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, Error};
use iopace_core::sched::{self, AUTO, Algorithm, REGISTRY};
use iopace_daemon::loadable;
use std::ffi::OsStr;
use std::path::Path;

/// A scheduler of this process. The file of a policy (`./mine.wasm`) is loaded where it is named,
/// and the value is the name of its scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerParser {
    values: Vec<PossibleValue>,
}

/// A scheduler of a running daemon, which knows the names. The file of a policy stays a file: it is
/// sent to that daemon.
#[derive(Clone, Debug)]
pub struct RemoteSchedulerParser {
    /// Whether the word for the recommended one may stand there.
    pub has_auto: bool,
}

/// Schedulers that a device of this process may have.
pub fn scheduler_names() -> SchedulerParser {
    SchedulerParser { values: sched_values(true) }
}

/// Schedulers and these words.
pub fn schedulers_and(words: &[&'static str]) -> SchedulerParser {
    let words = words.iter().copied().map(PossibleValue::new);
    let names = REGISTRY.iter().map(|algorithm| PossibleValue::new(algorithm.name));
    SchedulerParser { values: words.chain(names).collect() }
}

impl TypedValueParser for SchedulerParser {
    type Value = String;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        match value.to_str() {
            Some(word) if loadable::is_file(word) => load.parse_ref(cmd, arg, value),
            // One that was loaded for another word of the same command.
            Some(word) if sched::find(word).is_some() => Ok(word.to_owned()),
            word => {
                let names = PossibleValuesParser::new(self.values.clone());
                let parsed = names.parse_ref(cmd, arg, value);
                parsed.map_err(|error| match word.filter(|word| is_name(word)) {
                    Some(word) => with_file(error, word),
                    None => error,
                })
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.values.iter().cloned()))
    }
}

impl TypedValueParser for RemoteSchedulerParser {
    type Value = String;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        match value.to_str() {
            Some(AUTO) if !self.has_auto => self.values().parse_ref(cmd, arg, value),
            Some(word) if loadable::is_file(word) || is_name(word) => Ok(word.to_owned()),
            _ => self.values().parse_ref(cmd, arg, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(sched_values(self.has_auto).into_iter()))
    }
}

impl RemoteSchedulerParser {
    fn values(&self) -> PossibleValuesParser {
        PossibleValuesParser::new(sched_values(self.has_auto))
    }
}

/// The schedulers that are compiled in, and before them the word for the recommended one.
fn sched_values(has_auto: bool) -> Vec<PossibleValue> {
    let name = sched::recommended().name;
    let about = format!("the recommended one, {name}, which finds out what the disk is");
    let auto = PossibleValue::new(AUTO).help(about);
    let algorithms = REGISTRY.iter();
    let named =
        algorithms.map(|algorithm| PossibleValue::new(algorithm.name).help(algorithm.summary));
    has_auto.then_some(auto).into_iter().chain(named).collect()
}

/// Loads a policy, for a scenario.
///
/// # Errors
/// The reason, with what would be right.
pub fn loaded(path: &Path) -> Result<&'static Algorithm, String> {
    let loaded = loadable::load(path).map_err(|error| error.to_string())?;
    sched::find(&loaded.name).ok_or_else(|| format!("policy '{}' is gone again", loaded.name))
}

/// Loads a policy; the name of its scheduler.
fn load(path: &str) -> Result<String, String> {
    let loaded = loadable::load(Path::new(path)).map_err(|error| error.to_string())?;
    Ok(loaded.name)
}

/// A name that is not known, with the way to name a policy.
fn with_file(mut error: Error, word: &str) -> Error {
    let hint = format!("a policy of your own is named by its file: './{word}.wasm'");
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    error
}

/// Whether a scheduler may have this name.
fn is_name(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    word.len() <= NAME_MAX && !word.is_empty() && word.bytes().all(is_part)
}

/// Longest name of a policy, see docs/policy-abi.md.
const NAME_MAX: usize = 32;
