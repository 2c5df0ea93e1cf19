//! `iopace attach` and `iopace detach` as they are asked for.

use super::FormatArgs;
use super::serve::{DeviceArgs, IoEngine, LogFormat};
use crate::units;
use clap::{ArgAction, Args, ValueHint};
use std::path::PathBuf;

const ATTACH_EXAMPLES: &str = "\
Examples:
  disk=$(iopace attach disk.img)
      /dev/loop0, say: mkfs, mount and fio take it as any disk; all goes through iopace.
  iopace attach --emulate hdd-sata-250g --size 2GiB
      A disk of 2009 as a block device.
  iopace attach --ublk disk.img
      /dev/ublkb0: shorter ways than through a loop device, and if its daemon is killed nothing
      fails. It waits until the same command is given again.
  iopace attach
      What is attached.
  iopace detach /dev/loop0
      Ends it when everything is durable.

It needs root, /dev/fuse and the loop driver, and neither nbd nor ublk; with --ublk it needs root
and the kernel's ublk driver (Linux 6.10, 'modprobe ublk_drv'). Standard output has the path of the
device and nothing else.";

/// `iopace attach`
#[derive(Debug, Args)]
#[command(after_help = ATTACH_EXAMPLES)]
pub struct AttachArgs {
    /// An image file or block device; without it and --emulate, what is attached is listed
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,

    /// Show what is attached
    #[arg(long, conflicts_with_all = ["file", "emulate"])]
    pub list: bool,

    /// A ublk device, /dev/ublkbN, instead of a loop device; or goes on with the one whose daemon
    /// was killed
    #[arg(long, conflicts_with = "list")]
    pub ublk: bool,

    /// Bytes of a sector [default: 512, or 4096 with --direct]
    #[arg(long, value_name = "BYTES", value_parser = ["512", "1024", "2048", "4096"])]
    pub block_size: Option<String>,

    /// The disk itself
    #[command(flatten)]
    pub device: DeviceArgs,

    /// How real disks are read and written
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

    /// File for the log [default: beside the sockets, named after the device]
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

const DETACH_EXAMPLES: &str = "\
Who still uses the device is named, and nothing is changed. What a killed daemon left behind is
cleared away.

Exit status: 0 everything is durable and nothing is left, 1 it is in use, not yet, or failed.";

/// `iopace detach`
#[derive(Debug, Args)]
#[command(after_help = DETACH_EXAMPLES)]
pub struct DetachArgs {
    /// The block device, the file behind it, or the name of its device
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "all")]
    pub target: Option<PathBuf>,

    /// All that is attached
    #[arg(long, conflicts_with = "target")]
    pub all: bool,

    /// Also if it is in use: who uses it gets errors
    #[arg(long)]
    pub force: bool,

    /// Seconds to wait until all is durable
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = units::whole::<u64>(1..=86_400))]
    pub wait: u64,
}
