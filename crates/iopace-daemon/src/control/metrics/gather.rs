//! From the state of devices, groups and mounts to samples.

use super::super::Controlled;
use super::Sample;
use super::families::{self as f, Family, Value};
use crate::clock;
use crate::control::api::MountReport;
use crate::device::{Device, MemoryStatus};
use crate::groups::GroupOnDevice;
use crate::limits::METRICS_GROUPS_MAX;
use iopace_core::request::{Stage, StageTimes};
use iopace_core::stats::{DeviceStats, Histogram};
use iopace_core::time::Instant;

/// Samples as they come.
struct Out(Vec<Sample>);

impl Out {
    fn add(&mut self, family: &'static Family, labels: &[&str], value: Value) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.0.push(Sample { family, labels, value });
    }

    fn count(&mut self, family: &'static Family, labels: &[&str], count: u64) {
        self.add(family, labels, Value::Count(count));
    }

    fn level(&mut self, family: &'static Family, labels: &[&str], level: u64) {
        self.add(family, labels, Value::Level(level));
    }

    fn times(&mut self, family: &'static Family, labels: &[&str], times: &Histogram) {
        self.add(family, labels, Value::Times(Box::new(times.clone())));
    }

    fn stages(&mut self, family: &'static Family, labels: &[&str], times: &StageTimes) {
        for stage in Stage::ALL {
            let time = Value::Seconds(times.by_stage(stage));
            self.add(family, &[labels, &[stage.name()]].concat(), time);
        }
    }
}

/// Everything, as of now.
pub(super) fn all(subject: &dyn Controlled) -> Vec<Sample> {
    let mut out = Out(Vec::new());
    out.add(&f::BUILD, &[env!("CARGO_PKG_VERSION")], Value::One);
    out.level(&f::UPTIME, &[], clock::now().since(Instant::ZERO).as_nanos() / 1_000_000_000);
    out.level(&f::CONNECTIONS, &[], subject.connections_count() as u64);
    out.level(&f::MEMORY, &[], subject.memory_used_bytes());
    for on in subject.devices() {
        device(&mut out, &**on);
    }
    let (groups, left_out) = subject.groups().stat("/", METRICS_GROUPS_MAX).unwrap_or_default();
    if left_out > 0 {
        tracing::debug!(left_out, "groups without metrics: there are too many");
    }
    for (path, devices) in &groups {
        devices.iter().for_each(|on| group(&mut out, path, on));
    }
    subject.mounts().iter().for_each(|report| mount(&mut out, report));
    out.0
}

fn device(out: &mut Out, device: &dyn Device) {
    let (info, status) = (device.info(), device.status());
    let (name, engine, stats) = (&*info.name, &status.engine, &status.stats);
    let (pace, window) = (engine.pace.name, engine.window.name);
    out.add(&f::DEVICE, &[name, info.kind, engine.algorithm.name, pace, window], Value::One);
    directions(out, name, stats);
    out.stages(&f::DEVICE_STAGE, &[name], &stats.stages);
    let now = [
        ("paced", engine.paced_count),
        ("waiting", engine.waiting_count),
        ("queued", engine.queued_count),
        ("disk", engine.in_flight_count),
    ];
    for (state, count) in now {
        out.level(&f::DEVICE_NOW, &[name, state], count as u64);
    }
    out.level(&f::DEVICE_SLOTS, &[name], u64::from(engine.nr_requests));
    out.level(&f::DEVICE_WINDOW, &[name], u64::from(status.window.depth));
    out.count(&f::DEVICE_REFUSED, &[name], stats.refused_count);
    out.count(&f::DEVICE_CACHED, &[name], status.cached_reads_count);
    out.count(&f::DEVICE_BUFFERED, &[name], status.buffered_writes_count);
    out.count(&f::DEVICE_EXCHANGES, &[name], stats.exchanged_count);
    out.count(&f::DEVICE_FAIL_OVERS, &[name], stats.failed_over_count);
    if let Some(memory) = &status.memory {
        dirty(out, name, memory);
    }
}

fn directions(out: &mut Out, device: &str, stats: &DeviceStats) {
    let all = [("read", &stats.read), ("write", &stats.write), ("flush", &stats.flush)];
    for (op, direction) in all {
        out.count(&f::DEVICE_REQUESTS, &[device, op], direction.finished_count);
        out.count(&f::DEVICE_FAILURES, &[device, op], direction.failed_count);
        out.count(&f::DEVICE_BYTES, &[device, op], direction.bytes.get());
        out.times(&f::DEVICE_LATENCY, &[device, op], &direction.latency);
    }
}

fn dirty(out: &mut Out, device: &str, memory: &MemoryStatus) {
    let MemoryStatus { dirty, thresholds, picture, pauses } = memory;
    let levels = [
        (&f::DEVICE_DIRTY, dirty.device.get()),
        (&f::DEVICE_DIRTY_LIMIT, thresholds.limit.get()),
        (&f::DEVICE_SET_POINT, picture.setpoint.get()),
        (&f::DEVICE_FREE_RUN, picture.freerun.get()),
        (&f::DEVICE_WRITE_BACK, picture.write_bandwidth.0),
        (&f::DEVICE_BASE_RATE, picture.base_rate.0),
        (&f::DEVICE_TASK_RATE, picture.task_rate.0),
    ];
    for (family, level) in levels {
        out.level(family, &[device], level);
    }
    out.times(&f::DEVICE_PAUSES, &[device], pauses);
}

fn group(out: &mut Out, path: &str, on: &GroupOnDevice) {
    let (device, status) = (&*on.device, &on.status);
    let counts = &status.account.counts;
    let ops = [
        ("read", counts.reads_count, Some(counts.read)),
        ("write", counts.writes_count, Some(counts.written)),
        ("trim", counts.discards_count, Some(counts.discarded)),
        ("flush", counts.flushes_count, None),
    ];
    for (op, count, bytes) in ops {
        out.count(&f::GROUP_REQUESTS, &[path, device, op], count);
        if let Some(bytes) = bytes {
            out.count(&f::GROUP_BYTES, &[path, device, op], bytes.get());
        }
    }
    out.count(&f::GROUP_FAILURES, &[path, device], counts.failed_count);
    out.stages(&f::GROUP_STAGE, &[path, device], &counts.stages);
    if let Some(latency) = &status.account.latency {
        out.times(&f::GROUP_LATENCY, &[path, device], latency);
    }
    out.level(&f::GROUP_DIRTY, &[path, device], status.dirty.group.get());
}

fn mount(out: &mut Out, report: &MountReport) {
    let (at, device) = (report.mountpoint.to_string_lossy(), &*report.device);
    let files =
        [("known", report.known_count), ("open", report.open_count), ("kept", report.kept_count)];
    for (state, count) in files {
        out.level(&f::MOUNT_FILES, &[&at, device, state], count as u64);
    }
    out.level(&f::MOUNT_WAITING, &[&at, device], report.waiting_count as u64);
    out.count(&f::MOUNT_PASSED, &[&at, device], report.passed_through_count);
}
