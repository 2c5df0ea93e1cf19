//! `iopace insert` and `iopace remove` as they are asked for.

use super::FormatArgs;
use super::serve::{IoEngine, LogFormat, depth, slots};
use super::window_policies;
use crate::scheduler_words::scheduler_names;
use crate::units;
use clap::{ArgAction, Args, ValueHint};
use std::path::PathBuf;

const INSERT_EXAMPLES: &str = "\
Examples:
  iopace insert /dev/mapper/vg-data
      From now on all that goes to this volume goes through iopace, also while its file system is
      mounted and busy: requests wait for a moment, and none fails.
  iopace sched insert -a rr vg-data
      Another scheduler, as with any device of iopace.
  iopace insert
      What is inserted.
  iopace remove /dev/mapper/vg-data
      Past iopace again, just as quietly.

It needs root, the device mapper and the kernel's ublk driver (Linux 6.10, 'modprobe ublk_drv').
The volume is one of LVM or 'dmsetup', of linear or striped pieces. If the daemon is killed,
requests wait, none fails, and its watcher takes the volume out; if that is killed as well, 'iopace
remove --rescue' does it, or the same 'iopace insert' goes on. Nothing stays after a reboot.";

/// `iopace insert`
#[derive(Debug, Args)]
#[command(after_help = INSERT_EXAMPLES)]
pub struct InsertVolumeArgs {
    /// A volume, as /dev/mapper/VG-LV; without it, what is inserted is listed
    #[arg(value_name = "VOLUME", value_hint = ValueHint::FilePath)]
    pub volume: Option<PathBuf>,

    /// Insert this scheduler at the start; see 'iopace sched list', or the file of a policy
    /// (./mine.wasm) [default: auto]
    #[arg(long, value_name = "NAME", value_parser = scheduler_names(), help_heading = "Disk")]
    pub sched: Option<String>,

    /// Set a parameter of that scheduler, as wait_ms=5
    #[arg(long, value_name = "NAME=VALUE", requires = "sched", value_parser = units::parse_setting)]
    #[arg(help_heading = "Disk")]
    pub set: Vec<(String, u64)>,

    /// Request slots of the device [default: 16384]
    #[arg(long, value_name = "COUNT", value_parser = slots(), help_heading = "Disk")]
    pub nr_requests: Option<u32>,

    /// Most requests at the disk [default: 32]
    #[arg(long, value_name = "DEPTH", value_parser = depth(), help_heading = "Disk")]
    pub window: Option<u32>,

    /// Who decides how many of these the disk holds [default: latency]
    #[arg(long, value_name = "POLICY", value_parser = window_policies(), help_heading = "Disk")]
    pub window_policy: Option<String>,

    /// How the disk is read and written
    #[arg(long, value_name = "ENGINE", help_heading = "Disk")]
    pub io_engine: Option<IoEngine>,

    /// How to print the list
    #[command(flatten)]
    pub format: FormatArgs,

    /// Control socket for 'iopace sched' [default: iopace.ctl where sockets are made]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Sockets")]
    pub control: Option<PathBuf>,

    /// No control socket
    #[arg(long, conflicts_with = "control", help_heading = "Sockets")]
    pub no_control: bool,

    /// File for the log, not on the volume [default: beside the sockets, named after the volume]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Log")]
    pub log: Option<PathBuf>,

    /// How the log looks
    #[arg(long, value_name = "FORMAT", help_heading = "Log")]
    pub log_format: Option<LogFormat>,

    /// Say more; twice: everything
    #[arg(short, long, action = ArgAction::Count, help_heading = "Log")]
    pub verbose: u8,

    /// Say warnings only; twice: errors only
    #[arg(short, long, action = ArgAction::Count, conflicts_with = "verbose", help_heading = "Log")]
    pub quiet: u8,
}

const REMOVE_EXAMPLES: &str = "\
The daemon has requests that are under way finished, has the volume's go past it, and ends. A volume
whose daemon was killed is taken out by this command itself: it carries out what waits.

Exit status: 0 nothing goes through iopace and nothing is left, 1 not yet, or failed.";

/// `iopace remove`
#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub struct RemoveVolumeArgs {
    /// The volume, as /dev/mapper/VG-LV, or its name
    #[arg(value_name = "VOLUME", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present = "all")]
    pub volume: Option<PathBuf>,

    /// All that is inserted
    #[arg(long, conflicts_with = "volume")]
    pub all: bool,

    /// Also if its daemon lives and does not answer: it is killed
    #[arg(long)]
    pub rescue: bool,

    /// Seconds to wait for it
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = units::whole::<u64>(1..=86_400))]
    pub wait: u64,
}
