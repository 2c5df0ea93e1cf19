//! `iopace remove`: the volume goes past the daemon again, and nothing is left.

use super::rescue::rescue;
use crate::attach::{detach, seen};
use crate::cli::RemoveVolumeArgs;
use crate::output::{Failure, note, print};
use iopace_daemon::attached::Seen;
use iopace_daemon::insertion::{Inserted, Way};
use iopace_daemon::ublk;
use rustix::process::{Signal, pidfd_send_signal};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often it is looked whether somebody else has done it.
const STEP: Duration = Duration::from_millis(50);

/// Takes one or all out, and waits.
///
/// # Errors
/// Nothing is inserted there, or it is not out in time.
pub fn run(args: &RemoveVolumeArgs) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("only root may have the requests of a volume go elsewhere"));
    }
    ublk::prepare().map_err(Failure::new)?;
    let mut all: Vec<Seen> = seen();
    all.retain(|seen| seen.record.inserted.is_some());
    if let Some(volume) = &args.volume {
        all.retain(|seen| is_meant(seen, volume));
        if all.is_empty() {
            return remove_rest(volume);
        }
    }
    let patience = Duration::from_secs(args.wait);
    let mut failed = None;
    for seen in all {
        if let Err(failure) = remove(seen, args.rescue, patience)
            && let Some(Failure { message, .. }) = failed.replace(failure)
        {
            note(format_args!("error: {message}"));
        }
    }
    failed.map_or(Ok(()), Err)
}

fn is_meant(seen: &Seen, volume: &Path) -> bool {
    let Some(inserted) = &seen.record.inserted else { return false };
    let named = Path::new(&inserted.volume) == volume;
    named || Inserted::find(volume).is_ok_and(|found| found.is_same(inserted))
}

/// The rest of a daemon that was killed before it had a record.
fn remove_rest(volume: &Path) -> Result<(), Failure> {
    let inserted = Inserted::find(volume).map_err(Failure::new)?;
    if !inserted.has_below() {
        return Err(Failure::new(format!(
            "{}: no daemon is in front of it; 'iopace insert' lists what is inserted",
            volume.display()
        )));
    }
    inserted.remove_below().map_err(Failure::new)?;
    said(&inserted)
}

fn remove(seen: Seen, kills: bool, patience: Duration) -> Result<(), Failure> {
    let inserted = seen.record.inserted.clone().expect("one that is inserted");
    let process = seen.process();
    if let Some(process) = process.as_ref().filter(|_| seen.is_held()) {
        if !kills {
            detach::end(&seen.record, Some(process))?;
            detach::wait_until_let_go(&seen, patience)?;
            detach::wait_for_end(&seen.record, process);
            return out(&seen, &inserted);
        }
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
    // Its watcher may be at it.
    let looks = patience.as_millis() / STEP.as_millis();
    for _ in 0..looks {
        if !seen.is_left() {
            return said(&inserted);
        }
        if !seen.is_held() && seen.try_hold() {
            rescue(seen)?;
            return said(&inserted);
        }
        // SLEEP: nobody tells when a record is let go.
        thread::sleep(STEP);
    }
    Err(Failure::new(format!(
        "{}: is not out after {} s; wait on with the same command, or say --rescue",
        inserted.path().display(),
        patience.as_secs()
    )))
}

/// Whether it is out, now that its daemon has ended.
fn out(seen: &Seen, inserted: &Inserted) -> Result<(), Failure> {
    match seen.record.way() {
        Some(Way::Daemon) => {
            let shown = inserted.path();
            let shown = shown.display();
            let log = seen.record.log.as_ref().map(|log| log.display().to_string());
            Err(Failure::new(format!(
                "{shown}: its daemon has ended and could not take it out; the log {} says why, and \
                 'iopace remove --rescue {shown}' tries it once more",
                log.unwrap_or_default()
            )))
        }
        _ => said(inserted),
    }
}

fn said(inserted: &Inserted) -> Result<(), Failure> {
    print(&format!("{}: goes past iopace again\n", inserted.path().display()))
}
