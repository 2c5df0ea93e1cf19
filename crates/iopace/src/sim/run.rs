//! `iopace sim run`: one scenario with its checks, its report and its logs.

use super::{report_text, scenario_text};
use crate::cli::{OutputArgs, RunArgs, TableFormat};
use crate::output::{Failure, print};
use crate::study_output;
use crate::study_output::{ProgressLine, Study, prepare, put};
use iopace_core::sched;
use iopace_sim::judge::judge;
use iopace_sim::record::Recording;
use iopace_sim::report::RunReport;
use iopace_sim::scenario::Scenario;
use iopace_sim::study::compare::choose;
use iopace_sim::study::fio::{Log, log};
use iopace_sim::study::{StudyVariant, VariantOutcome, carry_out_one, html, outcomes, seeded};
use std::path::Path;

/// Carries out the command.
///
/// # Errors
/// A wrong scenario, a check that does not hold, or a file that cannot be written.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let (name, text) = scenario_text(&args.file)?;
    let mut scenario = Scenario::parse(&name, &text).map_err(Failure::usage)?;
    if let Some(wanted) = &args.sched {
        scenario.scheduler = sched::find(wanted).map(|wanted| choose(&scenario, wanted));
    }
    if args.seeds > 1 || args.format == TableFormat::Csv {
        return several(args, &name, &scenario);
    }
    let is_recorded =
        args.html.is_some() || args.write_bw_log.is_some() || args.write_lat_log.is_some();
    let report = match is_recorded {
        true => recorded(args, &name, &scenario)?,
        false => judge(&scenario),
    };
    match args.format {
        TableFormat::Json => print(&report.to_json())?,
        TableFormat::Table | TableFormat::Csv => print(&report_text(&report))?,
    }
    let held = report.checks.iter().filter(|check| check.holds).count();
    all_hold(&name, held, report.checks.len())
}

/// Whether the checks hold.
fn all_hold(name: &str, held: usize, all: usize) -> Result<(), Failure> {
    match all - held {
        0 => Ok(()),
        missed => Err(Failure::new(format!("{name}: {missed} of {all} checks do not hold"))),
    }
}

/// Runs the scenario as a study of itself: with several seeds, or for their columns.
fn several(args: &RunArgs, name: &str, scenario: &Scenario) -> Result<(), Failure> {
    let scenarios = seeded(scenario, scenario.seed, args.seeds);
    let variant =
        StudyVariant { footing: scenarios.clone(), scenarios, ..StudyVariant::plain(scenario) };
    prepare("run", None, args.html.iter(), &[&args.file])?;
    let line = ProgressLine::begin();
    let all = outcomes(&[variant], &|done, all| line.show(done, all));
    line.end();
    let study = Study { name: "run", file: name, scenario, swept: &[] };
    let output = OutputArgs { format: args.format, html: args.html.clone(), ..Default::default() };
    put(&study, &all, &output)?;
    let whole = &all[0].summary.whole;
    all_hold(name, whole.checks_held as usize, whole.checks as usize)
}

/// Records the run and writes what was asked for.
fn recorded(args: &RunArgs, name: &str, scenario: &Scenario) -> Result<RunReport, Failure> {
    let variant = StudyVariant::plain(scenario);
    let (report, recording) = carry_out_one(&variant);
    write_logs(args.write_bw_log.as_deref(), Log::Bandwidth, &recording)?;
    write_logs(args.write_lat_log.as_deref(), Log::Latency, &recording)?;
    let runs = vec![(report.clone(), recording)];
    if let Some(path) = &args.html {
        let outcome = VariantOutcome::of(&variant, &runs);
        study_output::write(path, html::page(name, scenario, &[outcome], &[]))?;
    }
    Ok(report)
}

fn write_logs(prefix: Option<&str>, what: Log, recording: &Recording) -> Result<(), Failure> {
    let Some(prefix) = prefix else { return Ok(()) };
    for (place, task) in recording.tasks.iter().enumerate() {
        let path = what.file_name(prefix, place + 1);
        study_output::write(Path::new(&path), log(recording, task, what))?;
    }
    Ok(())
}
