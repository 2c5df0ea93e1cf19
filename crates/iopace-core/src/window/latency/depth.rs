//! The depth for all: PARDA's law with a target that is learned.
//!
//! `w <- (1 - g) w + g (L_target / L_obs x w + b)`, where L_target is [`TARGET`] times what the
//! very requests of the window take alone at the device.

use crate::limits::WINDOW_DEPTH_MAX;
use crate::request::Done;
use crate::time::Instant;
use crate::window::Started;
use crate::window::base::{Against, BaseLatency};

/// L_target as a multiple of the latency alone. Depth must not be lost where it pays: a 7200 rpm
/// disk that sorts 31 commands answers each about 17 times later than one alone, an NVMe disk that
/// holds 256 about 10 times. Beyond 32 only the queue grows.
const TARGET: u64 = 32;

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
}

impl WindowDepth {
    pub(super) fn new(depth: u32) -> WindowDepth {
        let mut made = WindowDepth {
            depth_max: 1,
            w: 0,
            base: BaseLatency::default(),
            seen: Against::default(),
        };
        made.set(depth);
        made
    }

    /// Changes the most it allows, and begins there.
    pub(super) fn set(&mut self, depth: u32) {
        self.depth_max = depth.clamp(1, WINDOW_DEPTH_MAX);
        self.w = u64::from(self.depth_max) * 256;
    }

    /// What it allows at present.
    pub(super) fn get(&self) -> u32 {
        (self.w / 256) as u32
    }

    /// Whether it allows as many as were set.
    pub(super) fn is_full(&self) -> bool {
        self.get() == self.depth_max
    }

    pub(super) fn on_start(&mut self, started: &Started) {
        self.base.on_start(started);
    }

    pub(super) fn on_done(&mut self, now: Instant, done: &Done) {
        let alone = self.base.on_done(now, done);
        if !done.ok {
            return;
        }
        self.seen.add(now.since(done.started), alone);
        if self.seen.count < self.get().saturating_mul(2).max(WINDOW_MIN) {
            return;
        }
        // Within 256ths of 1/4 and 4, a step is bounded whatever was measured.
        let ratio = self.seen.room(TARGET).unwrap_or(1024).clamp(64, 1024);
        let aim = self.w * ratio / 256 + BETA;
        let w = self.w - self.w / GAIN_DIV + aim / GAIN_DIV;
        self.w = w.clamp(256, u64::from(self.depth_max) * 256);
        self.seen = Against::default();
    }
}
