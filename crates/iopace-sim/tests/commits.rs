//! Commits beside bulk I/O with nothing set: nobody is starved under `fair`.

use iopace_sim::milli::Milli;
use iopace_sim::tables::TableRow;
use iopace_sim::tables::commits::{DISKS, commits};

fn value(rows: &[TableRow], row: &str, variant: &str, figure: &str) -> Milli {
    let found = rows.iter().find(|r| (r.row, r.variant, r.figure) == (row, variant, figure));
    found.unwrap_or_else(|| panic!("no {figure} of {row} under {variant}")).value
}

#[test]
fn commits_are_not_starved_by_bulk_io() {
    let rows = commits(1, &DISKS, &["none", "fair", "fair-idle"]);
    for row in DISKS.iter().flat_map(|(_, rows)| rows) {
        let under = |variant| {
            let rows = &rows;
            move |figure| (figure, value(rows, row, variant, figure).0)
        };
        let [fair, none] = ["fair", "none"].map(under);
        let at_least = |(figure, value): (&str, i64), least: i64| {
            assert!(value >= least, "{row}: {figure} {value} of {least} thousandths");
        };
        let least = match (row.starts_with("hdd"), row.ends_with("writing")) {
            (true, _) => 420,
            (false, true) => 150,
            (false, false) => 370,
        };
        at_least(fair("commits"), least);
        at_least(fair("bulk"), if row.starts_with("hdd") { 350 } else { 190 });
        at_least(fair("sum"), if row.starts_with("hdd") { 850 } else { 600 });
        at_least(fair("spaced_commits"), 500);
        at_least(fair("bulk_beside_spaced"), 280);
        // With the bulk in class idle next to nothing is lost.
        let idle = under("fair-idle");
        at_least(idle("spaced_commits"), 880);
        if row.starts_with("hdd") {
            at_least(idle("commits"), 880);
            at_least(idle("bulk"), 14);
            at_least(idle("bulk_beside_spaced"), 14);
        }
        // Without a scheduler those on a disk with a head have next to nothing.
        let (commits, most) = (none("commits").1, if row.starts_with("hdd") { 160 } else { 620 });
        assert!(commits <= most, "{row}: {commits} thousandths without a scheduler");
    }
}
