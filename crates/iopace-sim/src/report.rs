//! What came out of a run, in a form that prints the same bytes for the same run.

use crate::milli::Milli;
use serde::Serialize;
use std::collections::BTreeMap;

/// One run. Fields are printed in this order, maps in the order of their keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// Why the scenario exists.
    pub why: String,
    /// What its randomness was drawn from.
    pub seed: u64,
    /// Length of the run.
    pub duration_ms: Milli,
    /// Length of the part that counts.
    pub measured_ms: Milli,
    /// The disk's preset.
    pub disk: String,
    /// The scheduler at the end.
    pub scheduler: String,
    /// Its parameters.
    pub params: BTreeMap<String, u64>,
    /// Its counters.
    pub counters: BTreeMap<String, u64>,
    /// Each task by name.
    pub tasks: BTreeMap<String, TaskReport>,
    /// Each group by its path, with those below it; none if all are in the root.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, GroupReport>,
    /// What stage pace did, if there is a page cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryReport>,
    /// What the disk did in the measured time.
    pub disk_use: DiskReport,
    /// Sum of the tasks' shares, where the tasks were also run alone.
    pub efficiency: Option<Milli>,
    /// Requests submitted by tasks in the whole run.
    pub requests: u64,
    /// Requests that had not finished when the run was given up.
    pub unfinished: u64,
    /// Schedulers exchanged.
    pub exchanged: u64,
    /// Schedulers that failed and were replaced by fifo.
    pub failed_over: u64,
    /// How many events there were.
    pub events_count: u64,
    /// The first of them.
    pub events: Vec<EventReport>,
    /// The scenario's checks.
    pub checks: Vec<CheckReport>,
}

/// What one group did in the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GroupReport {
    /// Throughput over the measured time, in MB/s (10^6 bytes).
    pub mb_s: Milli,
    /// Its bytes over those of all tasks; `null` if there were none.
    pub part: Option<Milli>,
}

/// Buffered writes and dirty memory in the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryReport {
    /// 99th percentile of the pauses of those writes that were paused.
    pub pause_p99_ms: Milli,
    /// Longest pause.
    pub pause_max_ms: Milli,
    /// Most dirty memory at a time.
    pub dirty_max_mib: Milli,
    /// How far it was above its limit at most.
    pub over_limit_mib: Milli,
}

/// Transactions made durable in the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CommitReport {
    /// How many.
    pub count: u64,
    /// How many per second while the task was active.
    pub per_s: Milli,
    /// From the write to the log until it is durable.
    pub latency: LatencyReport,
}

/// What one task did in the measured time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskReport {
    /// Its kind.
    pub kind: &'static str,
    /// Bytes finished in every [`crate::tally::BIN`] since the beginning of the run, warm-up
    /// included; empty unless [`crate::scenario::Scenario::keeps_timeline`].
    #[serde(skip)]
    pub timeline: Vec<u64>,
    /// Requests finished, failed ones included.
    pub ops: u64,
    /// Bytes of those that were carried out.
    pub bytes: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Requests served from (or into) the page cache.
    pub cached: u64,
    /// Throughput while it was active, in MB/s (10^6 bytes).
    pub mb_s: Milli,
    /// Requests per second while it was active.
    pub ops_s: Milli,
    /// From submission to completion, as the task sees it.
    pub latency: LatencyReport,
    /// Its transactions, if it is a database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<CommitReport>,
    /// Where the time of its requests went, summed.
    pub stages: StageReport,
    /// Throughput over that of the same task alone, where it was also run alone.
    pub share: Option<Milli>,
}

/// A distribution of latencies, in milliseconds. Quantiles are exact to 1/16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyReport {
    /// The mean.
    pub mean_ms: Milli,
    /// The median.
    pub p50_ms: Milli,
    /// The 90th percentile.
    pub p90_ms: Milli,
    /// The 99th percentile.
    pub p99_ms: Milli,
    /// The longest.
    pub max_ms: Milli,
}

/// Time spent per stage, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StageReport {
    /// Waiting for dirty memory.
    pub pace_ms: Milli,
    /// Waiting for a slot.
    pub admit_ms: Milli,
    /// In the scheduler.
    pub sched_ms: Milli,
    /// In the scheduler while the window was full.
    pub window_ms: Milli,
    /// At the disk.
    pub disk_ms: Milli,
}

/// What the disk did in the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiskReport {
    /// Share of the time that it was busy.
    pub busy: Milli,
    /// Bytes read from and written to it, in MB/s (10^6 bytes).
    pub mb_s: Milli,
    /// Commands completed.
    pub commands: u64,
    /// Movements of the head.
    pub seeks: u64,
    /// Reads served from the disk's own buffer.
    pub buffer_hits: u64,
}

/// Something an operator would want to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventReport {
    /// When.
    pub at_ms: Milli,
    /// What.
    pub text: String,
}

/// A check and how it came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The figure.
    pub figure: &'static str,
    /// The task, if the figure belongs to one.
    pub task: Option<String>,
    /// The group, if it belongs to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What was measured; `null` if there is no such figure.
    pub value: Option<Milli>,
    /// Lower bound.
    pub at_least: Option<Milli>,
    /// Upper bound.
    pub at_most: Option<Milli>,
    /// Whether the value lies within the bounds.
    pub holds: bool,
}

/// What came out of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// The disk's preset.
    pub disk: String,
    /// The scheduler; `none` is the plain elevator.
    pub scheduler: String,
    /// The policy of stage window.
    pub window: String,
    /// From the beginning to the last completion.
    pub elapsed_ms: Milli,
    /// The part of it that counts.
    pub measured_ms: Milli,
    /// Requests submitted, after splitting.
    pub requests: u64,
    /// Requests that had not finished when the run was given up.
    pub unfinished: u64,
    /// Requests that could not be submitted when they were due.
    pub late: u64,
    /// How late the latest was.
    pub late_max_ms: Milli,
    /// Schedulers that failed and were replaced by fifo.
    pub failed_over: u64,
    /// All requests together, over the measured time.
    pub all: TaskReport,
    /// Each task or stream by name, over the time in which it was active.
    pub streams: BTreeMap<String, TaskReport>,
    /// What the disk did in the measured time.
    pub disk_use: DiskReport,
}

impl RunReport {
    /// The report as JSON: the same bytes for the same run.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        let mut text = text.expect("strings, numbers and maps with string keys");
        text.push('\n');
        text
    }

    /// Whether every check holds.
    pub fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}
