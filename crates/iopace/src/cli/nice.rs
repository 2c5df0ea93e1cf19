//! `iopace nice` as it is asked for.

use crate::units;
use clap::{ArgGroup, Args, ValueHint};
use iopace_core::time::Nanos;
use iopace_core::units::{Bytes, BytesPerSec};
use std::ffi::OsString;
use std::path::PathBuf;

const NICE_EXAMPLES: &str = "\
Examples:
  iopace nice restic backup /srv                 class idle, in mounts and below them
  iopace nice --by 06:00 restic backup /srv      idle as long as it will be done by six
  iopace nice --by 4h --size 200G tar cf /mnt/srv.tar /srv
  iopace nice --limit 50M rsync -a /srv /mnt     never more than 50 MiB/s
  iopace nice --keep-p99 20ms fstrim /srv        others in the mounts keep their latency
  iopace nice --attach 4711                      a process that runs, until it ends or Ctrl-C
  iopace nice --program borg --limit 20M         all that run of that name
  iopace nice --install restic.service --by 4h   whenever the service runs; --remove undoes it
  iopace nice --install rsync                    whenever it runs in a mount

How much a program moves is learnt from run to run; --size says it before the first one.

Exit status: that of the program, 128 and the number of the signal that ended it; 125 iopace could
not do what was asked, 126 the program cannot be run, 127 there is none.";

/// `iopace nice`
#[derive(Debug, Args)]
#[command(after_help = NICE_EXAMPLES)]
#[command(group(ArgGroup::new("subject").required(true)
    .args(["command", "attach", "program", "install", "remove"])))]
pub struct NiceArgs {
    /// Done by that time of the day, or within so long
    #[arg(long, value_name = "HH:MM|TIME", value_parser = deadline)]
    pub by: Option<Deadline>,
    /// At most one in a hundred requests of others in the mounts takes longer
    #[arg(long, value_name = "TIME", value_parser = units::parse_time)]
    pub keep_p99: Option<Nanos>,
    /// Most bytes that it moves in a second
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    pub limit: Option<BytesPerSec>,
    /// How much it reads or writes, whichever is more [default: as much as in earlier runs]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    pub size: Option<Bytes>,
    /// A process that runs already, with what it has started
    #[arg(long, value_name = "PID", value_parser = units::whole::<u32>(1..=i32::MAX as u64))]
    pub attach: Option<u32>,
    /// All processes that run of a program
    #[arg(long, value_name = "NAME")]
    pub program: Option<String>,
    /// From now on, whenever it runs: a service (drop-in of systemd) or a program (rule of mounts)
    #[arg(long, value_name = "SERVICE|NAME")]
    pub install: Option<String>,
    /// Take away what --install has made
    #[arg(long, value_name = "SERVICE|NAME")]
    #[arg(conflicts_with_all = ["by", "keep_p99", "limit", "size"])]
    pub remove: Option<String>,
    /// Units are in this directory, of a system that does not run
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["command", "attach", "program"])]
    pub root: Option<PathBuf>,
    /// Say nothing but what is wrong
    #[arg(short, long)]
    pub quiet: bool,
    /// The control socket of a daemon [default: all that run here]
    #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// When a program is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// At the next hour and minute of that name.
    Clock(i8, i8),
    /// So long after its start.
    Within(Nanos),
}

fn deadline(text: &str) -> Result<Deadline, String> {
    let clock = text.split_once(':').and_then(|(hour, minute)| {
        let digits = |part: &str| part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = |part: &str| digits(part).then(|| part.parse::<i8>().ok()).flatten();
        let (hour, minute) = (number(hour)?, number(minute)?);
        (hour < 24 && minute < 60).then_some(Deadline::Clock(hour, minute))
    });
    let hours = text.strip_suffix('h').and_then(|hours| hours.parse::<u64>().ok());
    let hours = hours.filter(|hours| (1..=10_000).contains(hours));
    let within = hours.map(|hours| Ok(Nanos::from_secs(hours * 3600)));
    let within = || within.unwrap_or_else(|| units::parse_time(text)).map(Deadline::Within);
    clock.map_or_else(within, Ok).map_err(|_| {
        "a time of the day is needed, as 06:00, or a length of time, as 4h, 90min or 30s".into()
    })
}

pub(super) fn rate(text: &str) -> Result<BytesPerSec, String> {
    let bare = text.strip_suffix("/s").unwrap_or(text);
    units::parse_size(bare).map(|size| BytesPerSec(size.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_time_of_day_or_a_length() {
        assert_eq!(deadline("06:00"), Ok(Deadline::Clock(6, 0)));
        assert_eq!(deadline("23:59"), Ok(Deadline::Clock(23, 59)));
        assert_eq!(deadline("4h"), Ok(Deadline::Within(Nanos::from_secs(14_400))));
        assert_eq!(deadline("90min"), Ok(Deadline::Within(Nanos::from_secs(5_400))));
        for wrong in ["", "24:00", "6", "6:60", "-1:00", "+1:00", "6:00:00", "0h", "h", "soon"] {
            assert!(deadline(wrong).is_err_and(|error| error.contains("06:00")), "{wrong}");
        }
        assert_eq!(rate("50M/s"), Ok(BytesPerSec(50 << 20)));
        assert!(rate("0").is_err() && rate("/s").is_err());
    }
}
