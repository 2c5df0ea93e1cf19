//! Space that is about to come free, of files that have just lost their last name.
//!
//! Without us, a file that nobody has open gives its space back as its last name goes. Here the
//! kernel tells us only afterwards that it knows the file no more, by requests that no program
//! waits for (`RELEASE`, `FORGET`), and until then our descriptors keep it. So who is told by the
//! file system below that there is no space waits until such files are closed, and tries again.
//! The kernel frees a closed file a little later where anybody else still touches it for a moment
//! (a request that ends, another process that looks at our descriptors): so for
//! [`SETTLES`] after the last was closed it is tried again as well.
//!
//! # Limits
//!
//! A file that is still open keeps its space, and is not told apart from one of which we have not
//! heard yet: then the wait is in vain, and ends [`LEAVING_PATIENCE`] after the name went.

use crate::clock;
use crate::limits::{FUSE_THREADS, LEAVING_MAX, LEAVING_PATIENCE};
use iopace_core::time::{Instant, Nanos};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// Most threads of a mount that wait here: one is left to hear what the kernel knows no more.
const WAITERS_MAX: usize = FUSE_THREADS - 1;

/// Between two tries: about as long as it takes to hear of it and to free a file.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// The kernel has freed the space of a file this long after its last descriptor was closed: at
/// once, but for others that touch it just then, who may be without a processor for a while.
const SETTLES: Nanos = Nanos::from_millis(200);

/// Files of a tree that have just lost their last name.
#[derive(Debug, Default)]
pub(crate) struct PendingSpace {
    files: Mutex<VecDeque<Leaver>>,
    /// An [`Instant`]: until then the space of those that were closed may still come free.
    settled: AtomicU64,
    waiters: AtomicUsize,
}

/// Held with each descriptor of a file, and let go after it: without any, the file is closed.
#[derive(Debug)]
pub(crate) struct Hold {
    leaving: Arc<PendingSpace>,
    has_no_name: AtomicBool,
}

#[derive(Debug)]
struct Leaver {
    hold: Weak<Hold>,
    /// Nobody waits for it longer.
    until: Instant,
}

impl Leaver {
    fn is_over(&self, now: Instant) -> bool {
        self.hold.strong_count() == 0 || self.until <= now
    }
}

impl PendingSpace {
    /// For the descriptors of one file.
    pub(crate) fn hold(self: &Arc<Self>) -> Arc<Hold> {
        Arc::new(Hold { leaving: Arc::clone(self), has_no_name: AtomicBool::new(false) })
    }

    /// Whether any such file is on its way out, or was closed just now.
    fn any(&self, suits: impl Fn(&Leaver) -> bool) -> bool {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        files.retain(|one| !one.is_over(now));
        now < Instant(self.settled.load(Relaxed)) || files.iter().any(suits)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if *self.has_no_name.get_mut() {
            self.leaving.settled.fetch_max((clock::now() + SETTLES).0, Relaxed);
        }
    }
}

impl Hold {
    /// The last name of its file is gone.
    pub(crate) fn leaves(self: &Arc<Self>) {
        self.has_no_name.store(true, Relaxed);
        let mut files = self.leaving.files.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        while files.front().is_some_and(|one| one.is_over(now) || files.len() >= LEAVING_MAX) {
            files.pop_front();
        }
        files.push_back(Leaver { hold: Arc::downgrade(self), until: now + LEAVING_PATIENCE });
    }

    /// Whether space may come free: an attempt that finds none may block.
    pub(crate) fn may_wait(&self) -> bool {
        self.leaving.any(|_| true)
    }

    /// Carries out what needs space, for the file or in the directory that this is of: again while
    /// there is none and some is about to come free.
    ///
    /// # Errors
    /// Those of the last attempt.
    pub(crate) fn with_space<T>(
        self: &Arc<Self>,
        mut attempt: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        let mut patience = Patience::of(Some(self));
        loop {
            match attempt() {
                Err(error) if patience.allows(Errno::from_io_error(&error)) => {}
                done => return done,
            }
        }
    }
}

/// Of somebody who needs space.
pub(crate) struct Patience<'a> {
    own: Option<&'a Arc<Hold>>,
    /// Files that lost their name before the first failure are waited for until then.
    until: Option<Instant>,
    waits: Option<Waiter<'a>>,
    was_last: bool,
}

impl<'a> Patience<'a> {
    /// Needs it for this file; none if it is not of a tree.
    pub(crate) fn of(own: Option<&'a Arc<Hold>>) -> Patience<'a> {
        Patience { own, until: None, waits: None, was_last: false }
    }

    /// Whether to try again after this error; waits a little before.
    pub(crate) fn allows(&mut self, error: Option<Errno>) -> bool {
        let is_full = matches!(error, Some(Errno::NOSPC | Errno::DQUOT));
        let Some(own) = self.own.filter(|_| is_full) else { return false };
        let leaving = &*own.leaving;
        let now = clock::now();
        let until = *self.until.get_or_insert(now + LEAVING_PATIENCE);
        // Nobody waits for himself, nor for what others remove meanwhile.
        let is_other = |one: &Leaver| one.until <= until && one.hold.as_ptr() != Arc::as_ptr(own);
        let others = now <= until && leaving.any(is_other);
        if others {
            self.waits = self.waits.take().or_else(|| Waiter::new(&leaving.waiters));
        }
        if !others || self.waits.is_none() {
            // The last of them may have gone since the failure.
            return !std::mem::replace(&mut self.was_last, true);
        }
        thread::sleep(TRY_EVERY);
        true
    }
}

/// One of those that wait.
struct Waiter<'a>(&'a AtomicUsize);

impl Waiter<'_> {
    fn new(count: &AtomicUsize) -> Option<Waiter<'_>> {
        let waiter = Waiter(count);
        (count.fetch_add(1, Relaxed) < WAITERS_MAX).then_some(waiter)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Option<Errno> = Some(Errno::NOSPC);

    /// However long a test is kept from its processor.
    const FAR: Instant = Instant(u64::MAX);

    fn leaves(hold: &Arc<Hold>) {
        let leaver = Leaver { hold: Arc::downgrade(hold), until: FAR };
        hold.leaving.files.lock().expect("sound").push_back(leaver);
    }

    fn patient(own: &Arc<Hold>) -> Patience<'_> {
        Patience { until: Some(FAR), ..Patience::of(Some(own)) }
    }

    #[test]
    fn who_finds_it_full_tries_until_what_leaves_is_closed_and_once_more() {
        let leaving = Arc::new(PendingSpace::default());
        let (own, other) = (leaving.hold(), leaving.hold());
        let mut none = patient(&own);
        assert!(none.allows(FULL) && !none.allows(FULL), "nothing leaves");
        leaves(&other);
        leaves(&own);
        let mut patience = patient(&own);
        assert!(patience.allows(FULL) && patience.allows(FULL));
        drop(other);
        assert!(patience.allows(FULL), "it may have gone since");
        assert!(!patience.allows(FULL), "not for itself");
        assert!(!Patience::of(Some(&own)).allows(Some(Errno::IO)));
        assert!(!Patience::of(None).allows(FULL));
    }

    #[test]
    fn what_is_closed_comes_free_a_little_later() {
        let leaving = Arc::new(PendingSpace::default());
        let (own, other, named) = (leaving.hold(), leaving.hold(), leaving.hold());
        drop(named);
        assert_eq!(leaving.settled.load(Relaxed), 0, "it has its space still");
        other.leaves();
        drop(other);
        assert_ne!(leaving.settled.load(Relaxed), 0);
        leaving.settled.store(FAR.0, Relaxed);
        let mut patience = patient(&own);
        assert!((0..5).all(|_| patience.allows(FULL)) && own.may_wait());
        leaving.settled.store(0, Relaxed);
        assert!(patience.allows(FULL) && !patience.allows(FULL) && !own.may_wait());
    }

    #[test]
    fn nobody_waits_for_what_is_removed_later_or_for_ever() {
        let leaving = Arc::new(PendingSpace::default());
        let (own, other, later) = (leaving.hold(), leaving.hold(), leaving.hold());
        other.leaves();
        let (mut patience, mut tries) = (Patience::of(Some(&own)), 0);
        while patience.allows(FULL) {
            tries += 1;
            later.leaves();
        }
        assert!(tries > 2, "{tries}: it is still open");
        drop(patience);
        assert_eq!(leaving.waiters.load(Relaxed), 0);
        assert!(leaving.files.lock().expect("sound").len() <= LEAVING_MAX);
    }

    #[test]
    fn one_thread_is_left_to_hear_of_it() {
        let leaving = Arc::new(PendingSpace::default());
        let (own, other) = (leaving.hold(), leaving.hold());
        leaves(&other);
        let mut all: Vec<_> = (0..FUSE_THREADS).map(|_| patient(&own)).collect();
        assert!(all.iter_mut().all(|one| one.allows(FULL)));
        let waits = all.iter_mut().filter_map(|one| one.allows(FULL).then_some(())).count();
        assert_eq!(waits, FUSE_THREADS - 1);
        drop(all);
        assert_eq!(leaving.waiters.load(Relaxed), 0);
    }
}
