//! Hosts that share a volume, some rows of the table: shares by weight, soon and at no cost.

use iopace_sim::milli::Milli;
use iopace_sim::tables::TableRow;
use iopace_sim::tables::hosts::rows;
use std::path::Path;

fn value(rows: &[TableRow], row: &str, variant: &str, figure: &str) -> Milli {
    let is_it = |one: &&TableRow| (one.row, one.variant, one.figure) == (row, variant, figure);
    rows.iter().find(is_it).unwrap_or_else(|| panic!("no {figure} of {row} {variant}")).value
}

/// The rows of CI: the others take minutes.
const ROWS: [&str; 2] = ["8 hosts, flash", "a host is cut off"];

#[test]
fn shares_are_right_within_seconds_and_nearly_in_the_dark() {
    let rows = rows(1, |row| ROWS.contains(&row));
    let text = iopace_sim::tables::format::table(&rows);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../snapshots/hosts-short.txt");
    if std::env::var_os("IOPACE_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder snapshots/ of the project");
    }
    let snapshot = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, snapshot,
        "the table differs from snapshots/hosts-short.txt (IOPACE_BLESS=1 accepts it):\n{text}"
    );
    assert!(rows.iter().all(|row| row.holds != Some(false)), "{text}");
    let [together, dark] = ROWS.map(|row| move |variant, figure| (row, variant, figure));
    let of = |(row, variant, figure)| value(&rows, row, variant, figure).0;
    assert!(of(together("records", "begins")) <= 2_000, "{text}");
    assert!(of(together("records", "error")) <= 1_000, "{text}");
    assert!(of(together("fixed", "error")) >= 50_000, "the lightest has far too much: {text}");
    // Windows that follow the latency alone come to the same shares.
    assert!(of(together("latency", "error")) <= 5_000, "{text}");
    assert!(of(dark("records", "error")) <= 25_000, "{text}");
}
