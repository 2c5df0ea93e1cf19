//! Where the result of a study goes: standard output and files. How far it has come goes to
//! standard error, if that is a terminal.

use crate::cli::{OutputArgs, TableFormat};
use crate::output::{Failure, print};
use iopace_sim::scenario::Scenario;
use iopace_sim::study::parquet::parquet;
use iopace_sim::study::summary::Summary;
use iopace_sim::study::{Outcome, html, plot, print as forms};
use iopace_sim::trace::png;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often the line with the progress is written.
const EVERY: Duration = Duration::from_millis(200);

/// A line on the terminal that says how far a study has come.
pub(super) struct ProgressLine {
    begun: Instant,
    written: Mutex<Option<Instant>>,
    is_wanted: bool,
}

impl ProgressLine {
    /// Begins now.
    pub(super) fn begin() -> ProgressLine {
        let is_wanted = io::stderr().is_terminal();
        ProgressLine { begun: Instant::now(), written: Mutex::new(None), is_wanted }
    }

    /// So many runs of all are done.
    pub(super) fn show(&self, done: usize, all: usize) {
        let Ok(mut written) = self.written.lock() else { return };
        let is_due = written.is_none_or(|last| last.elapsed() >= EVERY);
        if !self.is_wanted || !is_due || all < 2 {
            return;
        }
        *written = Some(Instant::now());
        let left = self.begun.elapsed().as_secs_f64() / done as f64 * (all - done) as f64;
        let mut error = io::stderr().lock();
        // A progress that cannot be shown is no failure.
        let _ = write!(error, "\r{done} of {all} runs, about {left:.0} s left \x1b[K");
        let _ = error.flush();
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        if self.written.lock().is_ok_and(|written| written.is_some()) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Writes a file.
///
/// # Errors
/// It cannot be written; the message names it.
pub(super) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    fs::write(path, bytes)
        .map_err(|error| Failure::new(format!("{} cannot be written: {error}", path.display())))
}

/// Makes the directory of `--out`, before anything is run in vain.
///
/// # Errors
/// It cannot be made.
pub(super) fn prepare(output: &OutputArgs) -> Result<(), Failure> {
    let Some(directory) = &output.out else { return Ok(()) };
    fs::create_dir_all(directory)
        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", directory.display())))
}

/// What a study was about.
pub(super) struct Study<'a> {
    /// `compare` or `sweep`: the names of its files.
    pub(super) name: &'a str,
    /// The scenario's file.
    pub(super) file: &'a str,
    /// The scenario itself.
    pub(super) scenario: &'a Scenario,
    /// The keys that were swept.
    pub(super) swept: &'a [String],
}

/// Prints a study and writes its files.
///
/// # Errors
/// Standard output or a file cannot be written.
pub(super) fn put(study: &Study<'_>, all: &[Outcome], output: &OutputArgs) -> Result<(), Failure> {
    let summaries: Vec<Summary> = all.iter().map(|outcome| outcome.summary.clone()).collect();
    let page = || html::page(study.file, study.scenario, all, study.swept);
    if let Some(path) = &output.html {
        write(path, page())?;
    }
    let picture = || plot::svg(study.scenario.why.trim(), &summaries);
    let pixels = |svg: &str| png::png(svg).map_err(Failure::new);
    if let Some(path) = &output.svg {
        write(path, picture())?;
    }
    if let Some(path) = &output.png {
        write(path, pixels(&picture())?)?;
    }
    let columns = || parquet(&summaries).map_err(|error| Failure::new(format!("parquet: {error}")));
    if let Some(path) = &output.parquet {
        write(path, columns()?)?;
    }
    if let Some(directory) = &output.out {
        let path = |ending: &str| directory.join(format!("{}.{ending}", study.name));
        write(&path("txt"), forms::table(&summaries))?;
        write(&path("json"), forms::json(&summaries))?;
        write(&path("csv"), forms::csv(&summaries))?;
        write(&path("parquet"), columns()?)?;
        write(&path("html"), page())?;
        let picture = picture();
        write(&path("svg"), &picture)?;
        write(&path("png"), pixels(&picture)?)?;
    }
    print(&match output.format {
        TableFormat::Table => forms::table(&summaries),
        TableFormat::Json => forms::json(&summaries),
        TableFormat::Csv => forms::csv(&summaries),
    })
}
