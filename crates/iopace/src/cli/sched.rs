//! `iopace sched` as it is asked for.

use super::{DaemonArgs, FormatArgs, SaveArg};
use crate::scheduler_words::RemoteSchedulerParser;
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
  iopace sched load ./mine.wasm              a scheduler of your own, a module of WebAssembly
  iopace sched insert -a mine disk           put it in, as any other

All of them work under load; nothing in flight is touched.";

const LOAD_EXAMPLES: &str = "\
Examples:
  iopace sched load ./mine.wasm              its name is the one that it says itself
  iopace sched insert -a mine disk           requests go on; what is queued moves over
  iopace sched load --replace ./mine.wasm    a new build of it takes its place on all devices
  iopace sched destroy disk                  the device goes on with the default (auto)
  iopace sched unload mine                   it is not found any more

A policy computes and nothing else: it reaches no file, no clock and no memory but its own, and each
call of it has an end. One that fails is replaced by fifo, requests go on, and 'iopace events' says
why. In a configuration file: policies = [\"/etc/iopace/mine.wasm\"].";

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
    /// Load a policy, a scheduler of your own: a WebAssembly module (docs/policy-abi.md)
    Load(LoadArgs),
    /// Take a loaded policy out again, if no device has it
    Unload(UnloadArgs),
}

/// `iopace sched list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Only this scheduler, or that of a file (./mine.wasm), which no daemon need have
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO")]
    #[arg(value_parser = RemoteSchedulerParser { has_auto: false })]
    pub algorithm: Option<String>,
    /// Where they are at work; without a device and --control, those of this program, and what
    /// running daemons have loaded
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `iopace sched insert`
#[derive(Debug, Args)]
pub struct InsertArgs {
    /// The scheduler, or the file of a policy (./mine.wasm), which is loaded first
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO")]
    #[arg(value_parser = RemoteSchedulerParser { has_auto: true })]
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
    /// The scheduler, or the file of a policy (./mine.wasm) [default: the one that is inserted]
    #[arg(short = 'a', long = "algorithm", value_name = "ALGO")]
    #[arg(value_parser = RemoteSchedulerParser { has_auto: true })]
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

/// `iopace sched load`
#[derive(Debug, Args)]
#[command(after_help = LOAD_EXAMPLES)]
pub struct LoadArgs {
    /// The module, as ./mine.wasm; it is read with your rights, and sent to the daemon
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Put it in the place of the policy of its name, also on the devices that have that: they keep
    /// their parameters, and nothing is changed if it cannot be loaded
    #[arg(long)]
    pub replace: bool,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace sched unload`
#[derive(Debug, Args)]
pub struct UnloadArgs {
    /// Its name, see 'iopace sched list'
    pub name: String,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
    /// Keep it so
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
