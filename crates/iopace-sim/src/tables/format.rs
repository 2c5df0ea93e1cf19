//! Tables as text, JSON and CSV. The same rows give the same bytes.

use super::TableRow;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets::ASCII_MARKDOWN};
use std::fmt::Write as _;

/// One JSON array, one object per figure.
pub fn json(rows: &[TableRow]) -> String {
    let text = serde_json::to_string_pretty(rows);
    let mut text = text.expect("strings and numbers");
    text.push('\n');
    text
}

/// Comma-separated values with a header line; an empty field where there is nothing.
pub fn csv(rows: &[TableRow]) -> String {
    let mut text = String::from("table,row,variant,figure,unit,source,value,bound,holds\n");
    for row in rows {
        let source = row.source.map(|n| n.to_string()).unwrap_or_default();
        let bound = row.bound.as_deref().unwrap_or_default();
        let holds = row.holds.map(|holds| holds.to_string()).unwrap_or_default();
        // No field has a comma or a quote: names, numbers and bounds are ours.
        let TableRow { table, row, variant, figure, unit, value, .. } = row;
        let line =
            [table, row, variant, figure, unit, &*source, &value.to_string(), bound, &*holds];
        text.push_str(&line.join(","));
        text.push('\n');
    }
    text
}

/// For people: one line per mix and variant, then one line per bound, if there are bounds. Where
/// the lines have different figures, one line per figure; but two tables where there are two kinds
/// of lines, one after the other.
pub fn table(rows: &[TableRow]) -> String {
    let lines = lines(rows);
    let has_figures_of_all = |(_, figures): &Line| rows.iter().all(|r| figures.contains(&r.figure));
    let missed = rows.iter().filter(|row| row.holds == Some(false)).count();
    let bounded = rows.iter().filter(|row| row.holds.is_some()).count();
    let mut text = match lines.iter().find(|line| has_figures_of_all(line)) {
        Some((_, figures)) if bounded == 0 => return outcomes(rows, &lines, figures),
        Some((_, figures)) => format!("{}\n{}", outcomes(rows, &lines, figures), bounds(rows)),
        None => match sections(&lines) {
            Some([first, second]) => {
                let part = |lines: &[Line<'_>]| outcomes(rows, lines, &lines[0].1);
                format!("{}\n{}\n{}", part(first), part(second), bounds(rows))
            }
            None => list(rows),
        },
    };
    let _ = writeln!(text, "\n{} of {bounded} bounds hold", bounded - missed);
    text
}

/// A row and a variant, and the figures that they have.
type Line<'a> = ((&'a str, &'a str), Vec<&'a str>);

/// Lines of two kinds, by their figures, if there are several of each.
fn sections<'a, 'b>(lines: &'b [Line<'a>]) -> Option<[&'b [Line<'a>]; 2]> {
    let sections: Vec<&[Line<'_>]> = lines.chunk_by(|one, other| one.1 == other.1).collect();
    let sections: [&[Line<'_>]; 2] = sections.try_into().ok()?;
    sections.iter().all(|lines| lines.len() > 1).then_some(sections)
}

fn lines(rows: &[TableRow]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for row in rows {
        let name = (row.row, row.variant);
        match lines.iter_mut().find(|(line, _)| *line == name) {
            Some((_, figures)) => figures.push(row.figure),
            None => lines.push((name, vec![row.figure])),
        }
    }
    lines
}

/// The figures in columns.
fn outcomes(rows: &[TableRow], lines: &[Line<'_>], figures: &[&str]) -> String {
    let mut table = plain_table();
    let mut header = vec![Cell::new("row"), Cell::new("variant")];
    for figure in figures {
        header.push(right(figure));
        if *figure == "dd_mb_s" {
            header.push(right("source"));
        }
    }
    table.set_header(header);
    for ((row, variant), _) in lines {
        let mut cells = vec![Cell::new(row), Cell::new(variant)];
        for figure in figures {
            let entry =
                rows.iter().find(|r| (r.row, r.variant, r.figure) == (*row, *variant, *figure));
            cells.push(right(&entry.map_or(String::new(), decimals)));
            if *figure == "dd_mb_s" {
                let source = entry.and_then(|r| r.source);
                cells.push(right(&source.map_or(String::new(), |n| format!("{n:.0}"))));
            }
        }
        table.add_row(cells);
    }
    finish(&table)
}

/// One line per figure.
fn list(rows: &[TableRow]) -> String {
    let mut table = plain_table();
    let header = ["row", "variant", "figure", "unit", "source", "value", "bound", "holds"];
    table.set_header(header);
    for row in rows {
        let source = row.source.map(|source| decimals(&TableRow { value: source, ..row.clone() }));
        let holds = row.holds.map_or("", |holds| if holds { "yes" } else { "NO" });
        table.add_row(vec![
            Cell::new(row.row),
            Cell::new(row.variant),
            Cell::new(row.figure),
            Cell::new(row.unit),
            right(&source.unwrap_or_default()),
            right(&decimals(row)),
            Cell::new(row.bound.as_deref().unwrap_or_default()),
            Cell::new(holds),
        ]);
    }
    finish(&table)
}

/// What has to be met, and whether it is.
fn bounds(rows: &[TableRow]) -> String {
    let mut table = plain_table();
    table.set_header(["row", "variant", "figure", "value", "bound", "holds"]);
    for row in rows {
        let (Some(bound), Some(holds)) = (&row.bound, row.holds) else {
            continue;
        };
        let holds = if holds { "yes" } else { "NO" };
        table.add_row(vec![
            Cell::new(row.row),
            Cell::new(row.variant),
            Cell::new(row.figure),
            right(&decimals(row)),
            Cell::new(bound),
            Cell::new(holds),
        ]);
    }
    finish(&table)
}

/// Shares to three places, seconds to two, what is counted to none, everything else to one.
pub(crate) fn decimals(row: &TableRow) -> String {
    match row.unit {
        unit if unit.starts_with("of ") => format!("{:.3}", row.value),
        "s" => format!("{:.2}", row.value),
        "B" | "B/s" | "tasks" => format!("{:.0}", row.value),
        _ => format!("{:.1}", row.value),
    }
}

pub(crate) fn plain_table() -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table
}

pub(crate) fn right(text: &str) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// The table without blanks at line ends, ended by a newline.
pub(crate) fn finish(table: &Table) -> String {
    let mut text = String::new();
    for line in table.to_string().lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::milli::Milli;

    fn rows() -> Vec<TableRow> {
        let row = TableRow {
            table: "geom",
            row: "dd-read",
            variant: "none",
            figure: "dd_mb_s",
            unit: "MB/s",
            source: Some(Milli(72_000)),
            value: Milli(71_960),
            bound: Some("72 +- 3 %".into()),
            holds: Some(true),
        };
        let bare = TableRow {
            figure: "dd_share",
            unit: "of alone",
            source: None,
            value: Milli(1_000),
            bound: None,
            holds: None,
            ..row.clone()
        };
        vec![row, bare]
    }

    #[test]
    fn json_has_the_promised_keys() {
        let value: serde_json::Value = serde_json::from_str(&json(&rows())).expect("JSON");
        let keys =
            ["table", "row", "variant", "figure", "unit", "source", "value", "bound", "holds"];
        for entry in value.as_array().expect("an array") {
            let entry = entry.as_object().expect("an object");
            assert_eq!(entry.len(), keys.len());
            assert!(keys.iter().all(|key| entry.contains_key(*key)));
        }
        assert_eq!(value[0]["source"], 72);
        assert_eq!(value[0]["value"], 71.96);
        assert!(value[1]["source"].is_null() && value[1]["holds"].is_null());
    }

    #[test]
    fn csv_has_as_many_fields_in_every_line() {
        let text = csv(&rows());
        assert!(text.lines().all(|line| line.split(',').count() == 9));
        assert!(text.contains("geom,dd-read,none,dd_mb_s,MB/s,72.000,71.960,72 +- 3 %,true\n"));
    }

    #[test]
    fn lines_with_different_figures_are_listed() {
        let [row, bare] = &rows()[..] else { unreachable!("two") };
        let other = TableRow { row: "ramp", figure: "ramp_s", unit: "s", ..row.clone() };
        let text = table(&[row.clone(), bare.clone(), other]);
        assert!(
            text.contains("| ramp    | none    | ramp_s   | s        |  72.00 | 71.96 |"),
            "{text}"
        );
        assert!(
            text.contains("| dd-read | none    | dd_share | of alone |        | 1.000 |"),
            "{text}"
        );
        assert!(text.ends_with("2 of 2 bounds hold\n"), "{text}");
    }

    #[test]
    fn lines_of_two_kinds_are_two_tables() {
        let [row, bare] = &rows()[..] else { unreachable!("two") };
        let ramp = TableRow { row: "ramp", figure: "ramp_s", unit: "s", ..row.clone() };
        let fair = |row: &TableRow| TableRow { variant: "fair", ..row.clone() };
        let [first, second] = [row, bare].map(|row| [row.clone(), fair(row)]);
        let all = [first.to_vec(), second.to_vec(), vec![ramp.clone(), fair(&ramp)]].concat();
        let text = table(&all);
        assert!(text.contains("| ramp | none    |  71.96 |"), "{text}");
        assert!(text.contains("| dd-read | fair    |"), "{text}");
    }

    #[test]
    fn the_table_says_what_holds() {
        let text = table(&rows());
        assert!(text.ends_with("1 of 1 bounds hold\n"), "{text}");
        assert!(text.contains("72.0"), "{text}");
        assert!(text.lines().all(|line| line.trim_end() == line));
    }
}
