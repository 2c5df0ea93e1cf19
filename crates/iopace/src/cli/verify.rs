//! `iopace verify` as it is asked for.

use super::{DiskParser, FormatArgs};
use crate::units;
use clap::{Args, ValueHint};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  iopace verify
      Does iopace hold its promises on this machine? A daemon of its own, about a minute.
  iopace verify --emulate hdd-sata-250g
      The same on an emulated disk.
  iopace verify /vms/web
      What /vms/web was promised by the running daemon, by reads only.
  iopace verify /vms/web --scratch spare
      Writes too: what is in the export 'spare' is lost.
  iopace verify --mount /srv
      What holds for this user in a mount, on a scratch file there.

Each promise is driven for --time through the way that clients take, and what was asked for stands
beside what was achieved. Others who use the device would be held up: they are named, and nothing is
done without --yes. All that was made for it (connections, a group beside GROUP, scratch files) is
taken away, after Ctrl-C too.

Exit status: 0 all holds, 1 something does not or failed, 2 something could not be tested or it was
wrongly asked, 130 interrupted.";

/// `iopace verify`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// A group of the running daemon; without it iopace itself is tested
    #[arg(value_name = "GROUP")]
    pub group: Option<String>,

    /// Only on this device
    #[arg(long, value_name = "NAME", requires = "group", conflicts_with = "mount")]
    pub device: Option<String>,
    /// Read this export [default: the first one of the device]
    #[arg(long, value_name = "NAME", requires = "group", conflicts_with = "mount")]
    pub export: Option<String>,
    /// Write to this export: its content is lost
    #[arg(long, value_name = "EXPORT", requires = "group", conflicts_with = "mount")]
    pub scratch: Option<String>,
    /// Go through the mount of this directory, on a scratch file in it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub mount: Option<PathBuf>,
    /// Also if others use the device
    #[arg(long)]
    pub yes: bool,
    /// The daemon's control socket [default: the one in the place where 'serve' puts it]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,

    /// How long each promise is watched, behind a start of half a second
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = units::parse_time)]
    pub time: Nanos,
    /// How far off a rate may be on the whole; 100 ms of it five times as far
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub tolerance: f64,
    /// Drive limits with requests of this size, 512 to 1M; may be said several times [default: one
    /// that shows the limit]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub block_size: Vec<Bytes>,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,

    /// Use an emulated disk: a model of 'iopace models' or a file of 'iopace calibrate'
    #[arg(long, value_name = "MODEL", value_parser = DiskParser, help_heading = "Without GROUP")]
    #[arg(conflicts_with_all = ["group", "mount"])]
    pub emulate: Option<String>,
    /// Where the scratch file is made [default: the directory for temporary files]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["group", "mount", "emulate"], help_heading = "Without GROUP")]
    pub dir: Option<PathBuf>,
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.trim_end_matches('%').parse::<f64>().ok();
    percent
        .filter(|percent| (0.01..=50.0).contains(percent))
        .ok_or_else(|| "a tolerance is a number of percent from 0.01 to 50: 1, 2.5".into())
}
