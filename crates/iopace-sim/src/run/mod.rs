//! The event loop: one disk, its tasks, and virtual time.
//!
//! # Model
//! Events are totally ordered by (time, sequence). At each instant the loop hands in all that is
//! due (requests of tasks that have thought long enough, changes of the scheduler), drains the
//! machine (engine, page cache and disk in one, the same code that the daemon runs in real time)
//! and books what finished; a finished request makes its lane think, which is the next event. Then
//! time jumps to the next event or to the instant that the machine asked for. There is no thread,
//! no clock and no randomness but the tasks' own.
//!
//! After the duration no task submits any more; the loop goes on until everything is finished, for
//! at most [`GIVE_UP`]. What finishes there counts in no figure but `unfinished`.

mod agenda;
mod events;
mod lanes;
pub(crate) mod machine;
mod outcome;
pub(crate) mod sources;
mod stages;
mod steps;

use crate::blocking::Blocking;
use crate::inputs::InputError;
use crate::record::{Recorder, Recording, Steps};
use crate::report::RunReport;
use crate::scenario::Scenario;
use crate::tally::Tally;
use crate::task::{Action, Workload};
use crate::trace::{RunTrace, Tracing};
use agenda::Agenda;
use events::Events;
use iopace_core::engine::Control;
use iopace_core::group::table::Column;
use iopace_core::pace::Budget;
use iopace_core::pace::counting::Counting;
use iopace_core::request::GroupId;
use iopace_core::stats::Histogram;
use iopace_core::time::{Instant, Nanos};
use iopace_core::trace::Event;
use iopace_core::units::Bytes;
use iopace_disk::DiskStats;
use iopace_disk::modelled::{Io, Machine};
use iopace_disk::pump::End;
use iopace_disk::slowed::Brake;
use lanes::task_id;
use machine::Made;
use sources::{Backlog, RequestSource, Sent};
use std::collections::BTreeMap;
use steps::Turn;

/// How long the loop waits for the last requests after the end of a run: longer than any legal
/// stall of a faulty disk, short enough to end.
pub const GIVE_UP: Nanos = Nanos::from_secs(300);

/// What a call takes that waits for nothing, and bytes that it copies in a nanosecond: as on a
/// machine of today. They count for a task only when it has moved more in no time than fits into
/// memory: one that stays within the page cache would go on at the same instant for ever.
const CALL: Nanos = Nanos::from_micros(1);
const COPIED_BYTES_NS: u64 = 8;

/// Carries out a scenario.
///
/// # Panics
/// If the scenario names a disk that does not exist: [`Scenario::parse`] refuses those.
pub fn run(scenario: &Scenario) -> RunReport {
    run_traced(scenario, None).0
}

/// Carries out a scenario and looks at the device every so often, if asked to.
///
/// # Panics
/// As [`run`].
pub fn run_traced(scenario: &Scenario, every: Option<Nanos>) -> (RunReport, RunTrace) {
    let mut world = World::new(scenario);
    world.trace = every.map(Tracing::new);
    world.begin();
    world.advance(Instant::ZERO + scenario.duration);
    world.end()
}

/// Carries out a scenario and records it.
///
/// # Panics
/// As [`run`].
pub fn run_recorded(scenario: &Scenario) -> (RunReport, Recording) {
    let mut world = World::new(scenario);
    let recorder = Recorder::new(scenario, &[], Steps::of(scenario));
    world.trace = Some(Tracing::recording(recorder));
    world.begin();
    world.advance(Instant::ZERO + scenario.duration);
    let (report, trace) = world.end();
    (report, trace.recording.expect("a recorder was put in"))
}

/// Something that is due at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A lane has thought: submit its action.
    Lane(usize),
    /// A step of the scenario.
    Step(usize),
    /// A source has something that is due.
    Source(usize),
}

/// One loop of a task: thinking, or waiting for one request.
#[derive(Debug)]
struct Lane {
    task: usize,
    action: Action,
    /// Set while a request is outstanding.
    submitted: Option<Instant>,
    /// What it has moved since it last waited or thought: all of it in no time.
    at_once: Bytes,
}

/// A machine with its tasks in virtual time. One alone is [`run`]; several with one memory are
/// [`crate::fleet`].
pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    machine: Machine,
    /// Requests that have ended and are not booked yet.
    ended: Vec<(Io, End)>,
    /// Makes its disk slow, if a step does.
    brake: Option<Brake>,
    /// Of each task: whether it runs, and who pays for it.
    turns: Vec<Turn>,
    now: Instant,
    /// When the machine wants to be polled.
    machine_at: Instant,
    due: Agenda,
    workloads: Vec<Box<dyn Workload>>,
    lanes: Vec<Lane>,
    /// Lanes that wait for a request.
    waiting_count: u64,
    /// For each task that sleeps while its request waits for a slot.
    blocking: BTreeMap<usize, Blocking>,
    /// Counts reads that find write-back under way, and puts their tasks to sleep.
    counting: Option<Counting>,
    /// Requests that come by the clock.
    sources: Vec<RequestSource<'a>>,
    /// Their requests that are outstanding, and free places among them.
    sent: Vec<Option<Sent>>,
    free: Vec<usize>,
    backlog: Backlog,
    /// A trace that could not be read on.
    failed: Option<InputError>,
    /// The wave that runs, since when, and how many of its tasks have not ended.
    wave: Option<u32>,
    wave_begin: Instant,
    wave_left: usize,
    /// Of each task: lanes that have not ended.
    alive: Vec<u32>,
    /// Tasks and traces that have not ended.
    unfinished_count: usize,
    /// When a run ended that ends with its work.
    over: Option<Instant>,
    /// One for each task, then one for each stream of a trace; and when each first submitted and
    /// last finished something.
    tallies: Vec<Tally>,
    spans: Vec<(Option<Instant>, Instant)>,
    /// Bytes finished by tasks of each group.
    group_bytes: Column<u64>,
    /// Pauses of buffered writes, as their tasks see them.
    pauses: Histogram,
    /// Most dirty memory, and most of it above its limit.
    dirty_max: Bytes,
    over_limit_max: Bytes,
    /// The size of memory, whether or not it is modelled.
    memory: Bytes,
    /// The limit as it is now.
    dirty_limit: Bytes,
    events: Events,
    requests_count: u64,
    /// Disk counters at the beginning and at the end of the measured time.
    disk_marks: [Option<DiskStats>; 2],
    /// Looks at the device, if somebody wants to see them.
    pub(crate) trace: Option<Tracing>,
}

impl<'a> World<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> World<'a> {
        World::on(scenario, machine::of(scenario))
    }

    /// A world on a machine that was made for the scenario.
    pub(crate) fn on(scenario: &'a Scenario, Made { machine, brake, .. }: Made) -> World<'a> {
        let mut world = World {
            scenario,
            machine,
            ended: Vec::new(),
            brake,
            turns: scenario.tasks.iter().map(Turn::of).collect(),
            now: Instant::ZERO,
            machine_at: Instant::NEVER,
            due: Agenda::default(),
            workloads: Vec::new(),
            lanes: Vec::new(),
            waiting_count: 0,
            blocking: BTreeMap::new(),
            counting: scenario.counts_reads.then(Counting::default),
            sources: Vec::new(),
            sent: Vec::new(),
            free: Vec::new(),
            backlog: Backlog::default(),
            failed: None,
            wave: None,
            wave_begin: Instant::ZERO,
            wave_left: 0,
            alive: vec![0; scenario.tasks.len()],
            unfinished_count: scenario.tasks.len(),
            over: None,
            tallies: Vec::new(),
            spans: Vec::new(),
            group_bytes: Column::default(),
            pauses: Histogram::default(),
            dirty_max: Bytes::ZERO,
            over_limit_max: Bytes::ZERO,
            memory: scenario.memory.unwrap_or_default().size,
            dirty_limit: scenario.memory.unwrap_or_default().dirty_limit,
            events: Events::default(),
            requests_count: 0,
            disk_marks: [None; 2],
            trace: None,
        };
        for (index, step) in scenario.steps.iter().enumerate() {
            world.due.plan(step.at, Due::Step(index));
        }
        for (index, task) in scenario.tasks.iter().enumerate() {
            world.workloads.push(task.workload(scenario.seed));
            for extent in task.warmed(scenario.seed) {
                world.machine.backend_mut().warm(extent);
            }
            world.add_tally();
            if task.blocking {
                world.blocking.insert(index, Blocking::default());
            }
        }
        world.begin_wave();
        world
    }

    fn add_tally(&mut self) {
        self.tallies.push(Tally::default());
        self.spans.push((None, Instant::ZERO));
    }

    /// Sets the machine up as the scenario says.
    pub(crate) fn begin(&mut self) {
        for id in self.scenario.groups.iter() {
            let settings = self.scenario.groups.effective(id, self.scenario.device);
            let parent = self.scenario.groups.parent(id).unwrap_or(GroupId::ROOT);
            self.control(Control::SetGroup(id, parent, settings), "group");
        }
        for (index, task) in self.scenario.tasks.iter().enumerate() {
            if task.dirty_cap.is_some() {
                self.control(Control::TaskCap(task_id(index), task.dirty_cap), "cap");
            }
        }
        self.drain();
        if let Some(chosen) = &self.scenario.scheduler {
            let control = Control::Insert(chosen.algorithm, chosen.params.clone());
            self.control(control, "insert");
            self.drain();
        }
    }

    /// Carries out everything up to an instant, not after the end of the scenario.
    pub(crate) fn advance(&mut self, to: Instant) {
        let (begin, end) = self.measured();
        for (place, mark) in [begin, end].into_iter().enumerate() {
            if self.disk_marks[place].is_none() && mark <= to {
                self.turn_until(mark);
                self.disk_marks[place] = Some(self.machine.backend().disk().stats());
            }
        }
        self.turn_until(to.min(end));
    }

    /// Waits for what is not finished at the end, and reports.
    pub(crate) fn end(mut self) -> (RunReport, RunTrace) {
        self.settle();
        let mut trace = self.trace.take().map(Tracing::end).unwrap_or_default();
        trace.portion_pauses = self.machine.engine().pauses().clone();
        (self.report(), trace)
    }

    /// Waits for what is outstanding; nothing more is submitted.
    fn settle(&mut self) {
        let (_, end) = self.measured();
        self.book_unfinished(end);
        self.finish_all(end);
    }

    fn finish_all(&mut self, end: Instant) {
        self.due.clear();
        // What a program has not looked at is finished all the same.
        for program in std::mem::take(&mut self.blocking).into_values() {
            for (lane, _) in program.end() {
                self.lanes[lane].submitted = None;
                self.waiting_count -= 1;
            }
        }
        while self.waiting_count > 0 {
            if self.machine_at > end + GIVE_UP {
                return;
            }
            self.now = self.now.max(self.machine_at);
            self.drain();
        }
    }

    /// First and last instant that count.
    fn measured(&self) -> (Instant, Instant) {
        let begin = Instant::ZERO + self.scenario.warmup;
        (begin, self.over.unwrap_or(Instant::ZERO + self.scenario.duration))
    }

    /// Carries out every event before `end`.
    fn turn_until(&mut self, end: Instant) {
        loop {
            if self.is_over() {
                self.over.get_or_insert(self.now);
                return;
            }
            let next = self.due.next().min(self.machine_at);
            if let Some(trace) = &mut self.trace {
                trace.look(next.min(end), &self.machine);
            }
            if next >= end {
                return;
            }
            self.now = self.now.max(next);
            while let Some(due) = self.due.pop(self.now) {
                match due {
                    Due::Lane(index) => match self.program(index) {
                        Some(program) => program.wants(index),
                        None => self.submit(index),
                    },
                    Due::Step(index) => self.step(index),
                    Due::Source(index) => self.arrive(index),
                }
            }
            self.drain();
            self.turn_blocking();
            self.watch_memory();
        }
    }

    /// Keeps the highest marks of dirty memory.
    fn watch_memory(&mut self) {
        if self.scenario.memory.is_none() || self.now < Instant::ZERO + self.scenario.warmup {
            return;
        }
        let dirty = self.machine.engine().dirty(GroupId::ROOT).device;
        if dirty > self.dirty_max {
            self.dirty_max = dirty;
        }
        if dirty > self.dirty_limit {
            self.over_limit_max = self.over_limit_max.max(dirty - self.dirty_limit);
        }
    }

    /// The machine, to be looked at.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Tells the machine what it may use of memory, at the present end of its time.
    pub(crate) fn set_budget(&mut self, now: Instant, budget: Budget) {
        self.now = self.now.max(now);
        self.dirty_limit = budget.device.limit;
        self.control(Control::Memory(budget), "memory");
        self.drain();
    }

    fn control(&mut self, control: Control, what: &str) {
        if let Err(error) = self.machine.control(self.now, control) {
            self.events.add(self.now, format!("{what} refused: {error}"));
        }
    }

    /// Lets the machine do all that it has to do at this instant, and books what has ended.
    fn drain(&mut self) {
        let World { machine, ended, events, now, .. } = self;
        let note = |event: Box<Event>| events.add(*now, event.to_string());
        self.machine_at = machine.drain(*now, ended, note);
        if !self.ended.is_empty() {
            let mut ended = std::mem::take(&mut self.ended);
            for (io, end) in &ended {
                self.finished(io.submit.tag, end);
            }
            ended.clear();
            self.ended = ended;
        }
    }
}
