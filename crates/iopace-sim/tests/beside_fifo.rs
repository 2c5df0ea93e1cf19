//! Whether anybody is worse off with the scheduler that is there by default than with `fifo`: in no
//! row as to what the small one gets done, and in these as to how long it waits and what both do.

use iopace_core::sched::recommended;
use iopace_sim::milli::Milli;
use iopace_sim::tables::TableRow;
use iopace_sim::tables::{commits, rivals};

/// A figure in which the default is more than a fiftieth worse than `fifo`.
type Worse = (&'static str, &'static str);

/// All of them; more is better but for times.
fn worse(rows: &[TableRow], figures: &[&'static str]) -> Vec<Worse> {
    let value = |row: &str, variant: &str, figure: &str| {
        let is_it =
            |cell: &&TableRow| (cell.row, cell.variant, cell.figure) == (row, variant, figure);
        rows.iter().find(is_it).expect("a cell of the table").value
    };
    let mut names: Vec<&'static str> = rows.iter().map(|row| row.row).collect();
    names.dedup();
    let mut found = Vec::new();
    for figure in figures {
        for row in &names {
            let (ours, fifo) = (value(row, recommended().name, figure), value(row, "fifo", figure));
            let is_worse = match figure.contains("p99") {
                // Nothing at all was done under `fifo`.
                true if fifo == Milli(0) => false,
                true => ours.0 * 50 > fifo.0 * 51,
                false => ours.0 * 50 < fifo.0 * 49,
            };
            if is_worse {
                found.push((*row, *figure));
            }
        }
    }
    found
}

#[test]
fn a_small_reader_gets_no_less_done_than_under_fifo() {
    let rows = rivals::rivals(1, &rivals::DISKS, &["fifo", recommended().name]);
    assert_eq!(worse(&rows, &["small"]), []);
    // A go of the other one is 100 ms: the slowest hundredth of its requests waits for that, where
    // each one of them waits for 35 ms under `fifo`. Cached writes are put away in one go.
    let waits = [
        ("hdd-sata-250g sequential-read", "small_p99_ms"),
        ("hdd-sata-250g sequential-write", "small_p99_ms"),
        ("hdd-sata-250g-ncq sequential-read", "small_p99_ms"),
        ("hdd-sata-250g-ncq sequential-write", "small_p99_ms"),
        ("hdd-sata-250g-ncq random-write", "small_p99_ms"),
        ("hdd-sata-250g-ncq sequential-write", "light_p99_ms"),
    ];
    assert_eq!(worse(&rows, &["small_p99_ms", "light_p99_ms"]), waits);
    // While the small one has its go the disk has one request to choose from, and not 31. On flash
    // both take turns where the small one had less than its part, and are not served side by side.
    let both = [
        ("hdd-sata-250g-ncq random-64", "sum"),
        ("hdd-sata-250g-ncq programs-64", "sum"),
        ("ssd-sata sequential-read", "sum"),
        ("ssd-sata sequential-write", "sum"),
        ("ssd-nvme sequential-write", "sum"),
        ("ssd-nvme random-write", "sum"),
        ("hdd-sata-250g programs-64", "big_beside_light"),
        ("hdd-sata-250g random-write", "big_beside_light"),
        ("hdd-sata-250g-ncq random-64", "big_beside_light"),
        ("hdd-sata-250g-ncq programs-64", "big_beside_light"),
    ];
    assert_eq!(worse(&rows, &["sum", "big_beside_light"]), both);
}

#[test]
fn nobody_commits_less_than_under_fifo() {
    let rows = commits::commits(1, &commits::DISKS, &["fifo", recommended().name]);
    assert_eq!(worse(&rows, &["commits", "spaced_commits", "spaced_p99"]), []);
    // Commits have what the bulk has lost, and a flush is time in which nothing else is done.
    let both = [
        ("hdd-sata-250g-ncq reading", "sum"),
        ("hdd-sata-250g-ncq random-64", "sum"),
        ("ssd-sata writing", "sum"),
        ("ssd-nvme writing", "sum"),
    ];
    assert_eq!(worse(&rows, &["sum"]), both);
}
