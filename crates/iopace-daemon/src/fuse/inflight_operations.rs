//! Operations on the thread that received them, which the file system below may keep for as long
//! as it likes: whoever waits for one can be killed all the same.
//!
//! ```text
//!  begin ─► the system call ─► take: the reply, unless the caller was given up meanwhile
//!               │
//!               └─ look, twice a second: the caller is being killed? It gets EINTR now
//! ```
//! What was given up may still come to pass below. Until it has, nothing else is done to the files
//! and directories that it changes, so that it overtakes nobody; then the kernel is told to ask
//! anew. Who has to wait for that waits without a thread (parked.rs). The same holds for what
//! others carry out (pending_replies.rs): writes that had to wait, direct ones and copies.

mod asker;
mod looks;
mod parked;
mod refuse;
mod telling;

use super::caller::Caller;
use crate::io::shares::Shares;
use crate::limits::FUSE_THREADS;
pub(crate) use asker::Asker;
use iopace_fuse::{Control, Errno, INodeNo, Notifier};
use parked::{Parked, Parks};
pub(crate) use refuse::Refuse;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Four for each of the threads of a mount, when none is held up: each mostly has one of its own.
const ROWS: usize = 4 * FUSE_THREADS;

/// Names no file.
const NOBODY: u64 = 0;

const ROOT: u32 = 0;

thread_local! {
    static ROW: usize = {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        LAST.fetch_add(1, SeqCst) % ROWS
    };
}

/// What an operation changes: up to two files or directories, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Touch([u64; 2]);

impl Touch {
    /// Nothing. Who only looks waits for nobody: should what it sees change, the kernel asks anew.
    pub(crate) const NOTHING: Touch = Touch([NOBODY; 2]);

    /// One.
    pub(crate) fn one(id: u64) -> Touch {
        Touch([id, NOBODY])
    }

    /// Two, or twice the same.
    pub(crate) fn two(id: u64, other: u64) -> Touch {
        Touch([id, other])
    }

    fn meets(self, other: Touch) -> bool {
        self.0.iter().any(|id| *id != NOBODY && other.0.contains(id))
    }
}

/// The operations of a mount that are being carried out.
#[derive(Default)]
pub(crate) struct InflightOperations {
    rows: [Mutex<Vec<Arc<dyn Kept>>>; ROWS],
    order: Mutex<Order>,
    given_up_count: AtomicUsize,
    /// Carry out what had to wait: for that, or for a limit.
    threads: Shares,
    /// Tell the kernel what has changed, and wait for nothing that the others carry out.
    tellers: Shares,
    notifier: OnceLock<Notifier>,
    /// The threads that receive, and what waits for one.
    control: OnceLock<Control>,
}

/// What waits for what.
#[derive(Default)]
struct Order {
    /// What changes below though its caller is gone.
    given_up: Vec<Touch>,
    /// What changes the same and came later. Bounded by the kernel: each is a call that a program
    /// waits in, or one of `FUSE_BACKGROUND_MAX`.
    parked: Vec<Arc<dyn Parks>>,
    /// The mount has ended.
    is_over: bool,
}

impl Order {
    fn blocks(&self, touch: Touch) -> bool {
        self.given_up.iter().any(|other| other.meets(touch))
    }
}

impl std::fmt::Debug for InflightOperations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InflightOperations")
            .field("given_up", &self.given_up_count)
            .finish_non_exhaustive()
    }
}

/// An operation whose caller may be given up.
trait Kept: Send + Sync {
    fn asker(&self) -> Asker;
    /// Whether its caller may have a signal pending, as far as the kernel says.
    fn is_signalled(&self) -> bool;
    /// Whether the kernel has said that it has.
    fn is_interrupted(&self) -> bool;
    /// Whether a look has met it before; from now on one has.
    fn was_seen(&self) -> bool;
    /// Gives its caller `EINTR`, if it still waits, after `before` was called.
    fn give_up(&self, before: &mut dyn FnMut(Touch)) -> bool;
}

struct Stand<R> {
    asker: Asker,
    uid: u32,
    touch: Touch,
    was_seen: AtomicBool,
    is_given_up: AtomicBool,
    /// It came to nothing.
    has_failed: AtomicBool,
    reply: Mutex<Option<R>>,
}

impl<R> Stand<R> {
    fn reply(&self) -> MutexGuard<'_, Option<R>> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: Refuse + Send> Kept for Stand<R> {
    fn asker(&self) -> Asker {
        self.asker
    }

    fn is_signalled(&self) -> bool {
        self.reply().as_ref().is_some_and(Refuse::is_signalled)
    }

    fn is_interrupted(&self) -> bool {
        self.reply().as_ref().is_some_and(Refuse::is_interrupted)
    }

    fn was_seen(&self) -> bool {
        self.was_seen.swap(true, SeqCst)
    }

    fn give_up(&self, before: &mut dyn FnMut(Touch)) -> bool {
        let mut stand = self.reply();
        let Some(reply) = stand.take() else { return false };
        // A caller that comes once the kernel has unlocked it is to find it here.
        before(self.touch);
        self.is_given_up.store(true, SeqCst);
        drop(stand);
        reply.refuse(Errno::EINTR);
        true
    }
}

/// The reply of an operation that is being carried out.
pub(crate) struct Late<'a, R: Refuse + Send + 'static> {
    inflight: &'a InflightOperations,
    stand: Arc<Stand<R>>,
}

impl<R: Refuse + Send + 'static> Late<'_, R> {
    /// The reply; `None` if nobody waits for it any more, or it was taken.
    pub(crate) fn take(&self) -> Option<R> {
        self.stand.reply().take()
    }

    /// Adds to the reply; `None` if nobody waits for it any more.
    pub(crate) fn with<T>(&self, add: impl FnOnce(&mut R) -> T) -> Option<T> {
        self.stand.reply().as_mut().map(add)
    }

    /// Whether its caller was given up.
    pub(crate) fn is_given_up(&self) -> bool {
        self.stand.is_given_up.load(SeqCst)
    }

    /// It has come to nothing: no name has changed.
    pub(crate) fn failed(&self) {
        self.stand.has_failed.store(true, SeqCst);
    }

    /// Whether names have changed of which the kernel was told nothing.
    pub(crate) fn is_untold(&self) -> bool {
        self.is_given_up() && !self.stand.has_failed.load(SeqCst)
    }
}

impl<R: Refuse + Send + 'static> Drop for Late<'_, R> {
    fn drop(&mut self) {
        let mut row = self.inflight.row();
        let own = Arc::as_ptr(&self.stand).cast::<()>();
        if let Some(place) = row.iter().position(|kept| Arc::as_ptr(kept).cast::<()>() == own) {
            row.swap_remove(place);
        }
        drop(row);
        // Under the lock of its reply it is given up, or not.
        drop(self.stand.reply());
        if self.is_given_up() {
            self.inflight.has_ended(self.stand.uid, self.stand.touch);
        }
    }
}

impl InflightOperations {
    /// The thread of `from` waits for an operation that is carried out from now on, by this thread.
    /// The reply comes back if something that was given up changes the same: see
    /// [`InflightOperations::park`].
    pub(crate) fn begin<R: Refuse + Send + 'static>(
        &self,
        from: Caller,
        touch: Touch,
        reply: R,
    ) -> Result<Late<'_, R>, R> {
        // What is given up from here on was asked for at the same time: its caller still waits.
        if self.given_up_count.load(SeqCst) > 0 && self.order().blocks(touch) {
            return Err(reply);
        }
        Ok(self.stand((from.pid, from.uid), touch, reply))
    }

    /// The same of an operation that changes nothing: it waits for nobody.
    pub(crate) fn begin_look<R: Refuse + Send + 'static>(&self, pid: u32, reply: R) -> Late<'_, R> {
        // Nobody is told of its end.
        self.stand((pid, ROOT), Touch::NOTHING, reply)
    }

    /// Has `work` carry out an operation when nothing that was given up changes the same: now, or
    /// by a thread of its own. Its caller may be given up before; then it never is.
    pub(crate) fn park<R: Refuse + Send + 'static>(
        &self,
        from: Caller,
        touch: Touch,
        reply: R,
        work: impl FnOnce(R) + Send + 'static,
    ) {
        let mut order = self.order();
        if order.is_over {
            drop(order);
            return reply.refuse(Errno::EIO);
        }
        if !order.blocks(touch) {
            drop(order);
            return work(reply);
        }
        order.parked.retain(|parked| parked.is_waiting());
        order.parked.push(Arc::new(Parked::new((from, touch), reply, Box::new(work))));
    }

    /// How many wait for what was given up.
    pub(crate) fn parked_count(&self) -> usize {
        self.order().parked.iter().filter(|parked| parked.is_waiting()).count()
    }

    /// How many wait for a thread, as their users hold as many as they may.
    pub(crate) fn queued_count(&self) -> usize {
        self.control.get().map_or(0, |control| control.counts().1)
    }

    /// The mount is gone, and its callers have had an error: who still waits never begins.
    pub(crate) fn end(&self) {
        let mut order = self.order();
        order.is_over = true;
        let parked = std::mem::take(&mut order.parked);
        drop(order);
        for parked in parked {
            parked.refuse(Errno::EIO);
        }
    }

    fn stand<R: Refuse + Send + 'static>(
        &self,
        (pid, uid): (u32, u32),
        touch: Touch,
        reply: R,
    ) -> Late<'_, R> {
        let stand = Arc::new(Stand {
            asker: Asker::now(pid),
            uid,
            touch,
            was_seen: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            reply: Mutex::new(Some(reply)),
        });
        self.row().push(Arc::clone(&stand) as _);
        Late { inflight: self, stand }
    }

    /// How the kernel is told from now on.
    pub(crate) fn notify_with(&self, notifier: Notifier) {
        let _ = self.notifier.set(notifier);
    }

    /// How what waits for a thread is looked at from now on.
    pub(crate) fn control_with(&self, control: Control) {
        let _ = self.control.set(control);
    }

    /// Has `told` called whenever the kernel says that a caller has a signal pending.
    pub(crate) fn on_interrupt(&self, told: impl Fn() + Send + Sync + 'static) {
        if let Some(control) = self.control.get() {
            control.on_interrupt(told);
        }
    }

    /// The caller of something that is being carried out is given up: until
    /// [`InflightOperations::has_ended`] says so, others that change the same wait. To be called
    /// before he hears of it.
    pub(crate) fn add(&self, touch: Touch) {
        if touch != Touch::NOTHING {
            self.order().given_up.push(touch);
            self.given_up_count.fetch_add(1, SeqCst);
        }
    }

    /// What was given up of this user has come to pass, or to nothing.
    pub(crate) fn has_ended(&self, uid: u32, touch: Touch) {
        if touch == Touch::NOTHING {
            return;
        }
        let mut order = self.order();
        if let Some(place) = order.given_up.iter().position(|other| *other == touch) {
            order.given_up.swap_remove(place);
            self.given_up_count.fetch_sub(1, SeqCst);
        }
        order.parked.retain(|parked| parked.is_waiting());
        let may_go = |parked: &&Arc<dyn Parks>| !order.blocks(parked.touch()) && parked.sent();
        let free: Vec<Arc<dyn Parks>> =
            order.parked.iter().filter(may_go).map(Arc::clone).collect();
        drop(order);
        for parked in free {
            self.carry_out(parked.uid(), move || parked.carry_out());
        }
        self.notify(uid, move |notifier| {
            for id in touch.0.into_iter().filter(|id| *id != NOBODY) {
                let _ = notifier.inval_inode(INodeNo(id), 0, 0);
            }
        });
    }

    /// Has another thread carry out what this user has wanted done. He may keep it for as long as
    /// he likes: so many of them, and no more.
    pub(crate) fn carry_out(&self, uid: u32, work: impl FnOnce() + Send + 'static) {
        self.threads.submit(uid, work);
    }

    fn row(&self) -> MutexGuard<'_, Vec<Arc<dyn Kept>>> {
        self.rows[ROW.with(|row| *row)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
