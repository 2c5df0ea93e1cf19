//! A study for people and for programs: table, CSV, JSON.

use super::columns::Column;
use super::summary::{Summary, TaskRow};
use crate::milli::Milli;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

/// The word for the whole run where a task's name stands.
pub const WHOLE: &str = "(all)";

/// A figure of a task that variants are marked for: its heading, its value, decimals, and whether
/// more is better.
pub(super) struct Marked {
    pub(super) heading: &'static str,
    pub(super) value: fn(&TaskRow) -> Option<Milli>,
    pub(super) decimals: usize,
    pub(super) more_is_better: bool,
}

/// The figures of the table.
pub(super) const FIGURES: [Marked; 6] = [
    Marked { heading: "MB/s", value: |t| Some(t.mb_s), decimals: 2, more_is_better: true },
    Marked { heading: "ops/s", value: |t| Some(t.ops_s), decimals: 1, more_is_better: true },
    Marked { heading: "p50 ms", value: |t| Some(t.p50_ms), decimals: 2, more_is_better: false },
    Marked { heading: "p99 ms", value: |t| Some(t.p99_ms), decimals: 2, more_is_better: false },
    Marked { heading: "max ms", value: |t| Some(t.max_ms), decimals: 1, more_is_better: false },
    Marked { heading: "share", value: |t| t.share, decimals: 2, more_is_better: true },
];

/// How a value stands among those of the other variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Best,
    Worst,
    Between,
}

/// The mark of a figure of a task in one variant; no mark if all variants agree as far as printed.
pub(super) fn mark(all: &[Summary], figure: &Marked, row: &TaskRow) -> Mark {
    let rows: Vec<&TaskRow> = all.iter().filter_map(|summary| summary.task(&row.task)).collect();
    mark_among(&rows, figure, row)
}

/// The mark of a figure of a row among those of all variants.
pub(super) fn mark_among(rows: &[&TaskRow], figure: &Marked, row: &TaskRow) -> Mark {
    let rounded = |value: Milli| format!("{value:.*}", figure.decimals);
    let values: Vec<Milli> = rows.iter().filter_map(|row| (figure.value)(row)).collect();
    let (Some(least), Some(most)) = (values.iter().min(), values.iter().max()) else {
        return Mark::Between;
    };
    let (Some(value), true) = ((figure.value)(row), rounded(*least) != rounded(*most)) else {
        return Mark::Between;
    };
    let (best, worst) = if figure.more_is_better { (most, least) } else { (least, most) };
    match rounded(value) {
        text if text == rounded(*best) => Mark::Best,
        text if text == rounded(*worst) => Mark::Worst,
        _ => Mark::Between,
    }
}

/// The table: a row for each variant and task, and one for each whole run.
pub fn table(all: &[Summary]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let headings = FIGURES.iter().map(|figure| figure.heading);
    table
        .set_header(["variant", "task"].into_iter().chain(headings).chain(["disk busy", "checks"]));
    for summary in all {
        for row in &summary.tasks {
            let cells = FIGURES.iter().map(|figure| {
                let text = (figure.value)(row).map_or(String::new(), |value| {
                    let sign = match mark(all, figure, row) {
                        Mark::Best => "+",
                        Mark::Worst => "-",
                        Mark::Between => " ",
                    };
                    format!("{value:.*}{sign}", figure.decimals)
                });
                Cell::new(text).set_alignment(CellAlignment::Right)
            });
            let names = [Cell::new(&summary.variant), Cell::new(&row.task)];
            table.add_row(names.into_iter().chain(cells));
        }
        table.add_row(whole_cells(summary));
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.strip_prefix(' ').unwrap_or(line).trim_end());
        text.push('\n');
    }
    if all.len() > 1 {
        text.push_str("\n+ best, - worst of all variants for this task\n");
    }
    text
}

fn whole_cells(summary: &Summary) -> Vec<Cell> {
    let whole = &summary.whole;
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let empty = || Cell::new("");
    let checks = match whole.checks {
        0 => String::new(),
        all => format!("{} of {all} hold", whole.checks_held),
    };
    vec![
        Cell::new(&summary.variant),
        Cell::new(WHOLE),
        right(format!("{:.2} ", whole.mb_s)),
        empty(),
        empty(),
        empty(),
        empty(),
        right(whole.efficiency.map_or(String::new(), |sum| format!("{sum:.2} "))),
        right(format!("{:.1} %", Milli(whole.disk_busy.0.saturating_mul(100)))),
        right(checks),
    ]
}

/// The study as JSON: an array of variants.
pub fn json(all: &[Summary]) -> String {
    let text = serde_json::to_string_pretty(all).expect("strings, numbers and lists");
    format!("{text}\n")
}

/// The study as comma-separated values: the rows of [`super::columns`] with a header line.
pub fn csv(all: &[Summary]) -> String {
    csv_of(&super::columns::columns(all))
}

/// Columns as comma-separated values with a header line (RFC 4180).
pub fn csv_of(columns: &[Column]) -> String {
    let names: Vec<String> = columns.iter().map(|column| quoted(&column.name)).collect();
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let mut text = names.join(",");
    text.push('\n');
    for row in 0..rows {
        let cells = columns.iter().map(|column| match column.cells.text(row) {
            Some(text) => quoted(&text),
            None => String::new(),
        });
        text.push_str(&cells.collect::<Vec<String>>().join(","));
        text.push('\n');
    }
    text
}

/// A field of a CSV file, in quotes where it needs them (RFC 4180).
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}
