//! Traces and job files, run under one scheduler after the other.
//!
//! A [`Replay`] is what is the same in all of these runs: a scenario with the tasks of a job file,
//! or none, and the traces that are replayed beside each other, each from its own first request on.

use crate::disks;
use crate::inputs::order::Ordered;
use crate::inputs::place::{Fit, OUTSTANDING_MAX, Placed, Placing, Speed};
use crate::inputs::survey::Survey;
use crate::inputs::{Format, InputError, Trace};
use crate::report::ReplayReport;
use crate::run::World;
use crate::run::sources::{Feed, Pace, Source};
use crate::scenario::{Chosen, Scenario};
use iopace_core::sched::Algorithm;
use iopace_core::time::Nanos;
use std::io::BufRead;

/// Bytes of a trace that are looked at to tell its format.
pub const HEAD_BYTES: usize = 4_096;

/// Opens a trace for reading from its beginning: once for each run.
pub type Open = Box<dyn Fn() -> Result<Box<dyn BufRead + Send>, InputError> + Send + Sync>;

/// One trace.
pub struct Recording {
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
pub struct Settings {
    /// When.
    pub turn: Loop,
    /// How fast.
    pub speed: Speed,
    /// What becomes of offsets beyond the disk.
    pub fit: Fit,
}

/// What is replayed.
pub struct Replay {
    /// The disk, and the tasks beside the traces.
    pub scenario: Scenario,
    /// The traces.
    pub recordings: Vec<Recording>,
    /// How.
    pub settings: Settings,
}

impl Recording {
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
    ) -> Result<Recording, InputError> {
        let trace = Trace::new(file, format, open()?)?;
        let survey = Survey::of(&mut Ordered::new(trace, format), tick)?;
        Ok(Recording { file: file.into(), format, open, survey })
    }

    /// How it lies on a disk of that name.
    ///
    /// # Errors
    /// There is no such disk, or the trace is not to be made to fit.
    pub fn placing(&self, disk: &str, settings: &Settings) -> Result<Placing, InputError> {
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

    fn source(
        &self,
        disk: &str,
        settings: &Settings,
        first_tally: usize,
    ) -> Result<Source<'_>, InputError> {
        let placing = self.placing(disk, settings)?;
        let trace = Trace::new(&self.file, self.format, (self.open)()?)?;
        let pieces = Placed::new(Ordered::new(trace, self.format), placing);
        let pace = match settings.turn {
            Loop::Open => Pace::Open,
            Loop::Closed { keeps_pauses, .. } => Pace::Closed { keeps_pauses },
        };
        let tallies_count = self.survey.streams.len();
        let feed = Feed::Trace { pieces: Box::new(pieces), first_tally, tallies_count };
        Ok(Source::new(feed, pace, self.limit(settings.turn)))
    }
}

impl Replay {
    /// A replay of traces on a disk, without any task.
    pub fn of(disk: &str, recordings: Vec<Recording>, settings: Settings) -> Replay {
        let mut scenario = Scenario::new("a replay", disk);
        scenario.warmup = Nanos::ZERO;
        // A trace may last for weeks: it ends with its last request.
        scenario.duration = Nanos(u64::MAX / 2);
        scenario.until_done = true;
        Replay { scenario, recordings, settings }
    }

    /// Carries it out under a scheduler; `None` is the plain elevator.
    ///
    /// # Errors
    /// A trace could not be read to its end, or does not fit.
    pub fn run(&self, scheduler: Option<&'static Algorithm>) -> Result<ReplayReport, InputError> {
        let mut scenario = self.scenario.clone();
        scenario.scheduler = scheduler.map(Chosen::defaults);
        let mut world = World::new(&scenario);
        let mut names = Vec::new();
        for recording in &self.recordings {
            let streams = &recording.survey.streams;
            let first = world.add_streams(streams.len());
            names.extend(streams.iter().map(|stream| match self.recordings.len() {
                1 => stream.clone(),
                _ => format!("{}: {stream}", recording.file),
            }));
            world.attach(recording.source(&scenario.disk, &self.settings, first)?);
        }
        world.replay(&names)
    }
}
