//! `iopace sched` as it is asked for.

use super::{FormatArgs, SaveArg, scheduler_names, schedulers};
use crate::units;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

const SCHED_EXAMPLES: &str = "\
Examples:
  iopace sched list                          the schedulers, their parameters and counters
  iopace sched insert -a rr disk             put rr in
  iopace sched configure --set wait_ms=5     change a parameter; DEVICE may be left out if the
                                             daemon has one only
  iopace sched configure -a deadline disk    exchange it for another
  iopace sched destroy disk                  take it out
  iopace sched status --format json          everything, for a script

All of them work under load; nothing in flight is touched.";

/// `iopace sched`
#[derive(Debug, Subcommand)]
#[command(after_help = SCHED_EXAMPLES)]
pub enum SchedCommand {
    /// List the schedulers with their parameters and counters
    List(ListArgs),
    /// Put a scheduler into a device that has none inserted
    Insert(InsertArgs),
    /// Set parameters of the inserted scheduler, or exchange it for another
    Configure(ConfigureArgs),
    /// Take the inserted scheduler out; the device goes on with the default (auto)
    Destroy(DestroyArgs),
    /// Show what devices and their schedulers do
    Status(TargetArgs),
}

/// `iopace sched list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only this scheduler
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO", value_parser = schedulers())]
    pub algorithm: Option<String>,
    /// Where they are at work; without a device and --control, no daemon is asked
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `iopace sched insert`
#[derive(Debug, Args)]
pub struct InsertArgs {
    /// The scheduler
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO", value_parser = scheduler_names())]
    pub algorithm: String,
    /// Set a parameter, as wait_ms=5; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = units::parse_setting)]
    pub set: Vec<(String, u64)>,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace sched configure`
#[derive(Debug, Args)]
pub struct ConfigureArgs {
    /// The scheduler [default: the one that is inserted]
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO", value_parser = scheduler_names())]
    #[arg(required_unless_present = "set")]
    pub algorithm: Option<String>,
    /// Set a parameter, as wait_ms=5; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = units::parse_setting)]
    pub set: Vec<(String, u64)>,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace sched destroy`
#[derive(Debug, Args)]
pub struct DestroyArgs {
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// A device of a daemon.
#[derive(Debug, Args)]
pub struct TargetArgs {
    /// The device [default: the only one there is]
    pub device: Option<String>,
    /// The daemon's control socket [default: the one in the place where 'serve' puts it]
    #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,
}
