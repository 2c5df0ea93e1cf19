//! Exchanges of schedulers on a live device, on purpose and because one failed.

use super::{ControlError, Engine, Output};
use crate::ledger::State;
use crate::request::{Request, RequestId};
use crate::sched::{Algorithm, Params, fifo, guard::Guard};
use crate::trace::{Event, Fault};

impl Engine {
    pub(super) fn configure(
        &mut self,
        to: &'static Algorithm,
        params: Params,
    ) -> Result<(), ControlError> {
        if !std::ptr::eq(to, self.sched.algorithm) {
            return self.exchange(to, params, true);
        }
        if let Err(fault) = self.sched.configure(params) {
            self.fail_over(fault);
        }
        Ok(())
    }

    /// Drains the old scheduler into a new one, between two requests.
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
        if let Err(fault) = self.check_drain() {
            self.fail_over(fault);
        }
        self.replace(new);
        self.inserted = inserted;
        Ok(())
    }

    /// Empties the scheduler and checks what it hands back against the ledger.
    fn check_drain(&mut self) -> Result<(), Fault> {
        let tokens = self.sched.drain()?;
        let mut ids: Vec<RequestId> = tokens.into_iter().map(Request::retire).collect();
        ids.sort_unstable_by_key(|id| id.sequence);
        ids.dedup();
        if !ids.iter().all(|id| self.is_queued(*id)) {
            return Err(Fault::Invented);
        }
        if ids.len() != self.ledger.count(State::Queued) {
            return Err(Fault::Forgot);
        }
        Ok(())
    }

    /// Puts `new` in the place of an empty (or failed) scheduler, with all that is queued.
    fn replace(&mut self, new: Guard) {
        let (from, to) = (self.sched.algorithm.name, new.algorithm.name);
        let moved_count = self.ledger.count(State::Queued);
        self.sched = new;
        self.epoch += 1;
        self.held_since = None;
        self.stats.exchanged_count += 1;
        let event = Event::SchedulerExchanged { from, to, moved_count };
        self.outputs.push_back(Output::Event(Box::new(event)));
        match self.tell_groups() {
            Ok(()) => self.push_all_queued(),
            Err(fault) => self.fail_over(fault),
        }
    }

    /// Gives everything that is queued to the present scheduler, in arrival order.
    fn push_all_queued(&mut self) {
        let mut tokens = self.ledger.queued_tokens().into_iter();
        while let Some(token) = tokens.next() {
            if let Err(fault) = self.sched.push(self.now, || token) {
                tokens.for_each(Request::abandon);
                return self.fail_over(fault);
            }
        }
    }

    /// Replaces a scheduler that cannot be trusted by fifo; the ledger says what it had.
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
            recovered_count: self.ledger.count(State::Queued),
            dump: self.sched.dump(),
        };
        self.outputs.push_back(Output::Event(Box::new(event)));
        self.sched =
            Guard::new(&fifo::ALGORITHM, fifo::ALGORITHM.defaults(), self.sched.rotational);
        self.epoch += 1;
        self.held_since = None;
        self.stats.failed_over_count += 1;
        self.push_all_queued();
    }
}
