//! Traces and job files, run under one scheduler after the other.
//!
//! A [`TraceReplay`] is what is the same in all of these runs: a scenario with the tasks of a job
//! file, or none, and the traces that are replayed beside each other, each from its own first
//! request on.

use crate::disks;
use crate::inputs::OUTSTANDING_MAX;
use crate::inputs::order::Ordered;
use crate::inputs::place::{Fit, Placed, Placing, Speed, Tick};
use crate::inputs::survey::Survey;
use crate::inputs::{Format, InputError, InputTrace};
use crate::record::{self, Recorder, Steps, step_of};
use crate::report::ReplayReport;
use crate::run::World;
use crate::run::sources::{Feed, RequestSource, SourcePace};
use crate::scenario::{Chosen, Scenario};
use crate::trace::Tracing;
use iopace_core::sched::Algorithm;
use iopace_core::time::Nanos;
use std::io::BufRead;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shortest step of a recording.
const STEP_FIRST: Nanos = Nanos::from_micros(10);

/// Bytes of a trace that are looked at to tell its format.
pub const HEAD_BYTES: usize = 4_096;

/// Opens a trace for reading from its beginning: once for each run.
pub type Open = Box<dyn Fn() -> Result<Box<dyn BufRead + Send>, InputError> + Send + Sync>;

/// One trace.
pub struct TraceRecording {
    /// Its name in messages.
    pub file: String,
    /// Its format.
    pub format: Format,
    /// Opens it.
    pub open: Open,
    /// What is in it.
    pub survey: Survey,
}

/// When requests are submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loop {
    /// By time stamps, whether earlier ones are finished or not.
    #[default]
    Open,
    /// In the order of the trace, as fast as earlier ones finish.
    Closed {
        /// Most that are outstanding; `None`: as many as in the trace, where it tells, else 1.
        depth: Option<u32>,
        /// Pauses between requests stay.
        keeps_pauses: bool,
    },
}

/// How traces are replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSettings {
    /// When.
    pub turn: Loop,
    /// How fast.
    pub speed: Speed,
    /// What becomes of offsets beyond the disk.
    pub fit: Fit,
}

/// What is replayed.
pub struct TraceReplay {
    /// The disk, and the tasks beside the traces.
    pub scenario: Scenario,
    /// The traces.
    pub recordings: Vec<TraceRecording>,
    /// How.
    pub settings: TraceSettings,
}

impl TraceRecording {
    /// Reads a trace once to see what is in it; `tick` is told now and then how many requests that
    /// were.
    ///
    /// # Errors
    /// A mistake in the trace, with its place.
    pub fn survey(
        file: &str,
        format: Format,
        open: Open,
        tick: impl FnMut(u64),
    ) -> Result<TraceRecording, InputError> {
        let trace = InputTrace::new(file, format, open()?)?;
        let survey = Survey::of(&mut Ordered::new(trace, format), tick)?;
        Ok(TraceRecording { file: file.into(), format, open, survey })
    }

    /// How it lies on a disk of that name.
    ///
    /// # Errors
    /// There is no such disk, or the trace is not to be made to fit.
    pub fn placing(&self, disk: &str, settings: &TraceSettings) -> Result<Placing, InputError> {
        let fail = |message| InputError { file: self.file.clone(), place: None, message };
        let capacity = disks::build(disk).map_err(fail)?.capacity();
        Placing::new(&self.survey, capacity, settings.fit, settings.speed).map_err(fail)
    }

    /// How many of its requests are outstanding at most.
    pub fn limit(&self, turn: Loop) -> u32 {
        match turn {
            Loop::Open => OUTSTANDING_MAX,
            Loop::Closed { depth, .. } => depth.or(self.survey.depth).unwrap_or(1),
        }
    }

    fn source<'a>(
        &'a self,
        disk: &str,
        settings: &TraceSettings,
        first_tally: usize,
        tick: Tick<'a>,
    ) -> Result<RequestSource<'a>, InputError> {
        let placing = self.placing(disk, settings)?;
        let trace = InputTrace::new(&self.file, self.format, (self.open)()?)?;
        let pieces = Placed::new(Ordered::new(trace, self.format), placing, tick);
        let pace = match settings.turn {
            Loop::Open => SourcePace::Open,
            Loop::Closed { keeps_pauses, .. } => SourcePace::Closed { keeps_pauses },
        };
        let tallies_count = self.survey.streams.len();
        let feed = Feed::Trace { pieces: Box::new(pieces), first_tally, tallies_count };
        Ok(RequestSource::new(feed, pace, self.limit(settings.turn)))
    }
}

impl TraceReplay {
    /// A replay of traces on a disk, without any task.
    pub fn of(disk: &str, recordings: Vec<TraceRecording>, settings: TraceSettings) -> TraceReplay {
        let mut scenario = Scenario::new("a replay", disk);
        scenario.warmup = Nanos::ZERO;
        // A trace may last for weeks: it ends with its last request.
        scenario.duration = Nanos(u64::MAX / 2);
        scenario.until_done = true;
        TraceReplay { scenario, recordings, settings }
    }

    /// Requests of all traces; none for a job file, which says when it ends.
    pub fn requests_count(&self) -> u64 {
        self.recordings.iter().map(|one| one.survey.requests_count).sum()
    }

    /// Carries it out under a scheduler; `None` is the plain elevator. `tick` is told every few
    /// thousand requests how many of the traces have been read: of all traces together.
    ///
    /// # Errors
    /// A trace could not be read to its end, or does not fit.
    pub fn run(
        &self,
        scheduler: Option<&'static Algorithm>,
        tick: Tick<'_>,
    ) -> Result<ReplayReport, InputError> {
        self.carry_out(scheduler, tick, false).map(|(report, _)| report)
    }

    /// The same, recorded: streams of traces with the most requests first, which is the same order
    /// under every scheduler; tasks of a job file in its order.
    ///
    /// # Errors
    /// As [`TraceReplay::run`].
    pub fn run_recorded(
        &self,
        scheduler: Option<&'static Algorithm>,
        tick: Tick<'_>,
    ) -> Result<(ReplayReport, record::Recording), InputError> {
        let (report, recording) = self.carry_out(scheduler, tick, true)?;
        let mut recording = recording.expect("a recorder was put in");
        if !self.recordings.is_empty() {
            recording.sort_by_requests();
        }
        Ok((report, recording))
    }

    fn carry_out(
        &self,
        scheduler: Option<&'static Algorithm>,
        tick: Tick<'_>,
        is_recorded: bool,
    ) -> Result<(ReplayReport, Option<record::Recording>), InputError> {
        let mut scenario = self.scenario.clone();
        scenario.scheduler = scheduler.map(Chosen::defaults);
        let names = self.names();
        let ticks = Ticks::new(self.recordings.len(), tick);
        let tellers: Vec<_> = (0..self.recordings.len()).map(|place| ticks.of(place)).collect();
        let mut world = World::new(&scenario);
        if is_recorded {
            let recorder = Recorder::new(&scenario, &names, self.steps());
            world.trace = Some(Tracing::recording(recorder));
        }
        for (recording, teller) in self.recordings.iter().zip(&tellers) {
            let first = world.add_streams(recording.survey.streams.len());
            world.attach(recording.source(&scenario.disk, &self.settings, first, teller)?);
        }
        world.replay(&names)
    }

    /// The steps of a recording: an open loop lasts as long as its longest trace, or longer; how
    /// long a closed one lasts is seen when it is over.
    fn steps(&self) -> Steps {
        let length = |one: &TraceRecording| self.settings.speed.scale(one.survey.length);
        let longest = self.recordings.iter().map(length).max();
        match (longest, self.settings.turn) {
            (Some(longest), Loop::Open) => Steps::Growing(step_of(longest).max(STEP_FIRST)),
            (Some(_), Loop::Closed { .. }) => Steps::Growing(STEP_FIRST),
            (None, _) => Steps::of(&self.scenario),
        }
    }

    /// The names of all streams; of several traces with the name of the trace, and its number where
    /// two have the same.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for (place, recording) in self.recordings.iter().enumerate() {
            let file = &recording.file;
            let before = self.recordings[..place].iter().filter(|one| one.file == *file).count();
            names.extend(recording.survey.streams.iter().map(|stream| {
                match (self.recordings.len(), before) {
                    (1, _) => stream.clone(),
                    (_, 0) => format!("{file}: {stream}"),
                    _ => format!("{file} ({}): {stream}", before + 1),
                }
            }));
        }
        names
    }
}

/// Sums up how far several traces have come.
struct Ticks<'a> {
    read: Vec<AtomicU64>,
    tick: Tick<'a>,
}

impl<'a> Ticks<'a> {
    fn new(count: usize, tick: Tick<'a>) -> Ticks<'a> {
        Ticks { read: (0..count).map(|_| AtomicU64::new(0)).collect(), tick }
    }

    /// What one of them is to be told.
    fn of(&self, place: usize) -> impl Fn(u64) + Sync + '_ {
        move |read| {
            self.read[place].store(read, Ordering::Relaxed);
            (self.tick)(self.read.iter().map(|one| one.load(Ordering::Relaxed)).sum());
        }
    }
}
