//! `iopace sim replay`: a recorded load, or that of a fio job file, under each scheduler.

mod show;

use crate::cli::{FitArg, ReplayArgs};
use crate::output::{Failure, print};
use iopace_core::sched::{self, Algorithm, REGISTRY};
use iopace_core::window;
use iopace_sim::inputs::place::Fit;
use iopace_sim::inputs::{Format, InputError, fio};
use iopace_sim::replay::{HEAD_BYTES, Loop, Open, Recording, Replay, Settings};
use iopace_sim::scenario::Scenario;
use iopace_sim::{parallel, report::ReplayReport};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

/// Up to so many requests every scheduler is tried unless some are named: a few seconds.
const SMALL: u64 = 200_000;

/// What a long trace is replayed under unless schedulers are named.
const FEW: [&str; 3] = ["none", "deadline", "fair"];

/// Longest job file.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// Carries out the command.
///
/// # Errors
/// A file that cannot be read or is not understood, or a run that failed.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let formats = args.files.iter().map(|file| format_of(file, args.input_format.as_deref()));
    let formats = formats.collect::<Result<Vec<Format>, Failure>>()?;
    let replay = if formats.contains(&Format::Fio) {
        match job(args)? {
            Some(replay) => replay,
            None => return Ok(()),
        }
    } else {
        traces(args, &formats)?
    };
    let requests: u64 = replay.recordings.iter().map(|one| one.survey.requests_count).sum();
    let names: Vec<&str> = match (&args.sched[..], requests) {
        ([], 0..=SMALL) => ["none"].into_iter().chain(REGISTRY.iter().map(|a| a.name)).collect(),
        ([], _) => FEW.to_vec(),
        (named, _) => named.iter().map(String::as_str).collect(),
    };
    let chosen: Vec<Option<&'static Algorithm>> = names.iter().map(|n| sched::find(n)).collect();
    if requests > SMALL {
        progress(&format!("{} runs of {requests} requests", chosen.len()));
    }
    let reports = parallel::map(&chosen, |algorithm| replay.run(*algorithm));
    let reports = reports.into_iter().collect::<Result<Vec<ReplayReport>, InputError>>();
    let reports = reports.map_err(Failure::new)?;
    print(&show::text(&reports, args.format))?;
    let unfinished: u64 = reports.iter().map(|report| report.unfinished).sum();
    match unfinished {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{unfinished} requests did not finish"))),
    }
}

/// Says something on standard error if somebody looks at it.
fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{text}");
    }
}

fn open(file: &Path) -> Result<File, InputError> {
    let fail = |message| InputError { file: file.display().to_string(), place: None, message };
    let opened = File::open(file).map_err(|error| fail(format!("cannot be opened: {error}")))?;
    let is_file = opened.metadata().is_ok_and(|metadata| metadata.is_file());
    match is_file {
        true => Ok(opened),
        false => Err(fail("not a file: it is read once for each run, so name a file".into())),
    }
}

fn format_of(file: &Path, asked: Option<&str>) -> Result<Format, Failure> {
    let opened = open(file).map_err(Failure::usage)?;
    if let Some(format) = asked.and_then(Format::find) {
        return Ok(format);
    }
    let mut head = Vec::new();
    let read = opened.take(HEAD_BYTES as u64).read_to_end(&mut head);
    let name = file.display();
    read.map_err(|error| Failure::usage(format!("{name}: cannot be read: {error}")))?;
    let remedy = "name it with --input-format if it is one";
    Format::detect(&head).map_err(|error| Failure::usage(format!("{name}: {error}; {remedy}")))
}

fn traces(args: &ReplayArgs, formats: &[Format]) -> Result<Replay, Failure> {
    if args.print_scenario || args.strict {
        let message = "--print-scenario and --strict are for a fio job file; this is a trace";
        return Err(Failure::usage(message));
    }
    let mut settings = Settings {
        turn: match args.closed {
            true => Loop::Closed { depth: args.depth, keeps_pauses: args.think },
            false => Loop::Open,
        },
        speed: args.speed,
        fit: match args.fit {
            FitArg::Wrap => Fit::Wrap,
            FitArg::Scale => Fit::Scale,
            FitArg::Refuse => Fit::Refuse,
        },
    };
    let mut recordings = Vec::new();
    for (file, format) in args.files.iter().zip(formats) {
        let path = file.clone();
        let open: Open = Box::new(move || {
            let reader: Box<dyn BufRead + Send> = Box::new(BufReader::new(open(&path)?));
            Ok(reader)
        });
        let name = file.display().to_string();
        let mut ticks = 0u64;
        let tick = |requests| {
            ticks += 1;
            if ticks.is_multiple_of(16) {
                progress(&format!("{name}: {requests} requests read"));
            }
        };
        let recording = Recording::survey(&name, *format, open, tick).map_err(Failure::usage)?;
        recordings.push(recording);
    }
    let timeless = |one: &Recording| one.survey.length.0 == 0 && one.survey.requests_count > 1;
    if settings.turn == Loop::Open && recordings.iter().all(timeless) {
        eprintln!("note: the trace has no times: replayed as a closed loop (--closed)");
        settings.turn = Loop::Closed { depth: args.depth, keeps_pauses: false };
    }
    for one in &recordings {
        say(one, args, &settings)?;
    }
    let mut replay = Replay::of(&args.disk, recordings, settings);
    replay.scenario.window = window::find(&args.window).expect("one of the registry");
    Ok(replay)
}

/// Says what is in a trace, and what is done to it.
fn say(recording: &Recording, args: &ReplayArgs, settings: &Settings) -> Result<(), Failure> {
    let placing = recording.placing(&args.disk, settings).map_err(Failure::usage)?;
    let (name, survey) = (&recording.file, &recording.survey);
    let mut text = format!(
        "{name}: {}, {} requests in {}, {} streams, {} volumes",
        recording.format.name(),
        survey.requests_count,
        survey.length,
        survey.streams.len(),
        survey.volumes.len(),
    );
    if !placing.fits() {
        let how = match settings.fit {
            Fit::Scale => "are scaled down",
            Fit::Wrap | Fit::Refuse => "wrap around (--fit scale|refuse)",
        };
        text += &format!("; it reaches over {} bytes, offsets {how}", survey.span());
    }
    if let Loop::Closed { .. } = settings.turn {
        text += &format!("; closed loop, {} outstanding", recording.limit(settings.turn));
    }
    eprintln!("{text}");
    Ok(())
}

/// The replay of a job file; `None` if it is to be printed only.
fn job(args: &ReplayArgs) -> Result<Option<Replay>, Failure> {
    let [file] = &args.files[..] else {
        return Err(Failure::usage("a fio job file is run alone: name one file"));
    };
    if args.closed || args.speed != Default::default() {
        let message = "--closed and --speed are for traces: a job file says itself how it runs";
        return Err(Failure::usage(message));
    }
    let name = file.display().to_string();
    let length = open(file).map_err(Failure::usage)?.metadata().map_or(0, |m| m.len());
    if length > JOB_BYTES_MAX {
        return Err(Failure::usage(format!("{name}: more than 1 MiB: this is no job file")));
    }
    let text = fs::read_to_string(file);
    let text = text.map_err(|error| Failure::usage(format!("{name}: cannot be read: {error}")))?;
    let job = fio::Job::parse(&name, &text, &args.disk).map_err(Failure::usage)?;
    for note in &job.notes {
        eprintln!("note: {note}");
    }
    for unknown in &job.unknown {
        eprintln!("warning: not understood: {unknown}");
    }
    if args.strict && !job.unknown.is_empty() {
        let count = job.unknown.len();
        let message = format!(
            "{name}: {count} options are not understood, see above: take them out, or leave \
             --strict out"
        );
        return Err(Failure::usage(message));
    }
    if args.print_scenario {
        return print(&job.toml).map(|()| None);
    }
    let scenario = Scenario::parse(&format!("{name} as a scenario"), &job.toml);
    let mut scenario = scenario.map_err(Failure::usage)?;
    scenario.window = window::find(&args.window).expect("one of the registry");
    let (recordings, settings) = (Vec::new(), Settings::default());
    Ok(Some(Replay { scenario, recordings, settings }))
}
