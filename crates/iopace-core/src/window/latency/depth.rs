//! The depth for all: PARDA's law with a target that is learned.
//!
//! `w <- (1 - g) w + g (L_target / L_obs x w + b)`, where L_target is [`TARGET_TIMES`] times what
//! the very requests of the window take alone at the device. That of a host among others: see
//! [`super::shared`].

use super::shared::SharedDepth;
use crate::limits::WINDOW_DEPTH_MAX;
use crate::request::Done;
use crate::time::Instant;
use crate::window::base::{Against, BaseLatency};
use crate::window::{HostShare, QueueTotals, Started, TARGET_TIMES};

/// 1/g: a quarter of the way per window, so that one odd window does not halve the depth.
const GAIN_DIV: u64 = 4;

/// b, in 256ths of a request: lets the window grow from one request up, as FAST's alpha.
const BETA: u64 = 256;

/// Shortest window of completions.
const WINDOW_MIN: u32 = 16;

/// The window of all requests.
#[derive(Debug)]
pub(super) struct WindowDepth {
    depth_max: u32,
    /// w in 256ths, so that small steps are not lost; at most 2^18.
    w: u64,
    base: BaseLatency,
    seen: Against,
    /// The window of a host whose device others use too.
    shared: Option<Box<SharedDepth>>,
}

impl WindowDepth {
    pub(super) fn new(depth: u32) -> WindowDepth {
        let mut made = WindowDepth {
            depth_max: 1,
            w: 0,
            base: BaseLatency::default(),
            seen: Against::default(),
            shared: None,
        };
        made.set(depth);
        made
    }

    /// Changes the most it allows, and begins there.
    pub(super) fn set(&mut self, depth: u32) {
        self.depth_max = depth.clamp(1, WINDOW_DEPTH_MAX);
        self.w = u64::from(self.depth_max) * 256;
        if let Some(shared) = &mut self.shared {
            shared.set_max(self.depth_max);
        }
    }

    /// The part of the host in a device that others use too; none: nobody else uses it.
    pub(super) fn set_share(&mut self, now: Instant, share: Option<HostShare>) {
        self.base.share(share.is_some(), share.is_some_and(|share| share.is_quiet));
        match (share, &mut self.shared) {
            (None, shared) => {
                self.w = shared.take().map_or(self.w, |shared| shared.w());
                self.seen = Against::default();
            }
            (Some(share), Some(shared)) => {
                shared.passed(now, self.base.in_flight());
                shared.set(now, share, self.depth_max);
            }
            (Some(share), None) => {
                let mut shared = SharedDepth::new(now, share, self.depth_max);
                shared.set(now, share, self.depth_max);
                self.shared = Some(Box::new(shared));
            }
        }
    }

    /// How the queue of a host among others stands.
    pub(super) fn totals(&self) -> Option<QueueTotals> {
        self.shared.as_ref().map(|shared| shared.totals())
    }

    /// What it allows at present.
    pub(super) fn get(&self) -> u32 {
        match &self.shared {
            None => (self.w / 256) as u32,
            Some(shared) => shared.depth(self.depth_max),
        }
    }

    /// Whether it allows as many as were set.
    pub(super) fn is_full(&self) -> bool {
        self.get() == self.depth_max
    }

    pub(super) fn on_start(&mut self, now: Instant, started: &Started) {
        if let Some(shared) = &mut self.shared {
            shared.passed(now, self.base.in_flight());
        }
        self.base.on_start(now, started);
    }

    pub(super) fn on_done(&mut self, now: Instant, done: &Done) {
        if let Some(shared) = &mut self.shared {
            shared.passed(now, self.base.in_flight());
        }
        let alone = self.base.on_done(now, done);
        if !done.ok {
            return;
        }
        if let Some(shared) = &mut self.shared {
            return shared.on_done(now, now.since(done.started), alone, self.depth_max);
        }
        self.seen.add(now.since(done.started), alone);
        if self.seen.count < self.get().saturating_mul(2).max(WINDOW_MIN) {
            return;
        }
        // Within 256ths of 1/4 and 4, a step is bounded whatever was measured.
        let ratio = self.seen.room(TARGET_TIMES).unwrap_or(1024).clamp(64, 1024);
        let aim = self.w * ratio / 256 + BETA;
        let w = self.w - self.w / GAIN_DIV + aim / GAIN_DIV;
        self.w = w.clamp(256, u64::from(self.depth_max) * 256);
        self.seen = Against::default();
    }
}
