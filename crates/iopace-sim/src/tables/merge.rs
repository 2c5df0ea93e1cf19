//! Merging, its gain and its cost: requests that adjoin each other as one command, or each alone.
//!
//! # Model
//! Programs with 4 KiB a request on four disks, each with a quarter of it: one that writes or reads
//! in sequence, 32 at a time; two that read in sequence, 16 each; one that reads anywhere, 32 at a
//! time, where nothing can be merged; and one of each beside the other. Then the mixes of the table
//! [`super::geom`] whose programs are beside each other, as their source had no merging: GEOM sorts
//! (`bioq_disksort`) and merges nothing; what is sequential comes from the file system in clusters
//! of up to 128 KiB.
//!
//! Variants are a scheduler with merging of up to [`MERGE_MAX_DEFAULT`] and without. Beside the
//! rate stand the commands that the disk was given in a second, and the slowest hundredth of the
//! first program.
//!
//! There are no bounds: the default is what the table is there to judge. [`in_the_manual`] prints
//! the lines of the manual.

use super::{TableRow, geom};
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{Chosen, Scenario};
use crate::task::{Task, TaskKind};
use iopace_core::limits::MERGE_MAX_DEFAULT;
use iopace_core::request::Extent;
use iopace_core::sched::find;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_disk::presets;
use std::fmt::Write as _;

/// The name of the table.
pub const TABLE: &str = "merge";

/// A program: what it does, how many requests at a time, and whether it writes.
type Program = (TaskKind, u32, bool);

/// The mixes.
pub const MIXES: [&[Program]; 5] = [
    &[(TaskKind::Sequential, 32, true)],
    &[(TaskKind::Sequential, 32, false)],
    &[(TaskKind::Sequential, 16, false), (TaskKind::Sequential, 16, false)],
    &[(TaskKind::Random, 32, false)],
    &[(TaskKind::Random, 1, false), (TaskKind::Sequential, 32, true)],
];

/// The name of the row of each mix on each disk.
macro_rules! rows {
    ($($disk:literal),+) => {
        [$(($disk, [
            concat!($disk, " sequential-write"),
            concat!($disk, " sequential-read"),
            concat!($disk, " two-streams"),
            concat!($disk, " random-read"),
            concat!($disk, " random-read+sequential-write"),
        ])),+]
    };
}

/// The disks, and the names of their rows, in the order of [`MIXES`].
pub const DISKS: [(&str, [&str; 5]); 4] =
    rows!["hdd-sata-250g", "hdd-sata-250g-ncq", "ssd-sata", "ssd-nvme"];

/// The variants: the scheduler, and whether requests are merged.
pub const VARIANTS: [(&str, &str, bool); 4] = [
    ("fifo", "fifo", false),
    ("fifo, merging", "fifo", true),
    ("fair", "fair", false),
    ("fair, merging", "fair", true),
];

/// The rows of the table of geom_sched, and as they are called here.
pub const GEOM_ROWS: [(&str, &str); 2] =
    [("geom dd-read+cvs", "dd-read+cvs"), ("geom dd-write+cvs", "dd-write+cvs")];

/// Their variants.
pub const GEOM_VARIANTS: [(&str, &str, bool); 4] = [
    ("none", geom::NONE, false),
    ("none, merging", geom::NONE, true),
    ("rr", "rr", false),
    ("rr, merging", "rr", true),
];

/// The figures: name and unit.
pub const FIGURES: [(&str, &str); 4] =
    [("mb_s", "MB/s"), ("second_mb_s", "MB/s"), ("commands_s", "1/s"), ("p99_ms", "ms")];

/// The size of a request.
const BLOCK: Bytes = Bytes::from_kib(4);

/// The most bytes of a command.
fn merge_max(merges: bool) -> Bytes {
    if merges { MERGE_MAX_DEFAULT } else { Bytes::ZERO }
}

/// The scenario of a mix on a disk.
fn scenario(
    disk: &'static str,
    programs: &[Program],
    (_, scheduler, merges): (&str, &str, bool),
    seed: u64,
) -> Scenario {
    let mut scenario = Scenario::new("requests that adjoin each other", disk);
    scenario.seed = seed;
    // A flash disk does in a second what a disk with a head does in ten.
    scenario.duration = Nanos::from_secs(if disk.starts_with("hdd") { 12 } else { 1 });
    scenario.warmup = Nanos(scenario.duration.0 / 6);
    scenario.merge_max = merge_max(merges);
    scenario.scheduler =
        Some(Chosen::defaults(find(scheduler).expect("variants are of the registry")));
    let quarter = ((presets::find(disk).expect("a preset").build)().capacity().0 / 4) & !0xf_ffff;
    for (at, &(kind, depth, writes)) in (0..).zip(programs) {
        let region = Extent::new(Bytes(at * quarter), Bytes(quarter)).expect("within the disk");
        let task = Task::new(&format!("program-{at}"), kind, region);
        let write_percent = if writes { 100 } else { 0 };
        scenario.tasks.push(Task { block: BLOCK, depth, write_percent, ..task });
    }
    scenario
}

/// The figures of a run, in the order of [`FIGURES`].
fn figures(report: &RunReport) -> [Milli; 4] {
    let mut tasks = report.tasks.values();
    let first = tasks.next().expect("every mix has a program");
    let second = tasks.next().map(|task| task.mb_s).unwrap_or_default();
    let commands = i64::try_from(report.disk_use.commands).unwrap_or(i64::MAX);
    let commands = Milli(commands.saturating_mul(1_000_000)).over(report.measured_ms);
    [first.mb_s, second, commands.unwrap_or_default(), first.latency.p99_ms]
}

/// The whole table: one entry per figure.
///
/// # Panics
/// If a disk or a scheduler is not there any more.
pub fn merge(seed: u64) -> Vec<TableRow> {
    let mut cells = Vec::new();
    for (disk, names) in DISKS {
        for (programs, name) in MIXES.iter().zip(names) {
            let cell = |variant| (name, variant, scenario(disk, programs, variant, seed));
            cells.extend(VARIANTS.map(cell));
        }
    }
    for (name, row) in GEOM_ROWS {
        cells.extend(GEOM_VARIANTS.map(|variant| {
            let (_, scheduler, merges) = variant;
            let scenario = geom::scenario(row, scheduler, seed, geom::DURATION);
            (name, variant, Scenario { merge_max: merge_max(merges), ..scenario })
        }));
    }
    let reports = parallel::map(&cells, |(.., scenario)| run(scenario));
    let mut rows = Vec::new();
    for ((row, (variant, ..), _), report) in cells.iter().zip(&reports) {
        rows.extend(FIGURES.into_iter().zip(figures(report)).map(|((figure, unit), value)| {
            TableRow {
                table: TABLE,
                row,
                variant,
                figure,
                unit,
                source: None,
                value,
                bound: None,
                holds: None,
            }
        }));
    }
    rows
}

/// The lines of the manual: for each row and scheduler the rate, the commands a second and the
/// slowest hundredth without merging and with it.
pub fn in_the_manual(rows: &[TableRow]) -> String {
    let mut text = String::new();
    for both in rows.chunks(2 * FIGURES.len()) {
        let _ = write!(text, "| {} | {} |", both[0].row, both[0].variant);
        for (figure, (_, unit)) in FIGURES.iter().enumerate() {
            let [off, on] = [0, FIGURES.len()].map(|at| both[at + figure].value);
            let _ = match *unit {
                _ if (off, on) == (Milli(0), Milli(0)) => write!(text, " |"),
                "1/s" => write!(text, " {off:.0}, {on:.0} |"),
                _ => write!(text, " {off:.1}, {on:.1} |"),
            };
        }
        text.push('\n');
    }
    text
}
