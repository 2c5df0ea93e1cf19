//! `iopace sim run`, `compare`, `sweep` and `new` as they are asked for.

use super::super::output::{OutputArgs, TableFormat, schedulers, words};
use crate::scheduler_words::{SchedulerParser, schedulers_and};
use crate::units;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueHint};
use iopace_sim::starters::{STARTERS, Starter};
use std::path::PathBuf;

/// `iopace sim run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A scenario file, or the name of a story of 'iopace sim list'
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Run it under this scheduler, or the file of a policy (./mine.wasm), not the scenario's own
    #[arg(long, value_name = "NAME", value_parser = one_scheduler(), hide_possible_values = true)]
    pub sched: Option<String>,
    /// Run it with so many seeds, from its own on: a row for each, and the means with 95 %
    /// confidence intervals; a check holds if it does with every seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = units::whole::<u64>(1..=1_000))]
    #[arg(conflicts_with_all = ["write_bw_log", "write_lat_log"])]
    pub seeds: u64,
    /// How to print it
    #[arg(long, value_enum, default_value_t)]
    pub format: TableFormat,
    /// Write a report with plots that a browser opens without a network; each task is also run
    /// alone, to say what it gets of that
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write the bandwidth of each task as fio does, to PREFIX_bw.N.log
    #[arg(long, value_name = "PREFIX", value_hint = ValueHint::FilePath)]
    pub write_bw_log: Option<String>,
    /// Write the latency of each task as fio does, to PREFIX_lat.N.log
    #[arg(long, value_name = "PREFIX", value_hint = ValueHint::FilePath)]
    pub write_lat_log: Option<String>,
}

/// `iopace sim compare`
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A scenario file, or the name of a story of 'iopace sim list'
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Schedulers, or files of policies (./mine.wasm), separated by commas; 'none' is the plain
    /// elevator, 'all' is all of them
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = schedulers())]
    pub sched: Vec<String>,
    /// Policies of stage window, separated by commas, or 'all'
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = windows())]
    pub window: Vec<String>,
    /// Policies of stage pace, separated by commas, or 'all'
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = paces())]
    pub pace: Vec<String>,
    /// What the randomness is drawn from [default: as the scenario says]
    #[arg(long, value_name = "N", value_parser = units::whole::<u64>(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Run every variant with so many seeds, and print the means with 95 % confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = units::whole::<u64>(1..=1_000))]
    pub seeds: u64,
    /// Where it goes
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `iopace sim sweep`
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// A scenario file, the name of a story of 'iopace sim list', or, without --set, 'geom' or
    /// 'slots': the published curves, as CSV and SVG
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// A key of the scenario and its values: disk.depth=1..64, disk.depth=1..64*2 (doubling),
    /// disk.window=fixed,latency, task.dd.block=4KiB..1MiB*4, group./vms/web.io.weight=50,100; more
    /// than once for all combinations
    #[arg(long, value_name = "KEY=VALUES")]
    pub set: Vec<String>,
    /// What the randomness is drawn from [default: as the scenario says]
    #[arg(long, value_name = "N", value_parser = units::whole::<u64>(0..=u64::MAX))]
    pub seed: Option<u64>,
    /// Run every point with so many seeds, and print the means with 95 % confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = units::whole::<u64>(1..=1_000))]
    pub seeds: u64,
    /// Where it goes; with --out, points that an earlier run has finished are not run again
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `iopace sim new`
#[derive(Debug, Args)]
pub struct NewArgs {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE", default_value = "scenario.toml", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The question to begin with
    #[arg(long, default_value = STARTERS[0].name, value_parser = starters())]
    pub kind: String,
}

fn one_scheduler() -> SchedulerParser {
    schedulers_and(&["none"])
}

fn starters() -> PossibleValuesParser {
    let value = |one: &Starter| PossibleValue::new(one.name).help(one.question);
    PossibleValuesParser::new(STARTERS.iter().map(value))
}

fn windows() -> PossibleValuesParser {
    words(&["all"], iopace_core::window::REGISTRY.iter().map(|policy| policy.name))
}

fn paces() -> PossibleValuesParser {
    words(&["all"], iopace_core::pace::REGISTRY.iter().map(|policy| policy.name))
}
