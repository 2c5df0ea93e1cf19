//! Waiting for locks that are held past the mount: the kernel tells nobody when one goes.
//!
//! They are tried again after 1 ms, then 2 ms and so on up to 50 ms: by one thread for each device
//! below, as a file system that a user serves may keep whoever tries.

use super::super::inode::Inode;
use super::{Locks, no_locks};
use crate::clock;
use crate::limits::{LOCK_STEP_MAX, LOCK_STEP_MIN, LOCK_THREADS};
use iopace_core::time::{Instant, Nanos};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A file that is tried from time to time.
#[derive(Debug)]
struct Tried {
    inode: Arc<Inode>,
    due: Instant,
    step: Nanos,
}

/// By device, what its thread tries.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    devices: Mutex<HashMap<u64, Vec<Tried>>>,
    more: Condvar,
}

impl Rounds {
    fn devices(&self) -> MutexGuard<'_, HashMap<u64, Vec<Tried>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is due; `None` if nothing is left to try.
    fn due(&self, device: u64) -> Option<Vec<Tried>> {
        let mut devices = self.devices();
        loop {
            let list = devices.get_mut(&device)?;
            let Some(first) = list.iter().map(|tried| tried.due).min() else {
                devices.remove(&device);
                return None;
            };
            let Some(left) = clock::until(first).filter(|left| !left.is_zero()) else {
                let now = clock::now();
                return Some(list.extract_if(.., |tried| tried.due <= now).collect());
            };
            let waited = self.more.wait_timeout(devices, left);
            devices = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Locks {
    /// Has the wishes for a file tried again, until none waits for a lock past the mount.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn try_again(self: &Arc<Self>, inode: &Arc<Inode>) -> io::Result<()> {
        self.add(inode, LOCK_STEP_MIN)
    }

    fn add(self: &Arc<Self>, inode: &Arc<Inode>, step: Nanos) -> io::Result<()> {
        let (device, due) = (inode.device, clock::now() + step);
        let tried = Tried { inode: Arc::clone(inode), due, step };
        let mut devices = self.rounds.devices();
        if let Some(list) = devices.get_mut(&device) {
            if !list.iter().any(|other| Arc::ptr_eq(&other.inode, inode)) {
                list.push(tried);
                self.rounds.more.notify_all();
            }
            return Ok(());
        }
        if devices.len() >= LOCK_THREADS {
            return Err(no_locks());
        }
        let own = Arc::clone(self);
        let thread = thread::Builder::new().name("fuse-locks".into());
        thread.spawn(move || own.go_round(device))?;
        devices.insert(device, vec![tried]);
        Ok(())
    }

    fn go_round(self: Arc<Self>, device: u64) {
        while let Some(due) = self.rounds.due(device) {
            for Tried { inode, step, .. } in due {
                let goes_on = self.wake(&mut inode.locks.state());
                if goes_on {
                    let step = Nanos((2 * step.0).min(LOCK_STEP_MAX.0));
                    let mut devices = self.rounds.devices();
                    let list = devices.entry(device).or_default();
                    if !list.iter().any(|other| Arc::ptr_eq(&other.inode, &inode)) {
                        list.push(Tried { inode, due: clock::now() + step, step });
                    }
                }
            }
        }
    }
}
