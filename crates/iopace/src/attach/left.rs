//! The rest of killed daemons, and the ways to deal with it.

use super::seen;
use crate::cli::AttachArgs;
use crate::output::{Failure, note};
use iopace_daemon::attached::{Record, Seen, file_of};
use iopace_daemon::fuse::image::{clear_away, loops, remove_left};
use iopace_daemon::insertion::Inserted;
use iopace_daemon::ublk::left::{self, UblkStanding, standing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The rest of a killed daemon is waited for this long: nobody answers there any more.
const LEFT_PATIENCE: Duration = Duration::from_secs(5);

/// A daemon that was killed is gone within this time, unless its disk is slow or broken.
const KILLED_PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Clears away what a killed daemon left. `None`: its daemon lives; else whether nobody has the
/// device in use any more.
pub(super) fn clear_left(seen: &Seen) -> Option<bool> {
    if seen.is_held() {
        return None;
    }
    let record = &seen.record;
    if record.ublk.is_some() {
        return clear_left_of_ublk(seen);
    }
    let is_free = clear_away(record, LEFT_PATIENCE);
    let path = record.loop_device.display();
    if is_free {
        remove_left(seen);
        note(format_args!("{path}: its daemon was killed; what it left is cleared away"));
    } else {
        note(format_args!("{path}: its daemon was killed, but somebody still uses it"));
    }
    Some(is_free)
}

/// A ublk device waits for another daemon, and is left as it is then: `None`. One that nobody can
/// have used, or whose data are gone with its daemon, is cleared away.
fn clear_left_of_ublk(seen: &Seen) -> Option<bool> {
    let record = &seen.record;
    let found = standing(record);
    let is_waiting = found == UblkStanding::There;
    if found == UblkStanding::Unknown || is_waiting && record.source.is_some() {
        return None;
    }
    let is_free = left::clear_away(record);
    if is_free {
        if let Some(Err(error)) = record.inserted.as_ref().map(Inserted::remove_below) {
            note(format_args!("{error}"));
        }
        seen.remove();
    }
    if is_waiting {
        let path = record.loop_device.display();
        note(format_args!("{path}: its daemon was killed, and its data with it; it is gone"));
    }
    Some(is_free)
}

/// The file or block device that is named, whatever the directory is.
pub(super) fn source_of(args: &AttachArgs) -> Option<PathBuf> {
    args.file.as_ref().map(|file| std::path::absolute(file).unwrap_or(file.clone()))
}

/// The ublk devices of a file that are served, or wait for a daemon.
pub(super) fn of_file(source: Option<&Path>) -> Vec<Seen> {
    let Some(source) = source else { return Vec::new() };
    let full = |path: &Path| path.canonicalize().unwrap_or(path.to_owned());
    let file = file_of(source);
    let is_of = |record: &Record| {
        if record.inserted.is_some() {
            return false;
        }
        let known = record.source.as_ref().zip(record.ublk);
        known.is_some_and(|(known, ublk)| {
            full(known) == full(source) || (file.is_some() && ublk.file == file)
        })
    };
    let is_there = |seen: &Seen| is_of(&seen.record) && is_there(&seen.record);
    seen().into_iter().filter(is_there).collect()
}

/// Waits for daemons that were killed and are not gone yet: each has its file, and its record, as
/// long as a request of it is at the disk. One that lives goes on, and its file is found to be in
/// use.
pub(crate) fn wait_for_killed(all: &[Seen]) {
    for process in all.iter().filter(|seen| seen.is_held()).filter_map(Seen::process) {
        let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&KILLED_PATIENCE));
    }
}

/// Why no loop device is made of a file: requests that a ublk device still has would be carried out
/// after newer ones.
pub(super) fn loop_refused(record: &Record) -> Failure {
    let path = record.loop_device.display();
    Failure::new(format!(
        "{path} is of this file and waits for its daemon, which was killed: say 'iopace attach \
         --ublk' to go on with it, or 'iopace detach {path}' to end it"
    ))
}

/// Whether the block device of a record is there, and the one that was recorded; also if nobody can
/// be asked.
pub(super) fn is_there(record: &Record) -> bool {
    match record.ublk {
        Some(_) => matches!(standing(record), UblkStanding::There | UblkStanding::Unknown),
        None => loops::is_behind(&record.loop_device, &record.image),
    }
}
