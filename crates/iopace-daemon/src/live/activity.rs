//! From what was counted in an interval to what is told of it.

use crate::control::api::{Activity, FlowReport, WaitCounts};
use crate::control::report;
use crate::device::DeviceStatus;
use iopace_core::stats::{Histogram, OpCounts};
use iopace_core::time::Nanos;

/// What was counted in an interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) counts: OpCounts,
    pub(super) latency: Option<Box<Histogram>>,
}

/// What somebody did in an interval of that length, and where its requests are now.
pub(super) fn activity(counted: &Counted, interval: Nanos, now: WaitCounts) -> Activity {
    let Counted { counts, latency } = counted;
    let flow = |bytes: u64, ops: u64| FlowReport {
        bytes_s: per_second(bytes, interval),
        ops_milli_s: per_second(ops.saturating_mul(1_000), interval),
    };
    Activity {
        read: flow(counts.read.get(), counts.reads_count),
        write: flow(counts.written.get(), counts.writes_count),
        latency: latency.as_deref().map(report::times).unwrap_or_default(),
        waits: report::waits(&counts.stages),
        now,
    }
}

/// Where the requests of a device are.
pub(super) fn device_now(status: &DeviceStatus) -> WaitCounts {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let engine = &status.engine;
    WaitCounts {
        dirty_count: count(engine.paced_count),
        slot_count: count(engine.waiting_count),
        turn_count: count(engine.queued_count),
        disk_count: count(engine.in_flight_count),
        ..WaitCounts::default()
    }
}

/// Where the requests of a group are.
pub(super) fn group_now(waiting_count: u32) -> WaitCounts {
    WaitCounts { slot_count: waiting_count, ..WaitCounts::default() }
}

fn per_second(count: u64, interval: Nanos) -> u64 {
    let whole = u128::from(count) * 1_000_000_000;
    u64::try_from(whole / u128::from(interval.as_nanos().max(1))).unwrap_or(u64::MAX)
}
