//! `iopace sim score`: a scorecard of schedulers.

use crate::cli::{ScoreArgs, TableFormat};
use crate::output::{Failure, print};
use crate::study_output::{self, ProgressLine};
use iopace_core::{pace, sched, window};
use iopace_sim::score::{BENCHES, Bench, Policy, Score, page, print as forms, score};

/// Carries out the command.
///
/// # Errors
/// A disk that is not of the set, or standard output cannot be written.
pub(super) fn run(args: &ScoreArgs) -> Result<(), Failure> {
    let benches = benches(&args.disk)?;
    let named = [&args.html, &args.parquet].into_iter().flatten();
    study_output::prepare("score", args.out.as_deref(), named, &[])?;
    let line = ProgressLine::begin();
    let scores = score(&policies(args), &benches, args.seed, &|done, all| line.show(done, all));
    line.end();
    put(args, &scores)?;
    print(&match args.format {
        TableFormat::Table => forms::table(&scores),
        TableFormat::Json => forms::json(&scores),
        TableFormat::Csv => forms::csv(&scores),
    })
}

/// Writes the files that are asked for.
fn put(args: &ScoreArgs, scores: &[Score]) -> Result<(), Failure> {
    let page = || page::page(scores, args.seed);
    let columns = || study_output::columns("score", &forms::columns(scores));
    if let Some(path) = &args.html {
        study_output::write(path, page())?;
    }
    if let Some(path) = &args.parquet {
        study_output::write(path, columns()?)?;
    }
    let Some(directory) = &args.out else { return Ok(()) };
    let path = |ending: &str| directory.join(format!("score.{ending}"));
    study_output::write(&path("txt"), forms::table(scores))?;
    study_output::write(&path("json"), forms::json(scores))?;
    study_output::write(&path("csv"), forms::csv(scores))?;
    study_output::write(&path("parquet"), columns()?)?;
    study_output::write(&path("html"), page())
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
