//! The rest of ublk devices whose daemons were killed, for commands that look after it.

use super::abi::DeviceState;
use super::char_path;
use super::limits::DELETE_PATIENCE;
use super::making::remove;
use super::port::ControlPort;
use crate::attached::Record;
use std::thread;
use std::time::Duration;

/// Between two looks whether a device is gone.
const STEP: Duration = Duration::from_millis(20);

/// Where a recorded device stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkStanding {
    /// There is none, or it is another one.
    Gone,
    /// It was made and never started: nobody has used it.
    Unused,
    /// It is served, or waits for a daemon.
    There,
}

/// Where the device of a record stands. Only root is told.
pub fn standing(record: &Record) -> UblkStanding {
    let look = || {
        let ublk = record.ublk?;
        let found = ControlPort::open().ok()?.facts(ublk.id).ok()?;
        (found.mark == ublk.mark).then_some(found.state)
    };
    match look() {
        None => UblkStanding::Gone,
        Some(DeviceState::Dead) => UblkStanding::Unused,
        Some(_) => UblkStanding::There,
    }
}

/// Stops and deletes the device of a record: requests that wait fail. True if nobody has it in use
/// any more.
pub fn clear_away(record: &Record) -> bool {
    let Some(ublk) = record.ublk.filter(|_| standing(record) != UblkStanding::Gone) else {
        return true;
    };
    if let Ok(mut port) = ControlPort::open() {
        remove(&mut port, ublk.id);
    }
    wait_until_gone(record)
}

/// Waits a moment for a device that was deleted.
pub(super) fn wait_until_gone(record: &Record) -> bool {
    let looks = DELETE_PATIENCE.as_millis() / STEP.as_millis();
    let is_gone = || {
        let gone = standing(record) == UblkStanding::Gone;
        gone || record.ublk.is_some_and(|ublk| !char_path(ublk.id).exists())
    };
    (0..looks).any(|look| {
        if look > 0 {
            // SLEEP: the driver tells nobody when it is.
            thread::sleep(STEP);
        }
        is_gone()
    })
}
