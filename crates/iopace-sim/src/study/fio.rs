//! Logs in the format of fio 3 (`write_bw_log`, `write_lat_log`), so that its scripts read them.
//!
//! They are averaged as with fio's `log_avg_msec`, over the step of the recording: a line for each
//! direction and step in which something finished, `time, value, direction, block size, priority`.
//! The time is the end of the step in ms; the value KiB/s or ns; the direction 0 for reads and 1
//! for writes. Averaged lines have no block size, fio writes 0 there, as for the priority.
//! Source: fio's documentation, "Log File Formats".

use crate::record::{Moved, Recording, TaskRecord};
use iopace_core::time::Nanos;
use std::fmt::Write as _;

/// What a log is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// Bandwidth in KiB/s.
    Bandwidth,
    /// Latency from submission to completion in ns.
    Latency,
}

impl Log {
    /// The name of the file of a task, counted from 1.
    pub fn file_name(self, prefix: &str, number: usize) -> String {
        match self {
            Log::Bandwidth => format!("{prefix}_bw.{number}.log"),
            Log::Latency => format!("{prefix}_lat.{number}.log"),
        }
    }

    fn value(self, moved: &Moved, step: Nanos) -> u64 {
        match self {
            Log::Bandwidth => {
                let per_second =
                    u128::from(moved.bytes) * 1_000_000_000 / u128::from(step.0.max(1));
                u64::try_from(per_second / 1_024).unwrap_or(u64::MAX)
            }
            Log::Latency => moved.latency.0 / moved.ops,
        }
    }
}

/// The log of one task of a recording.
pub fn log(recording: &Recording, task: &TaskRecord, log: Log) -> String {
    let mut text = String::new();
    for (place, both) in task.reads.iter().zip(&task.writes).enumerate() {
        let end = (place as u64 + 1) * recording.step.0 / 1_000_000;
        for (direction, moved) in [(0, both.0), (1, both.1)] {
            if moved.ops > 0 {
                let value = log.value(moved, recording.step);
                let _ = writeln!(text, "{end}, {value}, {direction}, 0, 0");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::request::StageTimes;
    use iopace_core::stats::Histogram;

    #[test]
    fn lines_are_those_of_fio() {
        let moved = Moved { bytes: 1 << 20, ops: 4, latency: Nanos(8_000) };
        let task = TaskRecord {
            name: "dd".into(),
            group: "/".into(),
            reads: vec![moved, Moved::default()],
            writes: vec![Moved::default(), moved],
            latency: Histogram::default(),
            stages: StageTimes::default(),
        };
        let recording = Recording { step: Nanos::from_millis(500), ..Recording::default() };
        assert_eq!(
            log(&recording, &task, Log::Bandwidth),
            "500, 2048, 0, 0, 0\n1000, 2048, 1, 0, 0\n"
        );
        assert_eq!(
            log(&recording, &task, Log::Latency),
            "500, 2000, 0, 0, 0\n1000, 2000, 1, 0, 0\n"
        );
        assert_eq!(Log::Latency.file_name("run/a", 2), "run/a_lat.2.log");
    }
}
