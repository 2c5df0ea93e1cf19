//! `iopace sim score`: a scorecard of schedulers.

use super::output::ProgressLine;
use crate::cli::{ScoreArgs, TableFormat};
use crate::output::{Failure, print};
use iopace_core::{pace, sched, window};
use iopace_sim::score::{BENCHES, Bench, Policy, print as forms, score};

/// Carries out the command.
///
/// # Errors
/// A disk that is not of the set, or standard output cannot be written.
pub(super) fn run(args: &ScoreArgs) -> Result<(), Failure> {
    let benches = benches(&args.disk)?;
    let line = ProgressLine::begin();
    let scores = score(&policies(args), &benches, args.seed, &|done, all| line.show(done, all));
    line.end();
    print(&match args.format {
        TableFormat::Table => forms::table(&scores),
        TableFormat::Json => forms::json(&scores),
        TableFormat::Csv => forms::csv(&scores),
    })
}

/// The disks of those names; all if there are none.
fn benches(names: &[String]) -> Result<Vec<Bench>, Failure> {
    let known = || BENCHES.map(|bench| bench.disk).join(", ");
    if let Some(name) = names.iter().find(|name| BENCHES.iter().all(|b| b.disk != **name)) {
        let message = format!("the scorecard has no disk '{name}'; it has: {}", known());
        return Err(Failure::usage(message));
    }
    let is_wanted = |bench: &&Bench| names.is_empty() || names.iter().any(|n| n == bench.disk);
    Ok(BENCHES.iter().filter(is_wanted).copied().collect())
}

/// What is asked for, each once.
fn policies(args: &ScoreArgs) -> Vec<Policy> {
    let mut policies: Vec<Policy> = Vec::new();
    for name in &args.sched {
        let meant = match name.as_str() {
            "all" => Policy::all(),
            name => vec![Policy::of(sched::find(name))],
        };
        for mut policy in meant {
            // The names were checked by the command line.
            policy.window = window::find(&args.window).unwrap_or(policy.window);
            policy.pace = pace::find(&args.pace).unwrap_or(policy.pace);
            if policies.iter().all(|known| known.name() != policy.name()) {
                policies.push(policy);
            }
        }
    }
    policies
}
