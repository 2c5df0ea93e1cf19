//! Requests that go in pieces.

use super::super::inflight_operations::Refuse;
use iopace_fuse::{Errno, ReplyEmpty};
use std::sync::{Arc, Mutex, PoisonError};

/// A request in pieces. It ends well with the last of them, or badly with the first that fails.
#[derive(Debug)]
pub(crate) struct Whole(Mutex<(usize, Option<ReplyEmpty>)>);

impl Whole {
    /// One of so many pieces.
    pub(crate) fn new(count: usize, reply: ReplyEmpty) -> Arc<Whole> {
        Arc::new(Whole(Mutex::new((count, Some(reply)))))
    }

    /// Whether its caller may have a signal pending, as far as the kernel says.
    pub(super) fn is_signalled(&self) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1.as_ref().is_some_and(Refuse::is_signalled)
    }

    /// Whether its reply was not given: a piece that failed, or was given up, has given it.
    pub(super) fn is_waited_for(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.is_some()
    }

    /// Whether the kernel has said that it has.
    pub(super) fn is_interrupted(&self) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1.as_ref().is_some_and(Refuse::is_interrupted)
    }

    /// One of them has ended.
    pub(super) fn done(&self, result: Result<(), Errno>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        let is_over = state.0 == 0 || result.is_err();
        let Some(reply) = state.1.take_if(|_| is_over) else { return };
        match result {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }
}
