//! `iopace calibrate` as it is asked for.

use super::FormatArgs;
use crate::units;
use clap::{Args, ValueHint};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  iopace calibrate /srv/disk.img --out disk.toml
      Reads only. The model is for 'iopace serve --emulate disk.toml' and scenarios.
  iopace calibrate /srv --write --time 2min --out srv.toml
      Makes a scratch file there, measures reads and writes on it, and removes it.
  iopace calibrate /dev/sdx --write --overwrite
      Destroys what is on the disk.";

/// `iopace calibrate`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CalibrateArgs {
    /// A file, a block device, or with --write a directory
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// Measure writes and flushes too
    #[arg(long)]
    pub write: bool,
    /// Let --write destroy what is in the file or on the block device
    #[arg(long, requires = "write")]
    pub overwrite: bool,
    /// How long to measure
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::parse_time)]
    pub time: Nanos,
    /// Size of the scratch file in a directory; less if writing it takes a fifth of the time
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = units::parse_size)]
    pub size: Bytes,
    /// Write the model there
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Put the maker's name of the disk into the model
    #[arg(long)]
    pub device_name: bool,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,
}
