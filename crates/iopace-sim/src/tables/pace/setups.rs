//! The loads of the table, row by row, and how each is turned into figures.
//!
//! Where only writers use memory, the page cache is as large as the dirty limit: pages that are
//! clean are in nobody's way and are not read.

use super::VARIANTS;
use super::measure::{
    cov_max, down, empty_seconds, jain_min, max_ms, measured, of, p99_ms, range, seconds, spread,
    starved, up,
};
use crate::fleet::{self, Division};
use crate::look::Look;
use crate::milli::Milli;
use crate::report::RunReport;
use crate::run::run_traced as run;
use crate::scenario::{Memory, Scenario};
use crate::task::{Files, Task, TaskKind};
use crate::trace::RunTrace;
use iopace_core::pace::{self, Thresholds};
use iopace_core::request::Extent;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::{Bytes, BytesPerSec};
use iopace_core::window;

/// Figures of one row under one variant.
pub type SetupOutcome = Vec<(&'static str, Milli)>;

/// The 7200 rpm disk.
pub const HDD: &str = "hdd-sata-250g";
/// A flash disk: ten thousand writers of a page per 200 ms are 205 MB/s.
pub const SSD: &str = "ssd-sata";
/// A file server that completes writes in bursts.
pub const NFS: &str = "nfs-gigabit";
/// A stick.
pub const KEY: &str = "usb-key";

/// What a write-only row runs before its steady figures count.
pub(super) const WARMUP: Nanos = Nanos::from_secs(10);

/// Between two looks.
const LOOK: Nanos = Nanos::from_millis(10);

/// The link of the row `rsync`: the fastest second of the source's rsync brought 3.23 MB.
pub const LINK: BytesPerSec = BytesPerSec(3_230_000);

/// A second of the source's rsync with less than this counts as empty, and it lists so many.
const EMPTY: u64 = 1_000;
const SECONDS: u64 = 23;

/// Runs of the row `rsync`, each with a seed of its own.
const SEEDS: u32 = 5;

/// Which rows to begin with: about what their runs take, in tenths of a second.
pub(super) fn effort(row: &str) -> u32 {
    match row {
        "jbod" => 100,
        "disks-10" => 60,
        "writers-10000" => 50,
        "write-cost" => 30,
        "rewrite" | "group-cap" | "group-weights" => 10,
        _ => 1,
    }
}

/// Carries out a row under a variant.
///
/// # Panics
/// If there is no such row or variant.
pub fn outcome(row: &str, variant: usize, seed: u64) -> SetupOutcome {
    let setup = Setup { row: row.into(), variant, seed };
    match row {
        "rsync" => setup.rsync(),
        "writers-10" => setup.writers_10(),
        "writers-1000" => setup.many(HDD, 1_000, Nanos::from_secs(30)),
        "writers-10000" => setup.many(SSD, 10_000, Nanos::from_secs(15)),
        "write-cost" => setup.write_cost(),
        "pause-5ms" => setup.pause_5ms(),
        "ramp" => setup.ramp(),
        "jbod" => setup.jbod(),
        "disks-10" => setup.disks_10(),
        "nfs" => setup.nfs(),
        "usb-beside-disk" => setup.usb(),
        "low-ratio" => setup.low_ratio(),
        "writers-count" => setup.writers_count(),
        "rewrite" => setup.rewrite(),
        "group-cap" => setup.group_cap(),
        "group-weights" => setup.group_weights(),
        "reader-frames" => setup.reader_frames(),
        _ => panic!("no row '{row}'"),
    }
}

/// Dirty thresholds of 10 and 20 percent of so many GiB.
pub(super) fn thresholds(gib: u64) -> Thresholds {
    Thresholds::of_memory(Bytes(gib << 30), 10, 20)
}

/// `count` tasks of a kind, each in a region of its own, one behind the other.
pub(super) fn tasks(kind: TaskKind, count: u64, first: u64, region_mib: u64) -> Vec<Task> {
    let task = |index: u64| {
        let len = Bytes::from_mib(region_mib);
        let region = Extent::new(Bytes((first + index) * len.0), len).expect("far below 2^64");
        Task::new(&format!("{}-{index:05}", kind.name()), kind, region)
    };
    (0..count).map(task).collect()
}

/// One row under one variant.
pub(super) struct Setup {
    row: String,
    pub(super) variant: usize,
    seed: u64,
}

impl Setup {
    pub(super) fn scenario(
        &self,
        disk: &str,
        dirty: Thresholds,
        seconds: u64,
        tasks: Vec<Task>,
    ) -> Scenario {
        let (_, pace, window) = VARIANTS[self.variant];
        Scenario {
            seed: self.seed,
            duration: Nanos::from_secs(seconds),
            warmup: WARMUP.min(Nanos::from_secs(seconds / 2)),
            memory: Some(Memory {
                size: dirty.limit,
                dirty_background: dirty.background,
                dirty_limit: dirty.limit,
                ..Memory::default()
            }),
            pace: pace::find(pace).expect("a policy of the registry"),
            window: window::find(window).expect("a policy of the registry"),
            tasks,
            keeps_timeline: true,
            ..Scenario::new(&self.row, disk)
        }
    }

    /// How memory is divided among several disks.
    fn division(&self) -> Division {
        if self.variant == 0 { Division::Undivided } else { Division::Domain }
    }

    /// 50 dd and an rsync from a remote machine on one disk, 4 GiB: mean of [`SEEDS`] runs, and the
    /// longest pause of all. Whom the old scheme stops is luck.
    fn rsync(&self) -> SetupOutcome {
        let runs: Vec<SetupOutcome> = (0..SEEDS).map(|number| self.rsync_once(number)).collect();
        let over = |place: usize, name| {
            let values = runs.iter().map(|run: &SetupOutcome| run[place].1.0);
            match name {
                "pause_max_ms" => Milli(values.max().unwrap_or_default()),
                _ => Milli(values.sum::<i64>() / i64::from(SEEDS)),
            }
        };
        runs[0].iter().enumerate().map(|(place, (name, _))| (*name, over(place, *name))).collect()
    }

    fn rsync_once(&self, number: u32) -> SetupOutcome {
        let mut all = tasks(TaskKind::DdWrite, 50, 1, 512);
        let [rsync] = &tasks(TaskKind::Rsync, 1, 0, 512)[..] else { unreachable!("one task") };
        all.push(Task { link: LINK, ..rsync.clone() });
        let seed = self.seed.wrapping_add(u64::from(number));
        let scenario = Scenario { seed, ..self.scenario(HDD, thresholds(4), 60, all) };
        let (report, trace) = run(&scenario, None);
        let rsync = &report.tasks["rsync-00000"];
        let rate = down(u128::from(rsync.bytes), u128::from(measured(&report)));
        let (end, second) = (Nanos::from_secs(60), Nanos::from_secs(1));
        vec![
            ("bytes_s", rate),
            ("empty_s", empty_seconds(rsync, WARMUP, end, EMPTY, SECONDS)),
            ("cov_1s", cov_max(&[rsync], WARMUP, end, second)),
            ("pause_p99_ms", p99_ms(&trace.portion_pauses)),
            ("pause_max_ms", max_ms(&trace.portion_pauses)),
        ]
    }

    /// 10 dd on one disk, 4 GiB.
    fn writers_10(&self) -> SetupOutcome {
        let all = tasks(TaskKind::DdWrite, 10, 0, 4_096);
        let (report, trace) = run(&self.scenario(HDD, thresholds(4), 60, all), None);
        let (tasks, end) = (of(&report, "dd"), Nanos::from_secs(60));
        vec![
            ("pause_p99_ms", p99_ms(&trace.portion_pauses)),
            ("jain_5s_min", jain_min(&tasks, Nanos::ZERO, end, Nanos::from_secs(5))),
            ("spread_60s", spread(&tasks, Nanos::ZERO, end)),
            ("cov_1s", cov_max(&tasks, WARMUP, end, Nanos::from_secs(1))),
        ]
    }

    /// So many dd on one disk, 8 GiB.
    fn many(&self, disk: &str, count: u64, duration: Nanos) -> SetupOutcome {
        let seconds = duration.0 / 1_000_000_000;
        let all = tasks(TaskKind::DdWrite, count, 0, 64);
        let (report, trace) = run(&self.scenario(disk, thresholds(8), seconds, all), None);
        vec![
            ("pause_max_ms", max_ms(&trace.portion_pauses)),
            ("starved", starved(&of(&report, "dd"), Nanos::ZERO, duration)),
        ]
    }

    /// 10 dd on an idle disk, 4 GiB: from nothing to where dirty memory is to settle, which it
    /// nears by less and less: to within 5 percent.
    fn ramp(&self) -> SetupOutcome {
        let all = tasks(TaskKind::DdWrite, 10, 0, 4_096);
        // The old scheme takes its time.
        let length = if self.variant == 0 { 300 } else { 10 };
        let (_, trace) = run(&self.scenario(HDD, thresholds(4), length, all), Some(LOOK));
        // Halfway between limit and free-run mark, which is halfway between limit and background.
        let setpoint = thresholds(4).limit.0 / 8 * 7 / 100 * 95;
        let there = trace.looks.iter().find(|look| look.pace.dirty.0 >= setpoint);
        let ramp = there.map(|look| seconds(look.at.since(Instant::ZERO)));
        ramp.map(|ramp| ("ramp_s", ramp)).into_iter().collect()
    }

    /// Ten flash disks with 100 dd each, 64 GiB.
    fn jbod(&self) -> SetupOutcome {
        let all = thresholds(64);
        let own = Thresholds::new(Bytes(all.background.0 / 10), Bytes(all.limit.0 / 10));
        let scenario = self.scenario(SSD, own, 6, tasks(TaskKind::DdWrite, 100, 0, 1_024));
        let report = fleet::run(&vec![scenario; 10], all, self.division(), None);
        let busy = report.members.iter().map(|(member, _)| member.disk_use.busy);
        vec![("busy_min", busy.min().unwrap_or_default())]
    }

    /// Ten hard disks with 32 dd each, 6 GiB.
    fn disks_10(&self) -> SetupOutcome {
        let all = thresholds(6);
        let own = Thresholds::new(Bytes(all.background.0 / 10), Bytes(all.limit.0 / 10));
        let scenario = self.scenario(HDD, own, 30, tasks(TaskKind::DdWrite, 32, 0, 4_096));
        let report = fleet::run(&vec![scenario; 10], all, self.division(), Some(LOOK));
        let busy = report.members.iter().map(|(member, _)| member.disk_use.busy);
        let pauses = report.members.iter().map(|(_, trace)| max_ms(&trace.portion_pauses));
        vec![
            ("busy_min", busy.min().unwrap_or_default()),
            ("pause_max_ms", pauses.max().unwrap_or_default()),
        ]
    }

    /// One dd to a file server, 3 GiB. Write-back has as much on its way as the server takes before
    /// it commits: eight requests of 8 MiB.
    fn nfs(&self) -> SetupOutcome {
        let all = tasks(TaskKind::DdWrite, 1, 0, 16_384);
        let mut scenario = self.scenario(NFS, thresholds(3), 60, all);
        scenario.memory.as_mut().expect("it has").write_back_len = Bytes::from_mib(8);
        let (_, trace) = run(&scenario, None);
        vec![("pause_max_ms", max_ms(&trace.portion_pauses))]
    }

    /// A dd to a disk and one to a stick, 3 GiB for both. They begin at once after some quiet time,
    /// and the stick reports what it wrote first: the order in which it could get most.
    fn usb(&self) -> SetupOutcome {
        let (all, begin) = (thresholds(3), Instant::ZERO + WARMUP);
        let dd = || {
            let mut dd = tasks(TaskKind::DdWrite, 1, 0, 14_000);
            dd[0].start = begin;
            dd
        };
        // The old scheme takes its time.
        let length = if self.variant == 0 { 600 } else { 90 };
        let disk = self.scenario(HDD, all, length, dd());
        let key = self.scenario(KEY, all, length, dd());
        let alone = fleet::run(std::slice::from_ref(&disk), all, self.division(), None);
        let both = fleet::run(&[key, disk], all, self.division(), Some(LOOK));
        let rate = |report: &RunReport| u128::from(report.tasks["dd-write-00000"].bytes);
        let [(_, key), (beside, disk)] = &both.members[..] else { unreachable!("two members") };
        // Its share is what it may have at the end, when all is settled.
        let share = |look: &Look| match self.variant {
            0 => look.pace.setpoint.0,
            _ => look.pace.limit.0,
        };
        let own = key.looks.last().map_or(0, share);
        let above = key.looks.iter().rev().find(|look| look.pace.dirty.0 > own);
        let settled = above.map_or(Milli(0), |look| seconds(look.at.since(begin)));
        let sums = disk.looks.iter().zip(&key.looks).map(|(a, b)| a.pace.dirty + b.pace.dirty);
        let over = sums.max().map_or(0, |most| most.0.saturating_sub(all.limit.0));
        vec![
            ("disk_share", down(rate(beside), rate(&alone.members[0].0))),
            ("key_settle_s", settled),
            ("over_limit_bytes", up(u128::from(over), 1)),
        ]
    }

    /// 10 dd on one disk, of 3 GiB 1 and 2 percent.
    fn low_ratio(&self) -> SetupOutcome {
        let (busy, fluctuation) = self.fluctuation(10);
        vec![("busy", busy), ("fluctuation_s", fluctuation)]
    }

    /// The same with one, ten and a hundred dd.
    fn writers_count(&self) -> SetupOutcome {
        let of = |count| self.fluctuation(count).1;
        vec![
            ("fluctuation_1_s", of(1)),
            ("fluctuation_10_s", of(10)),
            ("fluctuation_100_s", of(100)),
        ]
    }

    /// Of so many dd on one disk, with 1 and 2 percent of 3 GiB: how busy the disk is, and by how
    /// much of what it writes in a second dirty memory moves.
    fn fluctuation(&self, count: u64) -> (Milli, Milli) {
        let dirty = Thresholds::of_memory(Bytes(3 << 30), 1, 2);
        let all = tasks(TaskKind::DdWrite, count, 0, 4_096.min(204_800 / count));
        let (report, trace) = run(&self.scenario(HDD, dirty, 60, all), Some(LOOK));
        let (least, most) = range(steady(&trace).map(|look| look.pace.dirty.0));
        // Thousandths of 1 MB/s are 1000 B/s.
        let rate = u128::from(report.disk_use.mb_s.0.unsigned_abs()) * 1_000;
        (report.disk_use.busy, up(u128::from(most - least), rate))
    }

    /// 4 logs that grow by 1 KiB at a time, and one block of 1 KiB that is rewritten, 1 GiB: what
    /// stage pace has counted over what went to the disk. The old scheme has no such count.
    fn rewrite(&self) -> SetupOutcome {
        let mut all = tasks(TaskKind::Append, 4, 1, 4_096);
        all.extend(tasks(TaskKind::Rewrite, 1, 0, 4_096));
        let scenario = self.scenario(HDD, thresholds(1), 30, all);
        let (report, trace) = run(&scenario, Some(LOOK));
        let counted: Vec<u64> = steady(&trace).map(|look| look.pace.dirty_rate.0).collect();
        let mean = counted.iter().sum::<u64>() / (counted.len() as u64).max(1);
        let written = report.disk_use.mb_s.0.unsigned_abs() * 1_000;
        let factor = Milli::ratio(u128::from(mean), u128::from(written)).unwrap_or_default();
        if self.variant == 0 { Vec::new() } else { vec![("count_factor", factor)] }
    }

    /// Postmark with a pool that takes 60 percent of 1 GiB and is in memory, alone and beside a dd.
    fn reader_frames(&self) -> SetupOutcome {
        let files = Files { count: 80_000, ..postmark().files };
        let reader = Task { files, warm: true, ..postmark() };
        let dd = tasks(TaskKind::DdWrite, 1, 4, 16_384);
        let hits = |tasks: Vec<Task>| {
            let mut scenario = self.scenario(HDD, thresholds(1), 40, tasks);
            scenario.memory.as_mut().expect("it has").size = Bytes(1 << 30);
            let (report, _) = run(&scenario, None);
            let task = &report.tasks["postmark"];
            (u128::from(task.cached), u128::from(task.ops))
        };
        let (alone, all_alone) = hits(vec![reader.clone()]);
        let (beside, all_beside) = hits([vec![reader], dd].concat());
        vec![("hit_rate_ratio", down(beside * all_alone, alone * all_beside))]
    }
}

fn postmark() -> Task {
    let region = Extent::new(Bytes(0), Bytes(32 << 30)).expect("far below 2^64");
    Task::new("postmark", TaskKind::Postmark, region)
}

/// Looks at what is steady.
fn steady(trace: &RunTrace) -> impl Iterator<Item = &Look> {
    trace.looks.iter().filter(|look| look.at > Instant::ZERO + WARMUP)
}
