//! `iopace remove`: the volume goes past the daemon again, and nothing is left.

use super::of_volume;
use super::rescue::rescue_all;
use crate::attach::{detach, seen};
use crate::cli::RemoveVolumeArgs;
use crate::output::{Failure, note, print};
use iopace_daemon::attached::Seen;
use iopace_daemon::insertion::{Inserted, Way};
use iopace_daemon::resident::stay_in_memory;
use iopace_daemon::ublk;
use rustix::process::{Signal, pidfd_send_signal};
use std::path::Path;
use std::time::Duration;

/// Takes one or all out, and waits.
///
/// # Errors
/// Nothing is inserted there, or it is not out in time.
pub fn run(args: &RemoveVolumeArgs) -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::new("only root may have the requests of a volume go elsewhere"));
    }
    ublk::prepare().map_err(Failure::new)?;
    let patience = Duration::from_secs(args.wait);
    let mut failed = None;
    for inserted in chosen(args)? {
        if let Err(failure) = remove(&inserted, args.rescue, patience)
            && let Some(Failure { message, .. }) = failed.replace(failure)
        {
            note(format_args!("error: {message}"));
        }
    }
    failed.map_or(Ok(()), Err)
}

/// The volumes that are meant, by records and by the names of volumes.
fn chosen(args: &RemoveVolumeArgs) -> Result<Vec<Inserted>, Failure> {
    let mut all: Vec<Inserted> = Vec::new();
    for inserted in seen().into_iter().filter_map(|seen| seen.record.inserted) {
        if !all.iter().any(|known| known.is_same(&inserted)) {
            all.push(inserted);
        }
    }
    let Some(volume) = &args.volume else { return Ok(all) };
    if let Some(named) = all.iter().find(|one| Path::new(&one.volume) == volume) {
        return Ok(vec![named.clone()]);
    }
    let found = Inserted::find(volume).map_err(Failure::new)?;
    if !all.iter().any(|one| one.is_same(&found)) && !found.has_below() {
        return Err(Failure::new(format!(
            "{}: no daemon is in front of it; 'iopace insert' lists what is inserted",
            volume.display()
        )));
    }
    Ok(vec![found])
}

fn remove(inserted: &Inserted, kills: bool, patience: Duration) -> Result<(), Failure> {
    for seen in of_volume(inserted).iter().filter(|seen| seen.is_held()) {
        let Some(process) = seen.process() else { continue };
        if kills {
            // Everything that follows must need nothing of the volume.
            stay_in_memory()
                .map_err(|error| Failure::new(format!("this is not kept in memory: {error}")))?;
            let _ = pidfd_send_signal(&process, Signal::KILL);
            continue;
        }
        detach::end(&seen.record, Some(&process))?;
        detach::wait_until_let_go(seen, patience)?;
        detach::wait_for_end(&seen.record, &process);
        if inserted.way() == Way::Daemon {
            return Err(stuck(inserted, seen));
        }
    }
    // A watcher may be at it, and is waited for.
    rescue_all(inserted)?;
    match inserted.way() {
        Way::Daemon => Err(Failure::new(format!(
            "{}: another daemon is in front of it by now",
            inserted.path().display()
        ))),
        _ => print(&format!("{}: goes past iopace again\n", inserted.path().display())),
    }
}

/// Its daemon has ended, and could not take it out.
fn stuck(inserted: &Inserted, seen: &Seen) -> Failure {
    let shown = inserted.path();
    let shown = shown.display();
    let log = seen.record.log.as_ref().map(|log| log.display().to_string());
    Failure::new(format!(
        "{shown}: its daemon has ended and could not take it out; the log {} says why, and 'iopace \
         remove --rescue {shown}' tries it once more",
        log.unwrap_or_default()
    ))
}
