//! Hosts that share a volume, some rows of the table: shares by weight, soon and at no cost, and
//! limits that hold whatever goes wrong.

use iopace_sim::milli::Milli;
use iopace_sim::tables::TableRow;
use iopace_sim::tables::hosts::rows;
use std::path::Path;

fn value(rows: &[TableRow], (row, variant, figure): (&str, &str, &str)) -> i64 {
    let is_it = |one: &&TableRow| (one.row, one.variant, one.figure) == (row, variant, figure);
    let Milli(value) =
        rows.iter().find(is_it).unwrap_or_else(|| panic!("no {figure} of {row} {variant}")).value;
    value
}

/// The rows of CI, beside all that have a limit: the others take minutes.
const ROWS: [&str; 3] = ["8 hosts, flash", "a host is cut off", "256 hosts in 16 cells"];

#[test]
fn shares_are_right_within_seconds_and_limits_hold_in_the_dark() {
    let rows = rows(1, |row| ROWS.contains(&row) || row.starts_with("limit"));
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
    let of = |row, variant, figure| value(&rows, (row, variant, figure));
    let [together, dark, _] = ROWS;
    assert!(of(together, "records", "begins") <= 2_000, "{text}");
    assert!(of(together, "records", "error") <= 3_000, "{text}");
    assert!(of(together, "fixed", "error") >= 50_000, "the lightest has far too much: {text}");
    // Windows that follow the latency alone come to the same shares.
    assert!(of(together, "latency", "error") <= 5_000, "{text}");
    assert!(of(dark, "records", "error") <= 25_000, "{text}");
    // Static parts are a twentieth, and leases of the time before the dark last for 5 s.
    let dark = of("limit, the store is lost", "records", "used meanwhile");
    assert!((200..=350).contains(&dark), "{text}");
}
