//! Options of `iopace setup`.

use clap::{Args, ValueHint};
use std::path::PathBuf;

const SETUP_EXAMPLES: &str = "\
Examples:
  iopace setup /srv/data --dry-run
      What it found out, and each file and command that would come of it.
  iopace setup /srv/data
      The same, asks, does it, and starts the mount.
  iopace setup --undo /srv/data
      Stops it and takes away what was made, but files that were changed since.

It makes a configuration in /etc/iopace/mounts, has the unit iopace-mount@.service take it at every
boot, and has services whose units name the directory, or that write there, start after it and stop
before it, each with a group that pays for it. Everything is done, or nothing.

Exit status: 0 done, 1 failed and nothing was left, 2 wrongly asked.";

/// `iopace setup`
#[derive(Debug, Args)]
#[command(after_help = SETUP_EXAMPLES)]
pub struct SetupArgs {
    /// The directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,

    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,

    /// Do it without asking
    #[arg(short, long, conflicts_with = "dry_run")]
    pub yes: bool,

    /// Take away what was made for DIR
    #[arg(long, conflicts_with_all = ["start", "no_start"])]
    pub undo: bool,

    /// Start the mount at once [default where systemd runs]
    #[arg(long, conflicts_with = "no_start")]
    pub start: bool,

    /// Only at the next boot
    #[arg(long)]
    pub no_start: bool,

    /// Set up the system whose root directory this is, as an image that is being made; nothing of
    /// it is started, and no link in it is followed out of it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
}
