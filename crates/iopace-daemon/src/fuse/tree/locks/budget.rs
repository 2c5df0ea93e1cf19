//! How many owners of locks there may be, each of which takes a descriptor, and how many locks.

use super::no_locks;
use crate::limits::{LOCK_RANGES_ROOT_MAX, LOCK_RANGES_USER_MAX};
use iopace_fuse::subordinate::share_of;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ROOT: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    owners: usize,
    ranges: usize,
}

/// The descriptors and ranges that the owners of a mount may take.
#[derive(Debug)]
pub(super) struct Budget {
    /// Descriptors of this process.
    descriptors: usize,
    /// What each of its mounts may have of something.
    part_of: fn(usize) -> usize,
    users: Mutex<HashMap<u32, Count>>,
}

impl Budget {
    /// This process may have so many descriptors, and its mounts such a part each.
    pub(super) fn new(descriptors: usize, part_of: fn(usize) -> usize) -> Budget {
        Budget { descriptors, part_of, users: Mutex::default() }
    }

    /// Owners of one user who is not root, and of all together, with as many mounts as there are.
    fn owners_max(&self) -> (usize, usize) {
        let part = (self.part_of)(self.descriptors);
        ((part / 16).max(16), (part / 4).max(16))
    }

    fn users(&self) -> MutexGuard<'_, HashMap<u32, Count>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more owner.
    pub(super) fn place(self: &Arc<Self>, uid: u32) -> io::Result<Place> {
        let uid = share_of(uid);
        let (own_max, all_max) = self.owners_max();
        let mut users = self.users();
        let all: usize = users.values().map(|count| count.owners).sum();
        let own = users.entry(uid).or_default();
        if all >= all_max || uid != ROOT && own.owners >= own_max {
            return Err(no_locks());
        }
        own.owners += 1;
        Ok(Place { budget: Arc::clone(self), uid, ranges: 0 })
    }
}

/// The place of one owner; given back when it goes.
#[derive(Debug)]
pub(super) struct Place {
    budget: Arc<Budget>,
    uid: u32,
    ranges: usize,
}

impl Place {
    /// Whether it may have so many locks.
    pub(super) fn may_have(&self, ranges: usize) -> bool {
        let max = if self.uid == ROOT { LOCK_RANGES_ROOT_MAX } else { LOCK_RANGES_USER_MAX };
        let users = self.budget.users();
        let all = users.get(&self.uid).map_or(0, |count| count.ranges);
        ranges <= self.ranges || all + ranges - self.ranges <= max
    }

    /// It has so many locks now.
    pub(super) fn has(&mut self, ranges: usize) {
        if ranges != self.ranges {
            let mut users = self.budget.users();
            let count = users.entry(self.uid).or_default();
            count.ranges = count.ranges + ranges - self.ranges;
            self.ranges = ranges;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = self.budget.users();
        let Some(count) = users.get_mut(&self.uid) else { return };
        count.owners -= 1;
        count.ranges -= self.ranges;
        if count.owners == 0 {
            users.remove(&self.uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_takes_a_part_of_the_descriptors_and_of_the_locks() {
        let budget = Arc::new(Budget::new(1600, |all| all));
        let mut places: Vec<Place> = (0..100).map(|_| budget.place(7).unwrap()).collect();
        assert_eq!(budget.place(7).unwrap_err().raw_os_error(), Some(libc::ENOLCK));
        places[0].has(LOCK_RANGES_USER_MAX);
        assert!(!places[1].may_have(1) && places[0].may_have(LOCK_RANGES_USER_MAX));
        let other = budget.place(8).unwrap();
        assert!(other.may_have(1));
        places.clear();
        assert!(budget.place(7).unwrap().may_have(1));
        let root: Vec<Place> = (0..399).map(|_| budget.place(0).unwrap()).collect();
        assert_eq!(budget.place(0).unwrap_err().raw_os_error(), Some(libc::ENOLCK));
        drop((root, other));
        assert!(budget.users().is_empty());
    }

    #[test]
    fn the_descriptors_are_divided_among_mounts() {
        let budget = Arc::new(Budget::new(1600, |all| all / 2));
        let fill = |uid| std::iter::from_fn(|| budget.place(uid).ok()).collect::<Vec<Place>>();
        let places = [fill(7), fill(8), fill(0)];
        assert_eq!(places.each_ref().map(Vec::len), [50, 50, 100]);
        drop(places);
        let many = Arc::new(Budget::new(1600, |all| all / 1000));
        let few = std::iter::from_fn(|| many.place(7).ok()).collect::<Vec<Place>>();
        assert_eq!(few.len(), 16, "however many mounts there are");
    }
}
