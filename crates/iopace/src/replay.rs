//! `iopace sim replay`: a recorded load, or that of a fio job file, under each scheduler.

mod progress;
mod recorded;
mod report;
mod show;

use crate::cli::{FitArg, ReplayArgs};
use crate::output::{Failure, note, print};
use crate::study_output::{ProgressLine, all_schedulers, prepare, spelt_out};
use iopace_core::sched::{self, Algorithm};
use iopace_core::{pace, window};
use iopace_daemon::config::{PACE_DEFAULT, WINDOW_DEFAULT};
use iopace_sim::inputs::place::Fit;
use iopace_sim::inputs::{Format, InputError, fio};
use iopace_sim::replay::{HEAD_BYTES, Loop, Open, TraceRecording, TraceReplay, TraceSettings};
use iopace_sim::scenario::Scenario;
use iopace_sim::study::{VariantOutcome, replay as study};
use iopace_sim::{parallel, report::ReplayReport};
use progress::Progress;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Up to so many requests every scheduler is tried unless some are named: a few seconds.
const SMALL: u64 = 200_000;

/// Longest job file.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// Carries out the command.
///
/// # Errors
/// A file that cannot be read or is not understood, or a run that failed.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let formats = args.files.iter().map(|file| format_of(file, args.input_format.as_deref()));
    let formats = formats.collect::<Result<Vec<Format>, Failure>>()?;
    if formats.contains(&Format::Iopace) {
        return recorded::run(args);
    }
    if args.on_time {
        let message = "--on-time is about files of 'iopace record': leave it out";
        return Err(Failure::usage(message));
    }
    let inputs: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    prepare(report::NAME, args.output.out.as_deref(), args.output.files(), &inputs)?;
    let (replay, setup) = if formats.contains(&Format::Fio) {
        match job(args)? {
            Some(replay) => replay,
            None => return Ok(()),
        }
    } else {
        traces(args, &formats)?
    };
    let requests = replay.requests_count();
    let names: Vec<&str> = match (&args.sched[..], requests) {
        ([], 0..=SMALL) => all_schedulers(),
        ([], _) => compared(),
        (named, _) => spelt_out(named, all_schedulers),
    };
    let (reports, outcomes) = carry_out(&replay, &names, args.output.has_files())?;
    report::put(&title(args), &setup, &reports, &outcomes, &args.output)?;
    print(&show::text(&reports, args.output.format))?;
    let unfinished: u64 = reports.iter().map(|report| report.unfinished).sum();
    match unfinished {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{unfinished} requests did not finish"))),
    }
}

/// The schedulers under which a long trace is replayed unless some are named, `none` first.
fn compared() -> Vec<&'static str> {
    let few = sched::all().into_iter().filter(|algorithm| algorithm.profile.is_compared);
    std::iter::once("none").chain(few.map(|algorithm| algorithm.name)).collect()
}

/// Replays it under each scheduler; with the plots only if they are wanted.
fn carry_out(
    replay: &TraceReplay,
    names: &[&str],
    is_recorded: bool,
) -> Result<(Vec<ReplayReport>, Vec<VariantOutcome>), Failure> {
    let runs: Vec<(usize, Option<&'static Algorithm>)> =
        names.iter().map(|name| sched::find(name)).enumerate().collect();
    let progress = Progress::begin(names, replay.requests_count());
    let done = parallel::map(&runs, |(run, algorithm)| {
        let tick = |read| progress.read(*run, read);
        let result = match is_recorded {
            true => replay.run_recorded(*algorithm, &tick).map(|(report, recording)| {
                // What the plots show of a recording has a bound; it itself may be large.
                let outcome = study::outcome(&report, &recording);
                (report, Some(outcome))
            }),
            false => replay.run(*algorithm, &tick).map(|report| (report, None)),
        };
        progress.done(*run);
        result
    });
    progress.end();
    let done = done.into_iter().collect::<Result<Vec<_>, InputError>>().map_err(Failure::new)?;
    let (reports, outcomes): (Vec<_>, Vec<Option<VariantOutcome>>) = done.into_iter().unzip();
    Ok((reports, outcomes.into_iter().flatten().collect()))
}

/// What a report of it is called.
fn title(args: &ReplayArgs) -> String {
    let names = args.files.iter().map(|file| {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| file.display().to_string())
    });
    format!("Replay of {}", names.collect::<Vec<String>>().join(", "))
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

/// The replay of traces, and in words what is done.
fn traces(args: &ReplayArgs, formats: &[Format]) -> Result<(TraceReplay, String), Failure> {
    if args.print_scenario || args.strict {
        let message = "--print-scenario and --strict are for a fio job file; this is a trace";
        return Err(Failure::usage(message));
    }
    let mut settings = TraceSettings {
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
    let recordings = survey(args, formats)?;
    let timeless = |one: &TraceRecording| one.survey.length.0 == 0 && one.survey.requests_count > 1;
    if settings.turn == Loop::Open && recordings.iter().all(timeless) {
        note(format_args!("note: the trace has no times: replayed as a closed loop (--closed)"));
        settings.turn = Loop::Closed { depth: args.depth, keeps_pauses: false };
    }
    let mut setup = Vec::new();
    for one in &recordings {
        let text = describe(one, args, &settings)?;
        note(format_args!("{text}"));
        setup.push(text);
    }
    let turn = match settings.turn {
        Loop::Open if args.speed == Default::default() => "By their time stamps".into(),
        Loop::Open => format!("By their time stamps, {} times as fast", args.speed),
        Loop::Closed { keeps_pauses: true, .. } => "In their order, with the pauses".into(),
        Loop::Closed { keeps_pauses: false, .. } => "In their order".into(),
    };
    setup.push(format!("{turn}, on disk {}, window {}{}.", args.disk(), args.window(), live(args)));
    let setup = setup.join(". ");
    let mut replay = TraceReplay::of(args.disk(), recordings, settings);
    set_policies(&mut replay.scenario, args);
    Ok((replay, setup))
}

/// Reads all traces once.
fn survey(args: &ReplayArgs, formats: &[Format]) -> Result<Vec<TraceRecording>, Failure> {
    let mut recordings = Vec::new();
    let line = ProgressLine::begin();
    for (file, format) in args.files.iter().zip(formats) {
        let path = file.clone();
        let open: Open = Box::new(move || {
            let reader: Box<dyn BufRead + Send> = Box::new(BufReader::new(open(&path)?));
            Ok(reader)
        });
        let name = file.display().to_string();
        let tick = |requests| line.say(|| format!("{name}: {requests} requests read in advance"));
        let recording = TraceRecording::survey(&name, *format, open, tick);
        recordings.push(recording);
    }
    line.end();
    recordings.into_iter().collect::<Result<_, _>>().map_err(Failure::usage)
}

/// `1 stream`, `2 streams`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What is in a trace, and what is done to it.
fn describe(
    recording: &TraceRecording,
    args: &ReplayArgs,
    settings: &TraceSettings,
) -> Result<String, Failure> {
    let placing = recording.placing(args.disk(), settings).map_err(Failure::usage)?;
    let (name, survey) = (&recording.file, &recording.survey);
    let mut text = format!(
        "{name}: {}, {} in {}, {}, {}",
        recording.format.name(),
        counted(survey.requests_count, "request"),
        survey.length,
        counted(survey.streams.len() as u64, "stream"),
        counted(survey.volumes.len() as u64, "volume"),
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
    Ok(text)
}

/// Sets what a device of a daemon has: the window as asked for, and its pace, which a job file that
/// writes through the page cache notices.
fn set_policies(scenario: &mut Scenario, args: &ReplayArgs) {
    scenario.window = window::find(args.window()).expect("one of the registry");
    scenario.pace = pace::find(PACE_DEFAULT).expect("one of the registry");
}

/// ` (as live)`, if the window is the one that a daemon has.
fn live(args: &ReplayArgs) -> &'static str {
    if args.window() == WINDOW_DEFAULT { " (as live)" } else { "" }
}

/// The replay of a job file, and in words what is done; `None` if it is to be printed only.
fn job(args: &ReplayArgs) -> Result<Option<(TraceReplay, String)>, Failure> {
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
    let job = fio::Job::parse(&name, &text, args.disk()).map_err(Failure::usage)?;
    for text in &job.notes {
        note(format_args!("note: {text}"));
    }
    for unknown in &job.unknown {
        note(format_args!("warning: not understood: {unknown}"));
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
    set_policies(&mut scenario, args);
    let (recordings, settings) = (Vec::new(), TraceSettings::default());
    let setup = format!(
        "{name}: a fio job file, {} tasks, on disk {}, window {}{}.",
        scenario.tasks.len(),
        args.disk(),
        args.window(),
        live(args)
    );
    Ok(Some((TraceReplay { scenario, recordings, settings }, setup)))
}
