//! `iopace sim replay` as it is asked for.

use super::output::{OutputArgs, schedulers};
use super::{DiskParser, window_policies};
use crate::units;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum, ValueHint};
use iopace_daemon::config::WINDOW_DEFAULT;
use iopace_sim::inputs::place::Speed;
use iopace_sim::inputs::{Format, OUTSTANDING_MAX};
use std::path::PathBuf;

/// `iopace sim replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Traces (fio iolog, blktrace, blkparse output, MSR Cambridge CSV), replayed beside each
    /// other, or one fio job file, or one file of 'iopace record'
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Schedulers, or files of policies (./mine.wasm), separated by commas; 'none' is the plain
    /// elevator, 'all' is all of them
    /// [default: all, or for more than 200000 requests none, deadline and fair; fair is what a
    /// daemon has; of a recording the recorded one]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = schedulers())]
    pub sched: Vec<String>,
    /// How many requests the disk holds [default: latency, as a daemon has it; of a recording the
    /// recorded one]
    #[arg(long, value_name = "NAME", value_parser = window_policies())]
    pub window: Option<String>,
    /// The disk: a preset (see 'iopace models') or a model file (*.toml) [default: hdd-sata-250g;
    /// of a recorded emulated disk its own model]
    #[arg(long, value_name = "MODEL", value_parser = DiskParser)]
    pub disk: Option<String>,
    /// Submit in the order of the trace as fast as requests finish, not by time stamps
    #[arg(long)]
    pub closed: bool,
    /// Most requests outstanding in a closed loop [default: as in the trace where it tells, else 1]
    #[arg(long, value_name = "N", requires = "closed",
          value_parser = units::whole::<u32>(1..=u64::from(OUTSTANDING_MAX)))]
    pub depth: Option<u32>,
    /// Keep the pauses between requests in a closed loop
    #[arg(long, requires = "closed")]
    pub think: bool,
    /// So many times as fast as it was recorded, as 2 or 0.5
    #[arg(long, value_name = "X", default_value = "1", value_parser = parse_speed)]
    pub speed: Speed,
    /// What becomes of offsets beyond the end of the disk
    #[arg(long, value_enum, default_value_t)]
    pub fit: FitArg,
    /// Of a recording: notice completions when the disk model has done them, not as late as the
    /// daemon noticed them live, on average
    #[arg(long)]
    pub on_time: bool,
    /// The format of the files [default: told by their content]
    #[arg(long, value_name = "NAME", value_parser = formats())]
    pub input_format: Option<String>,
    /// Refuse a job file with options that are not understood
    #[arg(long)]
    pub strict: bool,
    /// Print the scenario that a job file becomes, and run nothing
    #[arg(long)]
    pub print_scenario: bool,
    /// Where it goes
    #[command(flatten)]
    pub output: OutputArgs,
}

impl ReplayArgs {
    /// The window of a replay that names none.
    pub fn window(&self) -> &str {
        self.window.as_deref().unwrap_or(WINDOW_DEFAULT)
    }

    /// The disk of a replay that names none.
    pub fn disk(&self) -> &str {
        self.disk.as_deref().unwrap_or("hdd-sata-250g")
    }
}

/// What becomes of offsets beyond the end of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FitArg {
    /// They go on at the beginning
    #[default]
    Wrap,
    /// All are scaled down
    Scale,
    /// They are a mistake
    Refuse,
}

fn formats() -> PossibleValuesParser {
    let all = Format::ALL.iter();
    PossibleValuesParser::new(
        all.map(|(_, name, what)| clap::builder::PossibleValue::new(*name).help(*what)),
    )
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    Speed::parse(text).ok_or_else(|| {
        "a speed is a number with up to three decimals, from 0.001 to 1000000, as 2 or 0.5".into()
    })
}
