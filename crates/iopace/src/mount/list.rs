//! What is mounted, by whom, and whether it answers.

use crate::output::{Failure, Format, finish, print, print_json, right, table};
use crate::paths::runtime_dirs;
use comfy_table::Cell;
use iopace_daemon::api::MountReport;
use iopace_daemon::control::Client;
use iopace_daemon::fuse::mounting::namespaces;
use iopace_daemon::fuse::mounting::probe::{Answer, probe};
use iopace_daemon::fuse::record;
use iopace_daemon::fuse::record::Record;
use iopace_daemon::limits::PROBE_PATIENCE;
use iopace_daemon::mount_table::{self, Entry};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::thread;

#[derive(Debug, Serialize)]
struct Row {
    mountpoint: PathBuf,
    directory: PathBuf,
    device: Option<String>,
    pid: Option<u32>,
    control: Option<PathBuf>,
    log: Option<PathBuf>,
    state: &'static str,
    /// What its daemon says, if that can be asked.
    #[serde(flatten)]
    report: Option<Counts>,
}

#[derive(Debug, Serialize)]
struct Counts {
    known_count: usize,
    open_count: usize,
    kept_count: usize,
    waiting_count: usize,
    passed_through_count: u64,
}

impl Counts {
    fn ask(control: &Path, mountpoint: &Path) -> Option<Counts> {
        let all = Client::new(control).mounts().ok()?;
        let report = all.into_iter().find(|mount| mount.mountpoint == mountpoint)?;
        let MountReport { known_count, open_count, kept_count, waiting_count, .. } = report;
        let passed_through_count = report.passed_through_count;
        Some(Counts { known_count, open_count, kept_count, waiting_count, passed_through_count })
    }
}

/// Prints the mounts of iopace.
///
/// # Errors
/// The table of mounts cannot be read.
pub fn run(format: Format) -> Result<(), Failure> {
    // Before the table is read: one that is mounted in between is not taken for one out of sight.
    let mut unseen = record::held(&runtime_dirs(None));
    let entries = mount_table::ours().map_err(|error| {
        Failure::new(format!("/proc/self/mountinfo cannot be read: {error}; is /proc mounted?"))
    })?;
    unseen.retain(|(number, seen)| entries.iter().all(|one| !seen.record.is_of(*number, one)));
    // All at the same time: each may take its time to answer.
    let rows: Vec<Row> = thread::scope(|scope| {
        let asked: Vec<_> = entries.iter().map(|entry| scope.spawn(|| row(entry))).collect();
        let unseen = unseen.into_iter().map(|(number, seen)| unseen_row(number, seen.record));
        let unseen: Vec<Row> = unseen.collect();
        let seen = asked.into_iter().filter_map(|one| one.join().ok());
        seen.chain(unseen).collect()
    });
    match format {
        Format::Json => print_json(&rows),
        Format::Table if rows.is_empty() => print("nothing is mounted by iopace\n"),
        Format::Table => print(&show(&rows)),
    }
}

fn row(entry: &Entry) -> Row {
    let seen = record::find(&runtime_dirs(entry.uid()), entry);
    let record = seen.map(|seen| seen.record);
    let state = match probe(&entry.mountpoint, PROBE_PATIENCE) {
        Answer::Dead => "dead",
        Answer::Silent => "silent",
        Answer::Alive => "serving",
    };
    let control = record.as_ref().and_then(|record| record.control.clone());
    let report = control.as_deref().and_then(|control| Counts::ask(control, &entry.mountpoint));
    Row {
        mountpoint: entry.mountpoint.clone(),
        directory: entry.source.clone(),
        device: record.as_ref().map(|record| record.device.clone()),
        pid: record.as_ref().map(|record| record.pid),
        control,
        log: record.and_then(|record| record.log),
        state,
        report,
    }
}

/// A mount whose daemon has it in hand, though it is not in our table: it was unmounted, and is
/// used or made durable still, or it is in another mount namespace.
fn unseen_row(connection: u32, record: Record) -> Row {
    let state = match namespaces::seen_by(record.pid, connection, &record) {
        Some(_) => "elsewhere",
        None => "detached",
    };
    let Record { mountpoint, directory, device, pid, control, log } = record;
    let report = control.as_deref().and_then(|control| Counts::ask(control, &mountpoint));
    let (device, pid) = (Some(device), Some(pid));
    Row { mountpoint, directory, device, pid, control, log, state, report }
}

fn show(rows: &[Row]) -> String {
    let mut table =
        table(["mountpoint", "directory", "device", "pid", "state", "open files", "waiting"]);
    for row in rows {
        table.add_row([
            Cell::new(row.mountpoint.display()),
            Cell::new(row.directory.display()),
            Cell::new(row.device.as_deref().unwrap_or("?")),
            right(row.pid.map_or("?".into(), |pid| pid.to_string())),
            Cell::new(row.state),
            count(row, |report| report.open_count),
            count(row, |report| report.waiting_count),
        ]);
    }
    finish(&table, 0)
}

fn count(row: &Row, what: impl Fn(&Counts) -> usize) -> Cell {
    right(row.report.as_ref().map_or("?".into(), |report| what(report).to_string()))
}
