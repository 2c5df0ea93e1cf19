//! `iopace sim`: scenarios, tables and curves in virtual time.

mod compare;
mod fuzz;
mod new;
pub(crate) mod run;
mod score;
mod sweep;
mod tables;

use crate::cli::{SimCommand, TraceFormat};
use crate::output::{Failure, Format, finish, nearest, print, print_json, right, table};
use crate::study_output;
use comfy_table::Cell;
use iopace_sim::milli::Milli;
use iopace_sim::report::{CheckReport, RunReport};
use iopace_sim::run::run_traced;
use iopace_sim::scenario::Scenario;
use iopace_sim::stories::{self, STORIES};
use iopace_sim::trace::{plot, png};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Carries out a command.
///
/// # Errors
/// A wrong scenario, a check that does not hold, or a file that cannot be written.
pub fn run(command: &SimCommand) -> Result<(), Failure> {
    match command {
        SimCommand::Tables(args) => tables::run(args),
        SimCommand::Score(args) => score::run(args),
        SimCommand::Fuzz(args) => fuzz::run(args),
        SimCommand::Run(args) => run::run(args),
        SimCommand::Compare(args) => compare::run(args),
        SimCommand::Trace { file, every, svg, png, format } => {
            trace(file, *every, svg.as_deref(), png.as_deref(), *format)
        }
        SimCommand::Replay(args) => crate::replay::run(args),
        SimCommand::List { format } => list(format.format),
        SimCommand::Sweep(args) => sweep::run(args),
        SimCommand::New(args) => new::run(args),
        SimCommand::Schema => print(&iopace_sim::schema::schema()),
    }
}

/// A story as JSON.
#[derive(Debug, Serialize)]
struct StoryReport {
    name: &'static str,
    why: String,
}

fn list(format: Format) -> Result<(), Failure> {
    let mut all = Vec::new();
    for story in STORIES {
        let scenario = Scenario::parse(story.name, story.text).map_err(Failure::new)?;
        all.push(StoryReport { name: story.name, why: scenario.why });
    }
    match format {
        Format::Json => print_json(&all),
        Format::Table => {
            let mut rows = table(["story", "why"]);
            for story in &all {
                rows.add_row([story.name, story.why.trim()]);
            }
            print(&finish(&rows, 0))
        }
    }
}

fn trace(
    file: &Path,
    every: iopace_core::time::Nanos,
    svg: Option<&Path>,
    png: Option<&Path>,
    format: Option<TraceFormat>,
) -> Result<(), Failure> {
    let (name, text) = scenario_text(file)?;
    let scenario = Scenario::parse(&name, &text).map_err(Failure::usage)?;
    let (_, trace) = run_traced(&scenario, Some(every));
    let picture = plot::svg(scenario.why.trim(), &trace);
    if let Some(path) = svg {
        study_output::write(path, picture.as_bytes())?;
    }
    if let Some(path) = png {
        study_output::write(path, png::png(&picture).map_err(Failure::new)?)?;
    }
    match format {
        Some(TraceFormat::Json) => print(&trace.json()),
        Some(TraceFormat::Csv) => print(&trace.csv()),
        None if svg.is_none() && png.is_none() => print(&trace.csv()),
        None => Ok(()),
    }
}

/// The file's text, or that of the story of this name.
fn scenario_text(file: &Path) -> Result<(String, String), Failure> {
    let name = file.display().to_string();
    let error = match fs::read_to_string(file) {
        Ok(text) => return Ok((name, text)),
        Err(error) => error,
    };
    if let Some(story) = stories::find(&name) {
        return Ok((name, story.text.into()));
    }
    let remedy = match nearest(&name, STORIES.iter().map(|story| story.name)) {
        Some(meant) => format!("did you mean the story '{meant}'?"),
        None => "see 'iopace sim list' for the stories that come with iopace".into(),
    };
    Err(Failure::usage(format!("the scenario {name} cannot be read: {error}; {remedy}")))
}

fn report_text(report: &RunReport) -> String {
    let mut text = format!("{}\n\n", report.why.trim());
    let params = report.params.iter().map(|(name, value)| format!(" {name}={value}"));
    let _ = writeln!(text, "disk {}, busy {} %", report.disk, percent(report.disk_use.busy));
    let _ = writeln!(text, "scheduler {}{}\n", report.scheduler, params.collect::<String>());
    let header =
        ["task", "kind", "MB/s", "ops/s", "mean ms", "p50 ms", "p99 ms", "max ms", "share"];
    let mut tasks = table(header);
    for (name, task) in &report.tasks {
        let latency = &task.latency;
        tasks.add_row([
            Cell::new(name),
            Cell::new(task.kind),
            right(format!("{:.1}", task.mb_s)),
            right(format!("{:.1}", task.ops_s)),
            right(format!("{:.1}", latency.mean_ms)),
            right(format!("{:.1}", latency.p50_ms)),
            right(format!("{:.1}", latency.p99_ms)),
            right(format!("{:.1}", latency.max_ms)),
            right(task.share.map_or(String::new(), |share| format!("{share:.2}"))),
        ]);
    }
    text.push_str(&finish(&tasks, 0));
    if !report.checks.is_empty() {
        let mut checks = table(["check", "task", "value", "bound", "holds"]);
        for check in &report.checks {
            checks.add_row([
                Cell::new(check.figure),
                Cell::new(check.task.as_deref().unwrap_or_default()),
                right(check.value.map_or("none".into(), |value| value.to_string())),
                Cell::new(bound(check)),
                Cell::new(if check.holds { "yes" } else { "NO" }),
            ]);
        }
        text.push('\n');
        text.push_str(&finish(&checks, 0));
    }
    text
}

fn percent(part: Milli) -> String {
    format!("{:.1}", Milli(part.0.saturating_mul(100)))
}

fn bound(check: &CheckReport) -> String {
    let least = check.at_least.map(|bound| format!(">= {bound}"));
    let most = check.at_most.map(|bound| format!("<= {bound}"));
    least.into_iter().chain(most).collect::<Vec<_>>().join(", ")
}
