//! All outcome tables at once, and what holds of them, row by row.

use super::format::{finish, plain_table, right};
use super::{
    TableRow, commits, congestion, further, geom, hosts, merge, nights, pace, quantum, rivals,
    slots, weights,
};
use iopace_core::time::Nanos;
use std::fmt::Write as _;

/// The word for all of them on the command line.
pub const ALL: &str = "all";

/// The tables, in the order in which they are made.
pub const TABLES: [&str; 12] = [
    geom::TABLE,
    slots::TABLE,
    pace::TABLE,
    congestion::TABLE,
    further::TABLE,
    rivals::TABLE,
    weights::TABLE,
    commits::TABLE,
    quantum::TABLE,
    merge::TABLE,
    nights::TABLE,
    hosts::TABLE,
];

/// What a table is about, and where its figures come from.
pub fn subject(table: &str) -> &'static str {
    match table {
        slots::TABLE => {
            "Request slots per group: how soon a newcomer is served (io-controller, 2009)"
        }
        pace::TABLE => "Buffered writers, paced by rate and as before 2011 (Linux, 2011)",
        congestion::TABLE => "Reads beside dd, in more than fifty scenarios (NetBSD, 2006)",
        further::TABLE => {
            "What the sources ask or promise beside their tables: groups, slots, exchanges, curves"
        }
        rivals::TABLE => {
            "A small reader and a light one beside each kind of big one, on four disks"
        }
        weights::TABLE => "Two groups of weights 4 and 16 to 1 beside each other, on four disks",
        commits::TABLE => "Commits beside bulk I/O, with nothing set, on four disks",
        merge::TABLE => "Requests that adjoin each other, as one command or each alone",
        nights::TABLE => {
            "A program that is to be done by a time, and others' latency: iopace nice, 1000 nights"
        }
        hosts::TABLE => "Hosts that share a volume: shares by weight, with and without a store",
        quantum::TABLE => "The length of a go: latency of a small reader beside what both get",
        _ => "dd and cvs under every scheduler (geom_sched, 2009)",
    }
}

/// The rows of a table; the runs of `geom` last for `duration`. `None` if there is no such table.
pub fn rows(table: &str, seed: u64, duration: Nanos) -> Option<Vec<TableRow>> {
    Some(match table {
        geom::TABLE => geom::geom(seed, duration),
        slots::TABLE => slots::slots(seed),
        pace::TABLE => pace::pace(seed),
        congestion::TABLE => congestion::congestion(seed),
        further::TABLE => further::further(seed),
        rivals::TABLE => rivals::rivals(seed, &rivals::DISKS, &rivals::VARIANTS),
        weights::TABLE => weights::weights(seed, &rivals::DISKS, |_| true),
        commits::TABLE => commits::commits(seed, &commits::DISKS, &commits::VARIANTS),
        quantum::TABLE => quantum::quantum(seed),
        merge::TABLE => merge::merge(seed),
        nights::TABLE => nights::nights(seed, nights::NIGHTS),
        hosts::TABLE => hosts::hosts(seed),
        _ => return None,
    })
}

/// How a row of a table came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The table.
    pub table: &'static str,
    /// Its row.
    pub row: &'static str,
    /// How many bounds it has.
    pub bounds: usize,
    /// The figures that miss theirs: variant, figure, value and bound.
    pub missed: Vec<String>,
}

/// One verdict for each row that has a bound, in the order of the rows.
pub fn verdicts(rows: &[TableRow]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = Vec::new();
    for row in rows {
        let (Some(bound), Some(holds)) = (&row.bound, row.holds) else { continue };
        let is_same = |v: &Verdict| (v.table, v.row) == (row.table, row.row);
        let place = verdicts.iter().position(is_same).unwrap_or_else(|| {
            let (table, row) = (row.table, row.row);
            verdicts.push(Verdict { table, row, bounds: 0, missed: Vec::new() });
            verdicts.len() - 1
        });
        verdicts[place].bounds += 1;
        if !holds {
            let TableRow { variant, figure, value, unit, .. } = row;
            let text = format!("{variant} {figure} {value} {unit}, wanted {bound}");
            verdicts[place].missed.push(text);
        }
    }
    verdicts
}

/// The verdicts for people: one line a row, then how many hold.
pub fn summary(rows: &[TableRow]) -> String {
    let verdicts = verdicts(rows);
    let mut table = plain_table();
    table.set_header(["table", "row", "bounds", "outcome"]);
    for verdict in &verdicts {
        let outcome = match verdict.missed.as_slice() {
            [] => "holds".into(),
            missed => format!("falls short: {}", missed.join("; ")),
        };
        let bounds = right(&verdict.bounds.to_string());
        table.add_row([verdict.table.into(), verdict.row.into(), bounds, outcome.into()]);
    }
    let mut text = finish(&table);
    let held = verdicts.iter().filter(|verdict| verdict.missed.is_empty()).count();
    let bounds: usize = verdicts.iter().map(|verdict| verdict.bounds).sum();
    let missed: usize = verdicts.iter().map(|verdict| verdict.missed.len()).sum();
    let _ = writeln!(
        text,
        "\n{held} of {} rows hold; {} of {bounds} bounds",
        verdicts.len(),
        bounds - missed
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::milli::Milli;

    fn row(row: &'static str, variant: &'static str, holds: Option<bool>) -> TableRow {
        TableRow {
            table: "geom",
            row,
            variant,
            figure: "dd_share",
            unit: "of alone",
            source: None,
            value: Milli(300),
            bound: holds.map(|_| ">= 0.40".into()),
            holds,
        }
    }

    #[test]
    fn a_row_holds_if_all_its_bounds_do() {
        let rows = [
            row("a", "none", None),
            row("a", "rr", Some(true)),
            row("a", "fair", Some(false)),
            row("b", "rr", Some(true)),
        ];
        let text = summary(&rows);
        assert!(
            text.contains("falls short: fair dd_share 0.300 of alone, wanted >= 0.40"),
            "{text}"
        );
        assert!(text.contains("| geom  | b   |      1 | holds"), "{text}");
        assert!(text.ends_with("\n1 of 2 rows hold; 2 of 3 bounds\n"), "{text}");
    }

    #[test]
    fn every_table_is_known() {
        assert!(rows("nothing", 1, geom::DURATION).is_none());
        let rows = rows(geom::TABLE, 1, Nanos::from_secs(2)).expect("a table");
        assert!(rows.iter().all(|row| row.table == geom::TABLE));
        let subjects: Vec<&str> = TABLES.iter().map(|table| subject(table)).collect();
        assert!(subjects.iter().all(|one| subjects.iter().filter(|s| *s == one).count() == 1));
    }
}
