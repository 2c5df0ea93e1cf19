//! `iopace policy test`: the laws of schedulers, and a load beside others.

use super::beside;
use super::module::{self, PolicySubject};
use crate::cli::PolicyTestArgs;
use crate::output::{Failure, Format, finish, print, print_json, right, table};
use crate::study_output::{self, ProgressLine};
use comfy_table::Cell;
use iopace_core::sched::Algorithm;
use iopace_sim::parallel;
use iopace_sim::study::plot;
use iopace_sim::study::print::table as study_table;
use iopace_sim::study::summary::Summary;
use iopace_suites::{Outcome, SUITES, Suite};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The outcome of a suite, for programs.
#[derive(Serialize)]
struct SuiteReport {
    suite: &'static str,
    law: &'static str,
    holds: bool,
    runs: u64,
    counts: BTreeMap<&'static str, u64>,
    notes: Vec<String>,
    failures: Vec<String>,
    unstated: Vec<String>,
}

impl SuiteReport {
    fn new(suite: &Suite, outcome: Outcome) -> SuiteReport {
        let (suite, law, holds) = (suite.name, suite.law, outcome.holds());
        let Outcome { runs, counts, notes, failures, unstated } = outcome;
        SuiteReport { suite, law, holds, runs, counts, notes, failures, unstated }
    }

    /// Its notes, and all that was counted.
    fn found(&self) -> String {
        let counts = self.counts.iter().filter(|(_, count)| **count > 0);
        let counts = counts.map(|(word, count)| format!("{count} {word}"));
        let counts: Vec<String> = counts.collect();
        let counts = if counts.is_empty() { None } else { Some(counts.join(", ")) };
        self.notes.iter().cloned().chain(counts).collect::<Vec<_>>().join("; ")
    }
}

/// A load in virtual time, for programs.
#[derive(Serialize)]
struct LoadReport {
    scenario: String,
    why: String,
    failures: Vec<String>,
    picture: Option<String>,
    variants: Vec<Summary>,
}

/// All of it.
#[derive(Serialize)]
struct TrialReport {
    policy: &'static str,
    version: &'static str,
    digest: String,
    bytes: usize,
    holds: bool,
    suites: Vec<SuiteReport>,
    load: LoadReport,
}

/// Carries out the command.
///
/// # Errors
/// It does not build, is no policy, breaks a law, or a file cannot be written.
pub(super) fn run(args: &PolicyTestArgs) -> Result<(), Failure> {
    let subject = module::load(&args.path)?;
    let trial = beside::trial(&subject, args.scenario.as_deref())?;
    let suites = suites(subject.loaded.algorithm);
    let line = ProgressLine::begin();
    let variants = trial.run(&|done, all| line.show(done, all));
    line.end();
    let picture = picture_path(args, &subject);
    if let Some(path) = &picture {
        let drawn = plot::svg(trial.scenario.why.trim(), &variants);
        study_output::write(path, drawn.as_bytes())?;
    }
    let load = LoadReport {
        why: trial.scenario.why.trim().into(),
        scenario: trial.file,
        failures: beside::failures(&variants),
        picture: picture.map(|path| path.display().to_string()),
        variants,
    };
    let report = TrialReport {
        policy: subject.loaded.algorithm.name,
        version: subject.loaded.version,
        digest: subject.loaded.digest.clone(),
        bytes: subject.loaded.size,
        holds: load.failures.is_empty() && suites.iter().all(|suite| suite.holds),
        suites,
        load,
    };
    match args.format.format {
        Format::Json => print_json(&report)?,
        Format::Table => print(&text(&report))?,
    }
    verdict(&report)
}

/// Where the picture goes: where it was asked for, or into cargo's target folder, in which the
/// module lies three deep.
fn picture_path(args: &PolicyTestArgs, subject: &PolicySubject) -> Option<PathBuf> {
    let of_crate = || {
        subject.folder.as_ref()?;
        let made = subject.loaded.path.ancestors().nth(3)?;
        let path = made.join(subject.loaded.algorithm.name).with_extension("svg");
        let here = std::env::current_dir().ok();
        // Shown from here it is short.
        let short = here.and_then(|here| Some(path.strip_prefix(here).ok()?.to_owned()));
        Some(short.unwrap_or(path))
    };
    args.svg.clone().or_else(of_crate)
}

/// Holds the policy to all suites, beside each other.
fn suites(algorithm: &'static Algorithm) -> Vec<SuiteReport> {
    let line = ProgressLine::begin();
    let done: Vec<[AtomicU64; 2]> = SUITES.iter().map(|_| Default::default()).collect();
    let text = || {
        let parts = SUITES.iter().zip(&done).filter_map(|(suite, numbers)| {
            let [done, all] = [&numbers[0], &numbers[1]].map(|one| one.load(Ordering::Relaxed));
            (0 < done && done < all).then(|| format!("{} {done} of {all} runs", suite.name))
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    let jobs: Vec<(&Suite, &[AtomicU64; 2])> = SUITES.iter().zip(&done).collect();
    let reports = parallel::map(&jobs, |(suite, numbers)| {
        let outcome = (suite.run)(algorithm, &|done, all| {
            numbers[0].store(done, Ordering::Relaxed);
            numbers[1].store(all, Ordering::Relaxed);
            line.say(text);
        });
        numbers[1].store(0, Ordering::Relaxed);
        SuiteReport::new(suite, outcome)
    });
    line.end();
    reports
}

/// Failures of a suite that are shown: they mostly have one cause.
const FAILURES_SHOWN: usize = 3;

fn text(report: &TrialReport) -> String {
    let mut rows = table(["suite", "runs", "holds", "found"]);
    for suite in &report.suites {
        rows.add_row([
            Cell::new(suite.suite),
            right(suite.runs),
            Cell::new(if suite.holds { "yes" } else { "NO" }),
            Cell::new(suite.found()),
        ]);
    }
    let mut text = finish(&rows, 0);
    for suite in &report.suites {
        if !suite.holds {
            let _ = writeln!(text, "\n{} is broken: {}", suite.suite, suite.law);
            for failure in suite.failures.iter().take(FAILURES_SHOWN) {
                let _ = writeln!(text, "  {failure}");
            }
            if let Some(more) = suite.failures.get(FAILURES_SHOWN..).filter(|more| !more.is_empty())
            {
                let _ = writeln!(text, "  and {} more: --format json has them", more.len());
            }
        }
        for unstated in &suite.unstated {
            let _ = writeln!(text, "\n{}, not stated: {unstated}", suite.suite);
        }
    }
    let LoadReport { scenario, why, failures, picture, variants } = &report.load;
    let _ = writeln!(text, "\n{scenario}: {why}\n\n{}", study_table(variants).trim_end());
    for failure in failures {
        let _ = writeln!(text, "\n{scenario}: {failure}");
    }
    if let Some(picture) = picture {
        let _ = writeln!(text, "\ndrawn: {picture}");
    }
    text
}

/// The policy passes, or the command fails.
fn verdict(report: &TrialReport) -> Result<(), Failure> {
    let broken = report.suites.iter().filter(|suite| !suite.holds).map(|suite| suite.suite);
    let mut broken: Vec<&str> = broken.collect();
    if !report.load.failures.is_empty() {
        broken.push("the load");
    }
    match broken.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("{}: fails {}", report.policy, broken.join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::sched::REGISTRY;

    fn report(outcome: Outcome) -> TrialReport {
        let suites = vec![SuiteReport::new(&SUITES[0], outcome)];
        let (scenario, why, digest) = ("x.toml".into(), "why".into(), String::new());
        let (failures, picture, variants) = (Vec::new(), None, Vec::new());
        let load = LoadReport { scenario, why, failures, picture, variants };
        let holds = suites[0].holds;
        TrialReport { policy: "mine", version: "1", digest, bytes: 0, holds, suites, load }
    }

    #[test]
    fn a_broken_law_is_told_with_what_broke_it() {
        let failures = vec!["seed 3: it lost a request".into()];
        let report = report(Outcome { runs: 3, failures, ..Outcome::default() });
        let text = text(&report);
        let law = "conformance is broken: every request ends once";
        assert!(text.contains(law) && text.contains("  seed 3: it lost a request\n"), "{text}");
        let failure = verdict(&report).expect_err("it fails");
        assert_eq!((failure.status, &*failure.message), (1, "mine: fails conformance"));
    }

    #[test]
    fn a_promise_that_could_be_made_is_no_failure() {
        let unstated = vec!["state a bound".into()];
        let report = report(Outcome { runs: 3, unstated, ..Outcome::default() });
        assert!(text(&report).contains("conformance, not stated: state a bound"));
        assert!(verdict(&report).is_ok());
    }

    #[test]
    fn fifo_passes_all_suites() {
        for report in suites(REGISTRY[0]) {
            assert!(report.holds && report.runs > 0, "{}: {:?}", report.suite, report.failures);
        }
    }
}
