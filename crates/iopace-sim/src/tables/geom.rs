//! The table of geom_sched: `dd` and `cvs update` on one SATA disk, alone and together.
//!
//! # Model
//! The disk is the preset `hdd-sata-250g` with one request at a time, as the driver of the source
//! had it. `dd` reads the raw disk from its outer edge, or writes a file through the page cache;
//! `cvs` works on a tree on a mounted partition. The places below are the same in every row.
//!
//! `none` is one queue in C-LOOK order: what the disk's driver does without a scheduler. The other
//! variants are the schedulers of the registry with their defaults.
//!
//! *Share* is the throughput in the mix over that of the same program alone under `none`;
//! *efficiency* is the sum of the shares. The first twelfth of a run counts in no figure.
//!
//! # Sources
//! README of geom_sched (FreeBSD 8, 2009): dd at 72 and 55 MB/s alone; with cvs 6 and 55 MB/s
//! without scheduler, 30 and 14 MB/s with gsched_rr. It gives no figures for cvs but words.

use super::{Bound, TableRow};
use crate::judge::set_shares;
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{Chosen, Memory, Scenario};
use crate::task::{Task, TaskKind};
use iopace_core::request::Extent;
use iopace_core::sched::{REGISTRY, find, recommended};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;

pub mod slices;

/// The name of the table.
pub const TABLE: &str = "geom";

/// The variant without a scheduler.
pub const NONE: &str = "none";

/// The disk of every row.
pub const DISK: &str = "hdd-sata-250g";

/// Length of the runs of the published table.
pub const DURATION: Nanos = Nanos::from_secs(60);

/// The rows, in the order of the table.
pub const ROWS: [&str; 5] = ["dd-read", "dd-write", "cvs", "dd-read+cvs", "dd-write+cvs"];

/// The figures: name and unit.
pub const FIGURES: [(&str, &str); 6] = [
    ("dd_mb_s", "MB/s"),
    ("cvs_ops_s", "1/s"),
    ("cvs_p99_ms", "ms"),
    ("dd_share", "of alone"),
    ("cvs_share", "of alone"),
    ("efficiency", "of alone"),
];

/// Where the raw `dd` reads: the outer edge, where the source's disk gave 72 MB/s. A run reads 4
/// GB.
const READ_REGION: (u64, u64) = (0, 16 << 30);

/// The partition with the source tree: a 32 GiB `/usr` behind some smaller ones.
const TREE_REGION: (u64, u64) = (32 << 30, 32 << 30);

/// Where the file of the writing `dd` lies: free space between the outer edge and the tree. The
/// source does not say where; the disk's write rate is calibrated near the outer edge.
const FILE_REGION: (u64, u64) = (8 << 30, 16 << 30);

/// What came out of one row under one variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GeomOutcome {
    /// Throughput of dd in MB/s.
    pub dd_mb_s: Option<Milli>,
    /// Requests of cvs per second.
    pub cvs_ops_s: Option<Milli>,
    /// 99th percentile of the latency of cvs.
    pub cvs_p99_ms: Option<Milli>,
    /// Throughput of dd over that of dd alone.
    pub dd_share: Option<Milli>,
    /// Throughput of cvs over that of cvs alone.
    pub cvs_share: Option<Milli>,
    /// Sum of the shares.
    pub efficiency: Option<Milli>,
}

impl GeomOutcome {
    /// The figure of that name.
    pub fn figure(&self, name: &str) -> Option<Milli> {
        match name {
            "dd_mb_s" => self.dd_mb_s,
            "cvs_ops_s" => self.cvs_ops_s,
            "cvs_p99_ms" => self.cvs_p99_ms,
            "dd_share" => self.dd_share,
            "cvs_share" => self.cvs_share,
            "efficiency" => self.efficiency,
            _ => None,
        }
    }

    pub(crate) fn of(report: &RunReport) -> GeomOutcome {
        let (dd, cvs) = (report.tasks.get("dd"), report.tasks.get("cvs"));
        GeomOutcome {
            dd_mb_s: dd.map(|task| task.mb_s),
            cvs_ops_s: cvs.map(|task| task.ops_s),
            cvs_p99_ms: cvs.map(|task| task.latency.p99_ms),
            dd_share: dd.and_then(|task| task.share),
            cvs_share: cvs.and_then(|task| task.share),
            efficiency: report.efficiency,
        }
    }
}

/// What the source says about one row under one variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceFigures {
    /// Throughput of dd in MB/s.
    pub dd_mb_s: Option<Milli>,
    /// How cvs did: the source gives a word, no figure.
    pub cvs: Option<&'static str>,
}

/// What the README of geom_sched says. It measured no scheduler but rr.
pub fn source(row: &str, variant: &str) -> SourceFigures {
    let (dd, cvs) = match (row, variant) {
        ("dd-read", NONE | "rr") => (72, None),
        ("dd-write", NONE | "rr") => (55, None),
        ("dd-read+cvs", NONE) => (6, Some("ok")),
        ("dd-read+cvs", "rr") => (30, Some("ok")),
        ("dd-write+cvs", NONE) => (55, Some("very slow")),
        ("dd-write+cvs", "rr") => (14, Some("ok")),
        _ => return SourceFigures::default(),
    };
    SourceFigures { dd_mb_s: Some(Milli(dd * 1_000)), cvs }
}

/// The bound of a figure: `rr`, the scheduler of the source, and the recommended one have the same
/// bounds.
pub fn bound(row: &str, variant: &str, figure: &str) -> Option<Bound> {
    match variant {
        NONE => bound_of_none(row, figure),
        name if name == "rr" || name == recommended().name => bound_of_turns(row, figure),
        _ => None,
    }
}

fn bound_of_none(row: &str, figure: &str) -> Option<Bound> {
    let bound = match (row, figure) {
        ("dd-read", "dd_mb_s") => Bound::WithinPercent(Milli(72_000), 3),
        ("dd-write", "dd_mb_s") => Bound::WithinPercent(Milli(55_000), 10),
        ("dd-read+cvs", "dd_mb_s") => Bound::Within(Milli(6_000), Milli(1_500)),
        ("dd-write+cvs", "dd_mb_s") => Bound::AtLeast(Milli(45_000)),
        ("dd-write+cvs", "cvs_share") => Bound::AtMost(Milli(250)),
        _ => return None,
    };
    Some(bound)
}

/// Of a scheduler under which programs take turns.
fn bound_of_turns(row: &str, figure: &str) -> Option<Bound> {
    let bound = match (row, figure) {
        ("dd-read" | "dd-write", "dd_mb_s") => Bound::OfNone(Milli(990)),
        ("dd-read+cvs", "dd_mb_s") => Bound::AtLeast(Milli(30_000)),
        ("dd-read+cvs", "dd_share" | "cvs_share") => Bound::AtLeast(Milli(400)),
        ("dd-read+cvs", "efficiency") => Bound::AtLeast(Milli(900)),
        ("dd-write+cvs", "dd_mb_s") => Bound::AtLeast(Milli(20_000)),
        ("dd-write+cvs", "cvs_share") => Bound::AtLeast(Milli(400)),
        ("dd-write+cvs", "efficiency") => Bound::AtLeast(Milli(850)),
        _ => return None,
    };
    Some(bound)
}

/// The source's words where it gives no figure.
pub fn words(row: &str, variant: &str, figure: &str) -> Option<&'static str> {
    source(row, variant).cvs.filter(|_| figure == "cvs_share")
}

/// `none` and every scheduler, in the order of the table.
pub fn variants() -> Vec<&'static str> {
    let names = REGISTRY.iter().map(|algorithm| algorithm.name);
    std::iter::once(NONE).chain(names).collect()
}

/// The tasks of a row: `dd` before `cvs`. Live clients may draw the same requests from them.
///
/// # Panics
/// If there is no such row: [`ROWS`] has them all.
pub fn tasks(row: &str) -> Vec<Task> {
    assert!(ROWS.contains(&row), "no row '{row}' in the table {TABLE}");
    let region =
        |(offset, len)| Extent::new(Bytes(offset), Bytes(len)).expect("regions are far below 2^64");
    let programs = row.split('+').map(|program| match program {
        "dd-read" => Task::new("dd", TaskKind::DdRead, region(READ_REGION)),
        "dd-write" => Task::new("dd", TaskKind::DdWrite, region(FILE_REGION)),
        _ => Task::new("cvs", TaskKind::Cvs, region(TREE_REGION)),
    });
    programs.collect()
}

/// The scenario of a row under a variant.
///
/// # Panics
/// If there is no such row or variant: [`ROWS`] and [`variants`] have them all.
pub fn scenario(row: &str, variant: &str, seed: u64, duration: Nanos) -> Scenario {
    let chosen = |name| Chosen::defaults(find(name).expect("variants are none and the registry's"));
    Scenario {
        seed,
        duration,
        warmup: Nanos(duration.0 / 12),
        memory: Some(Memory::default()),
        window_depth: Some(1),
        scheduler: (variant != NONE).then(|| chosen(variant)),
        tasks: tasks(row),
        ..Scenario::new("the table of geom_sched", DISK)
    }
}

/// The simulated figures of one row under one variant, with shares: for showing beside live ones.
pub fn outcome(row: &str, variant: &str, seed: u64, duration: Nanos) -> GeomOutcome {
    let mix = scenario(row, variant, seed, duration);
    let mut jobs = vec![mix.clone()];
    jobs.extend(mix.tasks.iter().map(|task| mix.alone(task)));
    let mut reports = parallel::map(&jobs, run);
    let alone: Vec<(&Task, &RunReport)> = mix.tasks.iter().zip(&reports[1..]).collect();
    let mut report = reports[0].clone();
    set_shares(&mut report, &alone);
    reports.clear();
    GeomOutcome::of(&report)
}

/// The whole table: one entry per figure.
pub fn geom(seed: u64, duration: Nanos) -> Vec<TableRow> {
    let variants = variants();
    let mut cells = Vec::new();
    for row in ROWS {
        cells.extend(variants.iter().map(|variant| (row, *variant)));
    }
    let reports =
        parallel::map(&cells, |(row, variant)| run(&scenario(row, variant, seed, duration)));
    let none = |row: &str| cells.iter().position(|cell| *cell == (row, NONE));
    let outcomes: Vec<GeomOutcome> = cells
        .iter()
        .zip(&reports)
        .map(|((row, _), report)| {
            let mut report = report.clone();
            let tasks = tasks(row);
            let alone = tasks.iter().zip(row.split('+')).map(|(task, program)| {
                let index = none(program).expect("every program has a row of its own");
                (task, &reports[index])
            });
            set_shares(&mut report, &alone.collect::<Vec<_>>());
            GeomOutcome::of(&report)
        })
        .collect();
    let mut rows = Vec::new();
    for ((row, variant), outcome) in cells.iter().zip(&outcomes) {
        let without = &outcomes[none(row).expect("every row has the variant none")];
        rows.extend(figures(row, variant, outcome, without));
    }
    rows
}

/// The figures of one row under one variant. A row of one program has no efficiency: it would be
/// its share again.
fn figures(
    row: &'static str,
    variant: &'static str,
    outcome: &GeomOutcome,
    none: &GeomOutcome,
) -> Vec<TableRow> {
    let is_mix = row.contains('+');
    let figures = FIGURES.iter().filter(|(name, _)| is_mix || *name != "efficiency");
    let entries = figures.filter_map(|(figure, unit)| {
        let value = outcome.figure(figure)?;
        let bound = bound(row, variant, figure);
        let source = match *figure {
            "dd_mb_s" => source(row, variant).dd_mb_s,
            _ => None,
        };
        Some(TableRow {
            table: TABLE,
            row,
            variant,
            figure,
            unit,
            source,
            value,
            bound: bound.map(Bound::text),
            holds: bound.map(|bound| bound.holds(value, none.figure(figure).unwrap_or_default())),
        })
    });
    entries.collect()
}
