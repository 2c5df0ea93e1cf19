//! Merging, measured: what the manual says of it.

use iopace_sim::milli::Milli;
use iopace_sim::tables::TableRow;
use iopace_sim::tables::merge::{FIGURES, in_the_manual, merge};

#[test]
fn streams_of_small_requests_gain_and_the_manual_has_the_figures() {
    let rows = merge(1);
    for both in rows.chunks(2 * FIGURES.len()) {
        let figure = |name: &str| -> [Milli; 2] {
            let of_name = |row: &&TableRow| row.figure == name;
            let mut values = both.iter().filter(of_name).map(|row| row.value);
            [(); 2].map(|()| values.next().expect("without merging, and with it"))
        };
        let ([rate, merged_rate], [commands, merged]) = (figure("mb_s"), figure("commands_s"));
        let name = format!("{} {}: {rate} {merged_rate} MB/s", both[0].row, both[0].variant);
        if both[0].row.ends_with(" random-read") {
            assert_eq!((rate, commands), (merged_rate, merged), "{name}: nothing to merge");
        }
        if both[0].row.ends_with(" sequential-write") {
            assert!(merged_rate >= rate && merged.0 * 8 < commands.0, "{name}, {merged}");
        }
        if both[0].row.ends_with("two-streams") {
            assert!(merged_rate > rate, "{name}");
        }
    }
    let lines = in_the_manual(&rows);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/merging.md");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains(&lines), "docs/merging.md is to have these lines:\n{lines}");
}
