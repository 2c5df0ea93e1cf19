//! A volume whose daemon was killed, taken out: its requests wait, and are carried out by this
//! process before the volume goes past it.

use crate::attach::left;
use crate::output::Failure;
use crate::serve::Plan;
use iopace_daemon::attached::Seen;
use iopace_daemon::daemon::Daemon;
use iopace_daemon::insertion::Way;
use iopace_daemon::ublk::{UblkWish, left as rest};

/// Takes out the volume of a record that a killed daemon has left; nothing is left of that then.
///
/// # Errors
/// Somebody else is at it, or the kernel does not let it go: all is as before then, or the volume
/// is out and something is left, which is named.
pub(super) fn rescue(seen: Seen) -> Result<(), Failure> {
    left::wait_for_killed(std::slice::from_ref(&seen));
    let record = seen.record.clone();
    let Some(inserted) = &record.inserted else { return Ok(()) };
    if record.way() == Some(Way::Daemon) {
        let below = inserted.make_below().map_err(Failure::new)?;
        let mut plan = Plan::rescue(inserted, &below)?;
        plan.config.runtime = seen.runtime().map(Into::into);
        let daemon = Daemon::start(plan.config).map_err(Failure::new)?;
        let wish = UblkWish {
            source: record.source.clone(),
            block_bytes: record.ublk.map(|ublk| ublk.block_bytes),
            left: vec![seen],
            inserted: Some(inserted.clone()),
        };
        let attached = daemon.attach_ublk(wish);
        let report = daemon.shutdown();
        attached.map_err(Failure::new)?;
        if let Some((_, error)) = report.unflushed.first() {
            return Err(Failure::new(format!("not everything could be made durable: {error}")));
        }
        return match record.way() {
            Some(Way::Daemon) => Err(Failure::new("it is not taken out: the log says why")),
            _ => Ok(()),
        };
    }
    // Killed before it was inserted, or when it was taken out already: nobody uses the device.
    inserted.turn_back(record.number().unwrap_or(0)).map_err(Failure::new)?;
    if !rest::clear_away(&record) {
        let shown = record.loop_device.display();
        return Err(Failure::new(format!("{shown} is not deleted: somebody uses it")));
    }
    inserted.remove_below().map_err(Failure::new)?;
    seen.remove();
    Ok(())
}
