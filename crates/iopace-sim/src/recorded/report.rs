//! Recorded and replayed latencies beside each other.

use super::format::{RecordingFile, Request};
use crate::milli::Milli;
use iopace_core::time::Nanos;
use serde::Serialize;
use std::collections::BTreeMap;

/// A replay is to be within so many percent of the recording.
const AIM: Milli = Milli(10_000);

/// With fewer requests a 99th percentile is the time of one request.
const FEW: u64 = 100;

/// When a request came and ended in a replay, since its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When it came.
    pub came: Nanos,
    /// When it ended.
    pub ended: Nanos,
}

/// The figures of some requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// How many ended.
    pub requests: u64,
    /// Per second.
    pub per_s: Milli,
    /// Mean latency.
    pub mean_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
}

/// Those of a task or a group, recorded and replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportRow {
    /// `all`, `group` or `task`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Live.
    pub recorded: Figures,
    /// In the replay.
    pub replayed: Figures,
    /// How far the replay is off, in percent.
    pub off_percent: Off,
    /// Whether rate, mean and 99th percentile are within 10 %.
    pub within_aim: bool,
}

/// How far a replay is off, in percent; none where nothing was recorded or too little to say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Off {
    /// Of the rate.
    pub per_s: Option<Milli>,
    /// Of the mean latency.
    pub mean: Option<Milli>,
    /// Of the median.
    pub p50: Option<Milli>,
    /// Of the 99th percentile.
    pub p99: Option<Milli>,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file.
    pub file: String,
    /// The device that was recorded.
    pub device: String,
    /// The scheduler of the recording.
    pub recorded_scheduler: String,
    /// The disk of the replay.
    pub disk: String,
    /// Its scheduler.
    pub scheduler: String,
    /// Its policy of stage window.
    pub window: String,
    /// How long was recorded.
    pub length_ns: u64,
    /// The part of it that is compared: requests that came within so long.
    pub compared_ns: u64,
    /// How late the daemon noticed completions, on average: taken over. None of a disk that is not
    /// the recorded model.
    pub late_ns: Option<u64>,
    /// Requests for which there was no room in the recording.
    pub left_out: u64,
    /// Whether the file ends before its recording did.
    pub cut_off: bool,
    /// All, then groups, then tasks, those with the most requests first.
    pub rows: Vec<ReportRow>,
}

/// The outcome of a replay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replayed<'a> {
    /// By place in the file; none for what was not served, or not asked for.
    pub(super) times: &'a [Option<Times>],
    /// Until then the load was the recorded one.
    pub(super) same_until: Nanos,
    /// How late completions were noticed.
    pub(super) late: Option<Nanos>,
}

#[derive(Default)]
struct Latencies {
    recorded: Vec<u64>,
    replayed: Vec<u64>,
}

/// The part that is compared: requests that came within so long, of recording and replay.
#[derive(Clone, Copy)]
struct Compared<'a> {
    file: &'a RecordingFile,
    times: &'a [Option<Times>],
    length: u64,
}

impl Report {
    pub(super) fn new(
        file: &RecordingFile,
        [disk, scheduler, window]: [&str; 3],
        replayed: &Replayed<'_>,
    ) -> Report {
        let length = compared(file, replayed.same_until);
        let compared = Compared { file, times: replayed.times, length };
        let groups = file.header.groups.iter();
        let groups: BTreeMap<u64, &str> = groups.map(|one| (one.number, &*one.path)).collect();
        let tasks = file.tasks.iter();
        let tasks: BTreeMap<u64, &str> = tasks.map(|(number, name)| (*number, &**name)).collect();
        let all = BTreeMap::from([(0, "all")]);
        let mut rows = compared.rows("all", |_| 0, &all);
        rows.extend(compared.rows("group", |one| one.group, &groups));
        rows.extend(compared.rows("task", |one| one.task, &tasks));
        Report {
            file: file.name.clone(),
            device: file.header.device.name.clone(),
            recorded_scheduler: file.header.scheduler.name.clone(),
            disk: disk.into(),
            scheduler: scheduler.into(),
            window: window.into(),
            length_ns: file.length_ns(),
            compared_ns: length,
            late_ns: replayed.late.map(Nanos::as_nanos),
            left_out: file.end.map_or(0, |end| end.left_out_count),
            cut_off: file.end.is_none(),
            rows,
        }
    }
}

/// How much of the recording is compared. Requests that had not ended when it did are not in the
/// file, so those that came shortly before had less beside them in the replay: as long as twice
/// what the slowest task waited, but not more than half of it, is left away at the end.
fn compared(file: &RecordingFile, same_until: Nanos) -> u64 {
    let mut by_task: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for one in file.requests.iter().filter(|one| one.is_of_client()) {
        by_task.entry(one.task).or_default().push(latency(one));
    }
    let slowest = by_task.into_values().map(|all| figures(1, all).p99_ns).max().unwrap_or(0);
    let length = file.length_ns().min(same_until.as_nanos());
    length - slowest.saturating_mul(2).min(length / 2)
}

fn latency(one: &Request) -> u64 {
    (one.done_ns - one.arrived_ns).cast_unsigned()
}

impl Compared<'_> {
    /// A row for each number, named by these names.
    fn rows(
        &self,
        kind: &'static str,
        number: impl Fn(&Request) -> u64,
        names: &BTreeMap<u64, &str>,
    ) -> Vec<ReportRow> {
        let mut all: BTreeMap<u64, Latencies> = BTreeMap::new();
        // What came before the recording had waited already.
        let is_compared = |one: &Request| one.is_of_client() && one.arrived_ns >= 0;
        let requests = self.file.requests.iter().zip(self.times);
        for (one, times) in requests.filter(|(one, _)| is_compared(one)) {
            let latencies = all.entry(number(one)).or_default();
            if one.arrived_ns.cast_unsigned() < self.length {
                latencies.recorded.push(latency(one));
            }
            let replayed = times.filter(|times| times.came.as_nanos() < self.length);
            let replayed = replayed.map(|times| times.ended.0.saturating_sub(times.came.0));
            latencies.replayed.extend(replayed);
        }
        let rows = all.into_iter().map(|(number, latencies)| {
            let name = names.get(&number);
            let name = name.map_or_else(|| number.to_string(), |name| (*name).to_owned());
            row(kind, name, self.length, latencies)
        });
        let mut rows: Vec<ReportRow> = rows.collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.recorded.requests));
        rows
    }
}

fn row(kind: &'static str, name: String, length: u64, latencies: Latencies) -> ReportRow {
    let recorded = figures(length, latencies.recorded);
    let replayed = figures(length, latencies.replayed);
    let off_percent = off(&recorded, &replayed);
    let is_near = |off: Option<Milli>| off.is_none_or(|off| off.0.abs() <= AIM.0);
    let within_aim = [off_percent.per_s, off_percent.mean, off_percent.p99];
    let within_aim = within_aim.into_iter().all(is_near);
    ReportRow { kind, name, recorded, replayed, off_percent, within_aim }
}

fn figures(length: u64, mut latencies: Vec<u64>) -> Figures {
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |permille: usize| {
        let rank = (count * permille).div_ceil(1_000).saturating_sub(1);
        latencies.get(rank).copied().unwrap_or(0)
    };
    let sum: u128 = latencies.iter().map(|latency| u128::from(*latency)).sum();
    let mean = sum.checked_div(count as u128).unwrap_or(0);
    Figures {
        requests: count as u64,
        per_s: Milli::ratio(count as u128 * 1_000_000_000, length.into()).unwrap_or_default(),
        mean_ns: u64::try_from(mean).unwrap_or(u64::MAX),
        p50_ns: at(500),
        p99_ns: at(990),
    }
}

fn off(recorded: &Figures, replayed: &Figures) -> Off {
    let percent = |live: i128, again: i128| {
        (live > 0).then(|| (again - live) * 100_000 / live).and_then(|off| off.try_into().ok())
    };
    let of = |live: u64, again: u64| percent(live.into(), again.into()).map(Milli);
    let is_enough = recorded.requests >= FEW;
    Off {
        per_s: percent(recorded.per_s.0.into(), replayed.per_s.0.into()).map(Milli),
        mean: of(recorded.mean_ns, replayed.mean_ns),
        p50: of(recorded.p50_ns, replayed.p50_ns),
        p99: of(recorded.p99_ns, replayed.p99_ns).filter(|_| is_enough),
    }
}
