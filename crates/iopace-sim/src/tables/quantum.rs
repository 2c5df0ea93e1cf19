//! How long a go lasts on a disk with a head: the one knob between the latency of a small reader
//! and the throughput of both.
//!
//! # Model
//! The small group and a big one of the table `rivals`, on the disk with NCQ, under `fair` with
//! the parameter `quantum_ms` from 12 to 200. `quantum_kb` bounds no go here, so that only time
//! does. The mixes are those in which both have to change places for the whole of the run.
//!
//! There are no bounds: each row is a choice. [`in_the_manual`] prints them for the manual.

use super::TableRow;
use super::rivals::{self, DISKS, MIXES, RivalPrograms};
use crate::parallel;
use crate::run::run;
use crate::scenario::Chosen;
use iopace_core::sched::find;
use std::fmt::Write as _;

/// The name of the table.
pub const TABLE: &str = "quantum";

/// The variants: the length of a go.
pub const VARIANTS: [(&str, u64); 5] =
    [("12 ms", 12), ("25 ms", 25), ("50 ms", 50), ("100 ms", 100), ("200 ms", 200)];

/// The first figures of `rivals`: those of the small one beside the big one.
const FIGURES_COUNT: usize = 4;

/// A go of no more than this many KiB: none.
const UNBOUNDED_KB: u64 = 65_536;

/// The mixes that are in the table, the first ones of [`MIXES`].
const MIXES_COUNT: usize = 3;

/// The whole table.
///
/// # Panics
/// If `fair` has no such parameters.
pub fn quantum(seed: u64) -> Vec<TableRow> {
    let (disk, names) = DISKS[1];
    let mixes: Vec<_> = MIXES.iter().zip(names).take(MIXES_COUNT).collect();
    let mut cells = Vec::new();
    for (mix, _) in &mixes {
        cells.extend([RivalPrograms::Small, RivalPrograms::Big].map(|who| (*mix, who, None)));
        cells.extend(
            VARIANTS.map(|(_, millis)| (*mix, RivalPrograms::SmallBesideBig, Some(millis))),
        );
    }
    let reports = parallel::map(&cells, |(mix, who, millis)| {
        let variant = if millis.is_some() { "fair" } else { "none" };
        let mut scenario = rivals::scenario(disk, mix, variant, *who, seed);
        if let Some(millis) = *millis {
            let mut fair = Chosen::defaults(find("fair").expect("one of the registry"));
            fair.params.set("quantum_ms", millis).expect("a parameter of it");
            fair.params.set("quantum_kb", UNBOUNDED_KB).expect("a parameter of it");
            scenario.scheduler = Some(fair);
        }
        run(&scenario)
    });
    let mut rows = Vec::new();
    for ((_, row), reports) in mixes.iter().zip(reports.chunks(2 + VARIANTS.len())) {
        let (alone, mixed) = ((&reports[0], &reports[1]), &reports[2..]);
        for ((variant, _), mixed) in VARIANTS.iter().zip(mixed) {
            let values = rivals::figures(alone, (mixed, mixed));
            let figures = rivals::FIGURES.into_iter().zip(values).take(FIGURES_COUNT);
            rows.extend(figures.map(|((figure, unit), value)| TableRow {
                table: TABLE,
                row,
                variant,
                figure,
                unit,
                source: None,
                value,
                bound: None,
                holds: None,
            }));
        }
    }
    rows
}

/// The lines of the manual: for each length of a go and each mix the small one's part, the big
/// one's, and the slowest hundredth of the small one.
pub fn in_the_manual(rows: &[TableRow]) -> String {
    let mut text = String::new();
    for (variant, _) in VARIANTS {
        let of_variant: Vec<&TableRow> = rows.iter().filter(|row| row.variant == variant).collect();
        let _ = write!(text, "| {variant} |");
        for mix in of_variant.chunks(FIGURES_COUNT) {
            let [big, small, _, p99] = [0, 1, 2, 3].map(|figure| mix[figure].value);
            let _ = write!(text, " {small:.2}, {big:.2}, {p99:.0} ms |");
        }
        text.push('\n');
    }
    text
}
