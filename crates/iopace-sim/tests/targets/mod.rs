//! The page of what the sources measured, held section by section by the tests that make the
//! tables: nothing is run for it alone.

#![allow(missing_docs, reason = "for the tests")]

use iopace_sim::tables::targets::{TargetOutcome, entries, section};
use iopace_sim::tables::{TableRow, targets};
use std::path::{Path, PathBuf};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/targets.md")
}

/// The section of a table in the page, from its heading to the next one.
fn found<'a>(page: &'a str, table: &str) -> &'a str {
    let heading = format!("\n## {table}\n");
    let start = page.find(&heading).unwrap_or(page.len());
    let body = (start + heading.len()).min(page.len());
    let end = page[body..].find("\n## ").map_or(page.len(), |at| body + at);
    &page[start..end]
}

/// The section is what the rows make of it, and all that falls short has its reason. With
/// IOPACE_UPDATE_DOCS or IOPACE_BLESS it is written.
#[allow(dead_code, reason = "not every test has the whole table")]
pub fn is_current(table: &str, rows: &[TableRow]) {
    let wanted = section(table, rows);
    let page = std::fs::read_to_string(path()).unwrap_or_default();
    let is_written = ["IOPACE_UPDATE_DOCS", "IOPACE_BLESS"].map(std::env::var_os);
    if is_written.iter().any(Option::is_some) && found(&page, table) != wanted {
        let old = found(&page, table).len();
        // A section that is not there yet comes last.
        let start = page.find(&format!("\n## {table}\n")).unwrap_or(page.len());
        let text = format!("{}{wanted}{}", &page[..start], &page[start + old..]);
        std::fs::write(path(), text).expect("the folder docs/ of the project");
        return;
    }
    assert!(page.starts_with(targets::HEAD), "docs/targets.md begins with what the command writes");
    assert!(
        found(&page, table) == wanted,
        "docs/targets.md is out of date (IOPACE_UPDATE_DOCS=1 writes it):\n{wanted}"
    );
    have_reasons(rows);
}

/// A row that falls short says why, and so does a figure of the system as it was that is less than
/// half or more than twice the source's.
pub fn have_reasons(rows: &[TableRow]) {
    for one in entries(rows) {
        let is_silent = one.outcome == TargetOutcome::FallsShort && one.reason.is_empty();
        assert!(!is_silent, "no reason in {}.rs: {one:?}", one.table);
    }
    for row in rows.iter().filter(|row| row.bound.is_none()) {
        let Some(source) = row.source else { continue };
        let is_far = row.value.0 * 2 < source.0 || row.value.0 > source.0 * 2;
        let entry = entries(std::slice::from_ref(row));
        assert!(!is_far || !entry[0].reason.is_empty(), "no reason in {}.rs: {row:?}", row.table);
    }
}

/// The section names the same figures, sources and bounds; what was measured is left out.
#[allow(dead_code, reason = "only where the test has a part of the table")]
pub fn names_the_same(table: &str, rows: &[TableRow]) {
    let page = std::fs::read_to_string(path()).unwrap_or_default();
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("| "));
        let cells = lines.map(|line| line.split('|').map(str::trim).take(7).collect::<Vec<_>>());
        cells.map(|cells| cells.join("|")).collect()
    };
    let wanted = section(table, rows);
    assert_eq!(names(found(&page, table)), names(&wanted), "iopace sim tables targets --page");
    have_reasons(rows);
}
