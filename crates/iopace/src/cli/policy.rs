//! `iopace policy` as it is asked for.

use super::FormatArgs;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

const POLICY_EXAMPLES: &str = "\
Examples:
  iopace policy new mine                     a crate with a small scheduler, to be changed
  iopace policy test mine                    build it; the suites, and a load beside fifo and fair
  iopace policy bench mine                   what a request costs under it
  iopace policy test mine.wasm --format json the same of a module that is built, for a script

docs/policy-tutorial.md goes on from there to a disk that is in use; docs/policy-abi.md says what a
module exports, for other languages than Rust.";

/// `iopace policy`
#[derive(Debug, Subcommand)]
#[command(after_help = POLICY_EXAMPLES)]
pub enum PolicyCommand {
    /// Write a crate with a small scheduler, commented, to begin with
    New(PolicyNewArgs),
    /// Hold a policy to the laws of schedulers, and see it beside others; the status is 1 if it
    /// breaks one
    Test(PolicyTestArgs),
    /// Measure what a request costs under a policy, beside fifo and fair
    Bench(PolicyBenchArgs),
}

/// `iopace policy new`
#[derive(Debug, Args)]
pub struct PolicyNewArgs {
    /// Its name, as in 'iopace sched insert -a NAME': a-z, 0-9 and '-', a letter first
    pub name: String,
    /// The directory, which must not exist [default: NAME]
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,
}

/// `iopace policy test`
#[derive(Debug, Args)]
pub struct PolicyTestArgs {
    /// The directory of a crate, which cargo builds, or a .wasm file
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// The load to see it under [default: scenario.toml of the crate, or one that is built in]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub scenario: Option<PathBuf>,
    /// Where to draw what each task gets [default for a crate: NAME.svg in its target]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,
}

/// `iopace policy bench`
#[derive(Debug, Args)]
pub struct PolicyBenchArgs {
    /// The directory of a crate, which cargo builds, or a .wasm file
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// How to print it
    #[command(flatten)]
    pub format: FormatArgs,
    /// Carry out one loop and print nothing: another program counts its instructions
    #[arg(long, hide = true, num_args = 4, value_names = ["SCHED", "TASKS", "GROUPS", "REQUESTS"])]
    pub counted: Vec<String>,
}
