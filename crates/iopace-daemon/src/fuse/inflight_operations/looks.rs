//! Looks at operations whose callers may be being killed.

use super::parked::Parks;
use super::{Asker, InflightOperations, Kept};
use iopace_fuse::{Errno, Request};
use std::sync::PoisonError;

impl InflightOperations {
    /// Gives up those whose caller is being killed, as `is_killed` says, if they were
    /// under way at the last look already. How many.
    pub(crate) fn look(&self, is_killed: impl Fn(Asker) -> bool) -> usize {
        let is_due = |kept: &dyn Kept| kept.was_seen() && kept.is_signalled();
        let parked_is_due = |kept: &dyn Parks| kept.was_seen() && kept.is_signalled();
        self.give_up(is_due, parked_is_due, is_killed)
    }

    /// The same of those of whose caller the kernel has said that it has a signal pending, at once.
    pub(crate) fn look_at_interrupted(&self, is_killed: impl Fn(Asker) -> bool) -> usize {
        self.give_up(|kept| kept.is_interrupted(), |kept| kept.is_interrupted(), is_killed)
    }

    fn give_up(
        &self,
        is_due: impl Fn(&dyn Kept) -> bool,
        parked_is_due: impl Fn(&dyn Parks) -> bool,
        is_killed: impl Fn(Asker) -> bool,
    ) -> usize {
        let mut count = 0;
        for row in &self.rows {
            let all = row.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for kept in all.iter().filter(|kept| is_due(&***kept) && is_killed(kept.asker())) {
                count += usize::from(kept.give_up(&mut |touch| self.add(touch)));
            }
        }
        let parked = self.order().parked.clone();
        for kept in parked.iter().filter(|kept| parked_is_due(&***kept) && is_killed(kept.asker()))
        {
            count += usize::from(kept.refuse(Errno::EINTR));
        }
        count + self.look_at_queued(&is_killed)
    }

    /// Gives up what waits for a thread, and never began. The kernel says whose caller has got a
    /// signal, and `is_killed` whether that one ends it.
    fn look_at_queued(&self, is_killed: &impl Fn(Asker) -> bool) -> usize {
        let killed = |request: &Request| is_killed(Asker::now(request.pid()));
        self.control.get().map_or(0, |control| control.give_up_queued(killed))
    }
}
