//! Serves requests in the order of their arrival.
//!
//! # Model
//! One queue; the oldest request goes next. No parameters. It is the baseline of every table and
//! what a device falls back to when its scheduler fails.
//!
//! # Properties
//! 1. Requests start in arrival order; with merging, those of the task that adjoin one go with it.
//! 2. It is work-conserving: as long as it holds a request it never says "later".
//!
//! # When it does not know
//! There is nothing to know.
//!
//! # Limits
//! On a disk with a head it seeks between tasks all the time, and a task with many requests in the
//! queue gets most of the disk.
//!
//! # Sources
//! Linux `noop`/`none`; NetBSD `bufq_fcfs`.

use super::{Algorithm, Pop, Profile, Scheduler};
use crate::request::RequestId;
use crate::table::{List, Table};
use crate::time::Instant;

/// Its line in the registry.
pub static ALGORITHM: Algorithm = Algorithm {
    name: "fifo",
    summary: "arrival order, no parameters: the baseline and the fallback",
    params: &[],
    counters: &[],
    profile: Profile {
        // All others, and as many flushes, which go before.
        closed_loop_wait: Some(&|_, load| load.serving(2 * load.requests)),
        stream_wait: Some(&|_, load| load.serving(load.requests)),
        ..Profile::PLAIN
    },
    build: &|_| Box::new(Fifo::default()),
};

/// The queue.
#[derive(Debug, Default)]
pub struct Fifo(List);

impl Scheduler for Fifo {
    fn push(&mut self, _now: Instant, id: RequestId, table: &Table) {
        self.0.push(id, table);
    }

    fn pop(&mut self, _now: Instant, table: &Table) -> Pop {
        self.0.pop(table).map_or(Pop::Empty, Pop::Ready)
    }

    fn join(&mut self, _now: Instant, id: RequestId, _lead: RequestId, table: &Table) -> bool {
        self.0.remove(id, table);
        true
    }

    fn learns(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
