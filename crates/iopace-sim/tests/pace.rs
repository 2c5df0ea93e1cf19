//! The reviewed table of dirty throttling.
//!
//! `IOPACE_BLESS=1 cargo test -p iopace-sim --test pace` writes the table anew; the commit then
//! says in words why the numbers moved.

use iopace_sim::tables::pace::{ROWS, VARIANTS, figures, pace, setups};
use iopace_sim::tables::{TableRow, format};
use std::path::Path;

mod targets;

#[test]
fn the_table_is_as_reviewed_and_what_is_promised_of_it_holds() {
    let rows = pace(1);
    // Six figures have no meaning for the old scheme.
    let all: usize = ROWS.iter().map(|row| figures(row).len()).sum();
    assert_eq!(rows.len(), all * VARIANTS.len() - 6);
    let text = format::table(&rows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../snapshots/pace.txt");
    if std::env::var_os("IOPACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder snapshots/ of the project");
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == reviewed,
        "the table differs from snapshots/pace.txt (IOPACE_BLESS=1 accepts it):\n{text}"
    );
    let broken: Vec<&TableRow> = rows.iter().filter(|row| row.holds == Some(false)).collect();
    let names: Vec<_> = broken.iter().map(|row| (row.row, row.figure)).collect();
    let declared =
        [("rsync", "empty_s"), ("write-cost", "cost_10000"), ("write-cost", "cost_1000_hdd")];
    assert_eq!(names, declared);
    targets::is_current("pace", &rows);
}

#[test]
fn other_seeds_hold_the_bounds_that_randomness_can_reach() {
    for seed in 2..4 {
        for row in ["rsync", "reader-frames"] {
            for (figure, value) in setups::outcome(row, 1, seed) {
                let bound = iopace_sim::tables::pace::bound(row, "rate", figure);
                let holds = bound.is_none_or(|bound| bound.holds(value, value));
                assert!(holds, "seed {seed}, {row}, {figure}: {value}");
            }
        }
    }
}
