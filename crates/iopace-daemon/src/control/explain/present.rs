//! The scheduler of a device now: the last interval is up to a second older.

use crate::api::{DiskReport, ExplainedDevice};
use crate::device::{Device, DeviceStatus};
use crate::report;

/// The scheduler of a device at one moment.
pub(super) struct PresentScheduler {
    name: &'static str,
    inserted: bool,
    auto: bool,
    disk: Option<DiskReport>,
    /// The failure of the one that it stands in for.
    failure: Option<String>,
}

impl PresentScheduler {
    pub(super) fn of(device: &dyn Device) -> PresentScheduler {
        let DeviceStatus { engine, failed, .. } = device.status();
        PresentScheduler {
            name: engine.algorithm.name,
            inserted: engine.inserted,
            auto: report::is_auto(device.info(), &engine),
            disk: report::disk(&engine),
            failure: failed.map(|failed| failed.text),
        }
    }

    /// Puts it in the place of what the last interval knows.
    pub(super) fn tell(&self, told: &mut ExplainedDevice) {
        let PresentScheduler { name, inserted, auto, disk, ref failure } = *self;
        told.scheduler = name.into();
        (told.inserted, told.auto, told.disk) = (inserted, auto, disk);
        told.failure.clone_from(failure);
    }
}
