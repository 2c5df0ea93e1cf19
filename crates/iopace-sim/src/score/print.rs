//! Scores as text, JSON and CSV. The same scores give the same bytes.

use super::Score;
use crate::milli::Milli;
use crate::study::columns::{Cells, Column};
use crate::study::print::csv_of;
use crate::tables::format::{finish, plain_table, right};
use comfy_table::Cell;

/// A measure: its name, and its score.
pub type Measure = (&'static str, fn(&Score) -> Milli);

/// A word of a score: its name, and what it is.
type Word = (&'static str, fn(&Score) -> &'static str);

/// The measures, in the order of the columns.
pub const MEASURES: [Measure; 6] = [
    ("isolation", |score| score.isolation),
    ("latency", |score| score.latency),
    ("conservation", |score| score.conservation),
    ("efficiency", |score| score.efficiency),
    ("fairness", |score| score.fairness),
    ("rise", |score| score.rise),
];

/// For people: one line per policy and disk, in whole per cent.
pub fn table(scores: &[Score]) -> String {
    let mut table = plain_table();
    let names = MEASURES.iter().map(|(name, _)| right(name));
    table.set_header([Cell::new("sched"), Cell::new("disk")].into_iter().chain(names));
    for score in scores {
        let values = MEASURES.iter().map(|(_, of)| right(&format!("{:.0}", of(score))));
        table.add_row([Cell::new(score.sched), Cell::new(score.disk)].into_iter().chain(values));
    }
    finish(&table)
}

/// One JSON array, one object per policy and disk, with the figures of every mix.
pub fn json(scores: &[Score]) -> String {
    let mut text = serde_json::to_string_pretty(scores).expect("strings and numbers");
    text.push('\n');
    text
}

/// What CSV and Parquet files hold: a row per policy and disk, the scores only.
pub fn columns(scores: &[Score]) -> Vec<Column> {
    let names: [Word; 4] = [
        ("sched", |score| score.sched),
        ("window", |score| score.window),
        ("pace", |score| score.pace),
        ("disk", |score| score.disk),
    ];
    let texts = names.into_iter().map(|(name, of)| {
        let cells = scores.iter().map(|score| Some(of(score).into())).collect();
        Column { name: name.into(), cells: Cells::Text(cells) }
    });
    let figures = MEASURES.iter().map(|(name, of)| {
        let cells = scores.iter().map(|score| Some(of(score))).collect();
        Column { name: (*name).into(), cells: Cells::Figure(cells) }
    });
    texts.chain(figures).collect()
}

/// Comma-separated values with a header line; the scores only.
pub fn csv(scores: &[Score]) -> String {
    csv_of(&columns(scores))
}
