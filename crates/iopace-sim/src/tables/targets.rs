//! Every figure that a source system states, row by row: what it stated, what we set out to meet,
//! what came out, whether that holds, and the reason where it does not.
//!
//! Nothing here is a figure of its own. The entries are those rows of the tables of the four source
//! systems that have a figure of the source, words of it, or a bound; the reasons stand beside the
//! bounds in each table's file. `docs/targets.md` is written from it: section by section by the
//! tests that make the tables, as a whole by `iopace sim tables targets --page`.

use super::format::{decimals, finish, plain_table, right};
use super::{TableRow, congestion, further, geom, pace, slots};
use comfy_table::Cell;
use serde::Serialize;
use std::fmt::Write as _;

/// The word for it on the command line.
pub const TABLE: &str = "targets";

/// The tables of the source systems, in the order of the page: name, and what the source is.
pub const SOURCES: [(&str, &str); 5] = [
    (geom::TABLE, "Schedulers of disk requests: README of geom_sched (FreeBSD, 2009)"),
    (slots::TABLE, "Request slots per group: the mails on io-controller (Linux, 2009)"),
    (pace::TABLE, "Dirty throttling by rate: IO-less dirty throttling (Linux, 2011)"),
    (congestion::TABLE, "Write congestion control: tech-kern (NetBSD, 2006)"),
    (further::TABLE, "Beside the sources' own tables: what they ask, promise or leave open"),
];

/// How an entry came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetOutcome {
    /// It meets its bound.
    Holds,
    /// It does not.
    FallsShort,
    /// It has no bound: it is shown beside the source.
    Shown,
}

impl TargetOutcome {
    /// As it stands in the table.
    pub fn word(self) -> &'static str {
        match self {
            TargetOutcome::Holds => "yes",
            TargetOutcome::FallsShort => "NO",
            TargetOutcome::Shown => "-",
        }
    }
}

/// A figure of a source, or of ours beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The table.
    pub table: &'static str,
    /// Its row.
    pub row: &'static str,
    /// The scheduler or policy that was measured.
    pub variant: &'static str,
    /// The name of the figure.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The source's figure, a number or in its words; empty if it states nothing.
    pub source: String,
    /// The bound; empty if there is none.
    pub bound: String,
    /// Our figure.
    pub measured: String,
    /// Whether that meets the bound.
    pub outcome: TargetOutcome,
    /// Why it does not, or why it is not as in the source; empty where there is nothing to say.
    pub reason: &'static str,
}

/// The entries of these rows, in their order.
pub fn entries(rows: &[TableRow]) -> Vec<Entry> {
    rows.iter().filter_map(entry).collect()
}

fn entry(row: &TableRow) -> Option<Entry> {
    let TableRow { table, row: name, variant, figure, unit, .. } = *row;
    let (words, reason) = match table {
        geom::TABLE => (geom::words(name, variant, figure), None),
        slots::TABLE => (slots::words(name, figure), slots::reason(name, variant, figure)),
        pace::TABLE => (pace::words(name, variant, figure), pace::reason(name, variant, figure)),
        congestion::TABLE => (None, congestion::reason(variant, figure)),
        further::TABLE => {
            (further::words(name, variant, figure), further::reason(name, variant, figure))
        }
        _ => return None,
    };
    let number = row.source.map(|value| decimals(&TableRow { value, ..row.clone() }));
    let source = words.map(str::to_owned).or(number);
    // A curve is its points.
    let is_shown = table == further::TABLE;
    if source.is_none() && row.bound.is_none() && !is_shown {
        return None;
    }
    let outcome = match row.holds {
        Some(true) => TargetOutcome::Holds,
        Some(false) => TargetOutcome::FallsShort,
        None => TargetOutcome::Shown,
    };
    Some(Entry {
        table,
        row: name,
        variant,
        figure,
        unit,
        source: source.unwrap_or_default(),
        bound: row.bound.clone().unwrap_or_default(),
        measured: decimals(row),
        outcome,
        // A bound that holds needs no excuse.
        reason: reason.filter(|_| outcome != TargetOutcome::Holds).unwrap_or_default(),
    })
}

const HEADER: [&str; 9] =
    ["row", "variant", "figure", "unit", "source", "bound", "measured", "holds", "reason"];

/// The entries for people, with how many hold.
pub fn text(entries: &[Entry]) -> String {
    let mut table = plain_table();
    table.set_header(["table"].into_iter().chain(HEADER));
    for one in entries {
        let cells = [one.table, one.row, one.variant, one.figure, one.unit].map(Cell::new);
        let figures = [&one.source, &one.bound, &one.measured].map(|text| right(text));
        let last = [one.outcome.word(), one.reason].map(Cell::new);
        table.add_row(cells.into_iter().chain(figures).chain(last));
    }
    format!("{}\n{}\n", finish(&table), count(entries))
}

/// The entries as JSON.
pub fn json(entries: &[Entry]) -> String {
    let text = serde_json::to_string_pretty(entries).expect("strings");
    format!("{text}\n")
}

/// The entries as comma-separated values (RFC 4180).
pub fn csv(entries: &[Entry]) -> String {
    let mut text = format!("table,{}\n", HEADER.join(","));
    for one in entries {
        let names = [one.table, one.row, one.variant, one.figure, one.unit];
        let figures = [&*one.source, &*one.bound, &*one.measured, one.outcome.word(), one.reason];
        let fields =
            names.into_iter().chain(figures).map(|field| match field.contains([',', '"']) {
                true => format!("\"{}\"", field.replace('"', "\"\"")),
                false => field.to_owned(),
            });
        text.push_str(&fields.collect::<Vec<String>>().join(","));
        text.push('\n');
    }
    text
}

fn count(entries: &[Entry]) -> String {
    let of = |outcome| entries.iter().filter(|one| one.outcome == outcome).count();
    let (held, short) = (of(TargetOutcome::Holds), of(TargetOutcome::FallsShort));
    let (all, shown) = (held + short, of(TargetOutcome::Shown));
    format!("{held} of {all} bounds hold; figures without one, beside the source: {shown}")
}

/// The beginning of the page.
pub const HEAD: &str = "\
# What the sources measured, and what we measure

Four systems of 2006 to 2011 are what iopace began with, and each reported figures for the system \
as it was and as it became.
This page has them beside what the simulator shows, with the bound that we set ourselves and, \
where a bound is missed or a
figure of the system as it was does not come out, the reason. It is written by
`iopace sim tables targets --page docs/targets.md` (some minutes); the tests of each table hold it.

A bound with a tolerance (`1100 +- 300`) is one for reproducing the source, one with `>=` or `<=` \
is one for being better.
`-`: no bound, the figure stands beside the source's for comparison.

One column of a source is missing: the third kernel that it measured for dirty throttling (rsync \
612 853 B/s, pauses up to
300 ms). Its rules are not known well enough to be modelled without guessing.
";

/// The section of a table, from its heading on.
pub fn section(table: &str, rows: &[TableRow]) -> String {
    let about = SOURCES.iter().find(|(name, _)| *name == table).map_or("", |(_, about)| about);
    let all = entries(rows);
    let mut text = format!("\n## {table}\n{about}. {}.\n\n", count(&all));
    let _ = writeln!(text, "| {} |\n|{}", HEADER.join(" | "), "---|".repeat(HEADER.len()));
    for one in &all {
        let names = [one.row, one.variant, one.figure, one.unit];
        let figures = [&*one.source, &*one.bound, &*one.measured, one.outcome.word(), one.reason];
        let cells: Vec<&str> = names.into_iter().chain(figures).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// The whole page; `rows` are those of all tables of [`SOURCES`].
pub fn page(rows: &[TableRow]) -> String {
    let mut text = HEAD.to_owned();
    for (table, _) in SOURCES {
        let of_table: Vec<TableRow> =
            rows.iter().filter(|row| row.table == table).cloned().collect();
        text.push_str(&section(table, &of_table));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::milli::Milli;

    fn row(variant: &'static str, figure: &'static str, holds: Option<bool>) -> TableRow {
        TableRow {
            table: pace::TABLE,
            row: "rsync",
            variant,
            figure,
            unit: "ms",
            source: pace::source("rsync", variant, figure),
            value: Milli(671_100),
            bound: holds.map(|_| "<= 50".into()),
            holds,
        }
    }

    #[test]
    fn an_entry_has_source_bound_measured_and_the_reason_if_it_does_not_hold() {
        let rows = [
            row("legacy", "pause_p99_ms", None),
            row("rate", "pause_p99_ms", Some(true)),
            row("legacy", "empty_s", Some(false)),
            row("rate", "another", None),
        ];
        let all = entries(&rows);
        assert_eq!(all.len(), 3, "neither source nor bound: {all:?}");
        assert_eq!((&*all[0].source, &*all[0].bound), ("up to 3000", ""));
        assert!(all[0].outcome == TargetOutcome::Shown && !all[0].reason.is_empty());
        assert!(all[1].outcome == TargetOutcome::Holds && all[1].reason.is_empty());
        assert!(all[2].outcome == TargetOutcome::FallsShort && !all[2].reason.is_empty());
        let count = "1 of 2 bounds hold; figures without one, beside the source: 1\n";
        assert!(text(&all).ends_with(count), "{}", text(&all));
        let lines: Vec<usize> = csv(&all).lines().map(|line| line.matches(',').count()).collect();
        assert!(lines[0] == 9 && lines.iter().all(|commas| *commas >= 9), "{lines:?}");
        let page = page(&rows);
        assert!(
            page.contains("| rsync | legacy | pause_p99_ms | ms | up to 3000 |  | 671.1 | - |")
        );
        assert!(SOURCES.iter().all(|(name, _)| page.contains(&format!("\n## {name}\n"))));
    }

    #[test]
    fn the_page_is_cut_where_its_sections_begin() {
        let rows = [row("rate", "pause_p99_ms", Some(true))];
        assert!(page(&rows).contains(&section(pace::TABLE, &rows)));
    }
}
