//! What a group did, as the text of `io.stat` and `io.pressure`.

use crate::device::GroupStatus;
use iopace_core::time::Nanos;
use iopace_core::verdict::Reason;
use std::fmt::Write as _;

/// What a group and those below it did on a device.
#[derive(Clone, Debug)]
pub struct GroupOnDevice {
    /// The device.
    pub device: String,
    /// Its counts, latency and pressure, and how it stands.
    pub status: GroupStatus,
}

/// A line per device: the keys of cgroup v2, then those that only iopace has. Times are sums over
/// all requests, in microseconds, per stage and by reason.
pub(super) fn io_stat(all: &[GroupOnDevice]) -> String {
    let mut text = String::new();
    for GroupOnDevice { device, status } in all {
        let counts = &status.account.counts;
        let stages = &counts.stages;
        let micros = |time: Nanos| time.as_nanos() / 1_000;
        let by_reason = |reason| micros(stages.by_reason(reason));
        let keys = [
            ("rbytes", counts.read.get()),
            ("wbytes", counts.written.get()),
            ("rios", counts.reads_count),
            ("wios", counts.writes_count),
            ("dbytes", counts.discarded.get()),
            ("dios", counts.discards_count),
            ("fios", counts.flushes_count),
            ("failed", counts.failed_count),
            ("pace_us", micros(stages.pace())),
            ("admit_us", micros(stages.admit())),
            ("sched_us", micros(stages.sched())),
            ("window_us", micros(stages.window)),
            ("disk_us", micros(stages.disk)),
            ("dirty_us", by_reason(Reason::Dirty)),
            ("memory_us", by_reason(Reason::Memory)),
            ("slot_us", by_reason(Reason::Slot)),
            ("budget_us", by_reason(Reason::Budget)),
            ("turn_us", by_reason(Reason::Turn)),
            ("anticipation_us", by_reason(Reason::Anticipation)),
            ("buffered_bytes", counts.buffered.get()),
            ("buffered_ios", counts.paced_count),
        ];
        text.push_str(device);
        for (key, value) in keys {
            let _ = write!(text, " {key}={value}");
        }
        text.push('\n');
    }
    text
}

/// The two lines of the kernel's PSI; of several devices, each line with its device in front.
pub(super) fn io_pressure(all: &[GroupOnDevice]) -> String {
    if let [one] = all {
        return one.status.account.pressure.to_string();
    }
    let mut text = String::new();
    for GroupOnDevice { device, status } in all {
        for line in status.account.pressure.to_string().lines() {
            let _ = writeln!(text, "{device} {line}");
        }
    }
    text
}
