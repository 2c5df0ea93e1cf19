//! A replay as a study: one variant for each scheduler, a row for each stream.
//!
//! In an open loop all schedulers finish the same requests, so that what tells them apart is
//! latency, what was late, and in a closed loop how long all of it took; the findings say that.

use super::columns::{Cells, Column};
use super::family::family;
use super::print::csv_of;
use super::summary::{ReplayRow, Setting, Summary, TaskRow, WHOLE, WholeRow};
use super::{VariantOutcome, view};
use crate::milli::Milli;
use crate::record::Recording;
use crate::report::{ReplayReport, TaskReport};
use crate::tally::ms;
use iopace_core::stats::Histogram;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Most sentences about streams.
const SENTENCES_MAX: usize = 4;

/// Figures nearer to each other than this, in thousandths, are the same to a user: a twentieth.
const ALIKE: i64 = 50;

/// What a run came to, with its plots.
pub fn outcome(report: &ReplayReport, recording: &Recording) -> VariantOutcome {
    VariantOutcome { summary: summary(report, recording), view: view::view(recording) }
}

fn summary(report: &ReplayReport, recording: &Recording) -> Summary {
    let mut together = Histogram::default();
    let mut tasks = Vec::new();
    for record in &recording.tasks {
        together.merge(&record.latency);
        if let Some(stream) = report.streams.get(&record.name) {
            tasks.push(row(&record.name, &record.group, stream, &record.latency));
        }
    }
    let all = row(WHOLE, "", &report.all, &together);
    Summary {
        variant: report.scheduler.clone(),
        settings: vec![Setting { key: "scheduler".into(), value: report.scheduler.clone() }],
        seeds: 1,
        by_seed: Vec::new(),
        tasks,
        whole: WholeRow {
            mb_s: report.all.mb_s,
            disk_mb_s: report.disk_use.mb_s,
            disk_busy: report.disk_use.busy,
            efficiency: None,
            checks_held: 0,
            checks: 0,
            unfinished: report.unfinished,
            failed_over: report.failed_over,
            ci95: None,
            replay: Some(ReplayRow {
                all,
                elapsed_ms: report.elapsed_ms,
                late: report.late,
                late_max_ms: report.late_max_ms,
            }),
        },
    }
}

fn row(name: &str, group: &str, of: &TaskReport, latency: &Histogram) -> TaskRow {
    TaskRow {
        task: name.into(),
        group: group.into(),
        kind: of.kind.into(),
        mb_s: of.mb_s,
        mb_s_min: of.mb_s,
        mb_s_max: of.mb_s,
        ops_s: of.ops_s,
        mean_ms: of.latency.mean_ms,
        p50_ms: of.latency.p50_ms,
        p90_ms: of.latency.p90_ms,
        p99_ms: of.latency.p99_ms,
        p999_ms: ms(latency.quantile(999)),
        max_ms: of.latency.max_ms,
        share: None,
        ops: of.ops,
        failed: of.failed,
        ci95: None,
    }
}

/// The summaries with what all streams have together as the first of them: for the picture.
pub fn with_whole(all: &[Summary]) -> Vec<Summary> {
    let with = |one: &Summary| {
        let first = one.whole.replay.iter().map(|replay| &replay.all);
        Summary { tasks: first.chain(&one.tasks).cloned().collect(), ..one.clone() }
    };
    all.iter().map(with).collect()
}

/// The streams of a report, those with the most requests first.
pub fn largest(report: &ReplayReport) -> Vec<(&String, &TaskReport)> {
    let mut streams: Vec<_> = report.streams.iter().collect();
    streams.sort_by_key(|(name, stream)| (Reverse(stream.ops), *name));
    streams
}

/// A row of the columns: a scheduler's run, and all of it or one stream.
type Row<'a> = (&'a ReplayReport, Option<(&'a String, &'a TaskReport)>);

/// The figures of a row.
fn of<'a>(row: &Row<'a>) -> &'a TaskReport {
    row.1.map_or(&row.0.all, |(_, stream)| stream)
}

/// The run of a row that stands for all of it.
fn whole<'a>(row: &Row<'a>) -> Option<&'a ReplayReport> {
    row.1.is_none().then_some(row.0)
}

/// What CSV and Parquet files hold: a row for each scheduler, whose stream is `(all)`, and one for
/// each of its streams.
pub fn columns(reports: &[ReplayReport]) -> Vec<Column> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for report in reports {
        rows.push((report, None));
        rows.extend(largest(report).into_iter().map(|stream| (report, Some(stream))));
    }
    let text = |name: &str, of: &dyn Fn(&Row<'_>) -> String| {
        let cells = rows.iter().map(|row| Some(of(row))).collect();
        Column { name: name.into(), cells: Cells::Text(cells) }
    };
    let count = |name: &str, of: &dyn Fn(&Row<'_>) -> Option<u64>| Column {
        name: name.into(),
        cells: Cells::Count(rows.iter().map(of).collect()),
    };
    let figure = |name: &str, of: &dyn Fn(&Row<'_>) -> Option<Milli>| Column {
        name: name.into(),
        cells: Cells::Figure(rows.iter().map(of).collect()),
    };
    vec![
        text("scheduler", &|row| row.0.scheduler.clone()),
        text("stream", &|row| row.1.map_or(WHOLE.into(), |(name, _)| name.clone())),
        count("requests", &|row| Some(of(row).ops)),
        count("failed", &|row| Some(of(row).failed)),
        count("bytes", &|row| Some(of(row).bytes)),
        figure("mb_s", &|row| Some(of(row).mb_s)),
        figure("ops_s", &|row| Some(of(row).ops_s)),
        figure("mean_ms", &|row| Some(of(row).latency.mean_ms)),
        figure("p50_ms", &|row| Some(of(row).latency.p50_ms)),
        figure("p90_ms", &|row| Some(of(row).latency.p90_ms)),
        figure("p99_ms", &|row| Some(of(row).latency.p99_ms)),
        figure("max_ms", &|row| Some(of(row).latency.max_ms)),
        count("late", &|row| whole(row).map(|one| one.late)),
        figure("late_max_ms", &|row| whole(row).map(|one| one.late_max_ms)),
        figure("elapsed_ms", &|row| whole(row).map(|one| one.elapsed_ms)),
        figure("disk_busy", &|row| whole(row).map(|one| one.disk_use.busy)),
        count("unfinished", &|row| whole(row).map(|one| one.unfinished)),
    ]
}

/// The columns as comma-separated values.
pub fn csv(reports: &[ReplayReport]) -> String {
    csv_of(&columns(reports))
}

/// What came out, in sentences: all requests together, then the streams that fare most
/// differently.
pub(super) fn findings(all: &[Summary]) -> Vec<String> {
    let wholes: Vec<(&str, &ReplayRow)> = all
        .iter()
        .filter_map(|one| Some((one.variant.as_str(), one.whole.replay.as_ref()?)))
        .collect();
    let rows: Vec<(&str, &TaskRow)> = wholes.iter().map(|(name, one)| (*name, &one.all)).collect();
    let mut sentences: Vec<String> =
        beside("all requests", &rows).into_iter().map(|f| f.1).collect();
    sentences.extend(elapsed(&wholes));
    sentences.extend(late(&wholes));
    let mut families = BTreeSet::new();
    let names = all.first().map_or(&[][..], |one| &one.tasks).iter().map(|row| &row.task);
    let names = names.filter(|name| families.insert(family(name)));
    let mut streams: Vec<(i64, String)> = names
        .filter_map(|name| {
            let rows = all.iter().filter_map(|one| Some((one.variant.as_str(), one.task(name)?)));
            beside(name, &rows.collect::<Vec<_>>())
        })
        .collect();
    // A lone stream is all; of several, those are of interest that do not fare the same.
    let count = streams.len();
    streams.retain(|(difference, _)| count > 1 && (all.len() == 1 || *difference > ALIKE));
    streams.sort_by_key(|(difference, _)| -difference);
    streams.truncate(SENTENCES_MAX);
    sentences.extend(streams.into_iter().map(|(_, sentence)| sentence));
    for one in all.iter().filter(|one| one.whole.unfinished > 0) {
        let count = one.whole.unfinished;
        sentences.push(format!("{}: {count} requests did not finish.", one.variant));
    }
    sentences
}

/// A figure of a variant.
type Figure<'a> = (&'a str, Milli);

/// The least and the most of a figure, each with the first variant that has it.
fn ends<'a>(values: &[Figure<'a>]) -> Option<(Figure<'a>, Figure<'a>)> {
    let least = values.iter().min_by_key(|(_, value)| *value)?;
    let most = values.iter().rev().max_by_key(|(_, value)| *value)?;
    Some((*least, *most))
}

/// How much less the least is than the most, in thousandths.
fn difference(least: Milli, most: Milli) -> i64 {
    least.over(most).map_or(0, |ratio| 1_000 - ratio.0)
}

/// How soon requests are done in each variant, with the size of the difference.
fn beside(who: &str, rows: &[(&str, &TaskRow)]) -> Option<(i64, String)> {
    let of = |figure: fn(&TaskRow) -> Milli| -> Vec<(&str, Milli)> {
        rows.iter().map(|(name, row)| (*name, figure(row))).collect()
    };
    let (least, most) = ends(&of(|row| row.p99_ms))?;
    let (low, high) = ends(&of(|row| row.p50_ms))?;
    let apart = difference(least.1, most.1);
    let (best, worst, quick, slow) = (time(least.1), time(most.1), time(low.1), time(high.1));
    let sentence = match (rows.len(), apart <= ALIKE) {
        (1, _) => {
            format!("{}: half of {who} take {quick} or less, 99 % {best} or less.", least.0)
        }
        (_, true) => format!(
            "{who}: 99 % take {} or less, half {}, whichever it is.",
            range(best, worst),
            range(quick, slow)
        ),
        _ => {
            let half = match quick == slow {
                true => quick,
                false => format!("{quick} under {}, {slow} under {}", low.0, high.0),
            };
            let (best, worst) = (format!("{best} or less under {}", least.0), worst);
            format!("{who}: 99 % take {best}, {worst} under {}; half {half}.", most.0)
        }
    };
    Some((apart, capital(&sentence, who)))
}

/// A time in milliseconds as one says it: `0.36 ms`, `149.7 s`.
fn time(ms: Milli) -> String {
    match ms.0 {
        0..10_000_000 => format!("{ms:.2} ms"),
        _ => format!("{:.1} s", Milli(ms.0 / 1_000)),
    }
}

/// `0.36 ms to 0.37 ms`, or one of them if they are the same as far as printed.
fn range(least: String, most: String) -> String {
    if least == most { least } else { format!("{least} to {most}") }
}

/// A sentence that does not begin with a name begins with a capital.
fn capital(sentence: &str, who: &str) -> String {
    match (who, sentence.strip_prefix("all")) {
        ("all requests", Some(rest)) => format!("All{rest}"),
        _ => sentence.into(),
    }
}

/// How long it took, if that is not the same for all.
fn elapsed(wholes: &[(&str, &ReplayRow)]) -> Option<String> {
    let values = wholes.iter().map(|(name, one)| (*name, one.elapsed_ms));
    let (least, most) = ends(&values.collect::<Vec<_>>())?;
    let seconds = |time: Milli| Milli(time.0 / 1_000);
    (difference(least.1, most.1) > ALIKE).then(|| {
        let (short, long) = (seconds(least.1), seconds(most.1));
        format!("All of it takes {short:.1} s with {}, {long:.1} s with {}.", least.0, most.0)
    })
}

/// What could not be submitted when it was due.
fn late(wholes: &[(&str, &ReplayRow)]) -> Option<String> {
    let (name, row) = wholes.iter().rev().max_by_key(|(_, one)| one.late)?;
    (row.late > 0).then(|| {
        format!(
            "The disk does not keep up: under {name} {} requests were late, by up to {:.1} s, as \
             4096 others of their trace were outstanding.",
            row.late,
            Milli(row.late_max_ms.0 / 1_000)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(variant: &str, p99_us: i64, elapsed_s: i64, late: u64) -> Summary {
        let row = |name: &str, p99_ms| TaskRow {
            task: name.into(),
            group: "/".into(),
            kind: "trace".into(),
            p50_ms: Milli(1_000),
            p99_ms,
            ..TaskRow::default()
        };
        let replay = ReplayRow {
            all: row(WHOLE, Milli(p99_us)),
            elapsed_ms: Milli(elapsed_s * 1_000_000),
            late,
            late_max_ms: Milli(2_500_000),
        };
        Summary {
            variant: variant.into(),
            settings: Vec::new(),
            seeds: 1,
            by_seed: Vec::new(),
            tasks: vec![
                row("fio 1", Milli(p99_us)),
                row("fio 2", Milli(5)),
                row("db", Milli(7_000)),
            ],
            whole: WholeRow { replay: Some(replay), ..WholeRow::default() },
        }
    }

    #[test]
    fn findings_compare_latency_length_and_what_was_late() {
        let (none, fair) = (made("none", 40_000_000, 100, 7), made("fair", 3_000, 50, 0));
        assert_eq!(
            findings(&[none.clone(), fair.clone()]),
            [
                "All requests: 99 % take 3.00 ms or less under fair, 40.0 s under none; half 1.00 \
                 ms.",
                "All of it takes 50.0 s with fair, 100.0 s with none.",
                "The disk does not keep up: under none 7 requests were late, by up to 2.5 s, as \
                 4096 others of their trace were outstanding.",
                "fio 1: 99 % take 3.00 ms or less under fair, 40.0 s under none; half 1.00 ms.",
            ],
        );
        assert_eq!(
            findings(&[fair.clone(), Summary { variant: "rr".into(), ..fair.clone() }]),
            ["All requests: 99 % take 3.00 ms or less, half 1.00 ms, whichever it is."],
        );
        let alone = findings(&[fair]);
        assert_eq!(
            alone[0],
            "fair: half of all requests take 1.00 ms or less, 99 % 3.00 ms or less."
        );
        assert_eq!(alone.len(), 3, "all, fio and db: {alone:?}");
    }
}
