//! `iopace calibrate`: measures a file or disk, fits a model, and says how far off it is.

mod scratch;
mod show;

use crate::cli::CalibrateArgs;
use crate::output::{Failure, Format, note_over, print, print_json};
use crate::units;
use iopace_core::request::Op;
use iopace_core::time::Nanos;
use iopace_daemon::below::Below;
use iopace_daemon::measured::RealDisk;
use iopace_disk::calibrate::{
    self, Figure, Fit, Fitness, Fitted, Limits, Measured, PlanStep, Row, SIZE_MIN, Trouble,
};
use iopace_disk::model_file::{ModelFigure, ModelFile};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs;
use std::io::{ErrorKind, IsTerminal, Write as _};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Shortest measurement: 29 to 37 steps of some 50 ms.
const TIME_MIN: Nanos = Nanos::from_secs(1);

/// Longest file that is looked at before a model is written over it.
const MODEL_LEN_MAX: u64 = 1 << 20;

/// Most requests of a step: beyond it a mean does not change, and their times take memory.
const REQUESTS_MAX: u64 = 1_000_000;

/// Exit status of a measurement that was stopped, as a shell has it of a program that SIGINT ended.
const STOPPED: u8 = 130;

/// What was found.
#[derive(Debug)]
struct Found {
    file: ModelFile,
    nature: calibrate::Nature,
    rows: Vec<Row>,
    fitness: Fitness,
    /// What a reader of the figures must know.
    notes: Vec<String>,
    /// Steps that were not measured, because it was stopped.
    missing: Vec<PlanStep>,
}

/// The measurements, step by step.
#[derive(Debug, Default)]
struct Measurement {
    figures: Vec<Figure>,
    /// Steps that were stopped or not begun.
    missing: Vec<PlanStep>,
}

/// Carries out the command.
///
/// # Errors
/// The disk cannot be opened or must not be written, or too little was measured. A measurement that
/// was stopped is an error too, although its model is printed and written.
pub fn run(args: &CalibrateArgs) -> Result<(), Failure> {
    if args.time < TIME_MIN {
        return Err(Failure::usage(format!("--time {}: it is at least {TIME_MIN}", args.time)));
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // A second one ends the process at once; a scratch file has no name and goes with it.
        let again = signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone());
        let first = again.and_then(|_| signal_hook::flag::register(signal, stop.clone()));
        first.map_err(|error| Failure::new(format!("signals cannot be caught: {error}")))?;
    }
    if let Some(out) = &args.out {
        check_out(out, &args.path)?;
    }
    let mut disk = open(args, &stop)?;
    let mut notes = notes(args, &disk);
    let measured = measure_all(args, &mut disk, &mut notes)?;
    let stopped = stopped(&measured);
    say("fitting a model");
    let says = Below::of(&args.path).and_then(|below| below.is_rotational());
    let figures = &measured.figures[..];
    let fit = Fit { capacity: disk.capacity(), figures, kernel_says_rotational: says };
    let fitted = calibrate::fit(&fit).map_err(|error| match &stopped {
        Some(stopped) => Failure { message: format!("{stopped}: {error}"), status: STOPPED },
        None => Failure::new(error),
    })?;
    let is_rotational = fitted.nature == calibrate::Nature::Rotational;
    if says.is_some_and(|says| says != is_rotational) {
        let (kernel, curve) = if is_rotational { ("no", "a") } else { ("a", "no") };
        notes.push(format!("the kernel says {kernel} head, the times of seeks say {curve} head"));
    }
    let rows = calibrate::compare(&fitted.model, figures);
    let fitness = Fitness::of(&rows);
    let (file, nature) = (model_file(args, &fitted, &rows, &measured), fitted.nature);
    let found = Found { file, nature, rows, fitness, notes, missing: measured.missing };
    if let Some(out) = &args.out {
        save(out, Some(&found.file))?;
    }
    match args.format.format {
        Format::Json => print_json(&show::json(&found))?,
        Format::Table => print(&show::text(&found, args.out.as_deref()))?,
    }
    match stopped {
        Some(stopped) => {
            let message = format!("{stopped}: the model is of these alone");
            Err(Failure { message, status: STOPPED })
        }
        None => Ok(()),
    }
}

/// How far it came, if it was stopped.
fn stopped(measured: &Measurement) -> Option<String> {
    let (done, missing) = (measured.figures.len(), measured.missing.len());
    let all = done + missing;
    (missing > 0).then(|| format!("stopped: {done} of {all} steps were measured"))
}

/// Opens what is to be measured, if it may be.
fn open(args: &CalibrateArgs, stop: &Arc<AtomicBool>) -> Result<RealDisk, Failure> {
    let path = &args.path;
    let name = path.display();
    let metadata = fs::metadata(path);
    let metadata = metadata.map_err(|error| Failure::usage(format!("{name}: {error}")))?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        if !args.write {
            return Err(Failure::usage(format!(
                "{name} is a directory: name a file of it, or say --write for a scratch file there"
            )));
        }
        return scratch::make(args, stop);
    }
    if !kind.is_file() && !kind.is_block_device() {
        let message = format!("{name} is neither a file nor a block device nor a directory");
        return Err(Failure::usage(message));
    }
    let content = match (kind.is_block_device(), metadata.len()) {
        (true, _) => Some("everything on this block device".to_owned()),
        (false, 0) => None,
        (false, len) => Some(format!("its {}", units::size(len))),
    };
    if let Some(content) = content.filter(|_| args.write && !args.overwrite) {
        return Err(Failure::usage(format!(
            "{name}: --write would destroy {content}: say --overwrite too if that is meant, or \
             name a directory for a scratch file"
        )));
    }
    let disk = RealDisk::open(path, args.write, stop.clone()).map_err(|error| {
        Failure::new(match error.kind() {
            ErrorKind::WouldBlock => format!("{name} is in use: another process has it locked"),
            ErrorKind::ResourceBusy => {
                format!("{name} is in use (mounted, or part of something): it is not written")
            }
            _ => format!("{name} cannot be opened: {error}"),
        })
    })?;
    if disk.capacity() < SIZE_MIN {
        let message = format!("{name} is too small to be measured: it is at least {SIZE_MIN}");
        return Err(Failure::usage(message));
    }
    Ok(disk)
}

fn notes(args: &CalibrateArgs, disk: &RealDisk) -> Vec<String> {
    let mut notes = Vec::new();
    if !disk.is_direct() {
        notes.push("no direct I/O here: the page cache takes part in every figure".into());
    }
    match disk.holes_permille() {
        Ok(0) | Err(_) => {}
        Ok(holes) => notes.push(format!(
            "{}.{} % of the file is holes: reads of them do not reach the disk",
            holes / 10,
            holes % 10
        )),
    }
    if !args.write {
        notes.push(
            "writes were not measured (--write): what the model has of them is assumed".into(),
        );
    }
    notes.push(format!("requests in parallel: {}", disk.engine()));
    notes
}

/// Measures step by step, each for its share of the time. A step that is stopped does not count: it
/// has a part of its requests.
fn measure_all(
    args: &CalibrateArgs,
    disk: &mut RealDisk,
    notes: &mut Vec<String>,
) -> Result<Measurement, Failure> {
    let steps = calibrate::plan(args.write);
    let weights: u64 = steps.iter().map(PlanStep::weight).sum();
    let mut measured = Measurement::default();
    for (at, step) in steps.iter().enumerate() {
        if disk.is_stopped() {
            measured.missing.push(*step);
            continue;
        }
        say(&format!("{} of {}: {step}", at + 1, steps.len()));
        let time = Nanos(args.time.0 / weights * step.weight());
        let limits = Limits { time, requests_count: REQUESTS_MAX };
        match calibrate::measure(disk, *step, limits) {
            Ok(figure) if !disk.is_stopped() => measured.figures.push(figure),
            Ok(_) | Err(Trouble::Stopped) => measured.missing.push(*step),
            Err(Trouble::Failed(Op::Flush, error)) => {
                notes.push(format!("{step}: a flush failed: {error:?}"));
            }
            Err(Trouble::Failed(_, error)) => {
                let name = args.path.display();
                return Err(Failure::new(format!("{name}: {step} failed: {error:?}")));
            }
        }
    }
    Ok(measured)
}

/// Says where it is, on a terminal, in one line that is written over.
fn say(text: &str) {
    if std::io::stderr().is_terminal() {
        note_over(format_args!("{text}"));
    }
}

/// Nothing in it tells which machine it was, unless the maker's name is asked for.
fn model_file(
    args: &CalibrateArgs,
    fitted: &Fitted,
    rows: &[Row],
    measured: &Measurement,
) -> ModelFile {
    let name = Below::of(&args.path).filter(|_| args.device_name).and_then(|below| below.model());
    let error = calibrate::mean_error(rows);
    let (steps, whole, tenth) = (rows.len(), error / 10, error % 10);
    let what = if args.write { "reads and writes" } else { "reads" };
    let fitness = Fitness::of(rows);
    let fit = if fitness.is_fit() { "fit" } else { "not fit" };
    let stopped = stopped(measured).map_or(String::new(), |stopped| format!("; {stopped}"));
    let summary = format!(
        "fitted by iopace calibrate to {what}: {steps} figures, mean error {whole}.{tenth} %, \
         {fit} for prediction{stopped}"
    );
    let figures = rows.iter().map(|row| {
        let figure = ModelFigure {
            unit: row.real.step.unit().name().into(),
            real: row.real.value,
            model: row.modelled,
            error_permille: row.error_permille,
        };
        (row.real.step.to_string(), figure)
    });
    ModelFile {
        name,
        summary: Some(summary),
        model: fitted.model,
        sources: fitted.sources.clone(),
        figures: figures.collect(),
    }
}

/// Refuses to write the model over anything but a model, before something is measured in vain.
fn check_out(out: &Path, measured: &Path) -> Result<(), Failure> {
    let name = out.display();
    let there = match fs::metadata(out) {
        Err(error) if error.kind() == ErrorKind::NotFound => return save(out, None),
        Err(error) => return Err(Failure::usage(format!("{name}: {error}"))),
        Ok(there) => there,
    };
    let is_measured = fs::metadata(measured)
        .is_ok_and(|other| (other.dev(), other.ino()) == (there.dev(), there.ino()));
    // A model file is some kilobytes; anything else is not read to find out.
    let is_model = there.is_file()
        && !is_measured
        && (there.len() == 0
            || there.len() <= MODEL_LEN_MAX
                && fs::read_to_string(out)
                    .is_ok_and(|text| ModelFile::parse(&name.to_string(), &text).is_ok()));
    if !is_model {
        let message = format!("--out {name}: it is there and no model file: name another one");
        return Err(Failure::usage(message));
    }
    save(out, None)
}

/// Writes the model beside its place and puts it there as a whole; without a model, tries whether
/// that is possible.
fn save(out: &Path, model: Option<&ModelFile>) -> Result<(), Failure> {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    let attempt = || {
        let mut file = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
        let Some(model) = model else { return file.close() };
        file.write_all(model.to_string().as_bytes())?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        file.persist(out).map_err(|error| error.error)?;
        Ok(())
    };
    attempt().map_err(|error| Failure::new(format!("{} cannot be written: {error}", out.display())))
}
