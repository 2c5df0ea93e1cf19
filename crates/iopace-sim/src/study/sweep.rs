//! A scenario over values of its own keys, and the file that remembers what has been run.

pub use super::axis::Axis;

use super::edit;
use super::{StudyVariant, VariantOutcome, seeded};
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use toml::Table;

/// The key of the seed.
pub const SEED: &str = "seed";

/// Most points of a sweep: with short runs, minutes on one processor.
pub const POINTS_MAX: usize = 4_096;

/// One combination of values.
#[derive(Clone, Debug)]
pub struct SweepPoint {
    /// What tells it from every other point of every scenario and program: a hash of the scenario
    /// as it is run, and of what runs it.
    pub key: String,
    /// What is run.
    pub variant: StudyVariant,
}

/// All combinations of the values; the last key changes fastest. Each is run with `seeds` seeds,
/// from that of the scenario on. `build` is what runs them, see [`hash`]: what another build has
/// made of a point says nothing about this one.
///
/// # Errors
/// A key or a value that the scenario does not take, named; or too many points.
pub fn points(
    file: &str,
    text: &str,
    axes: &[Axis],
    seeds: u64,
    build: &str,
) -> Result<Vec<SweepPoint>, String> {
    if seeds > 1 && axes.iter().any(|axis| axis.path == SEED && axis.values.len() > 1) {
        return Err("the seed is swept already: say --seeds, or --set seed=..., not both".into());
    }
    let count = axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > POINTS_MAX) {
        return Err(format!("at most {POINTS_MAX} points are run: sweep over fewer values"));
    }
    Scenario::parse(file, text).map_err(|error| error.to_string())?;
    let document: Table = text.parse().map_err(|error| format!("{file}: {error}"))?;
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for axis in axes {
        let longer = combinations.iter().flat_map(|settings| {
            axis.values.iter().map(|value| {
                let one = (axis.path.clone(), value.clone());
                settings.iter().cloned().chain([one]).collect()
            })
        });
        combinations = longer.collect();
    }
    let point = |settings| point(file, &document, settings, (seeds, build));
    combinations.into_iter().map(point).collect()
}

fn point(
    file: &str,
    document: &Table,
    settings: Vec<(String, String)>,
    (seeds, build): (u64, &str),
) -> Result<SweepPoint, String> {
    let mut document = document.clone();
    for (path, value) in &settings {
        edit::set(&mut document, path, value)
            .map_err(|error| format!("{file} with {path}={value}: {error}"))?;
    }
    let words: Vec<String> =
        settings.iter().map(|(path, value)| format!("{path}={value}")).collect();
    let name = words.join(", ");
    let text = toml::to_string(&document).map_err(|error| format!("{file}: {error}"))?;
    let scenario = Scenario::parse(file, &text)
        .map_err(|error| format!("{file} with {name}: {}", error.message.trim_end()))?;
    // As resolved: what the text only names (a model file) may have changed.
    let key = hash(format!("{build}\n{name}\n{seeds} seeds\n{text}\n{scenario:?}").as_bytes());
    let scenarios = seeded(&scenario, scenario.seed, seeds);
    Ok(SweepPoint {
        key,
        variant: StudyVariant { name, settings, footing: scenarios.clone(), scenarios },
    })
}

/// FNV-1a of 64 bits (Fowler, Noll and Vo 1991), twice with different beginnings: the same on every
/// machine and in every version of the language. Of a whole executable it takes a tenth of a
/// second.
pub fn hash(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let begin = (0xcbf2_9ce4_8422_2325, 0x6c62_272e_07bb_0142);
    let (one, two) =
        bytes.iter().fold(begin, |(one, two), byte| (step(one, *byte), step(two, *byte)));
    format!("{one:016x}{two:016x}")
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct SweepLine {
    key: String,
    outcome: VariantOutcome,
}

/// The file that remembers what has been run: one line of JSON for each point. A run that is ended
/// between or within two lines loses what was not yet written, and nothing else.
#[derive(Debug)]
pub struct Store {
    file: File,
}

impl Store {
    /// Opens the file, or makes it, and reads what it remembers. A last line without its end is
    /// ended; a line that cannot be read counts as not there.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<(Store, BTreeMap<String, VariantOutcome>)> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path)?;
        let bytes = std::fs::read(path)?;
        if bytes.last().is_some_and(|byte| *byte != b'\n') {
            // It stays, as a line that cannot be read: somebody else may be at work on the file.
            file.write_all(b"\n")?;
        }
        let lines = bytes.split(|byte| *byte == b'\n');
        let known = lines.filter_map(|line| serde_json::from_slice::<SweepLine>(line).ok());
        let known = known.map(|line| (line.key, line.outcome)).collect();
        Ok((Store { file }, known))
    }

    /// Remembers a point.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&mut self, key: &str, outcome: &VariantOutcome) -> io::Result<()> {
        let line = SweepLine { key: key.into(), outcome: outcome.clone() };
        let mut text = serde_json::to_string(&line).map_err(io::Error::other)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())
    }
}
