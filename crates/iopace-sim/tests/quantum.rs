//! The length of a go on a disk with a head: the trade is that of the manual.

use iopace_sim::tables::TableRow;
use iopace_sim::tables::quantum::{VARIANTS, in_the_manual, quantum};

#[test]
fn longer_goes_cost_latency_and_give_throughput_as_the_manual_says() {
    let rows = quantum(1);
    for of_mix in rows.chunks(rows.len() / 3) {
        let values = |figure: &str| -> Vec<i64> {
            let of_figure = |row: &&TableRow| row.figure == figure;
            of_mix.iter().filter(of_figure).map(|row| row.value.0).collect()
        };
        for figure in ["sum", "small_p99_ms"] {
            let values = values(figure);
            assert_eq!(values.len(), VARIANTS.len());
            assert!(values.is_sorted(), "{}: {figure} {values:?}", of_mix[0].row);
        }
    }
    let lines = in_the_manual(&rows);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies/fair.md");
    let page = std::fs::read_to_string(page).expect("the page");
    assert!(page.contains(&lines), "docs/policies/fair.md is to have these lines:\n{lines}");
}
