//! `iopace govern` as it is asked for.

use super::nice::rate;
use crate::units;
use clap::Args;
use iopace_core::units::BytesPerSec;

const GOVERN_EXAMPLES: &str = "\
Examples:
  iopace govern restic.service                       others wait for disks 5 % of the time at most
  iopace govern --for postgresql.service --keep-pressure 2 restic.service borg.service
  iopace govern --limit 50M /system.slice/scrub.slice
  iopace govern --release restic.service             after a 'kill -9' of iopace

Nothing is in the path of data: the kernel's io.max and io.weight are set, and are as before at the
end (Ctrl-C). Needs cgroup version 2 with the controller io, PSI, and root.";

/// `iopace govern`
#[derive(Debug, Args)]
#[command(after_help = GOVERN_EXAMPLES)]
pub struct GovernArgs {
    /// Those that give way: a unit of systemd, or a path below the root of cgroups; they may come
    /// and go
    #[arg(required = true, value_name = "UNIT|PATH")]
    pub cgroups: Vec<String>,
    /// Most of their time that others may wait for disks, in per cent
    #[arg(long, value_name = "PERCENT", default_value = "5")]
    #[arg(value_parser = units::whole::<u32>(1..=100))]
    pub keep_pressure: u32,
    /// Whose waiting counts [default: all that are not named]
    #[arg(long = "for", value_name = "UNIT|PATH")]
    pub others: Vec<String>,
    /// Most bytes that each reads and writes in a second, at each disk
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    pub limit: Option<BytesPerSec>,
    /// Give back what an iopace that was killed has taken, and end
    #[arg(long, conflicts_with_all = ["keep_pressure", "others", "limit"])]
    pub release: bool,
    /// Say nothing but what is wrong
    #[arg(short, long)]
    pub quiet: bool,
}
