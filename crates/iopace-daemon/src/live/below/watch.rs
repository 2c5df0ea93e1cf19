//! The look itself: engines record while it lasts, and the kernel's counters are read before and
//! after.

use super::kernel::Disk;
use crate::clock;
use crate::device::Device;
use crate::limits::LOOK_PAUSE;
use iopace_core::engine::Control;
use iopace_core::limits::RECORDED_MAX;
use iopace_core::shadow::Recorded;
use iopace_core::time::{Instant, Nanos};
use std::thread;
use std::time::Duration;

/// Requests that are copied in one hold of a device's lock: some 20 us.
const COPIED_COUNT: usize = 1_024;

/// What was seen on a device.
#[derive(Debug)]
pub(crate) struct Seen {
    /// When it began, on the device's clock.
    pub(super) began: Instant,
    pub(super) over: Nanos,
    /// In order of their ends.
    pub(super) ended: Vec<Recorded>,
    pub(super) left_out_count: u64,
    pub(super) kernel: Option<Disk>,
}

/// Looks at devices at the same time, for so long; in their order. The caller waits meanwhile.
pub(crate) fn watch(devices: &[&dyn Device], over: Duration) -> Vec<Option<Seen>> {
    let began = devices.iter().map(|device| begin(*device));
    let began: Vec<Option<Disk>> = began.collect();
    // SLEEP: the look lasts as long as was asked for.
    thread::sleep(over);
    devices.iter().zip(began).map(|(device, disk)| end(*device, disk)).collect()
}

fn begin(device: &dyn Device) -> Option<Disk> {
    let disk = device.info().path.as_deref().and_then(Disk::below);
    let recorded = device.control(Control::Record(Some(RECORDED_MAX)));
    recorded.ok().and(disk)
}

/// What a device has recorded, a piece at a time: its lock is held for one of them.
fn end(device: &dyn Device, disk: Option<Disk>) -> Option<Seen> {
    let path = device.info().path.as_deref();
    let kernel = disk.zip(path).and_then(|(disk, path)| disk.again(path));
    let mut seen: Option<Seen> = None;
    loop {
        let mut is_whole = true;
        device.look(&mut |engine, _| {
            let Some(recording) = engine.recording() else { return };
            let seen = seen.get_or_insert_with(|| Seen {
                began: recording.began,
                over: clock::now().since(recording.began),
                ended: Vec::new(),
                left_out_count: recording.left_out_count,
                kernel: None,
            });
            let rest = recording.ended.get(seen.ended.len()..).unwrap_or_default();
            seen.ended.extend(rest.iter().take(COPIED_COUNT));
            // What ends from now on is not waited for.
            let is_new = rest.first().is_some_and(|one| one.ended > seen.began + seen.over);
            is_whole = rest.len() <= COPIED_COUNT || is_new;
        });
        if is_whole {
            break;
        }
        thread::sleep(LOOK_PAUSE);
    }
    // It can always be ended.
    let _ = device.control(Control::Record(None));
    if let Some(seen) = &mut seen {
        let end = seen.began + seen.over;
        seen.ended.retain(|one| one.ended <= end);
        seen.kernel = kernel;
    }
    seen
}
