//! `iopace sim fuzz`: random scenarios with faults, and what fails of them made small.

use super::scenario_text;
use crate::cli::FuzzArgs;
use crate::output::{Failure, note_over, print};
use crate::study_output::write;
use iopace_sim::fuzz::{FOUND_MAX, SearchOutcome, search, trial};
use iopace_sim::scenario::Scenario;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

/// Scenarios without --runs and --for.
const RUNS: u64 = 100;

/// Carries out the command; the status is 1 if something fails.
///
/// # Errors
/// Something fails, a wrong scenario, or a file that cannot be written.
pub(super) fn run(args: &FuzzArgs) -> Result<(), Failure> {
    // A panic is a finding here, told of once and not as it happens.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let result = match &args.file {
        Some(file) => try_one(file),
        None => try_many(args),
    };
    std::panic::set_hook(hook);
    result
}

fn try_one(file: &Path) -> Result<(), Failure> {
    let (name, text) = scenario_text(file)?;
    let scenario = Scenario::parse(&name, &text).map_err(Failure::usage)?;
    match trial::put(&scenario) {
        Ok(()) => print(&format!("{name} holds\n")),
        Err(fault) => Err(Failure::new(format!("{name}: {}: {}", fault.law, fault.text))),
    }
}

fn try_many(args: &FuzzArgs) -> Result<(), Failure> {
    fs::create_dir_all(&args.out)
        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", args.out.display())))?;
    let runs = args.runs.or(args.time.is_none().then_some(RUNS));
    let (begun, time) = (Instant::now(), args.time.map(|time| Duration::from_nanos(time.0)));
    let is_terminal = io::stderr().is_terminal();
    let outcome = search(args.seed, runs, FOUND_MAX, &|_| (), &|done, found| {
        if is_terminal {
            note_over(format_args!("{done} scenarios, {found} failed"));
        }
        time.is_none_or(|time| begun.elapsed() < time)
    });
    if is_terminal {
        note_over(format_args!(""));
    }
    report(args, &outcome)
}

fn report(args: &FuzzArgs, outcome: &SearchOutcome) -> Result<(), Failure> {
    for found in &outcome.found {
        let path = args.out.join(format!("fuzz-{}.toml", found.seed));
        write(&path, &found.text)?;
        let lines = found.text.lines().count();
        print(&format!(
            "seed {}: {}: {}\n  {} lines, {lines} after {} trials: iopace sim fuzz --file {}\n",
            found.seed,
            found.fault.law,
            found.fault.text,
            found.lines_before,
            found.trials,
            path.display()
        ))?;
    }
    let last = args.seed.wrapping_add(outcome.runs.saturating_sub(1));
    let all = format!("{} scenarios, seeds {} to {last}", outcome.runs, args.seed);
    match outcome.found.len() {
        0 => print(&format!("{all}: all hold\n")),
        failed => Err(Failure::new(format!("{all}: {failed} failed"))),
    }
}
