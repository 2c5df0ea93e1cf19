//! `iopace window` as it is asked for.

use super::serve::depth;
use super::{SaveArg, TargetArgs, window_policies};
use clap::{Args, Subcommand};

const WINDOW_EXAMPLES: &str = "\
Examples:
  iopace window list                         the policies
  iopace window status                       how many requests each disk may hold, and why
  iopace window configure --depth 8 disk     never more than 8
  iopace window configure -a latency         DEVICE may be left out if the daemon has one only
  iopace window status --format json         everything, for a script

All of them work under load; nothing in flight is touched.";

/// `iopace window`
#[derive(Debug, Subcommand)]
#[command(after_help = WINDOW_EXAMPLES)]
pub enum WindowCommand {
    /// List the policies
    List(WindowListArgs),
    /// Exchange the policy of a device, or set its depth
    Configure(WindowConfigureArgs),
    /// Show how many requests disks may hold
    Status(TargetArgs),
}

/// `iopace window list`
#[derive(Debug, Args)]
pub struct WindowListArgs {
    /// Only this policy
    #[arg(short = 'a', long = "policy", value_name = "POLICY", value_parser = window_policies())]
    pub policy: Option<String>,
    /// Where they are at work; without a device and --control, no daemon is asked
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `iopace window configure`
#[derive(Debug, Args)]
pub struct WindowConfigureArgs {
    /// The policy [default: the one at work]
    #[arg(short = 'a', long = "policy", value_name = "POLICY", value_parser = window_policies())]
    #[arg(required_unless_present = "depth")]
    pub policy: Option<String>,
    /// Most requests that the disk may ever hold
    #[arg(long, value_name = "DEPTH", value_parser = depth())]
    pub depth: Option<u32>,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
    /// Keep it
    #[command(flatten)]
    pub keep: SaveArg,
}
