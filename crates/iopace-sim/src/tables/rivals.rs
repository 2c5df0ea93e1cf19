//! Two groups of equal weight on one disk: a small one that reads at random, one request at a time,
//! beside a big one of each kind.
//!
//! # Model
//! The small group's program reads 16 KiB anywhere in its quarter of the disk, one request at a
//! time, at once after each other: `small`. Or it thinks 100 ms after each: `light`, which needs
//! far less than its share. The big ones: see [`MIXES`]. All I/O is direct.
//!
//! *Share* is the rate in the mix over that of the same program alone under `none`; *sum* is that
//! of both shares. `none` is one queue in C-LOOK order, as much at the disk as it takes.
//!
//! *Bounds* are for the recommended scheduler, `fair`: what the small one must have whatever the
//! big one is, what the two may lose by changing places, and how soon the light one must be served.
//! Without a head nobody has to change places, so more is asked there.
//!
//! # Sources
//! The measures are those of isol-bench (Ren et al., IISWC 2025): fairness between two groups, and
//! what it costs in utilisation.

use super::{Bound, TableRow};
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{Chosen, Scenario};
use crate::task::{Task, TaskKind};
use iopace_core::request::{Extent, GroupId};
use iopace_core::sched::find;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_disk::presets;

/// The name of the table.
pub const TABLE: &str = "rivals";

/// Length of a run on this disk; the first fifth counts in no figure. An NVMe disk does in 5 s more
/// than the others in 20.
pub(super) fn duration(disk: &str) -> Nanos {
    Nanos::from_secs(if disk == "ssd-nvme" { 5 } else { 20 })
}

/// The variants: without a scheduler, and the two that give shares.
pub const VARIANTS: [&str; 3] = ["none", "rr", "fair"];

/// A big program beside the small one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalMix {
    kind: TaskKind,
    block: Bytes,
    depth: u32,
    /// Programs of that depth.
    programs: u32,
    writes: bool,
}

const fn mix(kind: TaskKind, kib: u64, depth: u32) -> RivalMix {
    RivalMix { kind, block: Bytes::from_kib(kib), depth, programs: 1, writes: false }
}

/// The big ones: a reader and a writer in sequence, one program with 64 random reads at a time, 64
/// programs with one each, and random writes; of the same sizes and depths as in measurements
/// beside the kernel's schedulers.
pub const MIXES: [RivalMix; 5] = [
    mix(TaskKind::Sequential, 128, 1),
    RivalMix { writes: true, ..mix(TaskKind::Sequential, 128, 4) },
    mix(TaskKind::Random, 16, 64),
    RivalMix { programs: 64, ..mix(TaskKind::Random, 16, 1) },
    RivalMix { writes: true, ..mix(TaskKind::Random, 16, 32) },
];

/// The figures: name and unit.
pub const FIGURES: [(&str, &str); 6] = [
    ("big", "of alone"),
    ("small", "of alone"),
    ("sum", "of alone"),
    ("small_p99_ms", "ms"),
    ("light_p99_ms", "ms"),
    ("big_beside_light", "of alone"),
];

/// The name of the row of each mix on each disk.
macro_rules! rows {
    ($($disk:literal),+) => {
        [$(($disk, [
            concat!($disk, " sequential-read"),
            concat!($disk, " sequential-write"),
            concat!($disk, " random-64"),
            concat!($disk, " programs-64"),
            concat!($disk, " random-write"),
        ])),+]
    };
}

/// The disks, and the names of their rows, in the order of [`MIXES`].
pub const DISKS: [(&str, [&str; 5]); 4] =
    rows!["hdd-sata-250g", "hdd-sata-250g-ncq", "ssd-sata", "ssd-nvme"];

/// The programs that are on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RivalPrograms {
    Small,
    Big,
    SmallBesideBig,
    LightBesideBig,
}

/// The scenario of a cell.
pub(super) fn scenario(
    disk: &'static str,
    mix: &RivalMix,
    variant: &str,
    who: RivalPrograms,
    seed: u64,
) -> Scenario {
    let mut scenario = Scenario::new("two groups of equal weight", disk);
    scenario.seed = seed;
    scenario.duration = duration(disk);
    scenario.warmup = Nanos(scenario.duration.0 / 5);
    let quarter = ((presets::find(disk).expect("a preset").build)().capacity().0 / 4) & !0xf_ffff;
    let region =
        |at: u64| Extent::new(Bytes(at * quarter), Bytes(quarter)).expect("within the disk");
    let chosen = |name| Chosen::defaults(find(name).expect("one of the registry"));
    scenario.scheduler = (variant != "none").then(|| chosen(variant));
    let mut group = |path: &str| match variant {
        "none" => GroupId::ROOT,
        _ => scenario.groups.create(path).expect("a new name"),
    };
    let (small, big) = (group("/small"), group("/big"));
    if who != RivalPrograms::Big {
        let think = if who == RivalPrograms::LightBesideBig {
            Nanos::from_millis(100)
        } else {
            Nanos::ZERO
        };
        let task = Task::new("small", TaskKind::Random, region(2));
        let block = Bytes::from_kib(16);
        scenario.tasks.push(Task { group: small, block, think, ..task });
    }
    if who != RivalPrograms::Small {
        for number in 0..mix.programs {
            let RivalMix { kind, block, depth, writes, .. } = *mix;
            let write_percent = if writes { 100 } else { 0 };
            let task = Task::new(&format!("big-{number}"), kind, region(0));
            scenario.tasks.push(Task { group: big, block, depth, write_percent, ..task });
        }
    }
    scenario
}

/// The rate of all tasks whose name begins so, in requests a second.
pub(super) fn rate(report: &RunReport, name: &str) -> Milli {
    let tasks = report.tasks.iter().filter(|(task, _)| task.starts_with(name));
    Milli(tasks.map(|(_, task)| task.ops_s.0).sum())
}

/// The bound of a figure, if it has one.
pub fn bound(disk: &str, mix: &RivalMix, variant: &str, figure: &str) -> Option<Bound> {
    if variant != "fair" {
        return None;
    }
    let has_head = disk.starts_with("hdd");
    let bound = match (figure, has_head) {
        ("small", true) => Bound::AtLeast(Milli(450)),
        ("sum", true) => Bound::AtLeast(Milli(if mix.writes { 850 } else { 900 })),
        ("small_p99_ms", true) => Bound::AtMost(Milli(60_000)),
        ("light_p99_ms", true) => Bound::AtMost(Milli(35_000)),
        ("small", false) => Bound::AtLeast(Milli(700)),
        ("big", false) => Bound::AtLeast(Milli(600)),
        _ => return None,
    };
    Some(bound)
}

/// The figures of one row under one variant, in the order of [`FIGURES`]. `alone` is what the small
/// one and the big one do by themselves, `mixed` what is done with the small one and the light one.
pub(super) fn figures(
    alone: (&RunReport, &RunReport),
    mixed: (&RunReport, &RunReport),
) -> [Milli; 6] {
    let share = |report: &RunReport, name: &str, alone: &RunReport| {
        rate(report, name).over(rate(alone, name)).unwrap_or_default()
    };
    let p99 = |report: &RunReport| {
        report.tasks.get("small").map(|task| task.latency.p99_ms).unwrap_or_default()
    };
    let (big, small) = (share(mixed.0, "big", alone.1), share(mixed.0, "small", alone.0));
    let sum = Milli(big.0 + small.0);
    [big, small, sum, p99(mixed.0), p99(mixed.1), share(mixed.1, "big", alone.1)]
}

/// The whole table, or the rows of some disks and variants: one entry per figure.
///
/// # Panics
/// If there is no such disk or variant: [`DISKS`] and [`VARIANTS`] have them all.
pub fn rivals(
    seed: u64,
    disks: &[(&'static str, [&'static str; 5])],
    variants: &[&'static str],
) -> Vec<TableRow> {
    let mut cells = Vec::new();
    for (disk, names) in disks {
        for (mix, name) in MIXES.iter().zip(names) {
            cells.extend(
                [RivalPrograms::Small, RivalPrograms::Big]
                    .map(|who| (*disk, *name, mix, "none", who)),
            );
            for variant in variants {
                let both = [RivalPrograms::SmallBesideBig, RivalPrograms::LightBesideBig];
                cells.extend(both.map(|who| (*disk, *name, mix, *variant, who)));
            }
        }
    }
    let reports = parallel::map(&cells, |(disk, _, mix, variant, who)| {
        run(&scenario(disk, mix, variant, *who, seed))
    });
    let mut rows = Vec::new();
    let lines = 2 + 2 * variants.len();
    for (cells, reports) in cells.chunks(lines).zip(reports.chunks(lines)) {
        let alone = (&reports[0], &reports[1]);
        for (cell, mixed) in cells[2..].chunks(2).zip(reports[2..].chunks(2)) {
            let (disk, row, mix, variant, _) = cell[0];
            let values = figures(alone, (&mixed[0], &mixed[1]));
            for ((figure, unit), value) in FIGURES.into_iter().zip(values) {
                let bound = bound(disk, mix, variant, figure);
                let (text, holds) =
                    (bound.map(Bound::text), bound.map(|bound| bound.holds(value, value)));
                let (table, source) = (TABLE, None);
                let bound = text;
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
