//! Waiting for locks that are held past the mount: the kernel tells nobody when one goes.
//!
//! They are tried again after 1 ms, then 2 ms and so on up to 50 ms: by one thread for each device
//! below, as a file system that a user serves may keep whoever tries.

use super::super::inode::Inode;
use super::{Locks, no_locks};
use crate::clock;
use crate::limits::{LOCK_STEP_MAX, LOCK_STEP_MIN, LOCK_THREADS, LOCK_USER_THREADS};
use iopace_core::time::{Instant, Nanos};
use iopace_fuse::subordinate::share_of;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

const ROOT: u32 = 0;

/// A file that is tried from time to time.
#[derive(Debug)]
struct Tried {
    inode: Arc<Inode>,
    due: Instant,
    step: Nanos,
}

/// What the thread of a device tries.
#[derive(Debug, Default)]
struct Round {
    list: Vec<Tried>,
    /// The user who has waited there first.
    user: u32,
}

/// By device.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    devices: Mutex<HashMap<u64, Round>>,
    /// That of the directory that is mounted.
    own: u64,
    more: Condvar,
}

impl Rounds {
    pub(super) fn new(own: u64) -> Rounds {
        Rounds { own, ..Rounds::default() }
    }

    fn devices(&self) -> MutexGuard<'_, HashMap<u64, Round>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is due; `None` if nothing is left to try.
    fn due(&self, device: u64) -> Option<Vec<Tried>> {
        let mut devices = self.devices();
        loop {
            let list = &mut devices.get_mut(&device)?.list;
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
    /// Has the wishes for a file tried again, until none waits for a lock past the mount; this user
    /// has one of them.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn try_again(self: &Arc<Self>, inode: &Arc<Inode>, uid: u32) -> io::Result<()> {
        let (device, due, step) = (inode.device, clock::now() + LOCK_STEP_MIN, LOCK_STEP_MIN);
        let (tried, user) = (Tried { inode: Arc::clone(inode), due, step }, share_of(uid));
        let mut devices = self.rounds.devices();
        if let Some(Round { list, .. }) = devices.get_mut(&device) {
            if !list.iter().any(|other| Arc::ptr_eq(&other.inode, inode)) {
                list.push(tried);
                self.rounds.more.notify_all();
            }
            return Ok(());
        }
        if !may_begin(&devices, (device, self.rounds.own), user) {
            return Err(no_locks());
        }
        let own = Arc::clone(self);
        let thread = thread::Builder::new().name("fuse-locks".into());
        thread.spawn(move || own.go_round(device))?;
        devices.insert(device, Round { list: vec![tried], user });
        Ok(())
    }

    fn go_round(self: Arc<Self>, device: u64) {
        while let Some(due) = self.rounds.due(device) {
            for Tried { inode, step, .. } in due {
                let goes_on = self.wake(&mut inode.locks.state());
                if goes_on {
                    let step = Nanos((2 * step.0).min(LOCK_STEP_MAX.0));
                    let mut devices = self.rounds.devices();
                    let list = &mut devices.entry(device).or_default().list;
                    if !list.iter().any(|other| Arc::ptr_eq(&other.inode, &inode)) {
                        list.push(Tried { inode, due: clock::now() + step, step });
                    }
                }
            }
        }
    }
}

/// Whether one more device may have a thread for this user.
fn may_begin(devices: &HashMap<u64, Round>, (device, own): (u64, u64), user: u32) -> bool {
    let others = || devices.iter().filter(|(device, _)| **device != own);
    let of_user = others().filter(|(_, round)| round.user == user).count();
    device == own
        || others().count() < LOCK_THREADS && (user == ROOT || of_user < LOCK_USER_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_a_part_of_the_threads() {
        const OWN: u64 = 1000;
        let mut devices = HashMap::new();
        let fill = |user, devices: &mut HashMap<u64, Round>| {
            let next = |devices: &HashMap<u64, Round>| devices.len() as u64;
            while may_begin(devices, (next(devices), OWN), user) {
                devices.insert(next(devices), Round { list: Vec::new(), user });
            }
            devices.len()
        };
        assert_eq!(fill(7, &mut devices), LOCK_USER_THREADS);
        assert_eq!(fill(8, &mut devices), 2 * LOCK_USER_THREADS);
        // Root takes the rest; the directory's own device always has one.
        assert_eq!(fill(ROOT, &mut devices), LOCK_THREADS);
        assert_eq!(fill(9, &mut devices), LOCK_THREADS);
        assert!(may_begin(&devices, (OWN, OWN), 7));
    }
}
