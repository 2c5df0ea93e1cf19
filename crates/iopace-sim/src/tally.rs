//! Counting what tasks and disk did, and turning counts into figures.

use crate::milli::Milli;
use crate::report::{CommitReport, LatencyReport, StageReport, TaskReport};
use crate::scenario::Scenario;
use crate::task::Task;
use iopace_core::request::{Outcome, StageTimes};
use iopace_core::stats::Histogram;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;

/// Resolution of a task's timeline: the step in which windows slide when a rise is looked for.
pub const BIN: Nanos = Nanos::from_millis(10);

/// What one task did within the measured time.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    ops: u64,
    bytes: Bytes,
    failed: u64,
    cached: u64,
    latency: Histogram,
    stages: StageTimes,
    timeline: Vec<u64>,
    commits: Option<Box<Commits>>,
}

/// Transactions made durable.
#[derive(Debug, Default)]
struct Commits {
    count: u64,
    latency: Histogram,
}

impl Tally {
    /// Notes bytes finished at an instant of the run.
    pub(crate) fn note(&mut self, now: Instant, size: Bytes) {
        let bin = usize::try_from(now.0 / BIN.0).expect("a run lasts a day at most");
        if self.timeline.len() <= bin {
            self.timeline.resize(bin + 1, 0);
        }
        self.timeline[bin] += size.0;
    }

    /// Counts one finished request.
    pub(crate) fn finish(
        &mut self,
        size: Bytes,
        outcome: Outcome,
        cached: bool,
        latency: Nanos,
        times: &StageTimes,
    ) {
        self.ops += 1;
        self.cached += u64::from(cached);
        match outcome {
            Outcome::Ok => self.bytes += size,
            Outcome::Failed(_) | Outcome::Refused => self.failed += 1,
        }
        self.latency.record(latency);
        self.stages.add(times);
    }

    /// Counts transactions that were made durable together.
    pub(crate) fn commit(&mut self, count: u64, latency: Nanos) {
        let commits = self.commits.get_or_insert_default();
        commits.count += count;
        commits.latency.record(latency);
    }

    /// Counts a request that still waits at the end: it has lasted at least so long. Without it, a
    /// task that starves would have the best latencies of all.
    pub(crate) fn wait(&mut self, so_far: Nanos) {
        self.latency.record(so_far);
    }

    /// Whether nothing was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.latency.count() == 0
    }

    /// Adds all that another one counted, but for its timeline.
    pub(crate) fn merge(&mut self, other: &Tally) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.failed += other.failed;
        self.cached += other.cached;
        self.latency.merge(&other.latency);
        self.stages.add(&other.stages);
    }

    /// The figures of the task, which was active for so long.
    pub(crate) fn report(self, kind: &'static str, active: Nanos) -> TaskReport {
        let active = u128::from(active.0);
        // Bytes per nanosecond times 1000 is MB/s.
        let mb_s = Milli::ratio(u128::from(self.bytes.0) * 1_000, active);
        let ops_s = Milli::ratio(u128::from(self.ops) * 1_000_000_000, active);
        let commits = self.commits.map(|commits| CommitReport {
            count: commits.count,
            per_s: Milli::ratio(u128::from(commits.count) * 1_000_000_000, active)
                .unwrap_or_default(),
            latency: latency(&commits.latency),
        });
        TaskReport {
            kind,
            timeline: self.timeline,
            ops: self.ops,
            bytes: self.bytes.0,
            failed: self.failed,
            cached: self.cached,
            mb_s: mb_s.unwrap_or_default(),
            ops_s: ops_s.unwrap_or_default(),
            latency: latency(&self.latency),
            commits,
            stages: StageReport {
                pace_ms: ms(self.stages.pace()),
                admit_ms: ms(self.stages.admit()),
                sched_ms: ms(self.stages.sched()),
                window_ms: ms(self.stages.window),
                disk_ms: ms(self.stages.disk),
            },
            share: None,
        }
    }
}

/// The figures of a histogram.
fn latency(times: &Histogram) -> LatencyReport {
    LatencyReport {
        mean_ms: ms(times.mean()),
        p50_ms: ms(times.quantile(500)),
        p90_ms: ms(times.quantile(900)),
        p99_ms: ms(times.quantile(990)),
        max_ms: ms(times.max()),
    }
}

/// The part of the measured time in which the task was active.
pub(crate) fn active_time(scenario: &Scenario, task: &Task) -> Nanos {
    let begin = (Instant::ZERO + scenario.warmup).max(task.start);
    let end = (Instant::ZERO + scenario.duration).min(task.stop);
    let (mut active, mut since) = (Nanos::ZERO, Some(begin));
    for &(at, is_on) in &task.turns {
        let at = at.clamp(begin, end.max(begin));
        active += since.map_or(Nanos::ZERO, |since| at.since(since));
        since = is_on.then_some(at);
    }
    active + since.map_or(Nanos::ZERO, |since| end.since(since))
}

/// A length of time in milliseconds, rounded to the nearest microsecond.
pub(crate) fn ms(time: Nanos) -> Milli {
    Milli::ratio(u128::from(time.0), 1_000_000).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{TaskKind, region};

    #[test]
    fn rates_count_the_active_part_of_the_measured_time() {
        let mut scenario = Scenario::new("a test", "none");
        scenario.duration = Nanos::from_secs(20);
        scenario.warmup = Nanos::from_secs(5);
        let mut task = Task::new("dd", TaskKind::DdRead, region(0, 1 << 30));
        task.stop = Instant::ZERO + Nanos::from_secs(15);
        let mut tally = Tally::default();
        for _ in 0..100 {
            let times = StageTimes { disk: Nanos::from_millis(2), ..StageTimes::default() };
            let size = Bytes(1_000_000);
            tally.finish(size, Outcome::Ok, false, Nanos::from_millis(2), &times);
        }
        let report = tally.report("a kind", active_time(&scenario, &task));
        assert_eq!((report.mb_s, report.ops_s), (Milli(10_000), Milli(10_000)));
        assert_eq!(report.stages.disk_ms, Milli(200_000));
        assert_eq!(report.latency.max_ms, Milli(2_000));
    }

    #[test]
    fn a_waiting_request_counts_in_the_latency_only() {
        let scenario = Scenario::new("a test", "none");
        let task = Task::new("cvs", TaskKind::Cvs, region(0, 1 << 30));
        let mut tally = Tally::default();
        tally.wait(Nanos::from_secs(50));
        let report = tally.report("a kind", active_time(&scenario, &task));
        assert_eq!((report.ops, report.latency.p99_ms), (0, Milli(50_000_000)));
    }
}
