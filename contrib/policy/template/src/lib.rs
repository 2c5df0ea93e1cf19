//! A scheduler for iopace: reads before writes, which wait for a bounded number of reads.
//!
//! # Model
//! A task mostly waits for its reads and not for its writes, so reads go first, both in order of
//! arrival. Without a bound an endless stream of reads would starve the writes: after `reads_max`
//! reads in a row beside a waiting write, one write goes.
//! ```text
//!   reads  ──► [r][r][r] ──┐ up to reads_max in a row
//!                          ├──► disk
//!   writes ──► [w][w] ─────┘ then one
//! ```
//!
//! # Properties
//! 1. Reads go before writes: held by `p1_reads_go_first`.
//! 2. At most `reads_max` reads in a row pass over a waiting write: `p2_writes_are_bounded`.
//! 3. It never says "later" as long as it holds a request: `p3_nothing_is_held_back`.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

mod kit;

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use kit::{Counter, Id, Load, Nanos, Parameter, Policy, Pop, Request, Start};

/// The state of the scheduler. It is made anew for each device, so this is all there is.
#[derive(Default)]
struct ReadsFirst {
    /// The names of queued requests, the oldest first. A policy keeps as much of a request as it
    /// needs later: this one needs no more than the name.
    reads: VecDeque<Id>,
    writes: VecDeque<Id>,
    /// Reads in a row that went while a write waited.
    passed_over: u64,
    /// The parameter.
    reads_max: u64,
    /// The counter: how often the bound let a write go before a read.
    relieved_count: u64,
}

impl Policy for ReadsFirst {
    // Name, version and summary are those of the crate, in Cargo.toml. `iopace sched configure
    // --set reads_max=4` changes this while it runs.
    const PARAMETERS: &'static [Parameter] = &[Parameter {
        name: "reads_max",
        unit: "reads",
        min: 1,
        default: 8,
        max: 1_024,
        doc: "reads in a row that may pass over a waiting write",
    }];

    const COUNTERS: &'static [Counter] =
        &[Counter { name: "relieved", doc: "writes that went before waiting reads" }];

    /// `start` says whether the disk has a head and brings chance, for those who need it.
    fn new(_start: Start) -> ReadsFirst {
        ReadsFirst::default()
    }

    /// Called once at the beginning with the defaults, and whenever they are changed.
    fn configure(&mut self, values: &[u64]) {
        self.reads_max = values[0];
    }

    /// A request arrives.
    fn push(&mut self, _now: Nanos, request: Request) {
        match request.op.is_write() {
            true => self.writes.push_back(request.id),
            false => self.reads.push_back(request.id),
        }
    }

    /// The disk has room for one more request.
    fn pop(&mut self, _now: Nanos) -> Pop {
        let is_write_due = !self.writes.is_empty() && self.passed_over >= self.reads_max;
        if is_write_due {
            self.relieved_count += u64::from(!self.reads.is_empty());
        } else if let Some(read) = self.reads.pop_front() {
            self.passed_over += u64::from(!self.writes.is_empty());
            return Pop::Next(read);
        }
        self.passed_over = 0;
        self.writes.pop_front().map_or(Pop::Empty, Pop::Next)
    }

    fn counters(&self, into: &mut [u64]) {
        into[0] = self.relieved_count;
    }

    /// Its state, for the report of a failure.
    fn dump(&self) -> String {
        let (reads, writes) = (self.reads.len(), self.writes.len());
        format!("{reads} reads and {writes} writes, {} passed over", self.passed_over)
    }

    /// The longest wait: of the last write in the line, when `reads_max` reads go before each
    /// write of the line. `iopace policy test` holds the policy to it.
    fn wait_max(&self, load: &Load) -> Option<Nanos> {
        let flushes = if load.is_stream { 0 } else { load.requests };
        Some(load.service * (load.requests * (self.reads_max + 1) + flushes))
    }
}

// The functions that iopace calls.
kit::policy!(ReadsFirst);

#[cfg(test)]
mod tests;
