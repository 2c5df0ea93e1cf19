//! Threads for work that users have had done and that may block for as long as one of them likes:
//! each user holds as many as he may inside the file system otherwise (`iopace_fuse::limits`), and
//! the rest of his work waits in a queue of his own. There are threads as long as there is work.

use iopace_fuse::Turns;
use iopace_fuse::limits::{OTHERS_THREADS, ROOT_THREADS, SPARE_THREADS, USER_THREADS};
use iopace_fuse::subordinate::{look_again, share_of};
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

type Work = Box<dyn FnOnce() + Send>;

const ROOT: u32 = 0;

/// The threads, and what waits for one. They end, when all is done, after this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Shares(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Turns<Work>,
    /// Work under way, by user.
    busy: BTreeMap<u32, usize>,
    /// The same of all users but root.
    others_busy: usize,
    /// Threads that wait for work and were not called yet.
    idle: usize,
    /// Threads that were called and have not woken up.
    called: usize,
    is_over: bool,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("busy", &self.busy).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn may_begin(&self, uid: u32) -> bool {
        let own = self.busy.get(&uid).copied().unwrap_or_default();
        match uid {
            ROOT => own < ROOT_THREADS,
            _ => own < USER_THREADS && self.others_busy < OTHERS_THREADS,
        }
    }

    /// The next work whose user may begin some; it counts as under way.
    fn next(&mut self) -> Option<(u32, Work)> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let next = waiting.next(|uid| self.may_begin(uid));
        self.waiting = waiting;
        let (uid, work, _) = next?;
        *self.busy.entry(uid).or_default() += 1;
        self.others_busy += usize::from(uid != ROOT);
        Some((uid, work))
    }

    fn has_ended(&mut self, uid: u32) {
        self.others_busy -= usize::from(uid != ROOT);
        if let Some(count) = self.busy.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(&uid);
            }
        }
    }
}

impl Shares {
    /// Has a thread carry out what this user wants done. Without any thread this one does it.
    pub(crate) fn submit(&self, uid: u32, work: impl FnOnce() + Send + 'static) {
        let uid = share_of(uid);
        let mut state = self.0.state();
        let may_begin = state.may_begin(uid);
        state.waiting.push(uid, Box::new(work), 1);
        if !may_begin {
            // One of those under way carries on with it.
            return;
        }
        if state.idle > 0 {
            state.idle -= 1;
            state.called += 1;
            drop(state);
            return self.0.changed.notify_one();
        }
        drop(state);
        look_again();
        let shared = Arc::clone(&self.0);
        let started = thread::Builder::new().name("shares".into()).spawn(move || run(&shared));
        if let Err(error) = started {
            tracing::warn!(%error, "no thread for what has waited");
            drop(carry_out_all(&self.0));
        }
    }
}

impl Drop for Shares {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

/// Carries out what may begin, until nothing may.
fn carry_out_all(shared: &Shared) -> MutexGuard<'_, State> {
    loop {
        let mut state = shared.state();
        let Some((uid, work)) = state.next() else { return state };
        drop(state);
        // What panics has dropped its reply, which has answered. Others go on.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            tracing::error!("what has waited has failed in a panic");
        }
        shared.state().has_ended(uid);
    }
}

fn run(shared: &Shared) {
    loop {
        let mut state = carry_out_all(shared);
        if state.is_over || state.idle >= SPARE_THREADS {
            return;
        }
        state.idle += 1;
        while state.called == 0 {
            if state.is_over {
                return;
            }
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.called -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    const HANG: Duration = Duration::from_secs(60);

    /// Work of this user that says its number and ends when it is let.
    fn block(shares: &Shares, uid: u32, number: usize, said: &Sender<(u32, usize)>) -> Sender<()> {
        let (end, ended) = channel();
        let said = said.clone();
        shares.submit(uid, move || {
            said.send((uid, number)).expect("it is heard");
            let _ = ended.recv();
        });
        end
    }

    fn hear(said: &Receiver<(u32, usize)>) -> (u32, usize) {
        said.recv_timeout(HANG).expect("it begins")
    }

    #[test]
    fn a_user_who_blocks_all_his_threads_blocks_nobody_else() {
        let shares = Shares::default();
        let (say, said) = channel();
        let blocked: Vec<_> = (0..50).map(|number| block(&shares, 1, number, &say)).collect();
        for number in 0..USER_THREADS {
            assert!(hear(&said).1 < USER_THREADS, "{number}");
        }
        // Of all his others none begins, and those of others do, however many came before.
        for uid in [0, 2, 3] {
            let end = block(&shares, uid, 0, &say);
            assert_eq!(hear(&said), (uid, 0));
            drop(end);
        }
        assert_eq!(shares.0.state().busy.get(&1), Some(&USER_THREADS));
        // One that ends lets the next one go on, in order.
        for (number, end) in blocked.into_iter().enumerate() {
            drop(end);
            if number + USER_THREADS < 50 {
                assert_eq!(hear(&said), (1, number + USER_THREADS));
            }
        }
        // Nothing is left, and what is over ends.
        let end = block(&shares, 1, 99, &say);
        assert_eq!(hear(&said), (1, 99));
        let shared = Arc::downgrade(&shares.0);
        drop(shares);
        drop(end);
        while shared.strong_count() > 0 {
            thread::yield_now();
        }
    }
}
