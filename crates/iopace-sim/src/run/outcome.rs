//! What came out of a run.

use super::World;
use crate::inputs::InputError;
use crate::milli::Milli;
use crate::record::Recording;
use crate::report::{DiskReport, GroupReport, MemoryReport, ReplayReport, RunReport, TaskReport};
use crate::tally::{Tally, active_time, ms};
use iopace_core::engine;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::DiskStats;
use std::collections::BTreeMap;

impl World<'_> {
    pub(super) fn report(self) -> RunReport {
        let scenario = self.scenario;
        let (begin, end) = self.measured();
        let (measured, duration) = (end.since(begin), end.since(Instant::ZERO));
        let times = self.active_times();
        let (groups, memory) = (self.groups(measured), self.memory());
        let tasks = scenario.tasks.iter().zip(self.tallies).zip(times);
        let tasks = tasks.map(|((task, tally), active)| {
            (task.name.clone(), tally.report(task.kind.name(), active))
        });
        let status: engine::Status = self.machine.engine().status();
        let counters = status.algorithm.counters.iter().zip(&status.counters);
        let [begin, end] = self.disk_marks.map(Option::unwrap_or_default);
        RunReport {
            why: scenario.why.clone(),
            seed: scenario.seed,
            duration_ms: ms(duration),
            measured_ms: ms(measured),
            disk: scenario.disk.clone(),
            scheduler: status.algorithm.name.into(),
            params: status.params.iter().map(|(spec, value)| (spec.name.into(), value)).collect(),
            counters: counters.map(|(spec, value)| (spec.name.into(), *value)).collect(),
            tasks: tasks.collect::<BTreeMap<String, TaskReport>>(),
            groups,
            memory,
            disk_use: disk_use(&begin, &end, measured),
            efficiency: None,
            requests: self.requests_count,
            unfinished: self.waiting_count,
            exchanged: self.machine.engine().stats().exchanged_count,
            failed_over: self.machine.engine().stats().failed_over_count,
            events_count: self.events.count,
            events: self.events.first,
            checks: Vec::new(),
        }
    }

    /// Each group with those below it, if there are any beside the root.
    fn groups(&self, measured: Nanos) -> BTreeMap<String, GroupReport> {
        let tree = &self.scenario.groups;
        let all: u64 = tree.iter().map(|id| self.group_bytes[id]).sum();
        let report = |id| {
            let sum = tree.subtree(id).map(|below| self.group_bytes[below]).sum::<u64>();
            let sum = u128::from(sum);
            let mb_s = Milli::ratio(sum * 1_000, u128::from(measured.0)).unwrap_or_default();
            (tree.path(id), GroupReport { mb_s, part: Milli::ratio(sum, u128::from(all)) })
        };
        let reports = tree.iter().filter(|_| tree.count() > 1).map(report);
        reports.collect()
    }

    fn memory(&self) -> Option<MemoryReport> {
        let mib = |bytes: Bytes| Milli::ratio(u128::from(bytes.0), 1 << 20).unwrap_or_default();
        self.scenario.memory.map(|_| MemoryReport {
            pause_p99_ms: ms(self.pauses.quantile(990)),
            pause_max_ms: ms(self.pauses.max()),
            dirty_max_mib: mib(self.dirty_max),
            over_limit_mib: mib(self.over_limit_max),
        })
    }

    /// How long each task, then each stream, was active within the measured time.
    fn active_times(&self) -> Vec<Nanos> {
        let (begin, _) = self.measured();
        let spans = self.spans.iter().enumerate();
        let active = spans.map(|(index, (first, last))| match self.scenario.tasks.get(index) {
            Some(task) if !self.scenario.until_done => active_time(self.scenario, task),
            _ => last.since(first.unwrap_or(*last).max(begin)),
        });
        active.collect()
    }

    /// Turns until all is done, and reports under the names of the tasks, then of the streams;
    /// with the recording, if one is made.
    ///
    /// # Errors
    /// A trace that could not be read to its end.
    pub(crate) fn replay(
        mut self,
        streams: &[String],
    ) -> Result<(ReplayReport, Option<Recording>), InputError> {
        self.begin();
        self.advance(Instant::ZERO + self.scenario.duration);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if let Some(trace) = &mut self.trace {
            // What finished in the very last instant belongs to a step, too.
            trace.look(self.now + Nanos(1), &self.machine);
        }
        self.settle();
        let recording = self.trace.take().and_then(|trace| trace.end().recording);
        Ok((self.replay_report(streams), recording))
    }

    fn replay_report(self, streams: &[String]) -> ReplayReport {
        let scenario = self.scenario;
        let (begin, end) = self.measured();
        let (measured, times) = (end.since(begin), self.active_times());
        let tasks = scenario.tasks.iter().map(|task| (task.name.clone(), task.kind.name()));
        let names = tasks.chain(streams.iter().map(|name| (name.clone(), "trace")));
        let [before, after] = self.disk_marks.map(Option::unwrap_or_default);
        let mut total = Tally::default();
        self.tallies.iter().for_each(|tally| total.merge(tally));
        let reports = names.zip(self.tallies).zip(times);
        let reports = reports.filter(|((_, tally), _)| !tally.is_empty());
        let reports =
            reports.map(|(((name, kind), tally), active)| (name, tally.report(kind, active)));
        ReplayReport {
            disk: scenario.disk.clone(),
            scheduler: match &scenario.scheduler {
                Some(chosen) => chosen.algorithm.name.into(),
                None => "none".into(),
            },
            window: scenario.window.name.into(),
            elapsed_ms: ms(end.since(Instant::ZERO)),
            measured_ms: ms(measured),
            requests: self.requests_count,
            unfinished: self.waiting_count,
            late: self.backlog.late_count,
            late_max_ms: ms(self.backlog.late_max),
            failed_over: self.machine.engine().stats().failed_over_count,
            all: total.report("all", measured),
            streams: reports.collect(),
            disk_use: disk_use(&before, &after, measured),
        }
    }

    /// Room for the figures of so many streams; the place of the first.
    pub(crate) fn add_streams(&mut self, count: usize) -> usize {
        let first = self.tallies.len();
        (0..count).for_each(|_| self.add_tally());
        self.unfinished_count += 1;
        first
    }
}

/// What the disk did between two looks at its counters.
fn disk_use(begin: &DiskStats, end: &DiskStats, measured: Nanos) -> DiskReport {
    let time = u128::from(measured.0);
    let bytes = (end.read + end.written) - (begin.read + begin.written);
    // The counter may run ahead of the clock by the command at the disk.
    let busy = end.busy.saturating_sub(begin.busy).min(measured);
    DiskReport {
        busy: Milli::ratio(u128::from(busy.0), time).unwrap_or_default(),
        mb_s: Milli::ratio(u128::from(bytes.0) * 1_000, time).unwrap_or_default(),
        commands: end.commands_count - begin.commands_count,
        seeks: end.seeks_count - begin.seeks_count,
        buffer_hits: end.buffer_hits_count - begin.buffer_hits_count,
    }
}
