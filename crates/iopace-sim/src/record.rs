//! A run in time steps: what each task and group got, how long it took, what it waited for, and how
//! the device stood meanwhile.
//!
//! The step follows from the length of the run, so that there are 400 to 600 of them however long
//! it is. Where nobody knows the length before, the step is doubled whenever there are more than
//! 600 (two steps become one), so that 300 to 600 are left. With the bounded sample of pauses,
//! memory does not grow with the run.

use crate::look::{Look, Pause};
use crate::scenario::Scenario;
use crate::task::Action;
use iopace_core::request::{GroupId, Op, StageTimes};
use iopace_core::stats::Histogram;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::pump::End;
use std::cmp::Reverse;
use std::iter::Sum;

/// Most steps of a recording: about one for every two pixels of a wide plot.
pub const STEPS_MAX: u64 = 600;

/// First step of a run of a scenario that ends with its work: what the logs of fio are written in.
const STEP_FIRST: Nanos = Nanos::from_millis(1);

/// Most pauses kept. When there are more, every second one goes, so that those left stay spread
/// over the whole run.
pub const PAUSES_MAX: usize = 4_096;

/// The step for a run: the shortest of 1, 1.5, 2, 3, 4, 5, 6 and 8 times a power of ten that cuts
/// the run into at most [`STEPS_MAX`].
pub fn step_of(duration: Nanos) -> Nanos {
    let least = duration.0.div_ceil(STEPS_MAX).max(10);
    let mut power = 1u64;
    while power * 100 <= least {
        power *= 10;
    }
    let tenths = [10, 15, 20, 30, 40, 50, 60, 80, 100];
    let fits = tenths.into_iter().map(|tenth| tenth * power).find(|step| *step >= least);
    Nanos(fits.expect("a hundred times the power is not below"))
}

/// What moved in one direction in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes finished.
    pub bytes: u64,
    /// Requests finished.
    pub ops: u64,
    /// From submission to completion, summed.
    pub latency: Nanos,
}

impl Sum for Moved {
    fn sum<I: Iterator<Item = Moved>>(all: I) -> Moved {
        all.fold(Moved::default(), |sum, one| Moved {
            bytes: sum.bytes + one.bytes,
            ops: sum.ops + one.ops,
            latency: sum.latency + one.latency,
        })
    }
}

/// One task of a recording.
#[derive(Clone, Debug)]
pub struct TaskRecord {
    /// Its name.
    pub name: String,
    /// The path of the group that pays for it.
    pub group: String,
    /// What it read in every step since the beginning, warm-up included.
    pub reads: Vec<Moved>,
    /// What it wrote.
    pub writes: Vec<Moved>,
    /// Latencies of the measured time, and of what still waited at the end, as in the report.
    pub latency: Histogram,
    /// Where the time of its requests went in the measured time, summed.
    pub stages: StageTimes,
}

impl TaskRecord {
    /// Somebody who has done nothing yet.
    pub(crate) fn new(name: &str, group: &str) -> TaskRecord {
        TaskRecord {
            name: name.into(),
            group: group.into(),
            reads: Vec::new(),
            writes: Vec::new(),
            latency: Histogram::default(),
            stages: StageTimes::default(),
        }
    }

    /// Requests finished in the whole run.
    pub fn ops(&self) -> u64 {
        self.reads.iter().chain(&self.writes).map(|moved| moved.ops).sum()
    }

    /// Bytes finished in every step.
    pub fn bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.reads.iter().zip(&self.writes).map(|(read, write)| read.bytes + write.bytes)
    }
}

/// What happened in a run.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Length of a step.
    pub step: Nanos,
    /// The tasks in the order of the scenario, then the streams of traces.
    pub tasks: Vec<TaskRecord>,
    /// The device at the beginning of every step.
    pub looks: Vec<Look>,
    /// Pauses of writers: all of them, or a sample spread over the run.
    pub pauses: Vec<Pause>,
    /// How many pauses there were.
    pub pauses_count: u64,
}

impl Recording {
    /// The share of each step, but the last, that the disk was busy, in thousandths.
    ///
    /// Models book a command's time when it begins or when it ends; what is more than a step is
    /// counted in the next one.
    pub fn busy_permille(&self) -> Vec<u64> {
        let step = self.step.0.max(1);
        let mut carried = 0;
        let pairs = self.looks.windows(2);
        let booked = pairs.map(|pair| pair[1].disk_busy.saturating_sub(pair[0].disk_busy).0);
        let busy = booked.map(|booked| {
            let sum = carried + booked;
            carried = sum.saturating_sub(step);
            sum.min(step) * 1_000 / step
        });
        busy.collect()
    }

    /// Puts those with the most requests first; those with as many stay in order of their names.
    pub fn sort_by_requests(&mut self) {
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        order.sort_by_cached_key(|place| {
            let task = &self.tasks[*place];
            (Reverse(task.ops()), task.name.clone())
        });
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, before)| places[*before] = place);
        let mut tasks: Vec<Option<TaskRecord>> = self.tasks.drain(..).map(Some).collect();
        self.tasks = order.iter().filter_map(|before| tasks[*before].take()).collect();
        self.pauses.iter_mut().for_each(|pause| pause.task = places[pause.task]);
    }

    /// The paths of the groups that tasks belong to, in order, each with the places of its tasks.
    pub fn groups(&self) -> Vec<(&str, Vec<usize>)> {
        let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
        for (index, task) in self.tasks.iter().enumerate() {
            match groups.iter_mut().find(|(path, _)| *path == task.group) {
                Some((_, members)) => members.push(index),
                None => groups.push((&task.group, vec![index])),
            }
        }
        groups.sort();
        groups
    }
}

/// A recording being made.
#[derive(Debug)]
pub(crate) struct Recorder {
    recording: Recording,
    /// What counts in the latencies.
    measured: (Instant, Instant),
    is_growing: bool,
    /// Every so many pauses of a task one is kept.
    stride: u64,
    /// Pauses of each task so far: counted apart, or two tasks in turn would hide each other.
    counts: Vec<u64>,
}

/// How a run is cut into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    /// Its length is known.
    Of(Nanos),
    /// It ends with its work: steps of that length at first, doubled as it goes on.
    Growing(Nanos),
}

impl Steps {
    /// Those of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Steps {
        match scenario.until_done {
            true => Steps::Growing(STEP_FIRST),
            false => Steps::Of(scenario.duration),
        }
    }
}

impl Recorder {
    /// Records the tasks of a scenario, then the streams of those names, whom the root group pays
    /// for.
    pub(crate) fn new(scenario: &Scenario, streams: &[String], steps: Steps) -> Recorder {
        let step = match steps {
            Steps::Of(duration) => step_of(duration),
            Steps::Growing(first) => first.max(Nanos(1)),
        };
        let root = scenario.groups.path(GroupId::ROOT);
        let tasks =
            scenario.tasks.iter().map(|task| (&task.name, scenario.groups.path(task.group)));
        let all = tasks.chain(streams.iter().map(|name| (name, root.clone())));
        let tasks: Vec<TaskRecord> =
            all.map(|(name, group)| TaskRecord::new(name, &group)).collect();
        let counts = vec![0; tasks.len()];
        let measured = (Instant::ZERO + scenario.warmup, Instant::ZERO + scenario.duration);
        let is_growing = matches!(steps, Steps::Growing(_));
        let recording = Recording { step, tasks, ..Recording::default() };
        Recorder { recording, measured, is_growing, stride: 1, counts }
    }

    /// With so many steps behind it, the step is to be doubled.
    pub(crate) fn is_full(&self, steps_count: usize) -> bool {
        self.is_growing && steps_count as u64 >= STEPS_MAX
    }

    /// Makes one step of two.
    pub(crate) fn double(&mut self) {
        let step = &mut self.recording.step;
        *step = Nanos(step.0.saturating_mul(2));
        for task in &mut self.recording.tasks {
            for moved in [&mut task.reads, &mut task.writes] {
                let pairs = moved.chunks(2).map(|pair| pair.iter().copied().sum());
                *moved = pairs.collect();
            }
        }
    }

    /// Length of a step.
    pub(crate) fn step(&self) -> Nanos {
        self.recording.step
    }

    /// A task took notice of a finished request.
    pub(crate) fn booked(
        &mut self,
        now: Instant,
        task: usize,
        action: &Action,
        latency: Nanos,
        finished: &End,
    ) {
        self.paused(now, task, finished.times.pace());
        let (begin, end) = self.measured;
        if now >= end || !action.payload {
            return;
        }
        let step = usize::try_from(now.0 / self.recording.step.0).expect("a few hundred steps");
        let task = &mut self.recording.tasks[task];
        let all = match action.op {
            Op::Read | Op::Cache => &mut task.reads,
            Op::Write | Op::WriteZeroes | Op::Trim | Op::Flush => &mut task.writes,
        };
        if all.len() <= step {
            all.resize(step + 1, Moved::default());
        }
        let moved = &mut all[step];
        moved.ops += 1;
        moved.bytes += action.extent.len().0 * u64::from(is_ok(finished));
        moved.latency += latency;
        if now >= begin {
            task.latency.record(latency);
            task.stages.add(&finished.times);
        }
    }

    /// A request still waits at the end of the run.
    pub(crate) fn unfinished(&mut self, task: usize, so_far: Nanos) {
        self.recording.tasks[task].latency.record(so_far);
    }

    fn paused(&mut self, at: Instant, task: usize, pause: Nanos) {
        if pause == Nanos::ZERO {
            return;
        }
        let recording = &mut self.recording;
        if recording.pauses.len() == PAUSES_MAX {
            let mut numbers = vec![0u64; self.counts.len()];
            recording.pauses.retain(|pause| {
                numbers[pause.task] += 1;
                numbers[pause.task] % 2 == 1
            });
            self.stride *= 2;
        }
        // With one pause each, nothing went: the table is then the first so many of them.
        let is_kept = self.counts[task].is_multiple_of(self.stride);
        if is_kept && recording.pauses.len() < PAUSES_MAX {
            recording.pauses.push(Pause { at, task, pause });
        }
        self.counts[task] += 1;
        recording.pauses_count += 1;
    }

    /// The recording with the looks that were taken: as many steps as looks. What was finished in
    /// the very instant after the last step counts in it.
    pub(crate) fn end(mut self, looks: Vec<Look>) -> Recording {
        let steps = looks.len();
        for task in &mut self.recording.tasks {
            for moved in [&mut task.reads, &mut task.writes] {
                let beyond: Moved = moved.drain(steps.min(moved.len())..).sum();
                moved.resize(steps, Moved::default());
                if let Some(last) = moved.last_mut() {
                    *last = [*last, beyond].into_iter().sum();
                }
            }
        }
        Recording { looks, ..self.recording }
    }
}

fn is_ok(finished: &End) -> bool {
    finished.outcome == iopace_core::request::Outcome::Ok
}

/// Bytes in so much time, in kB/s; zero for no time.
pub fn kb_s(bytes: u64, time: Nanos) -> u64 {
    let rate = u128::from(Bytes(bytes).0) * 1_000_000;
    u64::try_from(rate.checked_div(u128::from(time.0)).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Task, TaskKind};

    #[test]
    fn a_run_of_any_length_has_some_hundred_steps() {
        let mut duration = 60_000;
        while duration < crate::scenario::DURATION_MAX.0 {
            let steps = duration.div_ceil(step_of(Nanos(duration)).0);
            assert!((300..=STEPS_MAX).contains(&steps), "{duration} ns: {steps} steps");
            duration = duration / 7 * 9 + 13;
        }
        assert_eq!(step_of(Nanos::from_secs(60)), Nanos::from_millis(100));
    }

    #[test]
    fn pauses_stay_bounded_and_spread_over_the_run() {
        let mut scenario = Scenario::new("a test", "none");
        let region = crate::task::region(0, 1 << 30);
        for name in ["a", "b"] {
            scenario.tasks.push(Task::new(name, TaskKind::DdWrite, region));
        }
        let mut recorder = Recorder::new(&scenario, &[], Steps::of(&scenario));
        let total = 10 * PAUSES_MAX as u64;
        for at in 0..total {
            recorder.paused(Instant(at), (at % 2) as usize, Nanos(at + 1));
        }
        let recording = recorder.end(Vec::new());
        assert!(recording.pauses.len() <= PAUSES_MAX && recording.pauses.len() > PAUSES_MAX / 2);
        assert_eq!(recording.pauses_count, total);
        for task in 0..2 {
            let of_task = recording.pauses.iter().filter(|pause| pause.task == task);
            let at: Vec<u64> = of_task.map(|pause| pause.at.0).collect();
            let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(gaps.len() > 100 && gaps.iter().all(|gap| *gap == gaps[0]), "{gaps:?}");
            assert!(at[at.len() - 1] + gaps[0] >= total);
        }
    }
}
