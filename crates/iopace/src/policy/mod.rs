//! `iopace policy`: schedulers of one's own, as WebAssembly modules.

#[cfg(feature = "policies")]
mod bench;
#[cfg(feature = "policies")]
mod beside;
#[cfg(feature = "policies")]
mod instructions;
#[cfg(feature = "policies")]
mod module;
#[cfg(feature = "policies")]
mod template;
#[cfg(feature = "policies")]
mod trial;

use crate::cli::PolicyCommand;
use crate::output::Failure;

/// Carries out a command.
///
/// # Errors
/// A crate that does not build, a module that is no policy, or a law that it breaks.
#[cfg(feature = "policies")]
pub fn run(command: &PolicyCommand) -> Result<(), Failure> {
    match command {
        PolicyCommand::New(args) => template::run(args),
        PolicyCommand::Test(args) => trial::run(args),
        PolicyCommand::Bench(args) => bench::run(args),
    }
}

/// Says that there are none.
///
/// # Errors
/// Always.
#[cfg(not(feature = "policies"))]
pub fn run(_: &PolicyCommand) -> Result<(), Failure> {
    Err(Failure::new(
        "this build of iopace has no loadable policies: build it with the feature 'policies', \
         which is on by default",
    ))
}
