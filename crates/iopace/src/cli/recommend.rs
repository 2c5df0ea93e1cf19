//! `iopace recommend` as it is asked for.

use super::group::files;
use super::serve::{depth, slots};
use super::{DaemonArgs, TargetArgs, pace_policies, window_policies};
use crate::scheduler_words::RemoteSchedulerParser;
use crate::units;
use clap::{Args, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  iopace recommend group /backup io.max 'disk wbps=20M'
  iopace recommend set --sched fair --window-policy latency disk
  iopace recommend set --sched auto disk     the default, where another scheduler was set
  iopace recommend report                    what these would have done since then
  iopace recommend off                       nothing is tried any more

Nothing is delayed: a second engine with these settings is told what happens, and is served by a
disk that is computed. 'iopace group set' and 'iopace sched', 'pace' and 'window' put in force what
is found good. What it can tell and what not: docs/recommend.md.";

/// `iopace recommend`
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub enum RecommendCommand {
    /// Try a scheduler, a policy, slots or a depth of the window; what is not named is as it is now
    Set(Box<RecommendSetArgs>),
    /// Try a limit, weight or guarantee of a group
    Group(RecommendGroupArgs),
    /// Show what they would have delayed, and by how much
    Report(TargetArgs),
    /// Try nothing any more
    Off(TargetArgs),
}

/// What clients do while they wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientsArg {
    /// They ask for more when they have their answers, as programs do
    Closed,
    /// They ask whatever they wait for
    Open,
}

/// `iopace recommend set`
#[derive(Debug, Args)]
pub struct RecommendSetArgs {
    /// A scheduler, or the file of a policy (./mine.wasm)
    #[arg(long, value_name = "ALGO", value_parser = RemoteSchedulerParser { has_auto: true })]
    pub sched: Option<String>,
    /// Set a parameter of it, as wait_ms=5; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "sched", value_parser = units::parse_setting)]
    pub set: Vec<(String, u64)>,
    /// A pacing policy
    #[arg(long, value_name = "POLICY", value_parser = pace_policies())]
    pub pace: Option<String>,
    /// A window policy
    #[arg(long, value_name = "POLICY", value_parser = window_policies())]
    pub window_policy: Option<String>,
    /// Most requests at the disk
    #[arg(long, value_name = "N", value_parser = depth())]
    pub window: Option<u32>,
    /// Slots
    #[arg(long, value_name = "N", value_parser = slots())]
    pub nr_requests: Option<u32>,
    /// What clients do while they wait
    #[arg(long, value_enum, default_value = "closed")]
    pub clients: ClientsArg,
    /// Which device
    #[command(flatten)]
    pub target: TargetArgs,
}

/// `iopace recommend group`
#[derive(Debug, Args)]
pub struct RecommendGroupArgs {
    /// Which group
    pub group: String,
    /// Which file
    #[arg(value_parser = files(true), hide_possible_values = true, required_unless_present = "off")]
    pub file: Option<String>,
    /// What to try, as for 'iopace group set'; it replaces what was tried for the file
    #[arg(required_unless_present = "off", value_name = "LINE")]
    pub lines: Vec<String>,
    /// Try nothing for the file any more, or nothing for the group
    #[arg(long, conflicts_with = "lines")]
    pub off: bool,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
}
