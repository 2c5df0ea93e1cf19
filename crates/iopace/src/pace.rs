//! `iopace pace`: how the writers of a running daemon are paced.

mod limit;
mod show;
mod trace;

use crate::cli::{PaceCommand, PaceConfigureArgs, PaceListArgs};
use crate::output::Failure;
use crate::policies;
use crate::target::{self, devices, done, named};
use iopace_daemon::api::PaceChange;

/// Carries out a command.
///
/// # Errors
/// No daemon, no such device, or a refusal, with what would be right.
pub fn run(command: &PaceCommand) -> Result<(), Failure> {
    match command {
        PaceCommand::List(PaceListArgs { policy, target }) => policies::list(
            target,
            policy.as_deref(),
            |all| all.pace,
            |device| device.pace.as_ref().map(|pace| &*pace.policy),
        ),
        PaceCommand::Configure(PaceConfigureArgs { policy, pause_target, target, keep }) => {
            let pause_target_ns = pause_target.map(|pause| pause.as_nanos());
            let change = PaceChange { policy: policy.clone(), pause_target_ns };
            let keys = [("pace", policy.is_some()), ("pause-target", pause_target.is_some())];
            let device = target::change(target, (*keep, &named(&keys)), |client, name| {
                client.change_pace(name, &change)
            })?;
            done(target, &device, || show::in_force(&device))
        }
        PaceCommand::Limit(args) => limit::run(args),
        PaceCommand::Trace(args) => trace::run(args),
        PaceCommand::Status(target) => {
            let devices = devices(target)?;
            done(target, &devices, || {
                let texts: Vec<String> = devices.iter().map(show::device).collect();
                texts.join("\n")
            })
        }
    }
}
