//! Exchanges of schedulers on a live device, on purpose and because one failed.

use super::{ControlError, Engine, Output};
use crate::limits::SCHEDULER_FORGETS;
use crate::sched::{Algorithm, Changes, Params, fifo, guard::Guard};
use crate::table::{Entry, State};
use crate::time::Nanos;
use crate::trace::{Event, Fault};

/// It is looked for requests that the scheduler has lost after this long again.
const AUDIT_AFTER: Nanos = Nanos(SCHEDULER_FORGETS.0 / 10);

impl Engine {
    pub(super) fn configure(
        &mut self,
        to: Option<&'static Algorithm>,
        changes: &Changes,
    ) -> Result<(), ControlError> {
        let to = to.unwrap_or(self.sched.algorithm);
        let is_same = std::ptr::eq(to, self.sched.algorithm);
        let mut params = if is_same { self.sched.params.clone() } else { to.defaults() };
        params.merge(changes).map_err(|error| ControlError::Param(to.name, error))?;
        if !is_same {
            return self.exchange(to, params, true);
        }
        if let Err(fault) = self.sched.configure(params, &self.table) {
            self.fail_over(fault);
        }
        Ok(())
    }

    /// Puts a new scheduler in the place of the old one, between two requests.
    pub(super) fn exchange(
        &mut self,
        to: &'static Algorithm,
        params: Params,
        inserted: bool,
    ) -> Result<(), ControlError> {
        let rotational = self.sched.rotational;
        let build = std::panic::AssertUnwindSafe(|| Guard::new(to, params, rotational));
        let new =
            std::panic::catch_unwind(build).map_err(|_| ControlError::BuildFailed(to.name))?;
        self.replace(new);
        self.inserted = inserted;
        Ok(())
    }

    /// Puts `new` in the place of the present scheduler, with all that is queued.
    fn replace(&mut self, new: Guard) {
        let (from, to) = (self.sched.algorithm.name, new.algorithm.name);
        let moved_count = self.table.count(State::Queued);
        self.sched = new;
        self.epoch += 1;
        self.held_since = None;
        self.stats.told.exchanged_count += 1;
        let event = Event::SchedulerExchanged { from, to, moved_count };
        self.outputs.push_back(Output::Event(Box::new(event)));
        match self.tell_groups() {
            Ok(()) => self.push_all_queued(),
            Err(fault) => self.fail_over(fault),
        }
    }

    /// Gives everything that is queued to the present scheduler, in arrival order.
    fn push_all_queued(&mut self) {
        for id in self.table.queued() {
            if let Err(fault) = self.sched.push(self.now, id, &self.table) {
                return self.fail_over(fault);
            }
        }
    }

    /// Makes the scheduler anew, with all that is queued, if a request has been in it for
    /// [`SCHEDULER_FORGETS`]: it may have been lost, which a scheduler that always has others to
    /// serve does not show. True if it was.
    #[cold]
    pub(super) fn audit(&mut self) -> bool {
        self.audit_at = self.now + AUDIT_AFTER;
        let is_old = |entry: &Entry| {
            entry.state() == State::Queued && self.now.since(entry.admitted) >= SCHEDULER_FORGETS
        };
        if !self.table.entries().any(is_old) {
            return false;
        }
        let (algorithm, params) = (self.sched.algorithm, self.sched.params.clone());
        if self.exchange(algorithm, params, self.inserted).is_err() {
            self.fail_over(Fault::Panicked);
        }
        true
    }

    /// Replaces a scheduler that cannot be trusted by fifo; the table says what it had.
    #[cold]
    pub(super) fn fail_over(&mut self, fault: Fault) {
        assert!(
            !std::ptr::eq(self.sched.algorithm, &fifo::ALGORITHM),
            "the fallback scheduler failed: {}",
            fault.describe()
        );
        let event = Event::SchedulerFailed {
            name: self.sched.algorithm.name,
            fault,
            recovered_count: self.table.count(State::Queued),
            dump: self.sched.dump(),
        };
        self.outputs.push_back(Output::Event(Box::new(event)));
        self.sched =
            Guard::new(&fifo::ALGORITHM, fifo::ALGORITHM.defaults(), self.sched.rotational);
        self.epoch += 1;
        self.held_since = None;
        self.stats.told.failed_over_count += 1;
        self.push_all_queued();
    }
}
