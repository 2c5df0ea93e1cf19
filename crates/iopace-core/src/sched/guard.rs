//! A scheduler behind a fence: what it does wrong is found out, not believed.
//!
//! Every call goes through `catch_unwind`, which costs nothing as long as nothing panics.

use super::{Algorithm, Params, Scheduler, fifo::Fifo};
use crate::group::Settings;
use crate::limits::STATE_DUMP_BYTES_MAX;
use crate::request::{Done, GroupId, Request, RequestId};
use crate::time::Instant;
use crate::trace::Fault;
use crate::verdict::{Pop, Reason};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a scheduler answered; the token that it gave back has been taken from it.
pub(crate) enum Popped {
    /// It gave this request back.
    Ready(RequestId),
    /// It holds something back.
    At(Instant, Reason),
    /// It says that it has nothing.
    Empty,
}

/// A running scheduler with its algorithm and parameters.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) algorithm: &'static Algorithm,
    pub(crate) params: Params,
    /// Whether the disk has a head, where it is known.
    pub(crate) rotational: Option<bool>,
    scheduler: Box<dyn Scheduler>,
}

impl Guard {
    /// Starts the algorithm, on such a disk.
    pub(crate) fn new(
        algorithm: &'static Algorithm,
        params: Params,
        rotational: Option<bool>,
    ) -> Guard {
        let mut scheduler = (algorithm.build)(&params);
        if let Some(is_rotational) = rotational {
            scheduler.set_rotational(is_rotational);
        }
        Guard { algorithm, params, rotational, scheduler }
    }

    pub(crate) fn push(
        &mut self,
        now: Instant,
        token: impl FnOnce() -> Request,
    ) -> Result<(), Fault> {
        self.fenced(|scheduler| scheduler.push(now, token()))
    }

    pub(crate) fn pop(&mut self, now: Instant) -> Result<Popped, Fault> {
        self.fenced(|scheduler| match scheduler.pop(now) {
            Pop::Ready(request) => Popped::Ready(request.retire()),
            Pop::At(at, reason) => Popped::At(at, reason),
            Pop::Empty => Popped::Empty,
        })
    }

    pub(crate) fn on_done(&mut self, now: Instant, done: &Done) -> Result<(), Fault> {
        self.fenced(|scheduler| scheduler.on_done(now, done))
    }

    pub(crate) fn set_group(
        &mut self,
        now: Instant,
        id: GroupId,
        parent: GroupId,
        settings: &Settings,
    ) -> Result<(), Fault> {
        self.fenced(|scheduler| scheduler.set_group(now, id, parent, settings))
    }

    pub(crate) fn remove_group(&mut self, id: GroupId) -> Result<(), Fault> {
        self.fenced(|scheduler| scheduler.remove_group(id))
    }

    pub(crate) fn configure(&mut self, params: Params) -> Result<(), Fault> {
        self.params = params;
        let params = &self.params;
        let scheduler = &mut self.scheduler;
        catch_unwind(AssertUnwindSafe(|| scheduler.configure(params))).map_err(|_| Fault::Panicked)
    }

    /// All that it holds, in the order it gives.
    pub(crate) fn drain(&mut self) -> Result<Vec<Request>, Fault> {
        self.fenced(|scheduler| {
            let mut requests = Vec::with_capacity(scheduler.len());
            scheduler.drain(&mut requests);
            requests
        })
    }

    /// How many requests it says that it holds.
    pub(crate) fn len(&self) -> usize {
        catch_unwind(AssertUnwindSafe(|| self.scheduler.len())).unwrap_or(usize::MAX)
    }

    /// Its counters' values; empty if it panics over them.
    pub(crate) fn counters(&self) -> Vec<u64> {
        let mut values = Vec::new();
        let counted = catch_unwind(AssertUnwindSafe(|| self.scheduler.counters(&mut values)));
        if counted.is_err() {
            values.clear();
        }
        values
    }

    /// Its state as text, cut to a bounded length.
    pub(crate) fn dump(&self) -> String {
        let text = catch_unwind(AssertUnwindSafe(|| format!("{:?}", self.scheduler)));
        let mut text = text.unwrap_or_else(|_| "(it panicked over its own dump)".into());
        if text.len() > STATE_DUMP_BYTES_MAX {
            let cut = (0..=STATE_DUMP_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at));
            text.truncate(cut.unwrap_or(0));
            text.push_str("... (cut)");
        }
        text
    }

    #[inline]
    fn fenced<T>(&mut self, call: impl FnOnce(&mut dyn Scheduler) -> T) -> Result<T, Fault> {
        let scheduler = &mut *self.scheduler;
        catch_unwind(AssertUnwindSafe(|| call(scheduler))).map_err(|_| Fault::Panicked)
    }
}

impl Drop for Guard {
    /// Ends a scheduler. What it still holds is void: either the engine has it in its ledger (the
    /// scheduler failed) or the engine itself ends. A scheduler that cannot even be drained is
    /// leaked, not dropped, as its state is broken; that happens at most once per scheduler.
    fn drop(&mut self) {
        if let Ok(tokens) = self.drain() {
            tokens.into_iter().for_each(Request::abandon);
        }
        if self.len() != 0 {
            std::mem::forget(std::mem::replace(&mut self.scheduler, Box::new(Fifo::default())));
        }
    }
}
