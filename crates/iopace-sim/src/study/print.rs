//! A study for people and for programs: table, CSV, JSON.

pub use super::idle::warnings;

use super::columns::Column;
use super::interval::are_apart;
use super::summary::{Summary, TaskInterval, TaskRow, WHOLE, WholeRow};
use crate::milli::Milli;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};

/// A figure of a task that variants are marked for: its heading, its value, half the width of its
/// interval, decimals, and whether more is better.
pub(super) struct Marked {
    pub(super) heading: &'static str,
    pub(super) value: fn(&TaskRow) -> Option<Milli>,
    half: fn(&TaskInterval) -> Option<Milli>,
    pub(super) decimals: usize,
    pub(super) more_is_better: bool,
}

impl Marked {
    /// Half the width of the interval of the figure in a row that is a mean.
    pub(super) fn half(&self, row: &TaskRow) -> Option<Milli> {
        row.ci95.as_ref().and_then(self.half)
    }

    /// The figure as it is printed, and after it its interval.
    pub(super) fn text(&self, row: &TaskRow) -> Option<(String, String)> {
        let value = (self.value)(row)?;
        Some((format!("{value:.*}", self.decimals), interval(self.half(row), self.decimals)))
    }
}

/// ` ±0.12`, or nothing.
pub(super) fn interval(half: Option<Milli>, decimals: usize) -> String {
    half.map_or(String::new(), |half| format!(" ±{half:.decimals$}"))
}

/// The figures of the table.
pub(super) const FIGURES: [Marked; 6] = [
    Marked {
        heading: "MB/s",
        value: |t| Some(t.mb_s),
        half: |t| Some(t.mb_s),
        decimals: 2,
        more_is_better: true,
    },
    Marked {
        heading: "ops/s",
        value: |t| Some(t.ops_s),
        half: |t| Some(t.ops_s),
        decimals: 1,
        more_is_better: true,
    },
    Marked {
        heading: "p50 ms",
        value: |t| Some(t.p50_ms),
        half: |t| Some(t.p50_ms),
        decimals: 2,
        more_is_better: false,
    },
    Marked {
        heading: "p99 ms",
        value: |t| Some(t.p99_ms),
        half: |t| Some(t.p99_ms),
        decimals: 2,
        more_is_better: false,
    },
    Marked {
        heading: "max ms",
        value: |t| Some(t.max_ms),
        half: |_| None,
        decimals: 1,
        more_is_better: false,
    },
    Marked {
        heading: "share",
        value: |t| t.share,
        half: |t| t.share,
        decimals: 2,
        more_is_better: true,
    },
];

/// How a value stands among those of the other variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Best,
    Worst,
    Between,
}

/// The mark of a figure of a task in one variant; no mark if all variants agree as far as printed,
/// or if the seeds do not tell the best from the worst.
pub(super) fn mark(all: &[Summary], figure: &Marked, row: &TaskRow) -> Mark {
    let rows: Vec<&TaskRow> = all.iter().filter_map(|summary| summary.task(&row.task)).collect();
    mark_among(&rows, figure, row)
}

/// The mark of a figure of a row among those of all variants.
pub(super) fn mark_among(rows: &[&TaskRow], figure: &Marked, row: &TaskRow) -> Mark {
    let rounded = |value: Milli| format!("{value:.*}", figure.decimals);
    let known = |row: &&TaskRow| Some(((figure.value)(row)?, figure.half(row)));
    let values: Vec<(Milli, Option<Milli>)> = rows.iter().filter_map(known).collect();
    let least = values.iter().min_by_key(|(value, _)| *value);
    let most = values.iter().max_by_key(|(value, _)| *value);
    let (Some(least), Some(most)) = (least, most) else { return Mark::Between };
    let is_told = rounded(least.0) != rounded(most.0) && are_apart(*least, *most);
    let (Some(value), true) = ((figure.value)(row), is_told) else {
        return Mark::Between;
    };
    let (best, worst) = if figure.more_is_better { (most, least) } else { (least, most) };
    match rounded(value) {
        text if text == rounded(best.0) => Mark::Best,
        text if text == rounded(worst.0) => Mark::Worst,
        _ => Mark::Between,
    }
}

/// The table: a row for each variant and task, and one for each whole run. With several seeds their
/// means with intervals, and below them the same of each seed.
pub fn table(all: &[Summary]) -> String {
    table_within(all, usize::MAX)
}

/// The same for so many columns: where it needs more, whole runs are a table of their own.
pub fn table_within(all: &[Summary], columns: usize) -> String {
    let means = lines(&means(all));
    let fits = means.lines().all(|line| line.chars().count() <= columns);
    let mut text = if fits { means } else { apart(all) };
    if all.len() > 1 {
        text.push_str("\n+ best, - worst of all variants for this task\n");
    }
    if let Some(seeds) = seeds(all) {
        text.push_str(&format!("\n{}\n\neach seed:\n{}", meaning(seeds), each_seed(all)));
    }
    for warning in warnings(all) {
        text.push_str(&format!("\nwarning: {warning}\n"));
    }
    text
}

/// Tasks and whole runs in one table.
fn means(all: &[Summary]) -> Table {
    let mut means = plain_table(["variant", "task"].into_iter());
    for summary in all {
        for row in &summary.tasks {
            let names = [Cell::new(&summary.variant), Cell::new(&row.task)];
            means.add_row(names.into_iter().chain(task_cells(all, row)));
        }
        let names = [Cell::new(&summary.variant), Cell::new(WHOLE)];
        means.add_row(names.into_iter().chain(whole_cells(&summary.whole)));
    }
    means
}

/// The figures of a task, with the marks among all variants.
fn task_cells(all: &[Summary], row: &TaskRow) -> impl Iterator<Item = Cell> {
    FIGURES.iter().map(move |figure| {
        let text = figure.text(row).map_or(String::new(), |(value, interval)| {
            format!("{value}{}{interval}", sign(mark(all, figure, row)))
        });
        right(text)
    })
}

/// Tasks and whole runs in two tables.
fn apart(all: &[Summary]) -> String {
    let bare = || {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table
    };
    let mut tasks = bare();
    let headings = FIGURES.iter().map(|figure| figure.heading);
    tasks.set_header(["variant", "task"].into_iter().chain(headings));
    let mut whole = bare();
    whole.set_header(["variant", "task", "MB/s", "share", "disk busy", "checks"]);
    for summary in all {
        for row in &summary.tasks {
            let names = [Cell::new(&summary.variant), Cell::new(&row.task)];
            tasks.add_row(names.into_iter().chain(task_cells(all, row)));
        }
        let names = [Cell::new(&summary.variant), Cell::new(WHOLE)];
        let [mb_s, _, _, _, _, share, busy, checks] = whole_cells(&summary.whole);
        whole.add_row(names.into_iter().chain([mb_s, share, busy, checks]));
    }
    format!("{}\n{}", lines(&tasks), lines(&whole))
}

/// How many seeds the means of a study are of, if there are several.
pub(super) fn seeds(all: &[Summary]) -> Option<u64> {
    all.iter().map(|summary| summary.seeds).find(|seeds| *seeds > 1)
}

/// The meaning of a figure with an interval.
pub(super) fn meaning(seeds: u64) -> String {
    format!(
        "means of {seeds} seeds, ± half the width of their 95 % confidence interval (Student's t); \
         max ms is the longest of all seeds; no mark where the intervals of best and worst meet"
    )
}

/// The figures of every seed.
fn each_seed(all: &[Summary]) -> String {
    let mut table = plain_table(["variant", "task", "seed"].into_iter());
    for summary in all {
        let tasks = summary.tasks.iter().enumerate();
        for (place, task) in tasks {
            for one in &summary.by_seed {
                let cells = FIGURES.iter().map(|figure| {
                    let text = figure.text(&one.tasks[place]).map_or(String::new(), |text| text.0);
                    right(format!("{text} "))
                });
                let names = [Cell::new(&summary.variant), Cell::new(&task.task), right(one.seed)];
                table.add_row(names.into_iter().chain(cells));
            }
        }
        for one in &summary.by_seed {
            let names = [Cell::new(&summary.variant), Cell::new(WHOLE), right(one.seed)];
            table.add_row(names.into_iter().chain(whole_cells(&one.whole)));
        }
    }
    lines(&table)
}

fn plain_table(names: impl Iterator<Item = &'static str>) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let headings = FIGURES.iter().map(|figure| figure.heading);
    table.set_header(names.chain(headings).chain(["disk busy", "checks"]));
    table
}

/// A table's lines, without the margin that the style gives it.
fn lines(table: &Table) -> String {
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.strip_prefix(' ').unwrap_or(line).trim_end());
        text.push('\n');
    }
    text
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Best => "+",
        Mark::Worst => "-",
        Mark::Between => " ",
    }
}

fn right(text: impl ToString) -> Cell {
    Cell::new(text.to_string()).set_alignment(CellAlignment::Right)
}

/// One for each of the figures, and two.
fn whole_cells(whole: &WholeRow) -> [Cell; 8] {
    let empty = || Cell::new("");
    let of = |half: Option<Milli>| interval(half, 2);
    let ci95 = whole.ci95.as_ref();
    let efficiency = whole.efficiency.map_or(String::new(), |sum| {
        format!("{sum:.2} {}", of(ci95.and_then(|ci95| ci95.efficiency)))
    });
    [
        right(format!("{:.2} {}", whole.mb_s, of(ci95.map(|ci95| ci95.mb_s)))),
        empty(),
        empty(),
        empty(),
        empty(),
        right(efficiency),
        right(percent(whole)),
        right(checks(whole)),
    ]
}

/// Which part of the time the disk was busy, with its interval.
pub(super) fn percent(whole: &WholeRow) -> String {
    let percent = |part: Milli| Milli(part.0.saturating_mul(100));
    let half = whole.ci95.as_ref().map(|ci95| percent(ci95.disk_busy));
    format!("{:.1} %{}", percent(whole.disk_busy), interval(half, 1))
}

/// How many checks hold.
pub(super) fn checks(whole: &WholeRow) -> String {
    match whole.checks {
        0 => String::new(),
        all => format!("{} of {all} hold", whole.checks_held),
    }
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
