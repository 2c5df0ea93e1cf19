//! `iopace pace` as it is asked for.

use super::{TargetArgs, pace_policies};
use clap::{Args, Subcommand};

const PACE_EXAMPLES: &str = "\
Examples:
  iopace pace list                           the policies
  iopace pace status                         dirty memory, rates and pauses of all devices
  iopace pace configure -a none disk         no pacing: as much as memory takes
  iopace pace configure -a rate              DEVICE may be left out if the daemon has one only
  iopace pace status --format json           everything, for a script

A policy is exchanged under load; writes that wait are asked for anew.";

const STATUS_EXAMPLES: &str = "\
Examples:
  iopace pace status
  iopace pace status disk --format json

The bar is dirty memory from nothing to the limit: # is dirty, f the end of the free run (below it
nobody is slowed down), s the setpoint (where dirty memory settles), | the limit. A task's rate is
the base rate times the position: 1.000 at the setpoint, more below it, less above.";

/// `iopace pace`
#[derive(Debug, Subcommand)]
#[command(after_help = PACE_EXAMPLES)]
pub enum PaceCommand {
    /// List the policies
    List(PaceListArgs),
    /// Exchange the policy of a device
    Configure(PaceConfigureArgs),
    /// Show dirty memory, rates and pauses
    #[command(after_help = STATUS_EXAMPLES)]
    Status(TargetArgs),
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
    /// The policy
    #[arg(short = 'a', long = "policy", value_name = "POLICY", value_parser = pace_policies())]
    pub policy: String,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
}
