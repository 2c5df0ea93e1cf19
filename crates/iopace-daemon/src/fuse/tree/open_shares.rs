//! How many files each user has open: nobody takes the descriptors of all.
//!
//! An open file takes two descriptors, its own and that of its inode, which stays while it is in
//! use. All users but root may have so many open that three quarters of the descriptors are taken,
//! and one of them half of what the others leave: beyond that he alone gets `EMFILE`.

use super::credentials::is_own_user;
use super::refused;
use iopace_fuse::subordinate::share_of;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many a user may have open in any case.
const USER_MIN: usize = 16;

/// The open files of a mount, by the users who have opened them.
#[derive(Debug, Default)]
pub(crate) struct OpenShares(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    users: BTreeMap<u32, usize>,
    all: usize,
}

/// The place of an open file; given back when it goes.
#[derive(Debug, Default)]
pub(crate) struct OpenPlace(Option<(Arc<OpenShares>, u32)>);

impl OpenShares {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more file of this user, where the mount may have so many descriptors. Root
    /// and the daemon's own user take what there is.
    pub(super) fn place(self: &Arc<Self>, uid: u32, descriptors: usize) -> io::Result<OpenPlace> {
        if is_own_user(uid) {
            return Ok(OpenPlace(None));
        }
        let uid = share_of(uid);
        let mut counts = self.counts();
        let own = counts.users.get(&uid).copied().unwrap_or_default();
        let left = (descriptors / 8 * 3).saturating_sub(counts.all - own);
        if own >= (left / 2).max(USER_MIN) {
            return Err(refused(libc::EMFILE));
        }
        counts.all += 1;
        counts.users.insert(uid, own + 1);
        Ok(OpenPlace(Some((Arc::clone(self), uid))))
    }
}

impl Drop for OpenPlace {
    fn drop(&mut self) {
        let Some((files, uid)) = self.0.take() else { return };
        let mut counts = files.counts();
        counts.all -= 1;
        let Some(own) = counts.users.get_mut(&uid) else { return };
        *own -= 1;
        if *own == 0 {
            counts.users.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_half_of_what_the_others_leave() {
        let files = Arc::new(OpenShares::default());
        let fill = |uid| std::iter::from_fn(|| files.place(uid, 800).ok()).collect::<Vec<_>>();
        let of_one: Vec<OpenPlace> = fill(61001);
        assert_eq!(of_one.len(), 150);
        let refused = files.place(61001, 800).expect_err("as many as he may");
        assert_eq!(refused.raw_os_error(), Some(libc::EMFILE));
        let others = [61002, 61003, 61004, 61005].map(fill);
        assert_eq!(others.each_ref().map(Vec::len), [75, 37, 19, 16]);
        assert!(files.place(0, 800).is_ok(), "root takes what there is");
        drop(of_one);
        assert_eq!(fill(61001).len(), 76, "others have opened files since");
        drop(others);
        let counts = files.counts();
        assert_eq!((counts.all, counts.users.len()), (0, 0));
    }
}
