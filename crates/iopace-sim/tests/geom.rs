//! The reviewed outcome table: a change of policy or model shows as numbers moving in its diff.
//!
//! `IOPACE_BLESS=1 cargo test -p iopace-sim --test geom` writes the table anew; the commit then says
//! in words why the numbers moved.

use iopace_sim::tables::{format, geom};
use std::path::Path;

#[test]
fn the_table_is_as_reviewed() {
    let rows = geom::geom(1, geom::DURATION);
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
}
