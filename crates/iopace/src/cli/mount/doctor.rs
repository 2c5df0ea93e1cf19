//! Options of `iopace doctor`.

use crate::cli::FormatArgs;
use clap::{Args, ValueHint};
use std::path::PathBuf;

const DOCTOR_EXAMPLES: &str = "\
Examples:
  iopace doctor
      All directories that are behind iopace, and what iopace needs of the machine.
  iopace doctor /srv
      This one, mounted or not.

Each finding comes with a command that would help. Nothing is changed by this one. As root
processes of all users are seen.

Exit status: 0 nothing was found, 1 something was, or it failed, 2 wrongly asked.";

/// `iopace doctor`
#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub struct DoctorArgs {
    /// The directory [default: all that iopace is in front of]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// How to print what was found
    #[command(flatten)]
    pub format: FormatArgs,
}
