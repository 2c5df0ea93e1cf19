//! The figures of a variant, over all its seeds.

use super::{Runs, Variant};
use crate::milli::Milli;
use crate::tally::ms;
use iopace_core::stats::Histogram;
use serde::{Deserialize, Serialize};

/// The figures of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Its name.
    pub task: String,
    /// The path of its group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Throughput in MB/s (10^6 bytes), the mean over the seeds.
    pub mb_s: Milli,
    /// The least of any seed.
    pub mb_s_min: Milli,
    /// The most of any seed.
    pub mb_s_max: Milli,
    /// Requests per second, the mean over the seeds.
    pub ops_s: Milli,
    /// Mean latency, over all seeds as all that follow.
    pub mean_ms: Milli,
    /// Median latency.
    pub p50_ms: Milli,
    /// 90th percentile.
    pub p90_ms: Milli,
    /// 99th percentile.
    pub p99_ms: Milli,
    /// 99.9th percentile.
    pub p999_ms: Milli,
    /// Longest latency.
    pub max_ms: Milli,
    /// Throughput over that of the same task alone, the mean over the seeds.
    pub share: Option<Milli>,
    /// Requests finished, over all seeds.
    pub ops: u64,
    /// Requests that ended with an error, over all seeds.
    pub failed: u64,
}

/// The figures of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeRow {
    /// Throughput of all tasks in MB/s (10^6 bytes), the mean over the seeds.
    pub mb_s: Milli,
    /// What went to and from the disk in MB/s, the mean over the seeds.
    pub disk_mb_s: Milli,
    /// Share of the time that the disk was busy, the mean over the seeds.
    pub disk_busy: Milli,
    /// Sum of the tasks' shares, the mean over the seeds.
    pub efficiency: Option<Milli>,
    /// Checks that hold, over all seeds.
    pub checks_held: u64,
    /// Checks, over all seeds.
    pub checks: u64,
    /// Requests that never finished, over all seeds.
    pub unfinished: u64,
    /// Schedulers that failed and were replaced, over all seeds.
    pub failed_over: u64,
    /// What only a replay has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRow>,
}

/// All requests of a replay together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayRow {
    /// Their figures.
    pub all: TaskRow,
    /// From the beginning to the last completion.
    pub elapsed_ms: Milli,
    /// Requests that could not be submitted when they were due.
    pub late: u64,
    /// How late the latest was.
    pub late_max_ms: Milli,
}

/// What was set in a variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The key, as `disk.depth`.
    pub key: String,
    /// Its value.
    pub value: String,
}

/// The figures of one variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// What it is called.
    pub variant: String,
    /// What was set in it.
    pub settings: Vec<Setting>,
    /// How many seeds it was run with.
    pub seeds: u64,
    /// Each task, in the order of the scenario.
    pub tasks: Vec<TaskRow>,
    /// All of it.
    pub whole: WholeRow,
}

/// The mean, rounded to the nearest thousandth; zero of nothing.
fn mean(values: impl Iterator<Item = Milli>) -> Milli {
    let (sum, count) = values.fold((0i64, 0i64), |(sum, n), value| (sum + value.0, n + 1));
    Milli((sum + count / 2).checked_div(count).unwrap_or(0))
}

/// The mean, if every one is known.
fn mean_of_known(values: impl Iterator<Item = Option<Milli>>) -> Option<Milli> {
    let known: Option<Vec<Milli>> = values.collect();
    known.map(|known| mean(known.into_iter()))
}

impl Summary {
    /// The figures of a variant's runs.
    pub fn of(variant: &Variant, runs: &Runs) -> Summary {
        let names = runs.first().map_or(&[][..], |(_, recording)| &recording.tasks);
        let tasks = (0..names.len()).map(|place| task_row(runs, place));
        let settings = variant.settings.iter();
        let settings =
            settings.map(|(key, value)| Setting { key: key.clone(), value: value.clone() });
        Summary {
            variant: variant.name.clone(),
            settings: settings.collect(),
            seeds: runs.len() as u64,
            tasks: tasks.collect(),
            whole: whole_row(runs),
        }
    }

    /// The row of a task.
    pub fn task(&self, name: &str) -> Option<&TaskRow> {
        self.tasks.iter().find(|row| row.task == name)
    }
}

fn task_row(runs: &Runs, place: usize) -> TaskRow {
    let record = &runs[0].1.tasks[place];
    let reports = || runs.iter().map(|(report, _)| &report.tasks[&record.name]);
    let mut latency = Histogram::default();
    for (_, recording) in runs {
        latency.merge(&recording.tasks[place].latency);
    }
    let quantile = |permille| ms(latency.quantile(permille));
    TaskRow {
        task: record.name.clone(),
        group: record.group.clone(),
        kind: reports().next().map_or("", |task| task.kind).into(),
        mb_s: mean(reports().map(|task| task.mb_s)),
        mb_s_min: reports().map(|task| task.mb_s).min().unwrap_or_default(),
        mb_s_max: reports().map(|task| task.mb_s).max().unwrap_or_default(),
        ops_s: mean(reports().map(|task| task.ops_s)),
        mean_ms: ms(latency.mean()),
        p50_ms: quantile(500),
        p90_ms: quantile(900),
        p99_ms: quantile(990),
        p999_ms: quantile(999),
        max_ms: ms(latency.max()),
        share: mean_of_known(reports().map(|task| task.share)),
        ops: reports().map(|task| task.ops).sum(),
        failed: reports().map(|task| task.failed).sum(),
    }
}

fn whole_row(runs: &Runs) -> WholeRow {
    let reports = || runs.iter().map(|(report, _)| report);
    let total = |report: &crate::report::RunReport| {
        Milli(report.tasks.values().map(|task| task.mb_s.0).sum())
    };
    let checks = || reports().flat_map(|report| &report.checks);
    WholeRow {
        mb_s: mean(reports().map(total)),
        disk_mb_s: mean(reports().map(|report| report.disk_use.mb_s)),
        disk_busy: mean(reports().map(|report| report.disk_use.busy)),
        efficiency: mean_of_known(reports().map(|report| report.efficiency)),
        checks_held: checks().filter(|check| check.holds).count() as u64,
        checks: checks().count() as u64,
        unfinished: reports().map(|report| report.unfinished).sum(),
        failed_over: reports().map(|report| report.failed_over).sum(),
        replay: None,
    }
}
