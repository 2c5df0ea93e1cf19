//! The figures of a variant: of each of its seeds, and their means with confidence intervals.

use super::interval::half_width;
use super::{Run, Runs, StudyVariant};
use crate::milli::Milli;
use crate::record::TaskRecord;
use crate::report::RunReport;
use crate::tally::ms;
use serde::{Deserialize, Serialize};

/// The word for the whole run where a task's name stands.
pub const WHOLE: &str = "(all)";

/// The figures of one task: those of a run, or their means over several seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Its name.
    pub task: String,
    /// The path of its group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Throughput in MB/s (10^6 bytes).
    pub mb_s: Milli,
    /// The least of any seed.
    pub mb_s_min: Milli,
    /// The most of any seed.
    pub mb_s_max: Milli,
    /// Requests per second.
    pub ops_s: Milli,
    /// Mean latency.
    pub mean_ms: Milli,
    /// Median latency.
    pub p50_ms: Milli,
    /// 90th percentile.
    pub p90_ms: Milli,
    /// 99th percentile.
    pub p99_ms: Milli,
    /// 99.9th percentile.
    pub p999_ms: Milli,
    /// Longest latency of any seed.
    pub max_ms: Milli,
    /// Throughput over that of the same task alone.
    pub share: Option<Milli>,
    /// Requests finished, over all seeds.
    pub ops: u64,
    /// Requests that ended with an error, over all seeds.
    pub failed: u64,
    /// How far the means can be trusted; none of a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<TaskInterval>,
}

/// Half the width of the 95 % confidence interval of each mean of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInterval {
    /// Of the throughput.
    pub mb_s: Milli,
    /// Of the requests per second.
    pub ops_s: Milli,
    /// Of the mean latency.
    pub mean_ms: Milli,
    /// Of the median latency.
    pub p50_ms: Milli,
    /// Of the 90th percentile.
    pub p90_ms: Milli,
    /// Of the 99th percentile.
    pub p99_ms: Milli,
    /// Of the 99.9th percentile.
    pub p999_ms: Milli,
    /// Of the share of alone.
    pub share: Option<Milli>,
}

/// The figures of the whole run: means over the seeds where there are several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeRow {
    /// Throughput of all tasks in MB/s (10^6 bytes).
    pub mb_s: Milli,
    /// Data to and from the disk in MB/s.
    pub disk_mb_s: Milli,
    /// Share of the time that the disk was busy.
    pub disk_busy: Milli,
    /// Sum of the tasks' shares.
    pub efficiency: Option<Milli>,
    /// Checks that hold, over all seeds.
    pub checks_held: u64,
    /// Checks, over all seeds.
    pub checks: u64,
    /// Requests that never finished, over all seeds.
    pub unfinished: u64,
    /// Schedulers that failed and were replaced, over all seeds.
    pub failed_over: u64,
    /// How far the means can be trusted; none of a single run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<WholeInterval>,
    /// What only a replay has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayRow>,
}

/// Half the width of the 95 % confidence interval of each mean of the whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeInterval {
    /// Of the throughput of all tasks.
    pub mb_s: Milli,
    /// Of what went to and from the disk.
    pub disk_mb_s: Milli,
    /// Of the share of the time that the disk was busy.
    pub disk_busy: Milli,
    /// Of the sum of the shares.
    pub efficiency: Option<Milli>,
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
    /// The same of each seed, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_seed: Vec<SeedRows>,
}

/// The figures of one seed of a variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedRows {
    /// The seed.
    pub seed: u64,
    /// Each task, in the order of the scenario.
    pub tasks: Vec<TaskRow>,
    /// All of it.
    pub whole: WholeRow,
}

/// The mean, rounded to the nearest thousandth; zero of nothing.
fn mean(values: &[Milli]) -> Milli {
    let sum: i128 = values.iter().map(|value| i128::from(value.0)).sum();
    let count = values.len() as i128;
    let mean = (sum + count / 2).checked_div(count).unwrap_or(0);
    Milli(i64::try_from(mean).expect("between the least and the most"))
}

/// All values, if every one is known.
fn known<T>(rows: &[T], value: impl Fn(&T) -> Option<Milli>) -> Option<Vec<Milli>> {
    rows.iter().map(value).collect()
}

impl Summary {
    /// The figures of a variant's runs.
    pub fn of(variant: &StudyVariant, runs: &Runs) -> Summary {
        let rows = variant.scenarios.iter().zip(runs);
        let rows = rows.map(|(scenario, run)| SeedRows::of(scenario.seed, run));
        let rows: Vec<SeedRows> = rows.collect();
        let tasks = rows.first().map_or(0, |one| one.tasks.len());
        let tasks = (0..tasks).map(|place| {
            let of_task: Vec<&TaskRow> = rows.iter().map(|one| &one.tasks[place]).collect();
            mean_task(&of_task)
        });
        let wholes: Vec<&WholeRow> = rows.iter().map(|one| &one.whole).collect();
        let settings = variant.settings.iter();
        let settings =
            settings.map(|(key, value)| Setting { key: key.clone(), value: value.clone() });
        Summary {
            variant: variant.name.clone(),
            settings: settings.collect(),
            seeds: runs.len() as u64,
            tasks: tasks.collect(),
            whole: mean_whole(&wholes),
            by_seed: if rows.len() > 1 { rows } else { Vec::new() },
        }
    }

    /// The row of a task.
    pub fn task(&self, name: &str) -> Option<&TaskRow> {
        self.tasks.iter().find(|row| row.task == name)
    }
}

impl SeedRows {
    fn of(seed: u64, run: &Run) -> SeedRows {
        let tasks = run.1.tasks.iter().map(|record| task_row(run, record));
        SeedRows { seed, tasks: tasks.collect(), whole: whole_row(&run.0) }
    }
}

/// The figures of a task in one run.
fn task_row((report, _): &Run, record: &TaskRecord) -> TaskRow {
    let task = &report.tasks[&record.name];
    let quantile = |permille| ms(record.latency.quantile(permille));
    TaskRow {
        task: record.name.clone(),
        group: record.group.clone(),
        kind: task.kind.into(),
        mb_s: task.mb_s,
        mb_s_min: task.mb_s,
        mb_s_max: task.mb_s,
        ops_s: task.ops_s,
        mean_ms: ms(record.latency.mean()),
        p50_ms: quantile(500),
        p90_ms: quantile(900),
        p99_ms: quantile(990),
        p999_ms: quantile(999),
        max_ms: ms(record.latency.max()),
        share: task.share,
        ops: task.ops,
        failed: task.failed,
        ci95: None,
    }
}

/// The figures of one run as a whole.
fn whole_row(report: &RunReport) -> WholeRow {
    WholeRow {
        mb_s: Milli(report.tasks.values().map(|task| task.mb_s.0).sum()),
        disk_mb_s: report.disk_use.mb_s,
        disk_busy: report.disk_use.busy,
        efficiency: report.efficiency,
        checks_held: report.checks.iter().filter(|check| check.holds).count() as u64,
        checks: report.checks.len() as u64,
        unfinished: report.unfinished,
        failed_over: report.failed_over,
        ci95: None,
        replay: None,
    }
}

/// The rows of a task in several runs as one.
fn mean_task(rows: &[&TaskRow]) -> TaskRow {
    let all = |figure: fn(&TaskRow) -> Milli| -> Vec<Milli> {
        rows.iter().map(|row| figure(row)).collect()
    };
    let of = |figure| mean(&all(figure));
    let half = |figure| half_width(&all(figure));
    let shares = known(rows, |row| row.share);
    let ci95 = half(|row| row.mb_s).zip(half(|row| row.ops_s)).map(|(mb_s, ops_s)| {
        let half = |figure| half(figure).unwrap_or_default();
        TaskInterval {
            mb_s,
            ops_s,
            mean_ms: half(|row| row.mean_ms),
            p50_ms: half(|row| row.p50_ms),
            p90_ms: half(|row| row.p90_ms),
            p99_ms: half(|row| row.p99_ms),
            p999_ms: half(|row| row.p999_ms),
            share: shares.as_deref().and_then(half_width),
        }
    });
    TaskRow {
        mb_s: of(|row| row.mb_s),
        mb_s_min: rows.iter().map(|row| row.mb_s_min).min().unwrap_or_default(),
        mb_s_max: rows.iter().map(|row| row.mb_s_max).max().unwrap_or_default(),
        ops_s: of(|row| row.ops_s),
        mean_ms: of(|row| row.mean_ms),
        p50_ms: of(|row| row.p50_ms),
        p90_ms: of(|row| row.p90_ms),
        p99_ms: of(|row| row.p99_ms),
        p999_ms: of(|row| row.p999_ms),
        max_ms: rows.iter().map(|row| row.max_ms).max().unwrap_or_default(),
        share: shares.map(|shares| mean(&shares)),
        ops: rows.iter().map(|row| row.ops).sum(),
        failed: rows.iter().map(|row| row.failed).sum(),
        ci95,
        ..rows[0].clone()
    }
}

/// The rows of several runs as one.
fn mean_whole(rows: &[&WholeRow]) -> WholeRow {
    let all = |figure: fn(&WholeRow) -> Milli| -> Vec<Milli> {
        rows.iter().map(|row| figure(row)).collect()
    };
    let sum = |count: fn(&WholeRow) -> u64| rows.iter().map(|row| count(row)).sum();
    let rates = (all(|row| row.mb_s), all(|row| row.disk_mb_s), all(|row| row.disk_busy));
    let sums = known(rows, |row| row.efficiency);
    let halves = (half_width(&rates.0), half_width(&rates.1), half_width(&rates.2));
    let ci95 = match halves {
        (Some(mb_s), Some(disk_mb_s), Some(disk_busy)) => {
            let efficiency = sums.as_deref().and_then(half_width);
            Some(WholeInterval { mb_s, disk_mb_s, disk_busy, efficiency })
        }
        _ => None,
    };
    WholeRow {
        mb_s: mean(&rates.0),
        disk_mb_s: mean(&rates.1),
        disk_busy: mean(&rates.2),
        efficiency: sums.map(|sums| mean(&sums)),
        checks_held: sum(|row| row.checks_held),
        checks: sum(|row| row.checks),
        unfinished: sum(|row| row.unfinished),
        failed_over: sum(|row| row.failed_over),
        ci95,
        replay: None,
    }
}
