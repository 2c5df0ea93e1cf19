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

use crate::blocking::Blocking;
use crate::disks;
use crate::report::{EventReport, RunReport, TaskReport};
use crate::scenario::{Change, DEVICE, Scenario};
use crate::tally::{Tally, ms};
use crate::task::{Action, Workload};
use crate::trace::{Trace, Tracing};
use iopace_core::engine::{self, Control};
use iopace_core::pace::Budget;
use iopace_core::request::{GroupId, Submit, Tag, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_disk::DiskStats;
use iopace_disk::machine::{Finished, Io, Machine, MachineOutput};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// How long the loop waits for the last requests after the end of a run: longer than any legal
/// stall of a faulty disk, short enough to end.
pub const GIVE_UP: Nanos = Nanos::from_secs(300);

/// Most events kept in a report; more are counted only.
const EVENTS_MAX: usize = 100;

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
pub fn run_traced(scenario: &Scenario, every: Option<Nanos>) -> (RunReport, Trace) {
    let mut world = World::new(scenario);
    world.trace = every.map(Tracing::new);
    world.begin();
    world.advance(Instant::ZERO + scenario.duration);
    world.end()
}

/// Something that is due at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A lane has thought: submit its action.
    Lane(usize),
    /// A step of the scenario.
    Step(usize),
}

/// One loop of a task: thinking, or waiting for one request.
#[derive(Debug)]
struct Lane {
    task: usize,
    action: Action,
    /// Set while a request is outstanding.
    submitted: Option<Instant>,
}

/// A machine with its tasks in virtual time. One alone is [`run`]; several with one memory are
/// [`crate::fleet`].
pub(crate) struct World<'a> {
    scenario: &'a Scenario,
    machine: Machine,
    now: Instant,
    /// When the machine wants to be polled.
    machine_at: Instant,
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    sequence: u64,
    workloads: Vec<Box<dyn Workload>>,
    lanes: Vec<Lane>,
    /// Lanes that wait for a request.
    waiting_count: u64,
    /// For each task that sleeps while its request waits for a slot.
    blocking: BTreeMap<usize, Blocking>,
    tallies: Vec<Tally>,
    events: Vec<EventReport>,
    events_count: u64,
    requests_count: u64,
    /// Disk counters at the beginning and at the end of the measured time.
    disk_marks: [Option<DiskStats>; 2],
    /// Looks at the device, if somebody wants to see them.
    pub(crate) trace: Option<Tracing>,
}

impl<'a> World<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> World<'a> {
        let mut world = World {
            scenario,
            machine: disks::machine(scenario),
            now: Instant::ZERO,
            machine_at: Instant::NEVER,
            due: BinaryHeap::new(),
            sequence: 0,
            workloads: Vec::new(),
            lanes: Vec::new(),
            waiting_count: 0,
            blocking: BTreeMap::new(),
            tallies: Vec::new(),
            events: Vec::new(),
            events_count: 0,
            requests_count: 0,
            disk_marks: [None; 2],
            trace: None,
        };
        for (index, step) in scenario.steps.iter().enumerate() {
            world.schedule(step.at, Due::Step(index));
        }
        for (index, task) in scenario.tasks.iter().enumerate() {
            world.workloads.push(task.workload(scenario.seed));
            for extent in task.warmed(scenario.seed) {
                world.machine.warm(extent);
            }
            world.tallies.push(Tally::default());
            if task.blocking {
                world.blocking.insert(index, Blocking::default());
            }
            for _ in 0..task.depth {
                let action = world.workloads[index].next();
                let lane = Lane { task: index, action, submitted: None };
                world.lanes.push(lane);
                world.schedule(task.start + action.think, Due::Lane(world.lanes.len() - 1));
            }
        }
        world
    }

    fn schedule(&mut self, at: Instant, due: Due) {
        self.due.push(Reverse((at, self.sequence, due)));
        self.sequence += 1;
    }

    /// Sets the machine up as the scenario says.
    pub(crate) fn begin(&mut self) {
        for id in self.scenario.groups.iter() {
            let settings = self.scenario.groups.effective(id, DEVICE);
            let parent = self.scenario.groups.parent(id).unwrap_or(GroupId::ROOT);
            self.control(Control::SetGroup(id, parent, settings), "group");
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
                self.disk_marks[place] = Some(self.machine.disk().stats());
            }
        }
        self.turn_until(to.min(end));
    }

    /// Waits for what is not finished at the end, and reports.
    pub(crate) fn end(mut self) -> (RunReport, Trace) {
        let (_, end) = self.measured();
        self.book_unfinished(end);
        self.finish_all(end);
        let mut trace = self.trace.take().map(Tracing::end).unwrap_or_default();
        trace.portion_pauses = self.machine.engine().pauses().clone();
        (self.report(), trace)
    }

    fn finish_all(&mut self, end: Instant) {
        self.due.clear();
        self.blocking.clear();
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
        (begin, Instant::ZERO + self.scenario.duration)
    }

    /// Carries out every event before `end`.
    fn turn_until(&mut self, end: Instant) {
        loop {
            let next_due = self.due.peek().map_or(Instant::NEVER, |Reverse((at, ..))| *at);
            let next = next_due.min(self.machine_at);
            if let Some(trace) = &mut self.trace {
                trace.look(next.min(end), &self.machine);
            }
            if next >= end {
                return;
            }
            self.now = self.now.max(next);
            while let Some(Reverse((at, ..))) = self.due.peek() {
                if *at > self.now {
                    break;
                }
                let Some(Reverse((_, _, due))) = self.due.pop() else {
                    break;
                };
                match due {
                    Due::Lane(index) => match self.blocking.get_mut(&self.lanes[index].task) {
                        Some(program) => program.wants(index),
                        None => self.submit(index),
                    },
                    Due::Step(index) => self.step(index),
                }
            }
            self.drain();
            self.turn_blocking();
        }
    }

    /// Lets programs that sleep for slots go on as far as they come.
    fn turn_blocking(&mut self) {
        let tasks: Vec<usize> = self.blocking.keys().copied().collect();
        for task in tasks {
            let group = self.scenario.tasks[task].group;
            loop {
                let waits = self.machine.engine().group_slots(group).waiting_count > 0;
                let program = self.blocking.get_mut(&task).expect("one of its keys");
                program.set_sleeps(waits);
                let Some(lane) = program.next() else { break };
                self.submit(lane);
                self.drain();
            }
            let program = self.blocking.get_mut(&task).expect("one of its keys");
            for finished in program.reap() {
                self.book(&finished);
            }
        }
    }

    fn submit(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        let task = &self.scenario.tasks[lane.task];
        if self.now >= task.stop {
            return;
        }
        lane.submitted = Some(self.now);
        self.waiting_count += 1;
        let action = lane.action;
        let submit = Submit {
            tag: Tag(index as u64),
            task: TaskId(lane.task as u64 + 1),
            group: task.group,
            op: action.op,
            extent: action.extent,
            fua: action.fua,
            sync: true,
        };
        self.requests_count += 1;
        self.machine.submit(self.now, Io { submit, buffered: action.buffered });
    }

    fn step(&mut self, index: usize) {
        let (control, what) = match &self.scenario.steps[index].change {
            Change::Insert(chosen) => {
                (Control::Insert(chosen.algorithm, chosen.params.clone()), "insert")
            }
            Change::Configure(chosen) => {
                (Control::Configure(chosen.algorithm, chosen.params.clone()), "configure")
            }
            Change::Destroy => (Control::Destroy, "destroy"),
        };
        self.control(control, what);
    }

    /// The machine, to be looked at.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Tells the machine what it may use of memory, at the present end of its time.
    pub(crate) fn set_budget(&mut self, now: Instant, budget: Budget) {
        self.now = self.now.max(now);
        self.control(Control::Memory(budget), "memory");
        self.drain();
    }

    fn control(&mut self, control: Control, what: &str) {
        if let Err(error) = self.machine.control(self.now, control) {
            self.event(format!("{what} refused: {error}"));
        }
    }

    fn event(&mut self, text: String) {
        self.events_count += 1;
        if self.events.len() < EVENTS_MAX {
            let at_ms = ms(self.now.since(Instant::ZERO));
            self.events.push(EventReport { at_ms, text });
        }
    }

    /// Takes everything that the machine has to say at this instant.
    fn drain(&mut self) {
        loop {
            match self.machine.poll(self.now) {
                MachineOutput::Finished(finished) => self.finished(&finished),
                MachineOutput::Event(event) => self.event(event.to_string()),
                MachineOutput::Wait(at, _) => {
                    self.machine_at = at;
                    return;
                }
            }
        }
    }

    fn finished(&mut self, finished: &Finished) {
        let index = usize::try_from(finished.tag.0).expect("tags are lane numbers");
        match self.blocking.get_mut(&self.lanes[index].task) {
            Some(program) => program.finished(finished),
            None => self.book(finished),
        }
    }

    /// A task takes notice of a finished request.
    fn book(&mut self, finished: &Finished) {
        let index = usize::try_from(finished.tag.0).expect("tags are lane numbers");
        let (begin, end) = self.measured();
        let lane = &mut self.lanes[index];
        let submitted = lane.submitted.take().expect("finished once per submission");
        self.waiting_count -= 1;
        let (action, latency) = (lane.action, self.now.since(submitted));
        if let Some(trace) = &mut self.trace {
            trace.booked(self.now, lane.task, &action, latency, finished);
        }
        if self.now < end && action.payload {
            self.tallies[lane.task].note(self.now, action.extent.len());
        }
        if self.now >= begin && self.now < end && action.payload {
            let size = action.extent.len();
            let tally = &mut self.tallies[lane.task];
            tally.finish(size, finished.outcome, finished.cached, latency, &finished.times);
        }
        lane.action = self.workloads[lane.task].next();
        let at = self.now + lane.action.think;
        self.schedule(at, Due::Lane(index));
    }

    fn book_unfinished(&mut self, end: Instant) {
        for lane in &self.lanes {
            if let Some(submitted) = lane.submitted {
                self.tallies[lane.task].wait(end.since(submitted));
                self.trace.iter_mut().for_each(|t| t.unfinished(lane.task, end.since(submitted)));
            }
        }
    }

    fn report(self) -> RunReport {
        let scenario = self.scenario;
        let measured = scenario.duration.saturating_sub(scenario.warmup);
        let tasks = scenario.tasks.iter().zip(self.tallies);
        let tasks = tasks.map(|(task, tally)| (task.name.clone(), tally.report(scenario, task)));
        let status: engine::Status = self.machine.engine().status();
        let counters = status.algorithm.counters.iter().zip(&status.counters);
        let [begin, end] = self.disk_marks.map(Option::unwrap_or_default);
        RunReport {
            why: scenario.why.clone(),
            seed: scenario.seed,
            duration_ms: ms(scenario.duration),
            measured_ms: ms(measured),
            disk: scenario.disk.clone(),
            scheduler: status.algorithm.name.into(),
            params: status.params.iter().map(|(spec, value)| (spec.name.into(), value)).collect(),
            counters: counters.map(|(spec, value)| (spec.name.into(), *value)).collect(),
            tasks: tasks.collect::<BTreeMap<String, TaskReport>>(),
            disk_use: disks::report(&begin, &end, measured),
            efficiency: None,
            requests: self.requests_count,
            unfinished: self.waiting_count,
            exchanged: self.machine.engine().stats().exchanged_count,
            failed_over: self.machine.engine().stats().failed_over_count,
            events_count: self.events_count,
            events: self.events,
            checks: Vec::new(),
        }
    }
}
