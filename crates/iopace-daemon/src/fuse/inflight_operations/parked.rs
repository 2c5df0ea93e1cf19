//! An operation that waits until one that was given up has come to pass: without a thread, as a
//! file system below that has stalled would have all of them otherwise.

use super::super::caller::Caller;
use super::{Asker, Refuse, Touch};
use iopace_fuse::Errno;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

/// Carries an operation out and answers it.
type Work<R> = Box<dyn FnOnce(R) + Send>;

/// An operation that waits, whatever its reply is.
pub(super) trait Parks: Send + Sync {
    fn asker(&self) -> Asker;
    /// Whether its caller may have a signal pending, as far as the kernel says.
    fn is_signalled(&self) -> bool;
    /// Whether the kernel has said that it has.
    fn is_interrupted(&self) -> bool;
    /// Its user.
    fn uid(&self) -> u32;
    /// What it changes.
    fn touch(&self) -> Touch;
    /// Whether a look has met it before; from now on one has.
    fn was_seen(&self) -> bool;
    /// It goes to a thread; true once.
    fn sent(&self) -> bool;
    /// Whether it is neither carried out nor refused.
    fn is_waiting(&self) -> bool;
    /// Carries it out, if it still waits.
    fn carry_out(&self);
    /// Gives its caller an error, if it still waits; then it is not carried out.
    fn refuse(&self, errno: Errno) -> bool;
}

pub(super) struct Parked<R> {
    asker: Asker,
    uid: u32,
    touch: Touch,
    was_seen: AtomicBool,
    is_sent: AtomicBool,
    waits: Mutex<Option<(R, Work<R>)>>,
}

impl<R> Parked<R> {
    pub(super) fn new((from, touch): (Caller, Touch), reply: R, work: Work<R>) -> Parked<R> {
        let (was_seen, is_sent) = (AtomicBool::new(false), AtomicBool::new(false));
        let (asker, uid) = (Asker::now(from.pid), from.uid);
        Parked { asker, uid, touch, was_seen, is_sent, waits: Mutex::new(Some((reply, work))) }
    }

    fn take(&self) -> Option<(R, Work<R>)> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<R: Refuse + Send> Parks for Parked<R> {
    fn asker(&self) -> Asker {
        self.asker
    }

    fn is_signalled(&self) -> bool {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.as_ref().is_some_and(|(reply, _)| reply.is_signalled())
    }

    fn is_interrupted(&self) -> bool {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.as_ref().is_some_and(|(reply, _)| reply.is_interrupted())
    }

    fn uid(&self) -> u32 {
        self.uid
    }

    fn touch(&self) -> Touch {
        self.touch
    }

    fn was_seen(&self) -> bool {
        self.was_seen.swap(true, SeqCst)
    }

    fn sent(&self) -> bool {
        !self.is_sent.swap(true, SeqCst)
    }

    fn is_waiting(&self) -> bool {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn carry_out(&self) {
        if let Some((reply, work)) = self.take() {
            work(reply);
        }
    }

    fn refuse(&self, errno: Errno) -> bool {
        let Some((reply, _)) = self.take() else { return false };
        reply.refuse(errno);
        true
    }
}
