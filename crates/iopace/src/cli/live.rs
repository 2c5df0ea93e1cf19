//! `iopace explain` and `iopace events` as they are asked for.

use super::{DaemonArgs, FormatArgs};
use crate::units;
use clap::{Args, ValueHint};
use iopace_core::time::Nanos;
use std::path::PathBuf;

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  iopace explain                             all devices, and the groups that wait there
  iopace explain /vms/web                    why it waits, who holds what, what would change it
  iopace explain disk                        a device: its name has no slash
  iopace explain /vms/web --over 60s         a minute of it; up to two are kept
  iopace explain /vms/web --format json      everything, for a script
  iopace explain --look 0                    at once, without a look below iopace

Shares are those of the time from arrival to finish of the requests of that time. The commands that
are shown change one setting each; nothing is changed by asking.";

const EVENTS_EXAMPLES: &str = "\
Examples:
  iopace events                              the latest, oldest first
  iopace events --follow                     and those that come, until it is interrupted
  iopace events --device disk --format json  one JSON object a line with --follow";

/// `iopace explain`
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub struct ExplainArgs {
    /// A group, as /vms/web, or a device [default: all devices]
    #[arg(value_name = "GROUP|DEVICE")]
    pub subject: Option<String>,
    /// The time that is looked at, 1s to 2min
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = over)]
    pub over: Nanos,
    /// How long busy devices are looked at, to tell where time goes below iopace and what would
    /// change it there, 0 (not) to 5s
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = look)]
    pub look: Nanos,
    /// Only this device, for a group
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Which daemon
    #[command(flatten)]
    pub daemon: DaemonArgs,
}

/// `iopace events`
#[derive(Debug, Args)]
#[command(after_help = EVENTS_EXAMPLES)]
pub struct EventsArgs {
    /// Go on with what comes
    #[arg(short, long)]
    pub follow: bool,
    /// Only this device
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// The daemon's control socket [default: the one in the place where 'serve' puts it]
    #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,
}

fn look(text: &str) -> Result<Nanos, String> {
    if text == "0" {
        return Ok(Nanos::ZERO);
    }
    let look = units::parse_time(text)?;
    (look <= Nanos::from_secs(5)).then_some(look).ok_or_else(|| "it is 5s at most".into())
}

fn over(text: &str) -> Result<Nanos, String> {
    let over = units::parse_time(text)?;
    let is_kept = (Nanos::from_secs(1)..=Nanos::from_secs(120)).contains(&over);
    is_kept.then_some(over).ok_or_else(|| "from 1s to 2min are kept".into())
}
