//! The rest of ublk devices whose daemons were killed, for commands that look after it.

use super::abi::DeviceState;
use super::char_path;
use super::limits::DELETE_PATIENCE;
use super::making::remove;
use super::port::{ControlPort, UblkError, is};
use crate::attached::Record;
use crate::insertion::Way;
use rustix::io::Errno;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// There as long as the driver is.
const DRIVER: &str = "/sys/module/ublk_drv";

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
    /// The driver cannot be asked: nothing is to be changed.
    Unknown,
}

/// Where the device of a record stands. Only root is told.
pub fn standing(record: &Record) -> UblkStanding {
    let Some(ublk) = record.ublk else { return UblkStanding::Gone };
    let mut port = match ControlPort::open() {
        Ok(port) => port,
        // Without the driver there is no device of it.
        Err(UblkError::Control(error))
            if error.kind() == io::ErrorKind::NotFound && !Path::new(DRIVER).exists() =>
        {
            return UblkStanding::Gone;
        }
        Err(error) => {
            tracing::debug!(%error, "ublk devices cannot be asked for");
            return UblkStanding::Unknown;
        }
    };
    match port.facts(ublk.id) {
        Ok(found) if found.mark != ublk.mark => UblkStanding::Gone,
        Ok(found) if found.state == DeviceState::Dead => UblkStanding::Unused,
        Ok(_) => UblkStanding::There,
        Err(error) if is(&error, Errno::NODEV) => UblkStanding::Gone,
        Err(_) => UblkStanding::Unknown,
    }
}

/// Stops and deletes the device of a record: requests that wait fail. True if nobody has it in use
/// any more.
pub fn clear_away(record: &Record) -> bool {
    let Some(ublk) = record.ublk else { return true };
    if matches!(record.way(), Some(Way::Daemon | Way::Unknown)) {
        return false;
    }
    match standing(record) {
        UblkStanding::Gone => return true,
        UblkStanding::Unknown => return false,
        UblkStanding::There | UblkStanding::Unused => {}
    }
    let removed = ControlPort::open().is_ok_and(|mut port| remove(&mut port, ublk.id).is_ok());
    removed && wait_until_gone(record)
}

/// Waits a moment for a device that was deleted.
pub(super) fn wait_until_gone(record: &Record) -> bool {
    let looks = DELETE_PATIENCE.as_millis() / STEP.as_millis();
    let is_gone = || {
        let is_gone = standing(record) == UblkStanding::Gone;
        is_gone || record.ublk.is_some_and(|ublk| !char_path(ublk.id).exists())
    };
    (0..looks).any(|look| {
        if look > 0 {
            // SLEEP: the driver tells nobody when it is.
            thread::sleep(STEP);
        }
        is_gone()
    })
}
