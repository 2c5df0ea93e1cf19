//! Looks at requests whose callers may be being killed.

use super::operations::Turn;
use super::{Asker, PendingReplies, Waiting};
use iopace_core::time::Instant;
use iopace_fuse::Errno;
use std::sync::Arc;

impl PendingReplies {
    /// Answers those that have waited since the look before the last and whose thread is being
    /// killed, as `is_killed` says, or is gone from a read ahead, as `is_gone` says, and carries
    /// out operations whose deadline has come. How many were given up.
    pub(crate) fn look(
        &self,
        now: Instant,
        is_killed: impl Fn(Asker) -> bool,
        is_gone: impl Fn(Asker) -> bool,
    ) -> usize {
        let mut table = self.lock();
        let old = table.old;
        table.old = table.seen;
        table.seen = table.last;
        let all = table.all.range(..=old).map(|(number, w)| (*number, Arc::clone(w)));
        let all: Vec<(u64, Arc<Waiting>)> = all.collect();
        drop(table);
        let mut count = 0;
        for (number, waiting) in all {
            if waiting.is_waited_for()
                && (waiting.is_signalled() && is_killed(waiting.asker)
                    || waiting.is_cached_read() && is_gone(waiting.asker))
                && let Some(reply) = waiting.give_up()
            {
                reply.error(Errno::EINTR);
                count += 1;
                let _ticket = self.take_aside(number);
            } else if self.is_owed_from(now, &waiting) {
                let _ticket = self.take_aside(number);
                self.carry_out(Turn { waiting, _ticket });
            }
        }
        count
    }

    /// Answers those of whose caller the kernel has said that it has a signal pending, if that is
    /// the end of it, as `is_killed` says. How many were given up.
    pub(crate) fn look_at_interrupted(&self, is_killed: impl Fn(Asker) -> bool) -> usize {
        let table = self.lock();
        let all: Vec<(u64, Arc<Waiting>)> =
            table.all.iter().map(|(number, one)| (*number, Arc::clone(one))).collect();
        drop(table);
        let mut count = 0;
        for (number, waiting) in all {
            if waiting.is_interrupted()
                && is_killed(waiting.asker)
                && let Some(reply) = waiting.give_up_at_once()
            {
                reply.error(Errno::EINTR);
                count += 1;
                let _ticket = self.take_aside(number);
            }
        }
        count
    }
}
