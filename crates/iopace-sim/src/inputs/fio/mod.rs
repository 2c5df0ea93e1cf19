//! fio job files: what describes load becomes a scenario, everything else is named.
//!
//! # Model
//! Each job, and each of its clones, becomes a task of kind `sequential` or `random`. Its file lies
//! on the simulated disk behind those of the jobs before it; jobs with the same `filename` share
//! one. `stonewall` begins a new wave. A job without `direct=1` goes through the page cache, as in
//! fio; its `rate` is a ceiling, as in fio. The scenario is made as text, so that what is run is
//! what `--print-scenario` shows.
//!
//! # What is done with an option
//! - It describes load and is understood ([`options`] has the list): it does what it does in fio.
//! - It has no effect on load (reports, logs, buffers): nothing, by intention.
//! - Anything else is in [`Job::unknown`], with its line. Nothing is ignored silently.
//!
//! Source: HOWTO of fio 3.33.

mod ini;
mod load;
pub mod options;
mod tasks;
mod values;
mod write;

#[cfg(test)]
mod tests;

use super::{InputError, InputPlace};
use crate::disks;

/// A job file, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The scenario that it becomes.
    pub toml: String,
    /// What a reader should know of how it became one.
    pub notes: Vec<String>,
    /// Options that are not understood, each with its line and its value.
    pub unknown: Vec<String>,
}

/// A mistake: a line and what is wrong.
type Mistake = (u64, String);

impl Job {
    /// Reads the text of a job file for a disk of that name.
    ///
    /// # Errors
    /// The first mistake, with its line and what would be right.
    pub fn parse(file: &str, text: &str, disk: &str) -> Result<Job, InputError> {
        let fail = |(line, message): Mistake| {
            let place = (line > 0).then_some(InputPlace::Line(line));
            InputError { file: file.into(), place, message }
        };
        let built = disks::build(disk).map_err(|error| fail((0, error)))?;
        let sections = ini::parse(text).map_err(fail)?;
        let mut specs = tasks::Specs::default();
        for section in &sections {
            specs.add(section).map_err(fail)?;
        }
        let toml = specs.toml(file, disk, built.capacity()).map_err(fail)?;
        Ok(Job { toml, notes: specs.notes, unknown: specs.unknown })
    }
}
