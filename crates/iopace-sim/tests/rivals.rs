//! Two groups of equal weight on one disk: what the smaller one keeps under `fair`.

use iopace_sim::milli::Milli;
use iopace_sim::tables::TableRow;
use iopace_sim::tables::rivals::{DISKS, rivals};

fn value(rows: &[TableRow], row: &str, variant: &str, figure: &str) -> Milli {
    let found = rows.iter().find(|r| (r.row, r.variant, r.figure) == (row, variant, figure));
    found.unwrap_or_else(|| panic!("no {figure} of {row} under {variant}")).value
}

#[test]
fn nobody_is_starved_on_a_disk_with_a_head_whatever_the_other_one_does() {
    let disks = &DISKS[..2];
    let rows = rivals(1, disks, &["none", "fair"]);
    for row in disks.iter().flat_map(|(_, rows)| rows) {
        let fair = |figure| value(&rows, row, "fair", figure);
        let writes_at_random = row.ends_with("random-write");
        let least = if writes_at_random { 430 } else { 450 };
        assert!(fair("small").0 >= least, "{row}: small {}", fair("small"));
        assert!(fair("big").0 >= 290, "{row}: big {}", fair("big"));
        assert!(fair("sum").0 >= 770, "{row}: sum {}", fair("sum"));
        assert!(fair("small_p99_ms").0 <= 180_000, "{row}: {} ms", fair("small_p99_ms"));
        // Cached writes that the disk puts away when it likes: between 28 and 245 ms with the seed.
        let is_late = writes_at_random && row.contains("ncq");
        let most = if is_late { 250_000 } else { 40_000 };
        assert!(fair("light_p99_ms").0 <= most, "{row}: {} ms", fair("light_p99_ms"));
        // Without a scheduler it has a quarter at most, and waits for up to a second or for ever.
        let none = value(&rows, row, "none", "small");
        assert!(none.0 <= 270, "{row}: {none} without a scheduler");
    }
}

#[test]
fn few_requests_are_not_lost_among_many_on_flash() {
    let disks = &DISKS[2..];
    let rows = rivals(1, disks, &["fair"]);
    for row in disks.iter().flat_map(|(_, rows)| rows) {
        let fair = |figure| value(&rows, row, "fair", figure).0;
        let (small, big) = (fair("small"), fair("big"));
        let is_deep = row.ends_with("random-64") || row.ends_with("programs-64");
        let (least_small, least_big) = if is_deep { (700, 650) } else { (530, 470) };
        assert!(small >= least_small && big >= least_big, "{row}: small {small}, big {big}");
        // One that hardly ever asks costs the others nothing.
        assert!(fair("big_beside_light") >= 980, "{row}: {}", fair("big_beside_light"));
    }
}
