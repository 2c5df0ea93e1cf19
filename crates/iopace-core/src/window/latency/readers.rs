//! Who waits for requests: whether there is anybody, and what they get in quiet.

use super::price::ReaderTally;
use crate::request::Done;
use crate::time::{Instant, Nanos};
use crate::window::base::smooth;

/// Nobody reads any more, after so long without a request that somebody waits for.
pub(super) const READER_GONE: Nanos = Nanos::from_secs(1);

/// A request outstanding for so long is no sign of a reader but of a broken device.
pub(super) const READER_LOST: Nanos = Nanos::from_secs(5);

/// What must be known of the rate in quiet before a batch: so many requests.
const LEARN_COUNT: u64 = 8;

/// A disk whose reads in quiet take so many times less than before is another one: what a batch
/// cost the readers of the slow one would keep writers waiting for seconds. A slower one needs no
/// such rule: its batches are long, and count most.
const FASTER: u64 = 8;

/// What is known of readers.
#[derive(Debug, Default)]
pub(super) struct Readers {
    in_flight: u32,
    /// When a request that somebody waits for last started or ended.
    at: Option<Instant>,
    /// All time in quiet, the older part forgotten.
    pub(super) quiet: ReaderTally,
    /// The present time in quiet.
    gap: ReaderTally,
    /// The mean latency at the device in quiet, and at any time.
    pub(super) latency_quiet: Nanos,
    pub(super) latency: Nanos,
}

impl Readers {
    pub(super) fn on_start(&mut self, now: Instant) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.at = Some(now);
    }

    /// Whether the end of a request counts; `quiet_since`: how long there is no write-back.
    pub(super) fn on_done(
        &mut self,
        now: Instant,
        done: &Done,
        quiet_since: Option<Instant>,
    ) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.at = Some(now);
        if !done.ok || done.extent.is_empty() {
            return false;
        }
        let latency = now.since(done.started);
        self.latency = smooth(self.latency, latency);
        self.count(quiet_since.is_some());
        if quiet_since.is_some_and(|since| done.started >= since) {
            self.latency_quiet = smooth(self.latency_quiet, latency);
        }
        true
    }

    /// A request of a reader is done: it counts for the rate in quiet if it is quiet.
    pub(super) fn count(&mut self, is_quiet: bool) {
        self.quiet.count += u64::from(is_quiet);
        self.gap.count += u64::from(is_quiet);
    }

    /// Time in quiet has passed.
    pub(super) fn pass_quiet(&mut self, time: Nanos) {
        self.quiet.time += time;
        self.gap.time += time;
        self.quiet.fade();
    }

    /// Quiet ends: if its rate was another than before, what was before is forgotten.
    pub(super) fn end_gap(&mut self) {
        let gap = core::mem::take(&mut self.gap);
        if gap.is_above(&self.quiet) || gap.is_below(&self.quiet) {
            self.quiet = gap;
        }
    }

    /// Whether anybody reads.
    pub(super) fn are_there(&self, now: Instant) -> bool {
        let bound = if self.in_flight > 0 { READER_LOST } else { READER_GONE };
        self.at.is_some_and(|at| now.since(at) < bound)
    }

    /// Whether enough is known of the rate in quiet.
    pub(super) fn are_known(&self) -> bool {
        self.quiet.count >= LEARN_COUNT
    }

    /// Whether their latency in quiet is far below that one.
    pub(super) fn are_much_faster_than(&self, latency: Nanos) -> bool {
        self.latency_quiet.times(FASTER) < latency
    }
}
