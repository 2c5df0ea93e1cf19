//! The reviewed table of further figures: groups, slots, exchanges and curves.
//!
//! `IOPACE_BLESS=1 cargo test -p iopace-sim --test further` writes the table anew; the commit then
//! says in words why the numbers moved.

use iopace_sim::milli::Milli;
use iopace_sim::tables::further::curves::TRADES;
use iopace_sim::tables::further::further;
use iopace_sim::tables::{TableRow, format};
use std::path::Path;

mod targets;

#[test]
fn the_table_is_as_reviewed_and_what_is_promised_of_it_holds() {
    let rows = further(1);
    let text = format::table(&rows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../snapshots/further.txt");
    if std::env::var_os("IOPACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder snapshots/ of the project");
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == reviewed,
        "the table differs from snapshots/further.txt (IOPACE_BLESS=1 accepts it):\n{text}"
    );
    // Declared, with the reason in `tables/further.rs`.
    let broken: Vec<&TableRow> = rows.iter().filter(|row| row.holds == Some(false)).collect();
    let names: Vec<_> = broken.iter().map(|row| (row.row, row.variant, row.figure)).collect();
    let ours = "guaranteed-nonblocking";
    let declared = [
        ("weights 1:2:4", "hdd-sata-250g", "share_error"),
        ("slots 25", ours, "g2_rise_ms"),
        ("slots 25", ours, "g2_share"),
        ("slots 32", ours, "g2_rise_ms"),
    ];
    assert_eq!(names, declared);
    targets::is_current("further", &rows);
    curves_rise(&rows);
}

/// Longer slices give both programs more together, and let the other one wait longer.
fn curves_rise(rows: &[TableRow]) {
    for mix in TRADES {
        for figure in ["efficiency", "cvs_p99_ms"] {
            let is_point = |row: &&TableRow| {
                row.row == mix && row.variant.starts_with("slice") && row.figure == figure
            };
            let points: Vec<Milli> = rows.iter().filter(is_point).map(|row| row.value).collect();
            assert!(points.len() == 5 && points.is_sorted(), "{mix} {figure}: {points:?}");
        }
    }
}
