//! Where the result of a study goes: standard output and files. How far it has come goes to
//! standard error, if that is a terminal.

use crate::cli::{OutputArgs, TableFormat};
use crate::output::{Failure, note, note_over, print, seen_width};
use iopace_sim::scenario::Scenario;
use iopace_sim::study::columns::{Column, columns as study_columns};
use iopace_sim::study::parquet::parquet;
use iopace_sim::study::summary::Summary;
use iopace_sim::study::{VariantOutcome, html, plot, print as forms};
use iopace_sim::trace::png;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The forms in which a result is written to the directory of `--out`.
const ENDINGS: [&str; 7] = ["txt", "json", "csv", "parquet", "html", "svg", "png"];

/// How often the line with the progress is written.
const EVERY: Duration = Duration::from_millis(200);

/// A line on the terminal that says how far a study has come.
pub(crate) struct ProgressLine {
    begun: Instant,
    written: Mutex<Option<Instant>>,
    is_wanted: bool,
}

impl ProgressLine {
    /// Begins now.
    pub(crate) fn begin() -> ProgressLine {
        let is_wanted = io::stderr().is_terminal();
        ProgressLine { begun: Instant::now(), written: Mutex::new(None), is_wanted }
    }

    /// So many runs of all are done.
    pub(crate) fn show(&self, done: usize, all: usize) {
        if all < 2 {
            return;
        }
        self.say(|| format!("{done} of {all} runs{}", self.left(done as f64 / all as f64)));
    }

    /// `, about 12 s left`, if that much of all is done; nothing at the very beginning.
    pub(crate) fn left(&self, part: f64) -> String {
        if part <= 0.0 {
            return String::new();
        }
        let left = self.begun.elapsed().as_secs_f64() * (1.0 - part) / part;
        format!(", about {left:.0} s left")
    }

    /// Shows a text of one line, if it is time for another one.
    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        let Ok(mut written) = self.written.lock() else { return };
        let is_due = written.is_none_or(|last| last.elapsed() >= EVERY);
        if !self.is_wanted || !is_due {
            return;
        }
        *written = Some(Instant::now());
        note_over(format_args!("{}", text()));
    }

    /// Takes the line away.
    pub(crate) fn end(&self) {
        if self.written.lock().is_ok_and(|written| written.is_some()) {
            note_over(format_args!(""));
        }
    }
}

/// Writes a file: all of it or, if the program is ended meanwhile, nothing of it. It is made beside
/// its place and then put there; what is no plain file (a terminal, a pipe) is written as it is.
///
/// # Errors
/// It cannot be written; the message names it.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("{} cannot be written: {error}", path.display()));
    // A link stays a link: what it leads to is written.
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let permissions = match fs::metadata(&place) {
        Ok(there) if !there.is_file() => return fs::write(path, bytes).map_err(failed),
        Ok(there) => there.permissions(),
        // As of any new file: what the umask leaves.
        Err(_) => fs::Permissions::from_mode(0o666),
    };
    let mut beside = tempfile::Builder::new()
        .prefix(".iopace-")
        .permissions(permissions)
        .tempfile_in(folder_of(&place))
        .map_err(failed)?;
    beside.write_all(bytes.as_ref()).map_err(failed)?;
    beside.persist(&place).map(drop).map_err(|error| failed(error.error))
}

/// The directory that a file is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes the directory of `--out`, for files called `name`, and sees whether the other files can be
/// written, before anything is run in vain.
///
/// # Errors
/// The directory cannot be made; or a file would be in one that does not exist, or is one of those
/// that are read.
pub(crate) fn prepare<'a>(
    name: &str,
    out: Option<&Path>,
    files: impl Iterator<Item = &'a PathBuf>,
    inputs: &[&Path],
) -> Result<(), Failure> {
    let of_out = |folder: &Path| ENDINGS.map(|ending| folder.join(format!("{name}.{ending}")));
    let of_out: Vec<PathBuf> = out.into_iter().flat_map(of_out).collect();
    for file in &files.cloned().chain(of_out).collect::<Vec<_>>() {
        let (name, folder) = (file.display(), folder_of(file));
        if !folder.is_dir() && out != Some(folder) {
            let folder = folder.display();
            let message = format!("{name} cannot be written: there is no directory {folder}");
            return Err(Failure::usage(message));
        }
        let there = fs::canonicalize(file).ok();
        let is_input = |input: &&Path| there.is_some() && fs::canonicalize(input).ok() == there;
        if inputs.iter().any(is_input) {
            let message = format!("{name} is what is read: name another file to be written");
            return Err(Failure::usage(message));
        }
    }
    let Some(directory) = out else { return Ok(()) };
    fs::create_dir_all(directory)
        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", directory.display())))
}

/// Columns as the bytes of a Parquet file.
///
/// # Errors
/// The library cannot write them.
pub(crate) fn columns(name: &str, columns: &[Column]) -> Result<Vec<u8>, Failure> {
    parquet(name, columns).map_err(|error| Failure::new(format!("parquet: {error}")))
}

/// The names with `all` spelt out, each once, in the order in which they were given.
pub(crate) fn spelt_out<'a>(names: &'a [String], all: impl Fn() -> Vec<&'a str>) -> Vec<&'a str> {
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        let meant = if name == "all" { all() } else { vec![name.as_str()] };
        for name in meant {
            if !known.contains(&name) {
                known.push(name);
            }
        }
    }
    known
}

/// The names of all schedulers, `none` first.
pub(crate) fn all_schedulers<'a>() -> Vec<&'a str> {
    let names = iopace_core::sched::all().into_iter().map(|algorithm| algorithm.name);
    std::iter::once("none").chain(names).collect()
}

/// What a study was about.
pub(crate) struct Study<'a> {
    /// `compare` or `sweep`: the names of its files.
    pub(crate) name: &'a str,
    /// The scenario's file.
    pub(crate) file: &'a str,
    /// The scenario itself.
    pub(crate) scenario: &'a Scenario,
    /// The keys that were swept.
    pub(crate) swept: &'a [String],
}

/// Prints a study and writes its files.
///
/// # Errors
/// Standard output or a file cannot be written.
pub(crate) fn put(
    study: &Study<'_>,
    all: &[VariantOutcome],
    output: &OutputArgs,
) -> Result<(), Failure> {
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
    let columns = || columns("study", &study_columns(&summaries));
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
    if output.format != TableFormat::Table {
        // The table has them itself.
        for warning in forms::warnings(&summaries) {
            note(format_args!("warning: {warning}"));
        }
    }
    print(&match output.format {
        TableFormat::Table => {
            let columns = seen_width().map_or(usize::MAX, usize::from);
            forms::table_within(&summaries, columns)
        }
        TableFormat::Json => forms::json(&summaries),
        TableFormat::Csv => forms::csv(&summaries),
    })
}
