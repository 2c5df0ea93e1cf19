//! What `iopace sched` prints for people.

use crate::output::{finish, folded, named_line, right, table};
use crate::units::{reason_word, size, time};
use comfy_table::Cell;
use iopace_core::sched::AUTO;
use iopace_core::verdict::Reason;
use iopace_daemon::api::{
    DeviceReport, DiskBelowReport, FailedReport, RemoteReport, SchedulerReport, SchedulerSpec,
    TimesReport, scheduler_words,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Events shown for a device; `--format json` has all that the daemon keeps.
const EVENTS_SHOWN: usize = 5;

/// The schedulers with their parameters and counters, and the devices that they are at work on.
pub fn schedulers(specs: &[SchedulerSpec], devices: &[DeviceReport]) -> String {
    let texts: Vec<String> = specs.iter().map(|spec| scheduler(spec, devices)).collect();
    texts.join("\n")
}

fn scheduler(spec: &SchedulerSpec, devices: &[DeviceReport]) -> String {
    let mut text = folded(&format!("{}: {}", spec.name, spec.summary));
    if spec.default {
        let _ = writeln!(text, "  the default ({AUTO})");
    }
    if let Some(loaded) = &spec.loaded {
        let _ = writeln!(text, "  loaded: {}", loaded.words());
    }
    let at_work = devices.iter().filter(|device| device.scheduler.algorithm == spec.name);
    let at_work = at_work.map(|device| format!("{} ({})", device.name, state(&device.scheduler)));
    let at_work: Vec<String> = at_work.collect();
    if !at_work.is_empty() {
        let _ = writeln!(text, "  at work on {}", at_work.join(", "));
    }
    if !spec.params.is_empty() {
        let mut params = table(["parameter", "unit", "min", "default", "max", "what it does"]);
        for param in &spec.params {
            params.add_row([
                Cell::new(&param.name),
                Cell::new(&param.unit),
                right(param.min),
                right(param.default),
                right(param.max),
                Cell::new(&param.doc),
            ]);
        }
        text.push_str(&finish(&params, 2));
    }
    if !spec.counters.is_empty() {
        let mut counters = table(["counter", "what it counts"]);
        for counter in &spec.counters {
            counters.add_row([&counter.name, &counter.doc]);
        }
        text.push_str(&finish(&counters, 2));
    }
    text
}

/// A device after a change: what is in force.
pub fn in_force(device: &DeviceReport) -> String {
    let scheduler = &device.scheduler;
    let state = state(scheduler);
    let params = pairs(&scheduler.params);
    let params = if params.is_empty() { params } else { format!(": {params}") };
    folded(&format!("{}: scheduler {} ({state}){params}", device.name, scheduler.algorithm))
}

/// How the scheduler came to be at work, and what it takes the disk for.
fn state(SchedulerReport { inserted, auto, disk, failed, .. }: &SchedulerReport) -> String {
    if let Some(FailedReport { name, .. }) = failed {
        return format!("in the place of {name}, which failed");
    }
    match scheduler_words(*inserted, *auto, disk.as_ref()) {
        words if words.is_empty() => "in the place of one that failed".into(),
        words => words,
    }
}

/// A device as it stands.
pub fn device(device: &DeviceReport) -> String {
    let mut text = format!("{}\n", title(device));
    let mut line = |name: &str, value: String| text.push_str(&named_line(name, &value));
    let scheduler = &device.scheduler;
    line("scheduler", format!("{} ({})", scheduler.algorithm, state(scheduler)));
    if let Some(FailedReport { text, age_ns, .. }) = &scheduler.failed {
        line("failed", format!("{} ago: {text}", time(*age_ns)));
    }
    if !scheduler.params.is_empty() {
        line("parameters", pairs(&scheduler.params));
    }
    if !scheduler.counters.is_empty() {
        line("counters", pairs(&scheduler.counters));
    }
    if let Some(below) = &device.below {
        line("below", below_words(below));
    }
    if let Some(remote) = &device.remote {
        line("remote", remote_words(remote));
    }
    line("pace", paced(device));
    line("window", windowed(device));
    let queue = &device.queue;
    line(
        "now",
        format!(
            "{} waiting for a slot, {} queued, {} of {} at the disk; slots {}; reason: {}",
            queue.waiting_count,
            queue.queued_count,
            queue.in_flight_count,
            queue.window_depth,
            queue.nr_requests,
            match Reason::find(&queue.reason) {
                Some(reason) => reason_word(reason),
                None => &queue.reason,
            }
        ),
    );
    line(
        "totals",
        format!(
            "{} submitted, {} finished, {} refused; page cache: {} reads, {} writes",
            queue.submitted_count,
            queue.finished_count,
            queue.refused_count,
            device.cached_reads_count,
            device.buffered_writes_count
        ),
    );
    line("time spent", stages(device));
    line("exchanges", exchanges(device));
    text.push_str(&directions(device));
    text.push_str(&events(device));
    text
}

/// The kernel's part.
fn below_words(DiskBelowReport { disk, scheduler, classes }: &DiskBelowReport) -> String {
    match scheduler.as_deref() {
        Some(name) if *classes => format!("{disk}, the kernel's {name}: goes by classes as well"),
        Some("none") => format!("{disk}, no scheduler of the kernel"),
        Some(name) => format!("{disk}, the kernel's {name}: classes are nothing to it"),
        None => disk.clone(),
    }
}

/// The connection to another server.
fn remote_words(remote: &RemoteReport) -> String {
    let since = time(remote.since_ns);
    let mut text = match remote.connected {
        true => format!("connected for {since}"),
        false => format!("no connection for {since} ({})", remote.trouble),
    };
    let (waiting, reconnects) = (remote.waiting_count, remote.reconnects_count);
    let _ = write!(text, ", {waiting} requests there, {reconnects} reconnects");
    if remote.unflushed_bytes > 0 {
        let _ = write!(text, ", {} written and not flushed", size(remote.unflushed_bytes));
    }
    text
}

/// In short; `iopace pace status` has more.
fn paced(device: &DeviceReport) -> String {
    let Some(pace) = &device.pace else { return "nothing: the page cache is bypassed".into() };
    let (dirty, limit) = (size(pace.picture.dirty_bytes), size(pace.picture.limit_bytes));
    format!("{}; {dirty} of {limit} dirty, {} writes wait", pace.policy, pace.waiting_count)
}

/// In short; `iopace window status` has more.
fn windowed(device: &DeviceReport) -> String {
    let window = &device.window;
    let (depth, write_back) = (window.depth, window.write_back_depth);
    let why = window.narrowed_words().map_or(String::new(), |why| format!(" ({why})"));
    format!("{}; {depth} requests{why}, {write_back} of write-back", window.policy)
}

fn title(device: &DeviceReport) -> String {
    let behind = match (&device.model, &device.path) {
        (Some(model), Some(path)) => format!("{model}, kept in {path}"),
        (Some(model), None) => format!("{model}, in memory"),
        (None, path) => {
            let uri = device.remote.as_ref().map(|remote| &remote.uri);
            path.as_ref().or(uri).cloned().unwrap_or_default()
        }
    };
    let mut flags = String::new();
    for (on, flag) in [(device.read_only, ", read-only"), (device.direct, ", direct")] {
        flags.push_str(if on { flag } else { "" });
    }
    let size = device.size_bytes.map_or(String::new(), |bytes| format!(", {}", size(bytes)));
    format!("{}: {} ({behind}){size}{flags}, by {}", device.name, device.kind, device.io_engine)
}

fn stages(device: &DeviceReport) -> String {
    let stages = &device.stages;
    let all = [
        ("pace", stages.pace_ns),
        ("slot", stages.admit_ns),
        ("scheduler", stages.sched_ns),
        ("window", stages.window_ns),
        ("disk", stages.disk_ns),
    ];
    let sum: u128 = all.iter().map(|(_, ns)| u128::from(*ns)).sum();
    if sum == 0 {
        return "none yet".into();
    }
    let parts = all.iter().map(|(name, ns)| {
        // Whole percents, rounded to the nearest.
        let percent = (u128::from(*ns) * 200 + sum) / (2 * sum);
        format!("{name} {percent} %")
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn exchanges(device: &DeviceReport) -> String {
    let TimesReport { count, p50_ns, p99_ns, max_ns, .. } = device.hold_up;
    let failed = match device.failed_over_count {
        0 => String::new(),
        failed => format!("; {failed} failed and were replaced by fifo"),
    };
    let held = match count {
        0 => String::new(),
        _ => format!(
            "; dispatch held up p50 {}, p99 {}, max {}",
            time(p50_ns),
            time(p99_ns),
            time(max_ns)
        ),
    };
    format!("{}{held}{failed}", device.exchanged_count)
}

fn directions(device: &DeviceReport) -> String {
    let all = [("read", &device.read), ("write", &device.write), ("flush", &device.flush)];
    if all.iter().all(|(_, direction)| direction.finished_count == 0) {
        return String::new();
    }
    let mut rows = table(["requests", "finished", "failed", "bytes", "mean", "p50", "p99", "max"]);
    for (name, direction) in all {
        let latency = &direction.latency;
        rows.add_row([
            Cell::new(name),
            right(direction.finished_count),
            right(direction.failed_count),
            right(size(direction.bytes)),
            right(time(latency.mean_ns)),
            right(time(latency.p50_ns)),
            right(time(latency.p99_ns)),
            right(time(latency.max_ns)),
        ]);
    }
    finish(&rows, 2)
}

fn events(device: &DeviceReport) -> String {
    let mut text = String::new();
    for event in device.events.iter().rev().take(EVENTS_SHOWN) {
        text.push_str(&folded(&format!("  {} ago: {}", time(event.age_ns), event.text)));
    }
    text
}

fn pairs(values: &BTreeMap<String, u64>) -> String {
    let pairs: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join(" ")
}
