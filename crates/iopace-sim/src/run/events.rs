//! What an operator should know of a run.

use crate::report::EventReport;
use crate::tally::ms;
use iopace_core::time::Instant;

/// Most events kept in a report; more are counted only.
const EVENTS_MAX: usize = 100;

/// Things that an operator should know, in order.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) first: Vec<EventReport>,
    pub(super) count: u64,
}

impl Events {
    pub(super) fn add(&mut self, now: Instant, text: String) {
        self.count += 1;
        if self.first.len() < EVENTS_MAX {
            self.first.push(EventReport { at_ms: ms(now.since(Instant::ZERO)), text });
        }
    }
}
