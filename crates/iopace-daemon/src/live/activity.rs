//! From what was counted in an interval to what is told of it.

use crate::api::{Activity, FlowReport, TimesReport, WaitCounts};
use crate::report;
use iopace_core::engine::GroupWaits;
use iopace_core::stats::{Histogram, OpCounts};
use iopace_core::time::Nanos;
use iopace_core::verdict::Reason;

/// What was counted in an interval.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) counts: OpCounts,
    pub(super) latency: Option<Box<Histogram>>,
}

/// What a group did in an interval of that length, and where its requests are now.
pub(super) fn activity(counted: &Counted, interval: Nanos, now: WaitCounts) -> Activity {
    let latency = counted.latency.as_deref().map(report::times).unwrap_or_default();
    activity_of(&counted.counts, latency, interval, now)
}

/// What somebody did.
pub(super) fn activity_of(
    counts: &OpCounts,
    latency: TimesReport,
    interval: Nanos,
    now: WaitCounts,
) -> Activity {
    let flow = |bytes: u64, ops: u64| FlowReport {
        bytes_s: per_second(bytes, interval),
        ops_milli_s: per_second(ops.saturating_mul(1_000), interval),
    };
    Activity {
        read: flow(counts.read.get(), counts.reads_count),
        write: flow(counts.written.get(), counts.writes_count),
        buffered: flow(counts.buffered.get(), counts.paced_count),
        latency,
        waits: report::waits(&counts.stages),
        unawaited: report::waits(&counts.unawaited),
        now,
    }
}

/// Where requests stand.
pub(super) fn now(waits: &GroupWaits) -> WaitCounts {
    WaitCounts {
        dirty_count: waits.count(Reason::Dirty),
        memory_count: waits.count(Reason::Memory),
        slot_count: waits.count(Reason::Slot),
        budget_count: waits.count(Reason::Budget),
        turn_count: waits.count(Reason::Turn),
        anticipation_count: waits.count(Reason::Anticipation),
        window_count: waits.count(Reason::Window),
        disk_count: waits.count(Reason::Disk),
        oldest_ns: waits.oldest.as_nanos(),
    }
}

fn per_second(count: u64, interval: Nanos) -> u64 {
    let whole = u128::from(count) * 1_000_000_000;
    u64::try_from(whole / u128::from(interval.as_nanos().max(1))).unwrap_or(u64::MAX)
}
