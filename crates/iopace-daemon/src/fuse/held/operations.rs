//! Operations on names and attributes that wait for a limit: their answer is to be carried out, by
//! threads of their own.
//!
//! While one waits, the kernel may keep a directory locked, and everybody who needs a name in it
//! stands still. So such a one has a deadline: then it is carried out, and stays in line for what
//! it owes.

use super::super::data::Operation;
use super::{Held, Reply, Ticket, Waiting};
use crate::io::pool::Pool;
use crate::limits::{OPERATION_THREADS, OPERATIONS_OWED_MAX};
use fuser::Errno;
use iopace_core::time::Instant;
use std::sync::Arc;

/// An operation that is to be carried out, unless that was done or given up meanwhile. Its ticket,
/// if it has it, is kept until then, so that its caller is looked after.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) waiting: Arc<Waiting>,
    pub(super) _ticket: Option<Ticket>,
}

impl Turn {
    fn carry_out(self) {
        match self.waiting.take() {
            Some(Reply::Operation(operation)) => operation(Ok(())),
            Some(other) => other.error(Errno::EIO),
            None => {}
        }
    }
}

impl Waiting {
    /// Whether its deadline has come, while it still waits; true once.
    fn is_overdue(&self, now: Instant) -> bool {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return false;
        }
        let mut stand = self.lock();
        stand.reply.is_some() && !std::mem::replace(&mut stand.is_owed, true)
    }
}

impl Held {
    /// An operation that is carried out when its ticket is answered, or some time after its
    /// deadline. It is carried out here, and there is no ticket, if too many owe for theirs.
    pub(crate) fn hold_operation(
        self: &Arc<Self>,
        pid: u32,
        operation: Operation,
        deadline: Option<Instant>,
    ) -> Option<Ticket> {
        if deadline.is_some() && self.lock().owed_count >= OPERATIONS_OWED_MAX {
            operation(Ok(()));
            return None;
        }
        Some(self.hold_until(pid, Some(Reply::Operation(operation)), (None, deadline)))
    }

    /// Whether the deadline of an operation has come; true once, and it is counted.
    pub(super) fn is_owed_from(&self, now: Instant, waiting: &Waiting) -> bool {
        // Under the lock, as the ticket counts down when it goes.
        let mut table = self.lock();
        let is_overdue = waiting.is_overdue(now);
        table.owed_count += usize::from(is_overdue);
        is_overdue
    }

    /// Has a thread of its own carry out an operation.
    pub(super) fn carry_out(&self, turn: Turn) {
        let pool = self.operations.get_or_init(|| {
            let pool = Pool::start("operation", OPERATION_THREADS, Turn::carry_out);
            pool.inspect_err(|error| tracing::warn!(%error, "no threads for operations")).ok()
        });
        match pool {
            Some(pool) => pool.submit(vec![turn]),
            None => turn.carry_out(),
        }
    }
}
