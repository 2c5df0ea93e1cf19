//! `iopace config` as it is asked for.

use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

const CONFIG_EXAMPLES: &str = "\
Examples:
  iopace config check /etc/iopace/iopace.toml    is it right? Nothing is changed
  iopace config diff                             what holds and is not in the file
  iopace config show > iopace.toml               a file that says what holds now
  iopace group set /vms/web io.weight 200 --save
                                                 a change that holds and is in the file

A changed file is applied with 'systemctl reload iopace', or SIGHUP to the daemon: as a whole, or
not at all.";

/// `iopace config`
#[derive(Debug, Subcommand)]
#[command(after_help = CONFIG_EXAMPLES)]
pub enum ConfigCommand {
    /// Print what holds now as a configuration file
    Show {
        /// The daemon's control socket [default: those of all daemons]
        #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
        control: Option<PathBuf>,
    },
    /// Show what holds now and is not in the file
    Diff {
        /// The daemon's control socket [default: those of all daemons]
        #[arg(long, value_name = "PATH", env = "IOPACE_CONTROL", value_hint = ValueHint::FilePath)]
        control: Option<PathBuf>,
    },
    /// Say whether a file is right
    Check {
        /// The file
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

/// Whether a change is kept.
#[derive(Clone, Copy, Debug, Args)]
pub struct SaveArg {
    /// Write it to the daemon's configuration file as well
    #[arg(long)]
    pub save: bool,
}
