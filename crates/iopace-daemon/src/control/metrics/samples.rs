//! From what was gathered to the samples of one family, each told at once: with thousands of groups
//! there are some hundred thousand of all.

use super::families::{self as f, Family, LABELS_MAX};
use super::gather::{Gathered, SeenDevice, SeenGroup};
use crate::api::{MountReport, SharedLimit, VolumeState};
use crate::device::MemoryStatus;
use crate::report::EVENT_KINDS;
use iopace_core::request::{Stage, StageTimes};
use iopace_core::stats::{DeviceStats, Histogram, SmallHistogram, StageHistograms};
use iopace_core::time::Nanos;
use iopace_core::verdict::Reason;
use prometheus_client::encoding::{EncodeLabel, EncodeLabelSet, LabelSetEncoder};
use std::fmt;
use std::ops::Range;

/// A value of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// Of a counter.
    Count(u64),
    /// Of a counter in seconds.
    Seconds(Nanos),
    /// Of a gauge.
    Level(u64),
    /// Of a gauge in seconds.
    Time(Nanos),
    /// Of a gauge that only carries labels.
    One,
    /// Of a histogram: times, and how many more were zero.
    Times(Option<&'a Histogram>, u64),
    /// The same with few buckets.
    FewTimes(&'a SmallHistogram, u64),
}

/// Names and values of labels, in their order.
pub(super) struct Labels<'a> {
    pub(super) names: &'static [&'static str],
    pub(super) values: &'a [&'a str],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        let mut all = self.names.iter().zip(self.values);
        all.try_for_each(|(name, value)| (*name, *value).encode(encoder.encode_label()))
    }
}

/// Who is told the samples of a family: the values of their labels, and theirs.
struct Samples<'t> {
    family: &'static Family,
    tell: &'t mut dyn FnMut(&[&str], Value<'_>),
}

/// Tells the samples of a family; if it is one of groups, of these.
pub(super) fn tell(
    all: &Gathered,
    family: &'static Family,
    groups: Range<usize>,
    tell: &mut dyn FnMut(&[&str], Value<'_>),
) {
    let mut out = Samples { family, tell };
    match family.labels.first() {
        None | Some(&"version") => daemon(&mut out, all),
        Some(&"group") => {
            for seen in &all.groups[groups] {
                let device = &all.devices[seen.device].info.name;
                group(&mut out, &all.names[seen.name].path, device, seen);
            }
        }
        Some(&"volume") => all.volumes.iter().for_each(|seen| volume(&mut out, seen)),
        Some(&"mountpoint") => all.mounts.iter().for_each(|(at, of)| mount(&mut out, at, of)),
        Some(_) if out.wants(&f::EVENTS) => events(&mut out, all),
        Some(_) => all.devices.iter().for_each(|seen| device(&mut out, seen)),
    }
}

fn daemon(out: &mut Samples<'_>, all: &Gathered) {
    out.add(&f::BUILD, &[env!("CARGO_PKG_VERSION"), PROFILE, std::env::consts::ARCH], ONE);
    out.level(&f::UPTIME, &[], all.uptime_s);
    out.level(&f::CONNECTIONS, &[], all.connections_count);
    out.level(&f::MEMORY, &[], all.memory_bytes);
    out.level(&f::GROUPS, &[], all.groups_count);
    out.level(&f::GROUPS_LEFT_OUT, &[], all.left_out_count);
}

impl Samples<'_> {
    fn wants(&self, family: &'static Family) -> bool {
        std::ptr::eq(self.family, family)
    }

    fn add(&mut self, family: &'static Family, labels: &[&str], value: Value<'_>) {
        debug_assert_eq!(family.labels.len(), labels.len(), "{}", family.name);
        if self.wants(family) {
            (self.tell)(labels, value);
        }
    }

    fn count(&mut self, family: &'static Family, labels: &[&str], count: u64) {
        self.add(family, labels, Value::Count(count));
    }

    fn level(&mut self, family: &'static Family, labels: &[&str], level: u64) {
        self.add(family, labels, Value::Level(level));
    }

    fn times(&mut self, family: &'static Family, labels: &[&str], times: &Histogram) {
        self.add(family, labels, Value::Times(Some(times), 0));
    }

    /// Sums of times by stage and by reason.
    fn sums(&mut self, [stages, reasons]: [&'static Family; 2], who: &[&str], of: &StageTimes) {
        let mut labels = [""; LABELS_MAX];
        labels[..who.len()].copy_from_slice(who);
        let (last, count) = (who.len(), who.len() + 1);
        if self.wants(stages) {
            for stage in Stage::ALL {
                labels[last] = stage.name();
                self.add(stages, &labels[..count], Value::Seconds(of.by_stage(stage)));
            }
        }
        if self.wants(reasons) {
            for reason in reasons_of_waits() {
                labels[last] = reason.name();
                self.add(reasons, &labels[..count], Value::Seconds(of.by_reason(reason)));
            }
        }
    }
}

const ONE: Value<'_> = Value::One;

/// A debug build is slow: whoever sees a slow daemon wants to know.
const PROFILE: &str = if cfg!(debug_assertions) { "debug" } else { "release" };

fn reasons_of_waits() -> impl Iterator<Item = Reason> {
    Reason::ALL.into_iter().filter(|reason| *reason != Reason::Idle)
}

fn device(out: &mut Samples<'_>, seen: &SeenDevice) {
    let SeenDevice { info, status, waiting } = seen;
    let (name, engine, stats) = (&*info.name, &status.engine, &status.stats);
    let (pace, window) = (engine.pace.name, engine.window.name);
    out.add(&f::DEVICE, &[name, info.kind, engine.algorithm.name, pace, window], ONE);
    directions(out, name, stats);
    out.sums([&f::DEVICE_STAGE, &f::DEVICE_WAIT], &[name], &stats.stages);
    let finished = [&stats.read, &stats.write, &stats.flush].map(|one| one.finished_count);
    for stage in Stage::ALL {
        let times = stats.by_stage.get(stage);
        let zeros = zeros(stage, (finished.iter().sum(), stats.paced_count), times);
        let value = Value::Times(times, zeros);
        out.add(&f::DEVICE_STAGE_LATENCY, &[name, stage.name()], value);
    }
    let now = [
        ("paced", engine.paced_count),
        ("waiting", engine.waiting_count),
        ("queued", engine.queued_count),
        ("disk", engine.in_flight_count),
    ];
    for (state, count) in now {
        out.level(&f::DEVICE_NOW, &[name, state], count as u64);
    }
    for reason in reasons_of_waits() {
        let count = u64::from(waiting.count(reason));
        out.level(&f::DEVICE_WAITING, &[name, reason.name()], count);
    }
    out.add(&f::DEVICE_OLDEST, &[name], Value::Time(waiting.oldest));
    out.add(&f::DEVICE_OLDEST_AT_DISK, &[name], Value::Time(waiting.at_disk));
    out.level(&f::DEVICE_SLOTS, &[name], u64::from(engine.nr_requests));
    out.level(&f::DEVICE_WINDOW, &[name], u64::from(status.window.depth));
    out.count(&f::DEVICE_REFUSED, &[name], stats.refused_count);
    out.count(&f::DEVICE_CACHED, &[name], status.cached_reads_count);
    out.count(&f::DEVICE_BUFFERED, &[name], status.buffered_writes_count);
    out.count(&f::DEVICE_PACED, &[name], stats.paced_count);
    out.count(&f::DEVICE_INTO_CACHE, &[name], stats.buffered.get());
    out.count(&f::DEVICE_EXCHANGES, &[name], stats.exchanged_count);
    out.count(&f::DEVICE_FAIL_OVERS, &[name], stats.failed_over_count);
    out.times(&f::DEVICE_EXCHANGE, &[name], &status.hold_up);
    if let Some(memory) = &status.memory {
        dirty(out, name, memory);
    }
}

/// How many of the requests and buffered writes that passed a stage spent no time there.
fn zeros<const SUB: usize>(
    stage: Stage,
    (finished_count, paced_count): (u64, u64),
    times: Option<&iopace_core::stats::LogHistogram<SUB>>,
) -> u64 {
    let passed = if stage == Stage::Pace { paced_count } else { finished_count };
    passed.saturating_sub(times.map_or(0, |times| times.count()))
}

fn directions(out: &mut Samples<'_>, device: &str, stats: &DeviceStats) {
    let all = [("read", &stats.read), ("write", &stats.write), ("flush", &stats.flush)];
    for (op, direction) in all {
        out.count(&f::DEVICE_REQUESTS, &[device, op], direction.finished_count);
        out.count(&f::DEVICE_FAILURES, &[device, op], direction.failed_count);
        out.count(&f::DEVICE_BYTES, &[device, op], direction.bytes.get());
        out.times(&f::DEVICE_LATENCY, &[device, op], &direction.latency);
    }
}

fn dirty(out: &mut Samples<'_>, device: &str, memory: &MemoryStatus) {
    let MemoryStatus { dirty, thresholds, picture, pauses } = memory;
    let levels = [
        (&f::DEVICE_DIRTY, dirty.device.get()),
        (&f::DEVICE_WRITING_BACK, dirty.write_back.get()),
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

/// Every kind that is known begins at zero, so that the first event is an increase.
fn events(out: &mut Samples<'_>, all: &Gathered) {
    for SeenDevice { info, .. } in &all.devices {
        let has = |kind: &str| all.events.contains_key(&(info.name.clone(), kind.to_owned()));
        for kind in EVENT_KINDS.into_iter().filter(|kind| !has(kind)) {
            out.count(&f::EVENTS, &[&info.name, kind], 0);
        }
    }
    for ((device, kind), count) in &all.events {
        out.count(&f::EVENTS, &[device, kind], *count);
    }
}

fn group(out: &mut Samples<'_>, path: &str, device: &str, seen: &SeenGroup) {
    let counts = &seen.counts;
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
    out.count(&f::GROUP_PACED, &[path, device], counts.paced_count);
    out.count(&f::GROUP_INTO_CACHE, &[path, device], counts.buffered.get());
    out.sums([&f::GROUP_STAGE, &f::GROUP_WAIT], &[path, device], &counts.stages);
    if let Some(latency) = &seen.latency {
        out.times(&f::GROUP_LATENCY, &[path, device], latency);
    }
    if let Some(by_stage) = seen.by_stage.as_ref().filter(|_| out.wants(&f::GROUP_STAGE_LATENCY)) {
        let passed = (counts.finished_count(), counts.paced_count);
        group_stages(out, (path, device), passed, by_stage);
    }
    out.level(&f::GROUP_NOW, &[path, device], u64::from(seen.now_count));
    out.level(&f::GROUP_DIRTY, &[path, device], seen.dirty.get());
}

fn group_stages(
    out: &mut Samples<'_>,
    (path, device): (&str, &str),
    passed: (u64, u64),
    by_stage: &StageHistograms<4>,
) {
    for stage in Stage::ALL {
        let times = by_stage.get(stage);
        let zeros = zeros(stage, passed, times);
        // A stage that never held it up has no buckets: what is missing is zero.
        if let Some(times) = times {
            let labels = [path, device, stage.name()];
            out.add(&f::GROUP_STAGE_LATENCY, &labels, Value::FewTimes(times, zeros));
        }
    }
}

fn volume(out: &mut Samples<'_>, seen: &VolumeState) {
    let name = &*seen.volume;
    out.level(&f::CLUSTER_REACHED, &[name], u64::from(seen.dark.is_none()));
    let dark = Nanos(seen.dark_for_ms.saturating_mul(1_000_000));
    out.add(&f::CLUSTER_DARK, &[name], Value::Time(dark));
    let there = seen.hosts.iter().filter(|host| host.is_there).count();
    for (state, count) in [("there", there), ("away", seen.hosts.len() - there)] {
        out.level(&f::CLUSTER_HOSTS, &[name, state], count as u64);
    }
    for SharedLimit { group, rate, limit, allowed, parts, .. } in &seen.limits {
        out.level(&f::CLUSTER_LIMIT, &[name, group, rate], *limit);
        out.level(&f::CLUSTER_ALLOWED, &[name, group, rate], *allowed);
        // What other hosts have in the dark is not known.
        for part in parts.iter().filter(|_| seen.dark.is_none()) {
            out.level(&f::CLUSTER_GRANTED, &[name, group, rate, &part.host], part.granted);
            out.level(&f::CLUSTER_USED, &[name, group, rate, &part.host], part.used);
        }
    }
}

fn mount(out: &mut Samples<'_>, at: &str, report: &MountReport) {
    let device = &*report.device;
    let files =
        [("known", report.known_count), ("open", report.open_count), ("kept", report.kept_count)];
    for (state, count) in files {
        out.level(&f::MOUNT_FILES, &[at, device, state], count as u64);
    }
    out.level(&f::MOUNT_WAITING, &[at, device], report.waiting_count as u64);
    out.count(&f::MOUNT_PASSED, &[at, device], report.passed_through_count);
}
