//! A scheduler behind a fence: what it does wrong is found out, not believed.
//!
//! Every call goes through `catch_unwind`. That is 12 of some 950 instructions of a request with
//! fifo, 10 of them for `pop`, so one fence around all that a drain pops is not worth its price: a
//! request starts between two pops, and the engine would have to keep what a scheduler popped
//! before it panicked.

use super::{Algorithm, DiskView, Params, Pop, Scheduler, fifo::Fifo};
use crate::group::table::Groups;
use crate::limits::STATE_DUMP_BYTES_MAX;
use crate::request::{GroupId, Op, RequestId};
use crate::table::{Request, Table};
use crate::time::Instant;
use crate::trace::Fault;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A running scheduler with its algorithm and parameters.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) algorithm: &'static Algorithm,
    pub(crate) params: Params,
    /// Whether the disk has a head, where it is known.
    pub(crate) rotational: Option<bool>,
    /// As [`Scheduler::learns`].
    learns: bool,
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
        let learns = scheduler.learns();
        Guard { algorithm, params, rotational, learns, scheduler }
    }

    pub(crate) fn push(&mut self, now: Instant, id: RequestId, table: &Table) -> Result<(), Fault> {
        self.fenced(|scheduler| scheduler.push(now, id, table))
    }

    pub(crate) fn pop(&mut self, now: Instant, table: &Table) -> Result<Pop, Fault> {
        self.fenced(|scheduler| scheduler.pop(now, table))
    }

    /// A queued request is to go with the one that was popped last: see [`Scheduler::join`].
    pub(crate) fn join(
        &mut self,
        now: Instant,
        id: RequestId,
        lead: RequestId,
        table: &Table,
    ) -> Result<bool, Fault> {
        self.fenced(|scheduler| scheduler.join(now, id, lead, table))
    }

    pub(crate) fn on_flush(
        &mut self,
        now: Instant,
        id: RequestId,
        table: &Table,
    ) -> Result<(), Fault> {
        self.fenced(|scheduler| scheduler.on_flush(now, id, table))
    }

    /// A request or a flush is done.
    #[inline(always)]
    pub(crate) fn on_done(
        &mut self,
        now: Instant,
        id: RequestId,
        request: &Request,
        ok: bool,
    ) -> Result<(), Fault> {
        if !self.learns {
            return Ok(());
        }
        self.fenced(|scheduler| match request.op() {
            Op::Flush => scheduler.on_flushed(now, id, request),
            _ => scheduler.on_done(now, id, request, ok),
        })
    }

    pub(crate) fn set_group(
        &mut self,
        now: Instant,
        id: GroupId,
        groups: &Groups,
    ) -> Result<(), Fault> {
        self.fenced(|scheduler| scheduler.set_group(now, id, groups))
    }

    pub(crate) fn remove_group(&mut self, id: GroupId) -> Result<(), Fault> {
        self.fenced(|scheduler| scheduler.remove_group(id))
    }

    pub(crate) fn configure(&mut self, params: Params, table: &Table) -> Result<(), Fault> {
        self.params = params;
        let params = self.params.clone();
        self.fenced(|scheduler| scheduler.configure(&params, table))
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

    /// Its opinion about the disk; none if it panics over it.
    pub(crate) fn disk(&self) -> Option<DiskView> {
        catch_unwind(AssertUnwindSafe(|| self.scheduler.disk())).unwrap_or_default()
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
        catch_unwind(AssertUnwindSafe(|| call(scheduler))).map_err(fault_of)
    }
}

/// The fault that a panic stands for: a loaded policy throws its own
/// ([`std::panic::resume_unwind`]).
#[cold]
fn fault_of(panic: Box<dyn Any + Send>) -> Fault {
    panic.downcast_ref().copied().unwrap_or(Fault::Panicked)
}

impl Drop for Guard {
    /// Ends a scheduler. It may have failed, so its end is fenced, too.
    fn drop(&mut self) {
        let scheduler = std::mem::replace(&mut self.scheduler, Box::new(Fifo::default()));
        _ = catch_unwind(AssertUnwindSafe(|| drop(scheduler)));
    }
}
