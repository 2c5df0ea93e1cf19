//! Reads beside dd: some of the scenarios of the table, and what is promised of them. The whole
//! table takes minutes without optimisation: `make tables` writes it.
//!
//! `IOPACE_BLESS=1 cargo test -p iopace-sim --test congestion` writes the short one anew; the
//! commit then says in words why the numbers moved.

use iopace_sim::milli::Milli;
use iopace_sim::tables::congestion::cases::{Case, cases};
use iopace_sim::tables::congestion::{DURATION, losses, results, rows};
use iopace_sim::tables::format;
use std::path::Path;

mod targets;

/// The scenario of the source, and some of each kind of reader, disk and number of writers.
fn some() -> Vec<Case> {
    let all = cases();
    [0, 3, 6, 20, 30, 33, 47].into_iter().map(|place: usize| all[place]).collect()
}

#[test]
fn the_short_table_is_as_reviewed_and_readers_keep_their_rate() {
    let results = results(&some(), DURATION, 1);
    for result in &results {
        let kept = result.reads_kept("latency");
        assert!(kept >= Milli(900), "{:?}: {kept} of alone", result.case);
        assert!(kept > result.reads_kept("none"), "{:?}: better than nothing", result.case);
    }
    let rows = rows(&results, &losses(DURATION, 1));
    let text = format::table(&rows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../snapshots/congestion-short.txt");
    if std::env::var_os("IOPACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder snapshots/ of the project");
    }
    let reviewed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == reviewed, "the table differs (IOPACE_BLESS=1 accepts it):\n{text}");
    targets::names_the_same("congestion", &rows);
}

#[test]
fn there_are_more_than_fifty_scenarios_and_none_twice() {
    let all = cases();
    assert!(all.len() > 50);
    for (place, case) in all.iter().enumerate() {
        assert!(!all[..place].contains(case), "{case:?}");
    }
}
