//! Commits of a database beside bulk I/O on one disk, nobody having set anything.
//!
//! # Model
//! The database writes 4 KiB to its log and flushes, again and again: at once after each other
//! (100 us apart), or with 20 ms between them, as a service with little to do. The bulk is what
//! backups and copies do: [`MIXES`]. Both are in the root group; in the variant `fair-idle` the
//! bulk is of class idle, as under `ionice -c3`. All I/O is direct.
//!
//! *commits* and *bulk* are rates in the mix over those of the same program alone under `none`,
//! *sum* is that of both. `none` is one queue in C-LOOK order, as much at the disk as it takes.
//!
//! *Bounds* are for the recommended scheduler, `fair`: see [`bound`].
//!
//! # Limits
//! A flush of the model makes all durable that was written before, by whomever; its disk with a
//! head goes on reading beside it, which disks do not.
//!
//! # Sources
//! Commits that starve beside bulk I/O: k3s#6604, k3s#14479, etcd#22013. The database: see
//! [`Database`].

use super::{Bound, TableRow};
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{Chosen, DEVICE, Scenario};
use crate::task::{Database, Task, TaskKind};
use iopace_core::request::{Extent, GroupId};
use iopace_core::sched::find;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

/// The name of the table.
pub const TABLE: &str = "commits";

/// The variants: without a scheduler, two with shares, and with the bulk in class idle.
pub const VARIANTS: [&str; 4] = ["none", "rr", "fair", "fair-idle"];

/// A bulk program beside the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitMix {
    kind: TaskKind,
    block: Bytes,
    depth: u32,
    writes: bool,
}

/// The bulk programs: copies that read, and that write, and a scan at random.
pub const MIXES: [CommitMix; 3] = [
    CommitMix { kind: TaskKind::Sequential, block: Bytes::from_kib(512), depth: 4, writes: false },
    CommitMix { kind: TaskKind::Sequential, block: Bytes::from_kib(512), depth: 4, writes: true },
    CommitMix { kind: TaskKind::Random, block: Bytes::from_kib(16), depth: 64, writes: false },
];

/// The figures: name and unit.
pub const FIGURES: [(&str, &str); 6] = [
    ("commits", "of alone"),
    ("bulk", "of alone"),
    ("sum", "of alone"),
    ("spaced_commits", "of alone"),
    ("spaced_p99", "of alone"),
    ("bulk_beside_spaced", "of alone"),
];

/// The name of the row of each mix on each disk.
macro_rules! rows {
    ($($disk:literal),+) => {
        [$(($disk, [
            concat!($disk, " reading"),
            concat!($disk, " writing"),
            concat!($disk, " random-64"),
        ])),+]
    };
}

/// A disk, and the names of its rows in the order of [`MIXES`].
pub type Disk = (&'static str, [&'static str; 3]);

/// The disks.
pub const DISKS: [Disk; 4] = rows!["hdd-sata-250g", "hdd-sata-250g-ncq", "ssd-sata", "ssd-nvme"];

/// Who is on the disk: a database with such a time between two commits, the bulk, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CommitPrograms {
    think: Option<Nanos>,
    has_bulk: bool,
}

/// Time between two commits: the processor's part of a small one, and a service's with little to
/// do.
const THINK: [Nanos; 2] = [Nanos::from_micros(100), Nanos::from_millis(20)];

/// The scenario of a cell.
fn scenario(
    disk: &'static str,
    mix: &CommitMix,
    variant: &str,
    who: CommitPrograms,
    seed: u64,
) -> Scenario {
    let mut scenario = Scenario::new("commits beside bulk I/O", disk);
    scenario.seed = seed;
    scenario.duration = super::rivals::duration(disk);
    scenario.warmup = Nanos(scenario.duration.0 / 5);
    let gib = |at: u64, len: u64| Extent::new(Bytes(at << 30), Bytes(len << 30)).expect("small");
    let (name, is_idle) = match variant {
        "fair-idle" => ("fair", true),
        name => (name, false),
    };
    scenario.scheduler = find(name).map(Chosen::defaults);
    let mut bulk = GroupId::ROOT;
    if is_idle {
        bulk = scenario.groups.create("/bulk").expect("a new name");
        let groups = &mut scenario.groups;
        groups.write(bulk, "io.ioprio_class", "3", &[DEVICE]).expect("a legal line");
    }
    if let Some(think) = who.think {
        let database = Database { reads: 0, checkpoint_pages: 0, ..Database::default() };
        let database = Database { record: Bytes::from_kib(4), flushes: true, ..database };
        let task = Task::new("db", TaskKind::Database, gib(0, 2));
        scenario.tasks.push(Task { think, database, ..task });
    }
    if who.has_bulk {
        let CommitMix { kind, block, depth, writes } = *mix;
        let write_percent = if writes { 100 } else { 0 };
        let task = Task::new("bulk", kind, gib(8, 8));
        scenario.tasks.push(Task { group: bulk, block, depth, write_percent, ..task });
    }
    scenario
}

/// Commits a second, their 99th percentile, and requests of the bulk a second.
fn rates(report: &RunReport) -> [Milli; 3] {
    let commits = report.tasks.get("db").and_then(|task| task.commits.as_ref());
    let bulk = report.tasks.get("bulk").map(|task| task.ops_s);
    let p99 = commits.map(|commits| commits.latency.p99_ms);
    let commits = commits.map(|commits| commits.per_s);
    [commits.unwrap_or_default(), p99.unwrap_or_default(), bulk.unwrap_or_default()]
}

/// What a figure has to meet: nobody is starved, and spaced commits hardly notice the bulk.
pub fn bound(variant: &str, figure: &str) -> Option<Bound> {
    let bound = match (variant, figure) {
        ("fair", "commits") => Bound::AtLeast(Milli(450)),
        ("fair", "sum") => Bound::AtLeast(Milli(900)),
        ("fair", "spaced_commits") => Bound::AtLeast(Milli(800)),
        ("fair", "spaced_p99") => Bound::AtMost(Milli(2_000)),
        ("fair-idle", "spaced_commits") => Bound::AtLeast(Milli(900)),
        _ => return None,
    };
    Some(bound)
}

/// The figures of one row under one variant, in the order of [`FIGURES`]: of both programs and of
/// each alone, with little time between two commits and with more.
fn figures(alone: &[RunReport], mixed: &[RunReport]) -> [Milli; 6] {
    let [bulk_alone, dense_alone, spaced_alone] = [0, 1, 2].map(|at| rates(&alone[at]));
    let [dense, spaced] = [0, 1].map(|at| rates(&mixed[at]));
    let part = |rate: Milli, alone: Milli| rate.over(alone).unwrap_or_default();
    let (commits, bulk) = (part(dense[0], dense_alone[0]), part(dense[2], bulk_alone[2]));
    [
        commits,
        bulk,
        Milli(commits.0 + bulk.0),
        part(spaced[0], spaced_alone[0]),
        part(spaced[1], spaced_alone[1]),
        part(spaced[2], bulk_alone[2]),
    ]
}

/// The whole table, or the rows of some disks and variants: one entry per figure.
///
/// # Panics
/// If there is no such disk or variant: [`DISKS`] and [`VARIANTS`] have them all.
pub fn commits(seed: u64, disks: &[Disk], variants: &[&'static str]) -> Vec<TableRow> {
    let [dense, spaced] = THINK.map(Some);
    let mut cells = Vec::new();
    for (disk, names) in disks {
        for (mix, name) in MIXES.iter().zip(names) {
            let alone = [(None, true), (dense, false), (spaced, false)];
            let cell =
                |(think, has_bulk)| (*disk, *name, mix, "none", CommitPrograms { think, has_bulk });
            cells.extend(alone.map(cell));
            for variant in variants {
                let both = [dense, spaced].map(|think| CommitPrograms { think, has_bulk: true });
                cells.extend(both.map(|who| (*disk, *name, mix, *variant, who)));
            }
        }
    }
    let reports = parallel::map(&cells, |(disk, _, mix, variant, who)| {
        run(&scenario(disk, mix, variant, *who, seed))
    });
    let mut rows = Vec::new();
    let lines = 3 + 2 * variants.len();
    for (cells, reports) in cells.chunks(lines).zip(reports.chunks(lines)) {
        let (alone, mixed) = reports.split_at(3);
        for (cell, mixed) in cells[3..].chunks(2).zip(mixed.chunks(2)) {
            let (_, row, _, variant, _) = cell[0];
            for ((figure, unit), value) in FIGURES.into_iter().zip(figures(alone, mixed)) {
                let bound = bound(variant, figure);
                let holds = bound.map(|bound| bound.holds(value, value));
                let (table, source, bound) = (TABLE, None, bound.map(Bound::text));
                rows.push(TableRow {
                    table,
                    row,
                    variant,
                    figure,
                    unit,
                    source,
                    value,
                    bound,
                    holds,
                });
            }
        }
    }
    rows
}
