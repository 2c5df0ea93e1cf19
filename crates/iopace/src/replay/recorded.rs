//! The replay of what `iopace record` has written, with the recorded figures beside it.

use crate::cli::{FitArg, ReplayArgs, TableFormat};
use crate::output::{Failure, finish, note, print, print_json, right, table, width};
use crate::study_output::{all_schedulers, spelt_out};
use crate::units::time;
use comfy_table::Cell;
use iopace_core::{sched, window};
use iopace_daemon::printable;
use iopace_sim::milli::Milli;
use iopace_sim::parallel;
use iopace_sim::recorded::report::{Figures, Report, ReportRow};
use iopace_sim::recorded::{RecordedReplay, RecordingFile, ReplaySettings};
use std::fmt::Write as _;
use std::io::BufReader;
use std::ops::Range;

/// Groups and tasks that the table for people shows; JSON has all.
const ROWS_SHOWN: usize = 12;

/// Carries out the command for one recording.
///
/// # Errors
/// Options of other traces, or a file that is not understood.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    check(args)?;
    let [path] = &args.files[..] else {
        let message = "a recording of iopace is replayed alone: name one file";
        return Err(Failure::usage(message));
    };
    let name = path.display().to_string();
    let opened = super::open(path).map_err(Failure::usage)?;
    let file = RecordingFile::read(&name, BufReader::new(opened)).map_err(Failure::usage)?;
    if file.end.is_none() {
        note(format_args!("warning: {name} ends before its recording did: it was cut off"));
    }
    if let Some(count) = file.end.map(|end| end.left_out_count).filter(|count| *count > 0) {
        note(format_args!("warning: {count} requests are not in {name}: the replay lacks them"));
    }
    let names = spelt_out(&args.sched, all_schedulers);
    if let Some(none) = names.iter().find(|name| sched::find(name).is_none()) {
        let message = format!("a recording has no scheduler '{none}': its plain one is elevator");
        return Err(Failure::usage(message));
    }
    let schedulers: Vec<_> = match names.is_empty() {
        true => vec![None],
        false => names.iter().map(|name| sched::find(name)).collect(),
    };
    let window = args.window.as_deref().and_then(window::find);
    let reports = parallel::map(&schedulers, |scheduler| {
        let settings = ReplaySettings {
            disk: args.disk.clone(),
            scheduler: *scheduler,
            window,
            on_time: args.on_time,
        };
        let replay = RecordedReplay::new(&file, &settings).map_err(Failure::usage)?;
        replay.run().map_err(Failure::new)
    });
    let reports = reports.into_iter().map(|report| {
        report.map_err(|failure| Failure {
            message: format!("{name}: {}", failure.message),
            ..failure
        })
    });
    let reports = reports.collect::<Result<Vec<Report>, Failure>>()?;
    match args.output.format {
        TableFormat::Json => print_json(&reports),
        TableFormat::Table | TableFormat::Csv => {
            let texts: Vec<String> = reports.iter().map(text).collect();
            print(&texts.join("\n"))
        }
    }
}

/// Options that say how other traces are replayed.
fn check(args: &ReplayArgs) -> Result<(), Failure> {
    let is_open = args.closed || args.speed != Default::default() || args.fit != FitArg::Wrap;
    if is_open || args.print_scenario || args.strict {
        let message = "a recording of iopace has its own clients and places: leave --closed, \
                       --speed, --fit, --print-scenario and --strict out";
        return Err(Failure::usage(message));
    }
    if args.output.has_files() || args.output.out.is_some() {
        let message = "a recording is told as a table or as JSON: no files are written of it";
        return Err(Failure::usage(message));
    }
    if args.output.format == TableFormat::Csv {
        return Err(Failure::usage("a recording is told as a table or as JSON, not as CSV"));
    }
    Ok(())
}

/// Of the recording, of the replay, and by how much that is off.
const HEADS: [&str; 12] =
    ["", "per s", "again", "off", "mean", "again", "off", "p50", "again", "p99", "again", "off"];

/// The places of the mean among them.
const MEAN: Range<usize> = 4..7;

/// Columns of letters that all of them need.
const TABLE_WIDTH: u16 = 100;

fn text(report: &Report) -> String {
    let Report { disk, scheduler, window, .. } = report;
    let [device, recorded_scheduler] =
        [&report.device, &report.recorded_scheduler].map(|name| printable::name(name));
    let mut text = format!(
        "{device} recorded under {recorded_scheduler} for {}, compared for {}\n\
         replayed on {disk}, scheduler {scheduler}, window {window}\n",
        time(report.length_ns),
        time(report.compared_ns)
    );
    if let Some(late) = report.late_ns {
        let late = time(late);
        let _ = writeln!(text, "the daemon was {late} late on average, and so is the replay");
    }
    text.push('\n');
    // On a narrow terminal the mean has no room.
    let is_shown = |at: usize| width() >= TABLE_WIDTH || !MEAN.contains(&at);
    let heads = HEADS.iter().enumerate().filter(|(at, _)| is_shown(*at));
    let mut rows = table(heads.map(|(_, head)| *head));
    for row in report.rows.iter().take(ROWS_SHOWN) {
        let cells = cells(row).into_iter().enumerate().filter(|(at, _)| is_shown(*at));
        rows.add_row(cells.map(|(_, cell)| cell));
    }
    text += &finish(&rows, 0);
    let left_out = report.rows.len().saturating_sub(ROWS_SHOWN);
    if left_out > 0 {
        let _ = writeln!(text, "{left_out} more: --format json shows all");
    }
    if *scheduler == report.recorded_scheduler {
        let far = report.rows.iter().filter(|row| !row.within_aim);
        let far: Vec<_> = far.map(|row| printable::name(&row.name)).collect();
        text += &match far.len() {
            0 => "\nAll rates, means and 99th percentiles are within 10 %.\n".into(),
            _ => format!("\nMore than 10 % off: {}.\n", far.join(", ")),
        };
    }
    text
}

fn cells(row: &ReportRow) -> Vec<Cell> {
    let (live, again, off) = (&row.recorded, &row.replayed, &row.off_percent);
    let percent = |off: Option<Milli>| {
        right(off.map_or_else(|| "-".into(), |off| format!("{:+.0} %", off.as_f64())))
    };
    let rate = |figures: &Figures| right(format!("{:.1}", figures.per_s.as_f64()));
    vec![
        Cell::new(printable::name(&row.name)),
        rate(live),
        rate(again),
        percent(off.per_s),
        right(time(live.mean_ns)),
        right(time(again.mean_ns)),
        percent(off.mean),
        right(time(live.p50_ns)),
        right(time(again.p50_ns)),
        right(time(live.p99_ns)),
        right(time(again.p99_ns)),
        percent(off.p99),
    ]
}
