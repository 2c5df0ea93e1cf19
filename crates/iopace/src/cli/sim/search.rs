//! `iopace sim tables`, `score` and `fuzz` as they are asked for.

use super::super::output::{TableFormat, schedulers};
use crate::units;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueHint};
use iopace_core::time::Nanos;
use iopace_core::{pace, window};
use iopace_sim::tables::all::{ALL, TABLES};
use iopace_sim::tables::targets;
use std::path::PathBuf;

/// The names of the tables, the word for all of them, and that for what the sources state of them.
fn tables() -> PossibleValuesParser {
    PossibleValuesParser::new([ALL, targets::TABLE].into_iter().chain(TABLES))
}

/// `iopace sim tables`
#[derive(Debug, Args)]
pub struct TablesArgs {
    /// The table
    #[arg(value_parser = tables(), default_value = ALL)]
    pub table: String,
    /// What the randomness is drawn from
    #[arg(long, default_value_t = 1, value_parser = units::whole::<u64>(0..=u64::MAX))]
    pub seed: u64,
    /// Simulated length of each run of 'geom', as 60s [default: 60s]; 'slots' has 40 s
    #[arg(long, value_parser = units::parse_time)]
    pub duration: Option<Nanos>,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
    /// Write a report, one file that needs nothing else
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// With 'targets': write the page docs/targets.md
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub page: Option<PathBuf>,
}

/// `iopace sim score`
#[derive(Debug, Args)]
pub struct ScoreArgs {
    /// The schedulers, or files of policies (./mine.wasm); 'none' is the plain elevator, 'all' is
    /// all of them
    #[arg(value_name = "SCHED", value_parser = schedulers(), default_value = "all")]
    pub sched: Vec<String>,
    /// The policy of stage window
    #[arg(long, value_name = "NAME", value_parser = windows(), default_value = "fixed")]
    pub window: String,
    /// The policy of stage pace
    #[arg(long, value_name = "NAME", value_parser = paces(), default_value = "rate")]
    pub pace: String,
    /// Only on this disk of the set; more than once for several
    #[arg(long, value_name = "NAME")]
    pub disk: Vec<String>,
    /// What the randomness is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = units::whole::<u64>(0..=u64::MAX))]
    pub seed: u64,
    /// How to print it; json has the figures of every mix
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
    /// Write a report with bars, one file that needs nothing else
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write the scores as a Parquet file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub parquet: Option<PathBuf>,
    /// Write everything into a directory, which is made if it is missing
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

/// `iopace sim fuzz`
#[derive(Debug, Args)]
pub struct FuzzArgs {
    /// The first scenario's number: the same number, the same scenario
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = units::whole::<u64>(0..=u64::MAX))]
    pub seed: u64,
    /// How many scenarios [default: 100, or no bound with --for]
    #[arg(long, value_name = "N", value_parser = units::whole::<u64>(0..=u64::MAX))]
    pub runs: Option<u64>,
    /// Begin no scenario after so long, as 60s
    #[arg(long = "for", value_name = "TIME", value_parser = units::parse_time)]
    pub time: Option<Nanos>,
    /// Where scenario files of what fails are written
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,
    /// Put one scenario file to the test instead of random ones
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all =
        ["runs", "time"])]
    pub file: Option<PathBuf>,
}

fn windows() -> PossibleValuesParser {
    PossibleValuesParser::new(window::REGISTRY.iter().map(|policy| policy.name))
}

fn paces() -> PossibleValuesParser {
    PossibleValuesParser::new(pace::REGISTRY.iter().map(|policy| policy.name))
}
