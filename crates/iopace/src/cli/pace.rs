//! `iopace pace` as it is asked for.

use super::{SaveArg, TargetArgs, TraceFormat, pace_policies};
use crate::units;
use clap::{Args, Subcommand, ValueHint};
use iopace_core::time::Nanos;
use std::path::PathBuf;

const PACE_EXAMPLES: &str = "\
Examples:
  iopace pace list                           the policies
  iopace pace status                         dirty memory, rates and pauses of all devices
  iopace pace configure -a none disk         no pacing: as much as memory takes
  iopace pace configure -a rate              DEVICE may be left out if the daemon has one only
  iopace pace configure --pause-target 5ms   shorter pauses, more of them
  iopace pace limit --pid 4711 5M            what one process may dirty in a second
  iopace pace status --format json           everything, for a script
  iopace pace trace --png pace.png           half a minute of a device, drawn

A policy is exchanged under load; writes that wait are asked for anew.";

const STATUS_EXAMPLES: &str = "\
Examples:
  iopace pace status
  iopace pace status disk --format json

The bar is dirty memory from nothing to the limit: # is dirty, f the end of the free run (below it
nobody is slowed down), s the setpoint (where dirty memory settles), | the limit. A task's rate is
the base rate times the position: 1.000 at the setpoint, more below it, less above.";

const LIMIT_EXAMPLES: &str = "\
Examples:
  iopace pace limit --pid 4711 5M            it dirties 5 MiB a second at most
  iopace pace limit --pid 4711 max           its cap is lifted
  iopace pace limit                          the processes that have one
  iopace pace limit disk --format json

A cap is for a process that writes to a mount, with all its threads and without its children; it
counts what becomes dirty, so a rewrite of what is dirty already passes. Reads, direct writes and
syncs are not held up. It goes with the process. Only root and the user of the process may set it,
and the policy 'rate' holds it. For several processes, children included, there are groups
('iopace group set': io.max wbps=5M).";

const TRACE_EXAMPLES: &str = "\
Examples:
  iopace pace trace --for 10s > pace.csv
  iopace pace trace disk --svg pace.svg --png pace.png

Ctrl-C ends it sooner and keeps what was seen. A dot among the pauses is the last one before a look,
not every one: 'iopace pace status' counts them all.";

/// `iopace pace`
#[derive(Debug, Subcommand)]
#[command(after_help = PACE_EXAMPLES)]
pub enum PaceCommand {
    /// List the policies
    List(PaceListArgs),
    /// Exchange the policy of a device, or set the pause that it aims at
    Configure(PaceConfigureArgs),
    /// Show dirty memory, rates and pauses
    #[command(after_help = STATUS_EXAMPLES)]
    Status(TargetArgs),
    /// Cap what a process may dirty in a second, or list the caps
    #[command(after_help = LIMIT_EXAMPLES)]
    Limit(PaceLimitArgs),
    /// Look at a device all the time: dirty memory against its marks, rates, window and pauses
    #[command(after_help = TRACE_EXAMPLES)]
    Trace(PaceTraceArgs),
}

/// `iopace pace list`
#[derive(Debug, Args)]
pub struct PaceListArgs {
    /// Only this policy
    #[arg(short = 'a', long = "policy", value_name = "POLICY", value_parser = pace_policies())]
    pub policy: Option<String>,
    /// Where they are at work; without a device and --control, no daemon is asked
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `iopace pace configure`
#[derive(Debug, Args)]
pub struct PaceConfigureArgs {
    /// The policy [default: the one at work]
    #[arg(short = 'a', long = "policy", value_name = "POLICY", value_parser = pace_policies())]
    #[arg(required_unless_present = "pause_target")]
    pub policy: Option<String>,
    /// The pause that writers are to have at a time, where few write, as 5ms: 1ms to 100ms
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub pause_target: Option<Nanos>,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}

/// `iopace pace limit`
#[derive(Debug, Args)]
pub struct PaceLimitArgs {
    /// The process, and the most bytes that it may dirty in a second, as 5M, or max
    #[arg(long, num_args = 2, value_names = ["PID", "RATE"])]
    pub pid: Vec<String>,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `iopace pace trace`
#[derive(Debug, Args)]
pub struct PaceTraceArgs {
    /// The device [default: the only one there is]
    pub device: Option<String>,
    /// How long to look
    #[arg(long = "for", value_name = "TIME", default_value = "30s",
          value_parser = units::parse_time)]
    pub length: Nanos,
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = units::parse_time)]
    pub every: Nanos,
    /// Draw it as SVG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Draw it as PNG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub png: Option<PathBuf>,
    /// How to print the looks [default: csv, or nothing if it is drawn]
    #[arg(long, value_enum)]
    pub format: Option<TraceFormat>,
    /// The daemon's control socket [default: the one in the place where 'serve' puts it]
    #[arg(long, env = "IOPACE_CONTROL", value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
}
