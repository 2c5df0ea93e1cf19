//! The reviewed outcome table: a change of policy or model shows as numbers moving in its diff.
//!
//! `IOPACE_BLESS=1 cargo test -p iopace-sim --test geom` writes the table anew; the commit then
//! says in words why the numbers moved.

use iopace_core::sched::recommended;
use iopace_core::time::Nanos;
use iopace_sim::tables::{TableRow, format, geom};
use std::path::Path;

mod targets;

#[test]
fn the_table_is_as_reviewed_and_all_bounds_hold() {
    let rows = geom::geom(1, geom::DURATION);
    let bounds_of = |variant| {
        let of_variant = rows.iter().filter(|row| row.variant == variant && row.bound.is_some());
        of_variant.map(|row| (row.row, row.figure, &row.bound)).collect::<Vec<_>>()
    };
    // A program that takes the scheduler it is given has what the source's scheduler promised.
    assert_eq!(bounds_of(recommended().name), bounds_of("rr"));
    let broken: Vec<&TableRow> = rows.iter().filter(|row| row.holds == Some(false)).collect();
    assert!(broken.is_empty(), "{broken:?}");
    let text = format::table(&rows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../snapshots/geom.txt");
    if std::env::var_os("IOPACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder snapshots/ of the project");
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == reviewed,
        "the table differs from snapshots/geom.txt (IOPACE_BLESS=1 accepts it):\n{text}"
    );
    targets::is_current("geom", &rows);
}

#[test]
fn the_table_is_complete_and_agrees_with_single_outcomes() {
    let duration = Nanos::from_secs(3);
    let rows = geom::geom(2, duration);
    for row in geom::ROWS {
        for variant in geom::variants() {
            let of = |r: &&TableRow| (r.row, r.variant) == (row, variant);
            let figures: Vec<&str> = rows.iter().filter(of).map(|r| r.figure).collect();
            let wanted: &[&str] = match row {
                "dd-read" | "dd-write" => &["dd_mb_s", "dd_share"],
                "cvs" => &["cvs_ops_s", "cvs_p99_ms", "cvs_share"],
                _ => &geom::FIGURES.map(|(figure, _)| figure),
            };
            assert_eq!(figures, wanted, "{row} {variant}");
        }
    }
    assert_eq!(rows.iter().filter(|row| row.bound.is_some()).count(), 23);
    let outcome = geom::outcome("dd-read+cvs", "rr", 2, duration);
    for row in rows.iter().filter(|r| (r.row, r.variant) == ("dd-read+cvs", "rr")) {
        assert_eq!(outcome.figure(row.figure), Some(row.value), "{}", row.figure);
    }
    assert_eq!(geom::source("dd-write+cvs", "none").cvs, Some("very slow"));
    assert_eq!(geom::source("dd-write+cvs", "as"), geom::SourceFigures::default());
}
