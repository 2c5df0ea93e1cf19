//! The figures that a check can name.

/// A figure of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Throughput in MB/s (10^6 bytes).
    MbS,
    /// Requests finished per second.
    OpsS,
    /// Mean latency.
    MeanMs,
    /// Median latency.
    P50Ms,
    /// 90th percentile of the latency.
    P90Ms,
    /// 99th percentile of the latency.
    P99Ms,
    /// Longest latency.
    MaxMs,
    /// Requests finished.
    Ops,
    /// Requests that ended with an error.
    Failed,
    /// Throughput over that of the same task alone, with no scheduler.
    Share,
    /// Requests of the task over those of all tasks.
    Part,
    /// Transactions made durable per second.
    CommitsS,
    /// Median time to make one durable.
    CommitP50Ms,
    /// 99th percentile of that time.
    CommitP99Ms,
    /// Longest such time.
    CommitMaxMs,
    /// Sum of all tasks' shares.
    Efficiency,
    /// Jain's index of the tasks' throughputs: 1 if all are equal, 1/n if one has all.
    Jain,
    /// 99th percentile of the pauses of buffered writes that were paused.
    PauseP99Ms,
    /// Longest pause.
    PauseMaxMs,
    /// Most dirty memory at a time, in MiB.
    DirtyMaxMib,
    /// How far dirty memory was above its limit at most, in MiB.
    OverLimitMib,
    /// Share of the time that the disk was busy.
    DiskBusy,
    /// Requests that had not finished when the run was given up.
    Unfinished,
    /// Schedulers exchanged.
    Exchanged,
    /// Schedulers that failed and were replaced by fifo.
    FailedOver,
}

impl Figure {
    /// Every figure with its word in a scenario and its unit.
    pub const ALL: &[(Figure, &str, &str)] = &[
        (Figure::MbS, "mb_s", "MB/s"),
        (Figure::OpsS, "ops_s", "1/s"),
        (Figure::MeanMs, "mean_ms", "ms"),
        (Figure::P50Ms, "p50_ms", "ms"),
        (Figure::P90Ms, "p90_ms", "ms"),
        (Figure::P99Ms, "p99_ms", "ms"),
        (Figure::MaxMs, "max_ms", "ms"),
        (Figure::Ops, "ops", "requests"),
        (Figure::Failed, "failed", "requests"),
        (Figure::Share, "share", "of alone"),
        (Figure::Part, "part", "of all"),
        (Figure::CommitsS, "commits_s", "1/s"),
        (Figure::CommitP50Ms, "commit_p50_ms", "ms"),
        (Figure::CommitP99Ms, "commit_p99_ms", "ms"),
        (Figure::CommitMaxMs, "commit_max_ms", "ms"),
        (Figure::Efficiency, "efficiency", "of alone"),
        (Figure::Jain, "jain", "of equal"),
        (Figure::PauseP99Ms, "pause_p99_ms", "ms"),
        (Figure::PauseMaxMs, "pause_max_ms", "ms"),
        (Figure::DirtyMaxMib, "dirty_max_mib", "MiB"),
        (Figure::OverLimitMib, "over_limit_mib", "MiB"),
        (Figure::DiskBusy, "disk_busy", "of the time"),
        (Figure::Unfinished, "unfinished", "requests"),
        (Figure::Exchanged, "exchanged", "schedulers"),
        (Figure::FailedOver, "failed_over", "schedulers"),
    ];

    /// The figure of that name.
    pub fn find(name: &str) -> Option<Figure> {
        let entry = Figure::ALL.iter().find(|(_, word, _)| *word == name);
        entry.map(|(figure, ..)| *figure)
    }

    /// Its word in a scenario.
    pub fn name(self) -> &'static str {
        let entry = Figure::ALL.iter().find(|(figure, ..)| *figure == self);
        entry.map_or("?", |(_, name, _)| name)
    }

    /// Whether it belongs to one task.
    pub fn is_of_a_task(self) -> bool {
        use Figure::*;
        matches!(
            self,
            MbS | OpsS
                | MeanMs
                | P50Ms
                | P90Ms
                | P99Ms
                | MaxMs
                | Ops
                | Failed
                | Share
                | Part
                | CommitsS
                | CommitP50Ms
                | CommitP99Ms
                | CommitMaxMs
        )
    }

    /// Whether groups have it, too.
    pub fn is_of_a_group(self) -> bool {
        matches!(self, Figure::MbS | Figure::Part)
    }

    /// Whether it belongs to the page cache.
    pub fn needs_memory(self) -> bool {
        use Figure::*;
        matches!(self, PauseP99Ms | PauseMaxMs | DirtyMaxMib | OverLimitMib)
    }

    /// Whether it compares a task with the same task alone.
    pub fn compares_with_alone(self) -> bool {
        matches!(self, Figure::Share | Figure::Efficiency)
    }
}
