//! The depth of a host among others: PARDA's law by time, or a size that it is told.
//!
//! `w <- (1 - g) w + g (L_target / L_obs x w + b)` once per [`PERIOD`], with b by the host's weight
//! and a target that is the same for all hosts. At a device that serves all in order of arrival
//! each host is served in proportion to its requests there, and where the law rests
//! `w (1 - L_target / L_obs) = b`: the windows, and so the rates, stand to each other as the b.
//!
//! A size is no whole number of requests. The depth is the size rounded down, and one more as long
//! as the requests at the device, summed up over time, are fewer than the size:
//! ```text
//!   in flight ▲  ┌──┐     ┌──┐       size 1.3: two requests for three tenths of the time
//!        1.3 ─┼──│──│─────│──│────
//!             │──┘  └─────┘  └────
//!             └──────────────────► time
//! ```

use crate::time::{Instant, Nanos};
use crate::units::scaled;
use crate::window::base::smooth;
use crate::window::{HostShare, QueueTotals, SHARED_TARGET_TIMES, WindowSize};

/// The law is applied so often. PARDA takes 4 s, as its latencies are those that a hypervisor has
/// anyway; here each request is seen, and a tenth of a second has hundreds of them.
const PERIOD: Nanos = Nanos::from_millis(100);

/// And not before so many requests, as long as this is less than [`PERIOD_MAX`].
const DONE_MIN: u64 = 16;

/// Longest period, if anything was done in it.
const PERIOD_MAX: Nanos = Nanos::from_secs(2);

/// 1/g, as in [`super::depth`].
const GAIN_DIV: u64 = 4;

/// What is missing of a size, or too much, is remembered up to so many requests for as long as one
/// takes: what a host did not use is no credit.
const OWED_MAX: u64 = 2;

/// The window of a host among others.
#[derive(Debug)]
pub(super) struct SharedDepth {
    share: HostShare,
    /// Until then the size is as it was told.
    told_until: Instant,
    /// w, at least one request.
    w: u64,
    /// w less the requests at the device, summed up over time: in 256ths of a request times ns.
    owed: i128,
    /// Summed up to here.
    at: Instant,
    /// The present period of the law, and what was done and was there in it.
    period_began: Instant,
    period_count: u64,
    period_at_disk: Nanos,
    /// The mean latency of a request.
    latency: Nanos,
    totals: QueueTotals,
}

impl SharedDepth {
    /// A window that begins with what the host may add to a full queue.
    pub(super) fn new(now: Instant, share: HostShare, depth_max: u32) -> SharedDepth {
        SharedDepth {
            share,
            told_until: Instant::ZERO,
            w: bounded(WindowSize::ONE.0 + share.beta.0, depth_max),
            owed: 0,
            at: now,
            period_began: now,
            period_count: 0,
            period_at_disk: Nanos::ZERO,
            latency: Nanos::ZERO,
            totals: QueueTotals::default(),
        }
    }

    /// Another share from now on.
    pub(super) fn set(&mut self, now: Instant, share: HostShare, depth_max: u32) {
        self.share = share;
        if let Some(size) = share.size {
            self.told_until = now + share.held_for;
            self.w = bounded(size.0, depth_max);
        }
    }

    /// The most it may ever allow is another one.
    pub(super) fn set_max(&mut self, depth_max: u32) {
        self.w = bounded(self.w, depth_max);
    }

    /// The size.
    pub(super) fn w(&self) -> u64 {
        self.w
    }

    /// What it allows at present, as of the last event.
    pub(super) fn depth(&self, depth_max: u32) -> u32 {
        let more = u64::from(self.owed > 0);
        (self.w / 256 + more).min(u64::from(depth_max)) as u32
    }

    pub(super) fn totals(&self) -> QueueTotals {
        QueueTotals { size: WindowSize(self.w), ..self.totals }
    }

    /// `in_flight` requests were at the device up to now.
    pub(super) fn passed(&mut self, now: Instant, in_flight: u32) {
        let passed = i128::from(now.since(self.at).0);
        self.at = self.at.max(now);
        let missing = i128::from(self.w) - 256 * i128::from(in_flight);
        let most = i128::from(self.latency.0) * i128::from(256 * OWED_MAX);
        self.owed = (self.owed + missing * passed).clamp(-most, most);
    }

    /// A request is done that took so long at the device; and so long alone, if that is known.
    pub(super) fn on_done(
        &mut self,
        now: Instant,
        latency: Nanos,
        alone: Option<Nanos>,
        depth_max: u32,
    ) {
        self.latency = smooth(self.latency, latency);
        self.totals.done_count += 1;
        self.totals.at_disk += latency;
        if let Some(alone) = alone {
            self.totals.alone = Some(smooth(self.totals.alone.unwrap_or_default(), alone));
        }
        self.period_count += 1;
        self.period_at_disk += latency;
        let length = now.since(self.period_began);
        let is_long = length >= PERIOD.max(self.latency.times(2));
        if !is_long || (self.period_count < DONE_MIN && length < PERIOD_MAX) {
            return;
        }
        if now >= self.told_until {
            self.w = bounded(self.step(length), depth_max);
        }
        (self.period_began, self.period_count, self.period_at_disk) = (now, 0, Nanos::ZERO);
    }

    /// The law at the end of a period.
    fn step(&self, length: Nanos) -> u64 {
        let times = |alone: Nanos| alone.times(SHARED_TARGET_TIMES);
        let target = self.share.target.or(self.totals.alone.map(times));
        // Within 256ths of 1/4 and 4, a step is bounded whatever was measured.
        let ratio = target.map_or(1024, |target| {
            scaled(target.0.saturating_mul(self.period_count), 256, self.period_at_disk.0)
        });
        let aim = self.w * ratio.clamp(64, 1024) / 256 + self.share.beta.0;
        let w = self.w - self.w / GAIN_DIV + aim / GAIN_DIV;
        // A size that is not made use of says nothing, and would come as a surprise to the others.
        let used = WindowSize::mean(self.period_at_disk, length).0 * 2 + self.share.beta.0 + 256;
        w.min(used.max(self.w - self.w / GAIN_DIV))
    }
}

/// A size in its bounds.
fn bounded(w: u64, depth_max: u32) -> u64 {
    w.clamp(256, u64::from(depth_max) * 256)
}
