//! Two groups of unequal weight on one disk: whether each has the time that its weight entitles it
//! to, beside each kind of load.
//!
//! # Model
//! The programs and the disks are those of the table `rivals`: a random reader in one group, a big
//! program in the other; weights are 4 and 16 to 1, either way. On a disk with a head the reader
//! has one request at a time. On flash such a reader cannot use more than one unit of many,
//! whatever its weight is: there it has 64.
//!
//! *reader* and *big* are rates in the mix over those of the same program alone under `none`, *sum*
//! is that of both. A program alone has all of the disk's time: of that its weight makes a part
//! due. *of due* is what it has over that part. Below 1 it has less than its due; above 1 it has
//! what the other one could not use, or should have had.
//!
//! *Bounds*: both have nine tenths of what is due.
//!
//! # Sources
//! Ratios of 4 and 16 to 1 are those that isol-bench (Ren et al., IISWC 2025) gives to two groups.

use super::rivals::{self, MIXES, RivalMix, RivalPrograms};
use super::{Bound, TableRow};
use crate::milli::Milli;
use crate::parallel;
use crate::report::RunReport;
use crate::run::run;
use crate::scenario::{DEVICE, Scenario};
use iopace_core::sched::recommended;
use iopace_core::time::Nanos;

/// The name of the table.
pub const TABLE: &str = "weights";

/// The variants: name, weight of the reader, weight of the big one.
pub const VARIANTS: [(&str, u32, u32); 4] =
    [("1 to 4", 100, 400), ("4 to 1", 400, 100), ("1 to 16", 100, 1_600), ("16 to 1", 1_600, 100)];

/// The figures: name and unit.
pub const FIGURES: [(&str, &str); 5] = [
    ("reader", "of alone"),
    ("big", "of alone"),
    ("sum", "of alone"),
    ("reader_of_due", "of due"),
    ("big_of_due", "of due"),
];

/// Requests that the reader has at a time on flash.
const FLASH_DEPTH: u32 = 64;

/// Runs on a disk with a head are so much longer than those of `rivals`: the lighter of 16 to 1 has
/// one go in 1.7 s, and some forty of them are to count.
const LONGER: u64 = 4;

fn has_head(disk: &str) -> bool {
    disk.starts_with("hdd")
}

/// The scenario of a cell; alone under `none`, else with these weights of the reader and the big
/// one.
fn scenario(
    disk: &'static str,
    mix: &RivalMix,
    weights: Option<(u32, u32)>,
    who: RivalPrograms,
    seed: u64,
) -> Scenario {
    let variant = if weights.is_some() { recommended().name } else { "none" };
    let mut scenario = rivals::scenario(disk, mix, variant, who, seed);
    if has_head(disk) && weights.is_some() {
        scenario.duration = Nanos(LONGER * scenario.duration.0);
    }
    for task in scenario.tasks.iter_mut().filter(|task| task.name == "small") {
        task.depth = if has_head(disk) { task.depth } else { FLASH_DEPTH };
    }
    if let Some((reader, big)) = weights {
        for (path, weight) in [("/small", reader), ("/big", big)] {
            let id = scenario.groups.find(path).expect("a group of the table");
            let text = weight.to_string();
            scenario.groups.write(id, "io.weight", &text, &[DEVICE]).expect("a legal weight");
        }
    }
    scenario
}

/// The figures of one row under one variant, in the order of [`FIGURES`].
fn figures(alone: &[RunReport], mixed: &RunReport, weights: (u32, u32)) -> [Milli; 5] {
    let share = |name: &str, alone: &RunReport| {
        rivals::rate(mixed, name).over(rivals::rate(alone, name)).unwrap_or_default()
    };
    let (reader, big) = (share("small", &alone[0]), share("big", &alone[1]));
    let sum = Milli(reader.0 + big.0);
    let of_due = |share: Milli, weight: u32| {
        let numerator = u128::from(share.0.unsigned_abs()) * u128::from(weights.0 + weights.1);
        Milli::ratio(numerator, 1_000 * u128::from(weight)).unwrap_or_default()
    };
    [reader, big, sum, of_due(reader, weights.0), of_due(big, weights.1)]
}

/// The bound of a figure, if it has one.
pub fn bound(figure: &str) -> Option<Bound> {
    figure.ends_with("_of_due").then_some(Bound::AtLeast(Milli(900)))
}

/// The whole table, or those rows of some disks that are wanted: one entry per figure.
pub fn weights(
    seed: u64,
    disks: &[(&'static str, [&'static str; 5])],
    is_wanted: impl Fn(&str) -> bool,
) -> Vec<TableRow> {
    let mut cells = Vec::new();
    for (disk, names) in disks {
        for (mix, name) in MIXES.iter().zip(names).filter(|(_, name)| is_wanted(name)) {
            cells.extend(
                [RivalPrograms::Small, RivalPrograms::Big]
                    .map(|who| (*disk, *name, mix, None, who)),
            );
            let mixed = VARIANTS.map(|(_, reader, big)| Some((reader, big)));
            cells
                .extend(mixed.map(|pair| (*disk, *name, mix, pair, RivalPrograms::SmallBesideBig)));
        }
    }
    let reports = parallel::map(&cells, |(disk, _, mix, pair, who)| {
        run(&scenario(disk, mix, *pair, *who, seed))
    });
    let mut rows = Vec::new();
    let lines = 2 + VARIANTS.len();
    for (cells, reports) in cells.chunks(lines).zip(reports.chunks(lines)) {
        let (alone, mixed) = reports.split_at(2);
        let row = cells[0].1;
        for ((variant, reader, big), mixed) in VARIANTS.into_iter().zip(mixed) {
            let values = figures(alone, mixed, (reader, big));
            for ((figure, unit), value) in FIGURES.into_iter().zip(values) {
                let bound = bound(figure);
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
