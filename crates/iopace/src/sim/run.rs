//! `iopace sim run`: one scenario with its checks, its report and its logs.

use super::{output, report_text, scenario_text};
use crate::cli::RunArgs;
use crate::output::{Failure, Format, print};
use iopace_sim::judge::judge;
use iopace_sim::record::Recording;
use iopace_sim::report::RunReport;
use iopace_sim::scenario::Scenario;
use iopace_sim::study::fio::{Log, log};
use iopace_sim::study::{Outcome, Variant, carry_out_one, html};
use std::path::Path;

/// Carries out the command.
///
/// # Errors
/// A wrong scenario, a check that does not hold, or a file that cannot be written.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let (name, text) = scenario_text(&args.file)?;
    let scenario = Scenario::parse(&name, &text).map_err(Failure::usage)?;
    let is_recorded =
        args.html.is_some() || args.write_bw_log.is_some() || args.write_lat_log.is_some();
    let report = match is_recorded {
        true => recorded(args, &name, &scenario)?,
        false => judge(&scenario),
    };
    match args.format.format {
        Format::Json => print(&report.to_json())?,
        Format::Table => print(&report_text(&report))?,
    }
    let missed = report.checks.iter().filter(|check| !check.holds).count();
    if missed > 0 {
        let all = report.checks.len();
        return Err(Failure::new(format!("{name}: {missed} of {all} checks do not hold")));
    }
    Ok(())
}

/// Records the run and writes what was asked for.
fn recorded(args: &RunArgs, name: &str, scenario: &Scenario) -> Result<RunReport, Failure> {
    let variant = Variant::plain(scenario);
    let (report, recording) = carry_out_one(&variant);
    write_logs(args.write_bw_log.as_deref(), Log::Bandwidth, &recording)?;
    write_logs(args.write_lat_log.as_deref(), Log::Latency, &recording)?;
    let runs = vec![(report.clone(), recording)];
    if let Some(path) = &args.html {
        let outcome = Outcome::of(&variant, &runs);
        output::write(path, html::page(name, scenario, &[outcome], &[]))?;
    }
    Ok(report)
}

fn write_logs(prefix: Option<&str>, what: Log, recording: &Recording) -> Result<(), Failure> {
    let Some(prefix) = prefix else { return Ok(()) };
    for (place, task) in recording.tasks.iter().enumerate() {
        let path = what.file_name(prefix, place + 1);
        output::write(Path::new(&path), log(recording, task, what))?;
    }
    Ok(())
}
