//! The outcome tables as one HTML file that needs nothing else.

use super::all::{TABLES, subject, verdicts};
use super::{TableRow, format};
use crate::markup::{STYLE, escaped};
use std::fmt::Write as _;

/// The report: the summary first, then each table with what it is about.
pub fn page(rows: &[TableRow], seed: u64) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src \
         'unsafe-inline'\">\n<title>iopace: outcome tables</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<header><h1>Outcome tables</h1>\n<p class=\"dim\">What the source \
         systems measured beside what iopace does in virtual time, seed {seed}.</p></header>\n\
         <main>\n"
    );
    text.push_str("<section class=\"words\"><h2>What holds</h2>\n");
    let outcomes = verdicts(rows).into_iter().map(|verdict| {
        let (class, outcome) = match verdict.missed.as_slice() {
            [] => ("best", "holds".to_string()),
            missed => ("worst", format!("falls short: {}", missed.join("; "))),
        };
        let bounds = verdict.bounds.to_string();
        let cells = [verdict.table, verdict.row, &bounds, &outcome].map(String::from);
        (cells.to_vec(), class)
    });
    grid(&mut text, &["table", "row", "bounds", "outcome"], outcomes);
    text.push_str("</section>\n");
    for table in TABLES {
        let of_table = || rows.iter().filter(|row| row.table == table);
        if of_table().next().is_none() {
            continue;
        }
        let (name, about) = (escaped(table), escaped(subject(table)));
        let _ = writeln!(text, "<section><h2>{name}</h2>\n<p>{about}.</p>");
        let header = ["row", "variant", "figure", "unit", "source", "value", "bound", "holds"];
        grid(&mut text, &header, of_table().map(cells));
        text.push_str("</section>\n");
    }
    let _ = write!(
        text,
        "</main>\n<footer><p>iopace {}, in virtual time: the same seed gives the same figures.</p>\
         </footer>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    text
}

/// A row of a table, and how it is to be marked.
fn cells(row: &TableRow) -> (Vec<String>, &'static str) {
    let source = row.source.map(|value| format::decimals(&TableRow { value, ..row.clone() }));
    let (class, holds) = match row.holds {
        Some(true) => ("best", "yes"),
        Some(false) => ("worst", "NO"),
        None => ("", ""),
    };
    let cells = [
        row.row.into(),
        row.variant.into(),
        row.figure.into(),
        row.unit.into(),
        source.unwrap_or_default(),
        format::decimals(row),
        row.bound.clone().unwrap_or_default(),
        holds.into(),
    ];
    (cells.to_vec(), class)
}

/// A table whose last column has the mark.
fn grid(
    text: &mut String,
    header: &[&str],
    rows: impl Iterator<Item = (Vec<String>, &'static str)>,
) {
    text.push_str("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Figures\">");
    text.push_str("\n<table>\n<thead><tr>");
    for heading in header {
        let _ = write!(text, "<th scope=\"col\">{heading}</th>");
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for (cells, class) in rows {
        text.push_str("<tr>");
        for (place, cell) in cells.iter().enumerate() {
            let class = if place + 1 == cells.len() { class } else { "" };
            let _ = match class {
                "" => write!(text, "<td>{}</td>", escaped(cell)),
                class => write!(text, "<td class=\"{class}\">{}</td>", escaped(cell)),
            };
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n</div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::milli::Milli;

    #[test]
    fn the_page_says_what_falls_short_and_needs_nothing() {
        let row = TableRow {
            table: "geom",
            row: "dd-read<cvs",
            variant: "rr",
            figure: "dd_mb_s",
            unit: "MB/s",
            source: Some(Milli(30_000)),
            value: Milli(29_000),
            bound: Some(">= 30".into()),
            holds: Some(false),
        };
        let text = page(std::slice::from_ref(&row), 1);
        assert!(text.contains("<td class=\"worst\">NO</td>"), "{text}");
        assert!(text.contains("falls short: rr dd_mb_s 29.000 MB/s, wanted &gt;= 30"), "{text}");
        assert!(text.contains("dd-read&lt;cvs") && !text.contains("<h2>pace</h2>"));
        for foreign in [" src=", "href=", "@import", "<link", "<script"] {
            assert!(!text.contains(foreign), "{foreign}");
        }
        let held = page(&[TableRow { holds: Some(true), ..row }], 1);
        assert!(!held.contains("falls short") && held.contains("<td class=\"best\">yes</td>"));
    }
}
