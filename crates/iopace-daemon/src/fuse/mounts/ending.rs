//! How a mount that has ended lets go of its directory: all files below are closed, then the claim
//! goes, then the record.
//!
//! `umount` waits for the record, and its user may unmount the file system below next, which the
//! kernel refuses while a file of it is open. So the device goes as well, in a daemon that goes on
//! for other mounts, too.

use super::{Mount, Mounts};
use crate::clock;
use iopace_core::time::Nanos;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Has the rest of the daemon forget the device of that name.
pub(crate) type ForgetDevice<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// Time for a thread to end that is on its way: one of a disk below that does not answer may never.
const PATIENCE: Nanos = Nanos::from_secs(5);

/// Between two looks; such a thread needs less than one.
const STEP: Duration = Duration::from_millis(1);

/// A mount has ended. If it was not we who ended it, what it wrote is made durable here, and all
/// files below are closed.
pub(super) fn ended_outside(mounts: &Mounts, at: &Path, forget_device: &ForgetDevice<'_>) {
    let is_ours = |mount: &&mut Mount| mount.place.mountpoint == at;
    // While `end` waits for it, the session is there no more.
    let session = mounts.all().iter_mut().find(is_ours).and_then(|mount| mount.session.take());
    let Some(session) = session else { return };
    tracing::info!("{} was unmounted", at.display());
    session.let_go();
    let give_up = |mount: &Mount| {
        mount.backing.give_up();
        Arc::clone(&mount.backing.device)
    };
    let is_there = |mount: &&Mount| mount.place.mountpoint == at;
    let device = mounts.all().iter().find(is_there).map(give_up);
    if let Some(device) = device
        && let Err(error) = device.flush_all()
    {
        let name = &device.info().name;
        tracing::error!(%error, "{name}: not everything could be made durable");
    }
    let closing = mounts.closing();
    let ended = {
        let mut all = mounts.all();
        let place = all.iter().position(|mount| mount.place.mountpoint == at);
        place.map(|place| all.remove(place))
    };
    if let Some(mount) = ended {
        mount.close(forget_device);
    }
    drop(closing);
    mounts.live.send_modify(|live| *live = live.map(|live| live - 1));
}

impl Mount {
    /// Closes all that it has open. What was written is durable.
    pub(super) fn close(self, forget_device: &ForgetDevice<'_>) {
        let Mount { place, device, session, backing, tree, who, claim, record } = self;
        drop(session);
        let is_only = is_last(&tree);
        drop((tree, who));
        forget_device(&device);
        let device = backing.into_device();
        // In this order: what is behind it is used by requests of the tree.
        if !is_only || !is_last(&device) {
            let mountpoint = place.mountpoint.display();
            tracing::warn!("{mountpoint}: files below stay open, as something of it does not end");
        }
        drop(device);
        drop(claim);
        drop(record);
    }
}

/// Waits until nobody else has it; false if that takes too long.
fn is_last<T: ?Sized>(one: &Arc<T>) -> bool {
    let deadline = clock::now() + PATIENCE;
    while Arc::strong_count(one) > 1 {
        if clock::until(deadline).unwrap_or_default().is_zero() {
            return false;
        }
        // SLEEP: nobody tells that a thread has dropped its share.
        thread::sleep(STEP);
    }
    true
}
