//! What a replay prints: one row for each scheduler, then one for each of its largest streams.

use crate::cli::TableFormat;
use crate::output::{finish, right, table};
use comfy_table::Cell;
use iopace_core::sched;
use iopace_daemon::config::WINDOW_DEFAULT;
use iopace_sim::report::{ReplayReport, TaskReport};
use iopace_sim::study::replay::{self as study, largest};

/// Streams that the table for people shows for each scheduler; the other formats have all.
const STREAMS_SHOWN: usize = 8;

/// The reports in that format.
pub fn text(reports: &[ReplayReport], format: TableFormat) -> String {
    match format {
        TableFormat::Table => for_people(reports),
        TableFormat::Json => {
            let text = serde_json::to_string_pretty(reports);
            text.expect("strings, numbers and maps with string keys") + "\n"
        }
        TableFormat::Csv => study::csv(reports),
    }
}

fn figures(report: &TaskReport) -> [String; 7] {
    let latency = &report.latency;
    [
        report.ops.to_string(),
        format!("{:.1}", report.mb_s),
        format!("{:.1}", report.ops_s),
        format!("{:.2}", latency.mean_ms),
        format!("{:.2}", latency.p50_ms),
        format!("{:.2}", latency.p99_ms),
        format!("{:.2}", latency.max_ms),
    ]
}

/// Which of the rows is what a daemon does by itself, in a sentence.
fn live(reports: &[ReplayReport]) -> String {
    let scheduler = sched::recommended().name;
    let is_there = reports.iter().any(|report| report.scheduler == scheduler);
    let has_window = reports.iter().all(|report| report.window == WINDOW_DEFAULT);
    match (is_there, has_window) {
        (true, true) => format!(
            "the row {scheduler} is what 'iopace serve' and 'mount' do if nothing else is said"
        ),
        _ => format!(
            "no row is what 'iopace serve' and 'mount' do if nothing else is said: that is \
             scheduler {scheduler}, window {WINDOW_DEFAULT}"
        ),
    }
}

fn for_people(reports: &[ReplayReport]) -> String {
    let mut text = String::new();
    if let Some(first) = reports.first() {
        text += &format!("disk {}, window {}\n{}\n\n", first.disk, first.window, live(reports));
    }
    let mut all = table([
        "scheduler",
        "requests",
        "MB/s",
        "ops/s",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "max ms",
        "late",
        "late max s",
    ]);
    for report in reports {
        let mut row = vec![Cell::new(&report.scheduler)];
        row.extend(figures(&report.all).map(right));
        row.push(right(report.late));
        row.push(right(format!("{:.1}", iopace_sim::milli::Milli(report.late_max_ms.0 / 1_000))));
        all.add_row(row);
    }
    text += &finish(&all, 0);
    if reports.iter().all(|report| report.streams.len() < 2) {
        return text;
    }
    let mut streams = table([
        "scheduler",
        "stream",
        "requests",
        "MB/s",
        "ops/s",
        "mean ms",
        "p50 ms",
        "p99 ms",
        "max ms",
    ]);
    let mut left_out = 0;
    for report in reports {
        let largest = largest(report);
        left_out = left_out.max(largest.len().saturating_sub(STREAMS_SHOWN));
        for (name, stream) in largest.into_iter().take(STREAMS_SHOWN) {
            let mut row = vec![Cell::new(&report.scheduler), Cell::new(name)];
            row.extend(figures(stream).map(right));
            streams.add_row(row);
        }
    }
    text.push('\n');
    text += &finish(&streams, 0);
    if left_out > 0 {
        text += &format!("\n{left_out} more streams: --format json or csv shows all\n");
    }
    text
}
