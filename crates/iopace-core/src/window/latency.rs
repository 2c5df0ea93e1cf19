//! Holds the device's queue at what pays, and lets write-back have what readers do not miss.
//!
//! # Model
//! *The depth for all* follows PARDA: `w <- (1 - g) w + g (L_target / L_obs x w + b)` per window of
//! completions, with L_target 32 times what the same requests take alone at the device.
//!
//! *The depth of a host among others* that use the same device follows the same law by time, with b
//! in proportion to the host's weight and one target for all hosts, or has the size that it is told
//! by what is known of all of them ([`HostShare`], [`crate::cluster`]). A size is no whole number
//! of requests: the depth is the whole number below it or the one above, as it takes to hold it
//! over time.
//!
//! *Write-back*: no reader, no brake. While tasks wait for requests, write-back goes in batches:
//! ```text
//!            batch          settles         quiet             next batch
//!   ────────┬──────────────┬─────────┬────────────────────┬──────────►
//!           │◄─── T_b, N_b reads ───►│◄─ T_q, N_q reads ─►│
//!           │◄──────────── cycle = 16 x taken ───────────►│
//! ```
//! The N_b reads that got done during a batch would have taken `N_b x T_q / N_q` in quiet; the rest
//! of T_b was *taken* from the readers. A cycle lasts 16 times that, so readers lose a sixteenth of
//! what they get alone, whatever the disk is, wherever they wait for it, and however much they
//! think between two requests: a reader that does not miss the time is not charged for it. T_b
//! begins when the first of the batch goes to the device: what it waited in line before, for its
//! turn or behind others, was the scheduler's decision and the readers' gain. A batch that has to
//! wait is larger, a sixteenth of its wait, so that turns do not take write-back's part away. Where
//! nothing is taken there is no gap, but a look at the quiet rate for 50 ms a second. When the rate
//! in quiet has changed by more than chance, or is lower than that of a batch, it is learned anew.
//!
//! A batch has one of three shapes: *bulk*, all in line at once, which pays the seek once;
//! *narrow*, the same with one request at the disk at a time, for a disk that would mix it with
//! reads; *trickle*, one request in line after the other, which fits into the time that readers
//! think. The one that gets most written per cycle is used, another tried now and then.
//!
//! # Properties
//! 1. The depth is at least 1 and never above what was set.
//! 2. Latency above the target narrows the depth; within it the depth is full.
//! 3. Without readers for a second write-back has its full depth and no gap.
//! 4. With readers it goes in batches with gaps: the cycle is 16 times what the batch took.
//! 5. A batch that took nothing is followed by the next at once.
//! 6. Write-back never starves: a gap is at most 31 times its batch and never above 2 s.
//! 7. A reader that never comes back, lost completions, failures and jumps of the clock do not hold
//!    write-back back for more than 5 s.
//! 8. What a large flush waits for has an eighth of the gap: readers keep two thirds. Who flushes
//!    is no reader. What a small one waits for comes as a request of a task, with no gap.
//! 9. What write-back waits in line for its turn is no cost: no gap pays for it, and a batch is a
//!    sixteenth of its wait at least (80 ms at most).
//! 10. Of a host among others the requests at the device are, as a mean over time, the size of its
//!     window, if it has so many, for sizes of one request and more.
//! 11. Hosts among others at a device that serves in order of arrival are served in proportion to
//!     their betas, whatever their windows were at first.
//! 12. A size that was told is held for as long as was told with it; then the window follows the
//!     latency.
//!
//! # When it does not know
//! Full depth for all until requests were alone at the device. When readers appear, write-back
//! waits until 8 of their requests are done in quiet, for half a second at most (an eighth of that
//! if a flush waits); the first batch has 1 MiB.
//!
//! # Limits
//! A host among others has one request at the device at least, also if less is due to it. If no
//! target is set, and hosts have learned latencies alone that differ, their shares do as well: who
//! takes a queue of others for the device is too bold.
//!
//! The count of requests is the measure: readers whose requests change in size between batch and
//! quiet are misjudged until the means have settled. Readers whose load is not closed (they come
//! whether or not the last is done) lose no requests, only time, and are not protected. A few reads
//! a second are counted to some 10 %, so next to them write-back gets less than it could. A disk
//! that is read in sequence answers early, so its batches are short, and seeks take more of them.
//!
//! # Sources
//! Gulati et al., "PARDA" (FAST 2009); Wei et al., "FAST TCP" (2006) for the law. wbt of Linux
//! (block/blk-wbt.c): write-back yields only to readers that are there. The unpublished congestion
//! control of NetBSD (2006) braked writers by their own count, with no signal of the device, and
//! slowed the readers too. The batch: NetBSD's read bursts (bufq_readprio.c: 48 reads, then 16
//! writes), with the numbers measured here instead of set.

mod batches;
mod depth;
mod line;
mod price;
mod readers;
mod shared;

use super::{
    AnyWindow, HostShare, Narrowed, QueueTotals, Started, Window, WindowPicture, WindowPolicy,
    WriteBack,
};
use crate::request::Done;
use crate::time::Instant;
use crate::units::Bytes;
use crate::verdict::Verdict;
use batches::Batches;
use depth::WindowDepth;

/// The registry's line.
pub static POLICY: WindowPolicy = WindowPolicy {
    name: "latency",
    summary: "a queue as deep as pays; write-back in batches that readers do not miss",
    build: |depth| AnyWindow::Other(Box::new(Latency::new(depth))),
};

/// Both controls.
#[derive(Debug)]
pub struct Latency {
    depth: WindowDepth,
    batches: Batches,
}

impl Latency {
    /// A window of at most `depth` requests, brought into the legal range.
    pub fn new(depth: u32) -> Latency {
        Latency { depth: WindowDepth::new(depth), batches: Batches::default() }
    }
}

impl Window for Latency {
    fn write_back(&mut self, now: Instant, in_line: &WriteBack, size: Bytes) -> Verdict {
        self.batches.ask(now, in_line, size)
    }

    fn on_start(&mut self, now: Instant, started: &Started) {
        self.depth.on_start(now, started);
        self.batches.on_start(now, started);
    }

    fn on_done(&mut self, now: Instant, done: &Done) {
        self.depth.on_done(now, done);
        self.batches.on_done(now, done);
    }

    fn on_joined_done(&mut self, now: Instant, done: &Done) {
        self.batches.on_joined_done(now, done);
    }

    fn depth(&self) -> u32 {
        self.depth.get().min(self.batches.depth_max())
    }

    fn set_depth(&mut self, depth: u32) {
        self.depth.set(depth);
    }

    fn set_share(&mut self, now: Instant, share: Option<HostShare>) {
        self.depth.set_share(now, share);
    }

    fn queue_totals(&self) -> Option<QueueTotals> {
        self.depth.totals()
    }

    fn picture(&self) -> WindowPicture {
        let depth = self.depth();
        let narrowed = match depth < self.depth.get() {
            true => Some(Narrowed::WriteBack),
            false => (!self.depth.is_full()).then_some(Narrowed::Latency),
        };
        self.batches.picture(depth, narrowed)
    }
}

#[cfg(test)]
mod tests;
