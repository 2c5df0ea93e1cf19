//! `iopace sim` as it is asked for.

mod search;
mod study;

pub use search::{FuzzArgs, ScoreArgs, TablesArgs};
pub use study::{CompareArgs, NewArgs, RunArgs, SweepArgs};

use super::FormatArgs;
use crate::units;
use clap::{Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

const SIM_EXAMPLES: &str = "\
Examples:
  iopace sim tables --html tables.html       all outcome tables, and what of them holds
  iopace sim tables targets                  every figure of the sources: ours, and if it holds
  iopace sim tables geom                     dd and cvs under every scheduler, beside the source
  iopace sim tables slots                    request slots per group: how soon a newcomer is served
  iopace sim tables pace                     buffered writers, paced by rate and as before 2011
  iopace sim tables congestion               reads beside dd, in more than fifty scenarios
  iopace sim tables further                  weights, slots, exchanges, curves beside the tables
  iopace sim tables rivals                   a small reader beside each kind of big one
  iopace sim tables weights                  groups of 4 and 16 to 1: what each has of its due
  iopace sim tables commits                  a database beside bulk I/O, with nothing set
  iopace sim tables quantum                  shorter goes: less latency, less throughput
  iopace sim score fair rr                   a scorecard on six kinds of disk
  iopace sim fuzz --seed 7 --for 60s         random scenarios with faults, for a minute
  iopace sim trace my.toml --png pace.png    dirty memory, rates, window and pauses, drawn
  iopace sim list                            the stories that come with iopace
  iopace sim run exchange-under-load         one of them
  iopace sim run my.toml --html report.html  your own, with plots
  iopace sim compare my.toml --sched none,rr,fair --html report.html
                                             policies beside each other
  iopace sim new my.toml                     a scenario of your own to begin with
  iopace sim schema > scenario.schema.json   completion and checks in editors
  iopace sim sweep my.toml --set group./service.io.weight=50..400*2 --seeds 5 --out weights
                                             a parameter; can be ended and gone on with
  iopace sim replay trace.blk --disk ssd-sata  a recorded load under every scheduler
  iopace sim sweep geom --out figures        published trade-off curves as CSV and SVG

The same seed gives the same bytes on every machine.";

/// `iopace sim`
#[derive(Debug, Subcommand)]
#[command(after_help = SIM_EXAMPLES)]
pub enum SimCommand {
    /// Print the outcome tables beside the figures of their sources, and what of them holds
    Tables(TablesArgs),
    /// Score schedulers on a fixed set of mixes and disks, as resctl-bench and isol-bench do
    Score(ScoreArgs),
    /// Search for faults: random scenarios and faults; what fails is shrunk to a small file
    Fuzz(FuzzArgs),
    /// Run a scenario and its checks; the status is 1 if one does not hold
    Run(RunArgs),
    /// Run a scenario under several policies, and print what each task gets
    Compare(CompareArgs),
    /// Run a scenario and look at its device all the time: dirty memory against its thresholds,
    /// rates, window, and the pauses of writers
    Trace {
        /// A scenario file, or the name of a story of 'iopace sim list'
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// How often to look
        #[arg(long, default_value = "100ms", value_parser = units::parse_time)]
        every: iopace_core::time::Nanos,
        /// Draw it as SVG
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        svg: Option<PathBuf>,
        /// Draw it as PNG
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        png: Option<PathBuf>,
        /// How to print the looks [default: csv, or nothing if it is drawn]
        #[arg(long, value_enum)]
        format: Option<TraceFormat>,
    },
    /// Replay a recorded load, or a fio job file, under one scheduler beside the other
    Replay(Box<super::ReplayArgs>),
    /// List the stories that come with iopace
    List {
        /// How to print it
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Run a scenario with many values of its keys: what a parameter buys and what it costs
    Sweep(SweepArgs),
    /// Write a scenario to begin with, commented
    New(NewArgs),
    /// Print the schema of scenario files (JSON Schema), by which editors complete and check them
    Schema,
}

/// How to print the looks of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// Comma-separated values
    Csv,
    /// One object per look
    Json,
}
