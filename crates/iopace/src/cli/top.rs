//! `iopace top` as it is asked for.

use super::FormatArgs;
use crate::units;
use clap::{Args, ValueEnum, ValueHint};
use iopace_core::time::Nanos;
use std::path::PathBuf;

/// What the table is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Groups.
    #[default]
    Groups,
    /// Tasks.
    Tasks,
}

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By name
    Name,
    /// By weight
    Weight,
    /// By bytes read and written per second
    #[default]
    Total,
    /// By bytes read per second
    Read,
    /// By bytes written per second
    Write,
    /// By bytes of buffered writes per second
    Buffered,
    /// By requests per second
    Ops,
    /// By the 99th percentile of latency
    P99,
    /// By slots taken
    Slots,
    /// By dirty memory
    Dirty,
    /// By time waited in iopace
    Waited,
}

const EXAMPLES: &str = "\
Examples:
  iopace top                              what all groups do; ? says which keys there are
  iopace top disk --tasks                 begin with the tasks of this device
  iopace top --batch --count 3            three reports as text, for a script or without a terminal
  iopace top --format json --count 1      one report as a line of JSON

A bar says why requests wait, a letter for each reason: D dirty rate (writers are paced), M dirty
limit, S slot, L limit of the group, T others have their turn, A anticipation, W window; '=' is the
disk at work. Colours are left out where NO_COLOR is set.";

/// `iopace top`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// The device to begin with [default: the first one; with --batch all]
    pub device: Option<String>,
    /// Tasks instead of groups
    #[arg(long)]
    pub tasks: bool,
    /// Groups as a list, not as a tree
    #[arg(long, conflicts_with = "tasks")]
    pub flat: bool,
    /// What comes first
    #[arg(long, value_enum, default_value_t)]
    pub sort: Sort,
    /// Print text instead of taking the terminal
    #[arg(short, long)]
    pub batch: bool,
    /// End after so many reports
    #[arg(short = 'n', long, value_name = "N", value_parser = units::whole::<u64>(1..=u64::MAX))]
    pub count: Option<u64>,
    /// Time between two reports; the daemon makes one each second
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = delay)]
    pub delay: Nanos,
    /// The daemon's control socket [default: the one in the place where 'serve' puts it]
    #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// How to print it; json is a report per line, and implies --batch
    #[command(flatten)]
    pub format: FormatArgs,
}

impl TopArgs {
    /// What is shown first.
    pub fn view(&self) -> View {
        if self.tasks { View::Tasks } else { View::Groups }
    }
}

fn delay(text: &str) -> Result<Nanos, String> {
    let delay = units::parse_time(text)?;
    if delay < Nanos::from_secs(1) {
        return Err("the daemon makes a report each second: 1s at least".into());
    }
    Ok(delay)
}
