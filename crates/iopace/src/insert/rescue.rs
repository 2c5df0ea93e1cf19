//! A volume whose daemon was killed, taken out: its requests wait, and are carried out by this
//! process before the volume goes past it.

use super::of_volume;
use crate::attach::left;
use crate::output::Failure;
use crate::serve::Plan;
use iopace_daemon::attached::{Record, Seen};
use iopace_daemon::daemon::Daemon;
use iopace_daemon::insertion::{Inserted, Way};
use iopace_daemon::ublk::{UblkWish, left as rest};

/// Takes out a volume whose daemon was killed; nothing is left of it then. Whoever is being killed
/// is waited for; where a daemon serves it by now, nothing is done.
///
/// # Errors
/// Somebody else is at it, or the kernel does not let it go: all is as before then, or the volume
/// is out and something is left, which is named.
pub(super) fn rescue_all(inserted: &Inserted) -> Result<(), Failure> {
    // A volume that was removed has no node to lock, and nobody inserts into it.
    let is_gone = inserted.way() == Way::Gone;
    let _lock = (!is_gone).then(|| inserted.lock()).transpose().map_err(Failure::new)?;
    let mut all = of_volume(inserted);
    left::wait_for_killed(&all);
    if all.iter().any(Seen::is_held) {
        return match inserted.way() {
            Way::Daemon => Ok(()),
            _ => Err(Failure::new("another process is at it")),
        };
    }
    all.retain(Seen::is_left);
    match (inserted.way(), all.first().map(|seen| seen.record.clone())) {
        (Way::Unknown, _) => Err(Failure::new("the device mapper cannot be asked")),
        (Way::Daemon, Some(record)) => take_over(inserted, &record, all),
        (Way::Daemon, None) => Err(Failure::new("there is no record of the daemon in front of it")),
        (Way::Past | Way::Gone, _) => clear(inserted, &all),
    }
}

/// Carries out what waits, by a daemon in this process that has nothing beside.
fn take_over(inserted: &Inserted, record: &Record, left: Vec<Seen>) -> Result<(), Failure> {
    let below = inserted.make_below().map_err(Failure::new)?;
    let mut plan = Plan::rescue(inserted, &below)?;
    plan.config.runtime = left.first().and_then(Seen::runtime).map(Into::into);
    let daemon = Daemon::start(plan.config).map_err(Failure::new)?;
    let wish = UblkWish {
        source: record.source.clone(),
        block_bytes: record.ublk.map(|ublk| ublk.block_bytes),
        left,
        inserted: Some(inserted.clone()),
    };
    let attached = daemon.attach_ublk(wish);
    let report = daemon.shutdown();
    attached.map_err(Failure::new)?;
    if let Some((_, error)) = report.unflushed.first() {
        return Err(Failure::new(format!("not everything could be made durable: {error}")));
    }
    match inserted.way() {
        Way::Past | Way::Gone => Ok(()),
        Way::Daemon | Way::Unknown => Err(Failure::new("it is not taken out")),
    }
}

/// Clears away what was killed before it was inserted, or when it was taken out already: nobody
/// uses its device.
fn clear(inserted: &Inserted, all: &[Seen]) -> Result<(), Failure> {
    inserted.turn_back().map_err(Failure::new)?;
    for Seen { record, .. } in all {
        if !rest::clear_away(record) {
            let shown = record.loop_device.display();
            return Err(Failure::new(format!("{shown} is not deleted: somebody uses it")));
        }
    }
    inserted.remove_below().map_err(Failure::new)?;
    all.iter().for_each(Seen::remove);
    Ok(())
}
