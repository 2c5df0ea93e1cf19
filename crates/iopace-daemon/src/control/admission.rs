//! Who has come in: those that have said nothing yet, those that wait to be served, and those that
//! are served.
//!
//! ```text
//!   accepted ─► silent (64; beyond that who came first is closed, after 100 ms) ─► head, token
//!                                                                      ─► line ─► served
//! ```
//! Anybody on the machine may connect to the loopback port. A connection that says nothing is in
//! nobody's way but that of others that say nothing; one without the token is refused before there
//! is a place to take.
//!
//! The daemon's own user and root have a hall of their own, so that nobody else takes a place of
//! theirs. Of all others each user has a few connections at a time, and one more is closed at once:
//! nothing waits before it was accepted, or a flood would keep everybody out.

use super::refused::Refused;
use crate::clock;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use iopace_core::time::{Instant, Nanos};
use iopace_fuse::subordinate::share_of;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::sleep;

/// Clients served at once, without those that read a stream. Each is a few KiB.
pub(super) const CLIENTS_MAX: usize = 64;

/// Clients that have not sent the head of their request yet; who means well sends it at once.
pub(super) const SILENT_MAX: usize = 64;

/// What a client has for the head of its request before others may take its place among the silent:
/// many who come at the same moment and mean well have all sent it by then.
const GRACE: Nanos = Nanos::from_millis(100);

/// How often it is looked whether there is room among the silent.
const LOOK: Duration = Duration::from_millis(5);

/// Clients that wait to be served; each has asked for something, with the right token.
pub(super) const LINE_MAX: usize = 256;

/// Connections of one user at a time who is neither root nor the daemon's: a browser takes six.
pub(super) const OF_USER_MAX: usize = 16;

/// Connections at a time of all these users.
pub(super) const OF_OTHERS_MAX: usize = 256;

/// Connections at a time of root and the daemon's user, streams included. They wait for each other
/// beyond what is served; this is only a bound on memory.
pub(super) const OF_OWN_MAX: usize = 1_024;

/// The connections that one door may let in: a hall for our own user, another one for all others.
#[derive(Debug)]
pub(super) struct Admissions {
    own: Arc<Admission>,
    others: Arc<Admission>,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    own: usize,
    others: usize,
    /// Of each user; `None` for those of whom nothing is known.
    users: BTreeMap<Option<u32>, usize>,
}

/// A connection that is counted as long as this is there.
#[derive(Debug)]
pub(super) struct Admitted {
    halls: Arc<Admissions>,
    uid: Option<u32>,
}

impl Admissions {
    pub(super) fn new() -> Arc<Admissions> {
        let (own, others) = (Admission::new(), Admission::new());
        Arc::new(Admissions { own, others, counts: Mutex::default() })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of that user; `None` if he has as many as he may.
    pub(super) fn admit(self: &Arc<Self>, uid: Option<u32>) -> Option<Admitted> {
        let uid = if is_own(uid) { uid } else { uid.map(share_of) };
        let mut counts = self.counts();
        if is_own(uid) {
            if counts.own >= OF_OWN_MAX {
                return None;
            }
            counts.own += 1;
        } else {
            if counts.others >= OF_OTHERS_MAX {
                return None;
            }
            let of_user = counts.users.entry(uid).or_default();
            if *of_user >= OF_USER_MAX {
                return None;
            }
            *of_user += 1;
            counts.others += 1;
        }
        Some(Admitted { halls: Arc::clone(self), uid })
    }
}

impl Admitted {
    /// Where it goes.
    pub(super) fn hall(&self) -> &Arc<Admission> {
        if is_own(self.uid) { &self.halls.own } else { &self.halls.others }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut counts = self.halls.counts();
        if is_own(self.uid) {
            counts.own -= 1;
            return;
        }
        counts.others -= 1;
        if let Entry::Occupied(mut of_user) = counts.users.entry(self.uid) {
            *of_user.get_mut() -= 1;
            if *of_user.get() == 0 {
                of_user.remove();
            }
        }
    }
}

/// Whether it is root, or the user of the daemon.
fn is_own(uid: Option<u32>) -> bool {
    uid.is_some_and(|uid| uid == 0 || uid == rustix::process::geteuid().as_raw())
}

/// The connections of one hall, counted by user.
#[derive(Debug)]
pub(super) struct Admission {
    served: Arc<Semaphore>,
    line: Semaphore,
    silent: Mutex<Silent>,
}

/// Those that have said nothing, in order of arrival, each with what keeps it here.
#[derive(Debug, Default)]
struct Silent {
    last: u64,
    all: VecDeque<One>,
}

#[derive(Debug)]
struct One {
    number: u64,
    since: Instant,
    keep: oneshot::Sender<()>,
}

impl Admission {
    pub(super) fn new() -> Arc<Admission> {
        let (served, line) = (Arc::new(Semaphore::new(CLIENTS_MAX)), Semaphore::new(LINE_MAX));
        Arc::new(Admission { served, line, silent: Mutex::default() })
    }

    /// Waits until somebody may come: there is room among the silent, or who came first had its
    /// time.
    pub(super) async fn room(&self) {
        let is_full = |silent: &Silent| {
            let first = silent.all.front().filter(|_| silent.all.len() >= SILENT_MAX);
            first.is_some_and(|first| clock::now().since(first.since) < GRACE)
        };
        while is_full(&self.silent()) {
            sleep(LOOK).await;
        }
    }

    /// Somebody comes, of that user if that is known. Whoever has been silent for longest goes, if
    /// there are too many.
    pub(super) fn enter(self: &Arc<Self>, uid: Option<u32>) -> (Guest, Stay) {
        let (keep, kept) = oneshot::channel();
        let mut silent = self.silent();
        silent.last += 1;
        let number = silent.last;
        silent.all.push_back(One { number, since: clock::now(), keep });
        if silent.all.len() > SILENT_MAX {
            silent.all.pop_front();
        }
        drop(silent);
        let state = State {
            hall: Arc::clone(self),
            number,
            stays: AtomicBool::new(false),
            is_aside: AtomicBool::new(false),
            place: Mutex::default(),
            came: clock::now(),
            uid,
        };
        (Guest(Arc::new(state)), Stay(kept))
    }

    fn silent(&self) -> MutexGuard<'_, Silent> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, number: u64) -> Option<oneshot::Sender<()>> {
        let mut silent = self.silent();
        let place = silent.all.iter().position(|one| one.number == number)?;
        silent.all.remove(place).map(|one| one.keep)
    }

    /// Places that nobody has.
    #[cfg(test)]
    pub(super) fn free_count(&self) -> usize {
        self.served.available_permits()
    }
}

/// A client as the routes see it.
#[derive(Clone)]
pub(super) struct Guest(Arc<State>);

struct State {
    hall: Arc<Admission>,
    number: u64,
    stays: AtomicBool,
    is_aside: AtomicBool,
    place: Mutex<Place>,
    came: Instant,
    uid: Option<u32>,
}

#[derive(Default)]
struct Place {
    permit: Option<OwnedSemaphorePermit>,
    /// What keeps it here since it has spoken.
    keep: Option<oneshot::Sender<()>>,
    /// What its answer is made of.
    made_of: Option<Arc<dyn Send + Sync>>,
}

impl Guest {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has sent the head of its request.
    pub(super) fn speaks(&self) {
        let keep = self.0.hall.take(self.0.number);
        self.place().keep = keep;
    }

    /// Waits until it is served.
    async fn take_place(&self) -> Result<(), Refused> {
        let hall = &self.0.hall;
        let full = || {
            Refused::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "there are as many clients as may be",
                "ask again in a moment",
            )
        };
        let _in_line = hall.line.try_acquire().map_err(|_| full())?;
        let permit = Arc::clone(&hall.served).acquire_owned().await.expect("never closed");
        self.place().permit = Some(permit);
        Ok(())
    }

    /// It reads a stream: it stays, and somebody else may come in its place.
    pub(super) fn stay(&self) {
        self.0.stays.store(true, Relaxed);
        drop(self.place().permit.take());
    }

    /// Whether it reads a stream.
    pub(super) fn stays(&self) -> bool {
        self.0.stays.load(Relaxed)
    }

    /// The rest of its answer is made and sent aside.
    pub(super) fn steps_aside(&self) {
        self.0.is_aside.store(true, Relaxed);
    }

    /// Whether it is.
    pub(super) fn is_aside(&self) -> bool {
        self.0.is_aside.load(Relaxed)
    }

    /// When it came in.
    pub(super) fn came(&self) -> Instant {
        self.0.came
    }

    /// Its user, if that is known.
    pub(super) fn uid(&self) -> Option<u32> {
        self.0.uid
    }

    /// Keeps what its answer is made of until it is gone, so that who sends it need not free that.
    pub(super) fn keep(&self, made_of: Arc<dyn Send + Sync>) {
        self.place().made_of = Some(made_of);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        drop(self.hall.take(self.number));
    }
}

/// Ends when a silent client has to go for another one.
#[derive(Debug)]
pub(super) struct Stay(oneshot::Receiver<()>);

impl Stay {
    pub(super) async fn over(self) {
        let _ = self.0.await;
    }
}

/// Serves a request when it is its client's turn.
pub(super) async fn in_turn(request: Request, next: Next) -> Response {
    let guest = request.extensions().get::<Guest>().cloned().expect("whoever is served came in");
    match guest.take_place().await {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_a_share_and_our_own_have_theirs() {
        let halls = Admissions::new();
        let own = rustix::process::geteuid().as_raw();
        let stranger = |number: usize| Some(4_242 + number as u32).filter(|uid| *uid != own);
        let mut admitted: Vec<Admitted> = Vec::new();
        for user in 0..OF_OTHERS_MAX / OF_USER_MAX {
            for _ in 0..OF_USER_MAX {
                admitted.push(halls.admit(stranger(user)).expect("within his share"));
            }
            assert!(halls.admit(stranger(user)).is_none(), "more than his share");
        }
        assert!(halls.admit(stranger(999)).is_none() && halls.admit(None).is_none());
        for uid in [0, own] {
            let one = halls.admit(Some(uid)).expect("always");
            assert!(Arc::ptr_eq(one.hall(), &halls.own));
        }
        assert!(admitted.iter().all(|one| Arc::ptr_eq(one.hall(), &halls.others)));
        admitted.clear();
        let counts = halls.counts();
        assert_eq!((counts.own, counts.others, counts.users.len()), (0, 0, 0));
    }
}
