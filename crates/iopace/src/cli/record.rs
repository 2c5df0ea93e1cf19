//! `iopace record` as it is asked for.

use crate::units;
use clap::{Args, ValueHint};
use iopace_core::time::Nanos;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  iopace record                              10 seconds of the only device
  iopace record srv --for 1min -o srv.rec    a minute of a mount; Ctrl-C ends it early
  iopace sim replay srv.rec                  the same requests in virtual time

The file is text, one line for each request: see 'Recorded live' in docs/replay.md.";

/// `iopace record`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RecordArgs {
    /// The device [default: the only one there is]
    pub device: Option<String>,
    /// How long to record, 100ms to 1h
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = length)]
    pub length: Nanos,
    /// Where to write it [default: the device's name and .rec, in this directory]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Write over a file that is there
    #[arg(long)]
    pub force: bool,
    /// The daemon's control socket [default: the one in the place where 'serve' puts it]
    #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
    pub control: Option<PathBuf>,
}

fn length(text: &str) -> Result<Nanos, String> {
    let length = units::parse_time(text)?;
    let is_possible = (Nanos::from_millis(100)..=Nanos::from_secs(3_600)).contains(&length);
    is_possible.then_some(length).ok_or_else(|| "it is 100ms to 1h".into())
}
