//! From the devices' own state to what the control socket says.

use crate::api::{
    CounterReport, DeviceReport, DirectionReport, DiskBelowReport, DiskReport, EventReport,
    FailedReport, LoadedPolicy, NARROWED_BY_HOSTS, PaceReport, ParamReport, PictureReport,
    PolicyList, PolicySpec, QueueReport, RemoteReport, SchedulerReport, SchedulerSpec,
    SchedulerWarning, StageReport, TimesReport, WaitsReport, WindowReport,
};
use crate::below::{Below, KernelScheduler};
use crate::clock;
use crate::config::{PACE_DEFAULT, WINDOW_DEFAULT};
use crate::device::{
    Device, DeviceEvent, DeviceInfo, DeviceStatus, FailedScheduler, LoggedEvent, MemoryStatus,
};
use crate::groups::{Groups, Warning};
use crate::io::remote::RemoteStatus;
use crate::loadable;
use iopace_core::engine::Status;
use iopace_core::request::StageTimes;
use iopace_core::sched::{self, Algorithm, DiskView, Params};
use iopace_core::stats::{DirectionStats, LogHistogram};
use iopace_core::time::Instant;
use iopace_core::trace::Event;
use iopace_core::units::Bytes;
use iopace_core::verdict::Reason;
use iopace_core::{pace, window};
use std::collections::BTreeMap;

/// Groups that are named for a warning; more are counted.
const WARNED_GROUPS_MAX: usize = 8;

/// What of the settings on a device its scheduler does not do.
pub fn warnings(device: &dyn Device, groups: &Groups) -> Vec<SchedulerWarning> {
    let all = groups.unserved_by_scheduler(device).into_iter();
    let all = all.map(|(warning, mut groups)| {
        let groups_count = groups.len();
        groups.truncate(WARNED_GROUPS_MAX);
        let Warning { text, command, .. } = warning;
        SchedulerWarning { groups, groups_count, text, command }
    });
    all.collect()
}

/// A device as it stands.
pub fn device(device: &dyn Device) -> DeviceReport {
    let (info, status) = (device.info(), device.status());
    let DeviceStatus { engine, stats, hold_up, events, .. } = &status;
    let now = clock::now();
    DeviceReport {
        name: info.name.clone(),
        warnings: Vec::new(),
        kind: info.kind.into(),
        path: info.path.as_ref().map(|path| path.display().to_string()),
        model: info.model.clone(),
        size_bytes: info.size().map(|_| device.size_bytes()),
        read_only: info.read_only,
        direct: info.direct,
        rotational: info.rotational,
        io_engine: info.io_engine.into(),
        below: info.below.as_ref().map(below),
        remote: status.remote.as_ref().map(|remote| remote_report(remote, now)),
        scheduler: scheduler(info, engine, status.failed.as_ref()),
        pace: status.memory.as_ref().map(|memory| paced(engine, memory)),
        window: windowed(engine, &status.window, status.has_host_share),
        queue: queue(engine, stats.refused_count),
        read: direction(&stats.read),
        write: direction(&stats.write),
        flush: direction(&stats.flush),
        stages: stages(&stats.stages),
        waits: waits(&stats.stages),
        cached_reads_count: status.cached_reads_count,
        buffered_writes_count: status.buffered_writes_count,
        exchanged_count: stats.exchanged_count,
        failed_over_count: stats.failed_over_count,
        hold_up: times(hold_up),
        events: events.iter().map(|logged| event(&info.name, logged, now)).collect(),
    }
}

fn below(disk: &Below) -> DiskBelowReport {
    let (scheduler, classes) = match disk.scheduler() {
        Some(KernelScheduler { name, classes }) => (Some(name), classes),
        None => (None, false),
    };
    DiskBelowReport { disk: disk.name(), scheduler, classes }
}

fn remote_report(remote: &RemoteStatus, now: Instant) -> RemoteReport {
    RemoteReport {
        uri: remote.uri.clone(),
        connected: remote.is_connected,
        since_ns: now.since(remote.since).as_nanos(),
        trouble: remote.trouble.clone(),
        patience_ns: remote.patience.map(|patience| patience.as_nanos()),
        reconnects_count: remote.reconnects_count,
        waiting_count: remote.waiting_count,
        unflushed_bytes: remote.unflushed_bytes,
    }
}

/// The schedulers that there are.
pub fn schedulers() -> Vec<SchedulerSpec> {
    let loaded = loadable::loaded();
    sched::all().into_iter().map(|algorithm| spec(algorithm, &loaded)).collect()
}

/// The policies of stages pace and window that there are, and those that were loaded.
pub fn policies() -> PolicyList {
    let spec = |name: &str, summary: &str, default: &str| PolicySpec {
        name: name.into(),
        summary: summary.into(),
        default: name == default,
    };
    let pace = pace::REGISTRY.iter();
    let window = window::REGISTRY.iter();
    PolicyList {
        pace: pace.map(|policy| spec(policy.name, policy.summary, PACE_DEFAULT)).collect(),
        window: window.map(|policy| spec(policy.name, policy.summary, WINDOW_DEFAULT)).collect(),
        loaded: loadable::loaded(),
    }
}

pub(super) fn params(params: &Params) -> BTreeMap<String, u64> {
    params.iter().map(|(spec, value)| (spec.name.into(), value)).collect()
}

pub(crate) fn paced(engine: &Status, memory: &MemoryStatus) -> PaceReport {
    let MemoryStatus { dirty, thresholds, picture: seen, pauses } = memory;
    let mut picture = picture(seen, dirty.device);
    if picture.limit_bytes == 0 {
        // The limit holds for every policy, also for one that does not look at it.
        picture.limit_bytes = thresholds.limit.get();
    }
    PaceReport {
        policy: engine.pace.name.into(),
        pause_target_ns: engine.pause_target.map(|pause| pause.as_nanos()),
        write_back_bytes: dirty.write_back.get(),
        background_bytes: thresholds.background.get(),
        picture,
        pauses: times(pauses),
        waiting_count: engine.paced_count,
        caps_count: engine.caps_count,
    }
}

/// A picture, with dirty memory as the engine counts it.
pub(crate) fn picture(picture: &pace::PacePicture, dirty: Bytes) -> PictureReport {
    PictureReport {
        dirty_bytes: dirty.get(),
        freerun_bytes: picture.freerun.get(),
        setpoint_bytes: picture.setpoint.get(),
        limit_bytes: picture.limit.get(),
        write_bandwidth_bytes_s: picture.write_bandwidth.0,
        dirty_rate_bytes_s: picture.dirty_rate.0,
        base_rate_bytes_s: picture.base_rate.0,
        balanced_rate_bytes_s: picture.balanced_rate.0,
        task_rate_bytes_s: picture.task_rate.0,
        position_permille: picture.position_permille,
        last_pause_ns: picture.pause.as_nanos(),
    }
}

pub(crate) fn windowed(
    engine: &Status,
    picture: &window::WindowPicture,
    has_host_share: bool,
) -> WindowReport {
    let narrowed = match picture.narrowed {
        Some(window::Narrowed::Latency) if has_host_share => Some(NARROWED_BY_HOSTS),
        narrowed => narrowed.map(window::Narrowed::name),
    };
    WindowReport {
        policy: engine.window.name.into(),
        depth: picture.depth,
        depth_set: engine.window_depth_set,
        narrowed: narrowed.map(Into::into),
        write_back_depth: picture.write_back_depth,
        write_back_gap_ns: picture.write_back_gap.as_nanos(),
        quiet_latency_ns: picture.quiet_latency.as_nanos(),
        latency_ns: picture.latency.as_nanos(),
    }
}

/// Whether the scheduler of a device for which none is named is at work.
pub(crate) fn is_auto(info: &DeviceInfo, engine: &Status) -> bool {
    !engine.inserted && engine.algorithm.name == info.base
}

/// The scheduler's opinion about the disk.
pub(crate) fn disk(engine: &Status) -> Option<DiskReport> {
    engine.disk.map(|DiskView { has_head, is_learned, seek }| DiskReport {
        has_head,
        learned: is_learned,
        seek_ns: seek.as_nanos(),
    })
}

fn scheduler(
    info: &DeviceInfo,
    engine: &Status,
    failed: Option<&FailedScheduler>,
) -> SchedulerReport {
    let names = engine.algorithm.counters.iter().map(|counter| counter.name.to_owned());
    SchedulerReport {
        algorithm: engine.algorithm.name.into(),
        inserted: engine.inserted,
        auto: is_auto(info, engine),
        failed: failed.map(|FailedScheduler { name, text, at, .. }| FailedReport {
            name: (*name).into(),
            text: text.clone(),
            age_ns: clock::now().since(*at).as_nanos(),
        }),
        base: info.base.into(),
        disk: disk(engine),
        params: params(&engine.params),
        counters: names.zip(engine.counters.iter().copied()).collect(),
    }
}

pub(crate) fn queue(engine: &Status, refused_count: u64) -> QueueReport {
    let (submitted_count, finished_count) = engine.totals_count;
    QueueReport {
        waiting_count: engine.waiting_count,
        queued_count: engine.queued_count,
        in_flight_count: engine.in_flight_count,
        nr_requests: engine.nr_requests,
        window_depth: engine.window_depth,
        reason: engine.reason.name().into(),
        submitted_count,
        finished_count,
        refused_count,
    }
}

fn direction(stats: &DirectionStats) -> DirectionReport {
    DirectionReport {
        finished_count: stats.finished_count,
        failed_count: stats.failed_count,
        bytes: stats.bytes.get(),
        latency: times(&stats.latency),
    }
}

pub(crate) fn times<const SUB: usize>(histogram: &LogHistogram<SUB>) -> TimesReport {
    TimesReport {
        count: histogram.count(),
        mean_ns: histogram.mean().as_nanos(),
        p50_ns: histogram.quantile(500).as_nanos(),
        p99_ns: histogram.quantile(990).as_nanos(),
        max_ns: histogram.max().as_nanos(),
    }
}

pub(super) fn stages(times: &StageTimes) -> StageReport {
    StageReport {
        pace_ns: times.pace().as_nanos(),
        admit_ns: times.admit().as_nanos(),
        sched_ns: times.sched().as_nanos(),
        window_ns: times.window.as_nanos(),
        disk_ns: times.disk.as_nanos(),
    }
}

pub(crate) fn waits(times: &StageTimes) -> WaitsReport {
    let by_reason = |reason| times.by_reason(reason).as_nanos();
    WaitsReport {
        dirty_ns: by_reason(Reason::Dirty),
        memory_ns: by_reason(Reason::Memory),
        slot_ns: by_reason(Reason::Slot),
        budget_ns: by_reason(Reason::Budget),
        budget_pace_ns: times.pace_budget.as_nanos(),
        turn_ns: by_reason(Reason::Turn),
        anticipation_ns: by_reason(Reason::Anticipation),
        window_ns: by_reason(Reason::Window),
        disk_ns: by_reason(Reason::Disk),
    }
}

/// The kinds of events that there are.
pub(crate) const EVENT_KINDS: [&str; 16] = [
    "exchanged",
    "failed",
    "disk_judged",
    "recommend_ended",
    "limit_inert",
    "limit_unreachable",
    "guarantee_missed",
    "latency_missed",
    "promise_broken",
    "device_slow",
    "drift",
    "over",
    "no_space",
    "request_failed",
    "disk_lost",
    "disk_back",
];

pub(crate) fn event(device: &str, logged: &LoggedEvent, now: Instant) -> EventReport {
    let (kind, text) = match &logged.event {
        DeviceEvent::Engine(event) => (engine_event(event), event.to_string()),
        DeviceEvent::NoSpace(text) => ("no_space", text.clone()),
        DeviceEvent::RequestFailed(text) => ("request_failed", text.clone()),
        DeviceEvent::DiskLost(text) => ("disk_lost", text.clone()),
        DeviceEvent::DiskBack(text) => ("disk_back", text.clone()),
    };
    EventReport {
        device: device.into(),
        age_ns: now.since(logged.at).as_nanos(),
        kind: kind.into(),
        text,
    }
}

fn engine_event(event: &Event) -> &'static str {
    match event {
        Event::SchedulerExchanged { .. } => "exchanged",
        Event::SchedulerFailed { .. } => "failed",
        Event::DiskJudged { .. } => "disk_judged",
        Event::RecommendEnded { .. } => "recommend_ended",
    }
}

fn spec(algorithm: &Algorithm, loaded: &[LoadedPolicy]) -> SchedulerSpec {
    let params = algorithm.params.iter().map(|param| ParamReport {
        name: param.name.into(),
        unit: param.unit.into(),
        min: param.min,
        default: param.default,
        max: param.max,
        doc: param.doc.into(),
    });
    let counters = algorithm
        .counters
        .iter()
        .map(|counter| CounterReport { name: counter.name.into(), doc: counter.doc.into() });
    SchedulerSpec {
        name: algorithm.name.into(),
        summary: algorithm.summary.into(),
        default: std::ptr::eq(algorithm, sched::recommended()),
        params: params.collect(),
        counters: counters.collect(),
        loaded: loaded.iter().find(|policy| policy.name == algorithm.name).cloned(),
    }
}
