//! What is attached, by whom, and who uses it.

use super::left::is_there;
use super::seen;
use crate::output::{Failure, Format, finish, print, print_json, right, table};
use crate::units;
use comfy_table::Cell;
use iopace_daemon::attached::{Record, Seen};
use iopace_daemon::fuse::image::loops;
use iopace_daemon::insertion::Way;
use iopace_daemon::mount_table as mounts;
use rustix::fs::{major, minor};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    record: Record,
    /// Where a file system of it is mounted.
    mounted: Vec<PathBuf>,
    state: &'static str,
}

/// Prints what is attached, or inserted, of what is wanted.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(format: Format, is_wanted: impl Fn(&Record) -> bool) -> Result<(), Failure> {
    let wanted = seen().into_iter().filter(|seen| is_wanted(&seen.record));
    let rows: Vec<Row> = wanted.map(row).collect();
    match format {
        Format::Json => print_json(&rows),
        Format::Table if rows.is_empty() => print("nothing is attached by iopace\n"),
        Format::Table => print(&show(&rows)),
    }
}

fn row(seen: Seen) -> Row {
    let is_held = seen.is_held();
    let record = seen.record;
    let way = record.way().map(|way| state_of_volume(way, is_held));
    let state = way.unwrap_or_else(|| match (is_held, is_there(&record)) {
        (true, true) => "serving",
        (true, false) => "detached",
        (false, true) if record.ublk.is_some() => "waiting",
        (false, _) => "dead",
    });
    Row { mounted: mounted(&record), record, state }
}

/// Where the volume's requests go, in a word for people.
fn state_of_volume(way: Way, is_held: bool) -> &'static str {
    match (way, is_held) {
        (Way::Daemon, true) => "inserted",
        (Way::Daemon, false) => "waiting",
        (Way::Past, true) => "bypassed",
        (Way::Past, false) => "dead",
        (Way::Gone, _) => "no volume",
        (Way::Unknown, _) => "unknown",
    }
}

/// Where a file system of the device is mounted.
pub(super) fn mounted(record: &Record) -> Vec<PathBuf> {
    let table = mounts::read().unwrap_or_default();
    let device = || loops::number(&record.loop_device);
    let volume = record.inserted.as_ref().map(|inserted| inserted.number);
    let number = volume.map(|number| (major(number), minor(number))).or_else(device);
    let on = table.into_iter().filter(|entry| Some(entry.device) == number);
    on.map(|entry| entry.mountpoint).collect()
}

fn show(rows: &[Row]) -> String {
    let mut table = table(["device", "behind it", "name", "size", "pid", "mounted at", "state"]);
    for Row { record, mounted, state } in rows {
        let source = record.source.as_ref().map(|path| path.display().to_string());
        let mounted: Vec<String> = mounted.iter().map(|at| at.display().to_string()).collect();
        table.add_row([
            Cell::new(record.loop_device.display()),
            Cell::new(source.unwrap_or("memory".into())),
            Cell::new(&record.device),
            right(units::size(record.size_bytes)),
            right(record.pid),
            Cell::new(mounted.join(", ")),
            Cell::new(state),
        ]);
    }
    finish(&table, 0)
}
