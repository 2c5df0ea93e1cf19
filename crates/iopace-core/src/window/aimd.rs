//! Additive increase, multiplicative decrease: one request more per window of completions, half as
//! many when requests take a multiple of what they take alone.
//!
//! # Model
//! ```text
//!   depth ▲      /|     /|         +1 per window while   latency <= 16 x latency alone
//!         │    /  |   /  |   /     half            when  latency >  16 x latency alone
//!         │  /    | /    | /
//!         └────────────────────► completions
//! ```
//! The latency alone is learned from requests that had the device to themselves, by kind and size.
//! Write-back has a window of its own, of at most [`WRITE_BACK_DEPTH`] requests in line, which
//! reacts to the latency of what tasks wait for: half when that is above 4 times the latency alone,
//! one more per window of completions otherwise.
//!
//! # Properties
//! 1. The depth is at least 1 and never above what was set.
//! 2. Latency above 16 times that alone halves the depth, once per window of completions.
//! 3. Latency within it lets the depth grow by one per window.
//! 4. Late reads halve the write-back window, which is never below one request.
//! 5. Write-back that nobody waits beside grows back to its full depth.
//!
//! # When it does not know
//! Until a request was alone at the device nothing is late: full depth.
//!
//! # Limits
//! It swings by halving, and between two halvings it fills the queue on purpose. Time in the line
//! of the scheduler is no part of its latency, and write-back is cut into pieces too small to be
//! worth a seek: on a disk with a head both sides lose. `latency` does better; this one is the
//! textbook to compare with.
//!
//! # Sources
//! Chiu and Jain, "Analysis of the increase and decrease algorithms" (1989); Jacobson, "Congestion
//! avoidance and control" (SIGCOMM 1988) for one per window and the half. 16: a disk that sorts 31
//! commands answers each about 16 times later than one alone, and that pays. 4: of the two targets
//! of kyber (block/kyber-iosched.c), writes may take 5 times what reads may.

use super::base::{Against, BaseLatency};
use super::{AnyWindow, Narrowed, Started, WRITE_BACK_DEPTH, Window, WindowPicture, WindowPolicy};
use crate::limits::WINDOW_DEPTH_MAX;
use crate::request::Done;
use crate::time::{Instant, Nanos};

/// The registry's line.
pub static POLICY: WindowPolicy = WindowPolicy {
    name: "aimd",
    summary: "one request more while latency is good, half as many when it is not",
    build: |depth| AnyWindow::Other(Box::new(Aimd::new(depth))),
};

/// Requests may take so many times what they take alone.
const LATE_ALL: u64 = 16;

/// Beside write-back, what tasks wait for may take so many times what it takes alone.
const LATE_SYNC: u64 = 4;

/// Shortest window of completions: a verdict on fewer is noise.
const WINDOW_MIN: u32 = 8;

/// Both windows.
#[derive(Debug)]
pub struct Aimd {
    depth_max: u32,
    depth: u32,
    write_back_depth: u32,
    base: BaseLatency,
    all: Against,
    sync: Against,
    /// Completions of write-back since something was last judged.
    write_back_count: u32,
    latency: Nanos,
    latency_alone: Nanos,
}

impl Aimd {
    /// Windows of at most `depth` requests, brought into the legal range.
    pub fn new(depth: u32) -> Aimd {
        let depth = depth.clamp(1, WINDOW_DEPTH_MAX);
        Aimd {
            depth_max: depth,
            depth,
            write_back_depth: WRITE_BACK_DEPTH,
            base: BaseLatency::default(),
            all: Against::default(),
            sync: Against::default(),
            write_back_count: 0,
            latency: Nanos::ZERO,
            latency_alone: Nanos::ZERO,
        }
    }

    fn judge_sync(&mut self) {
        let is_quiet = self.sync.count == 0;
        if self.sync.count < WINDOW_MIN && !(is_quiet && self.write_back_count >= WINDOW_MIN) {
            return;
        }
        let next = step(self.write_back_depth, self.sync.room(LATE_SYNC));
        self.write_back_depth = next.min(WRITE_BACK_DEPTH);
        (self.sync, self.write_back_count) = (Against::default(), 0);
    }
}

/// One step of a window; `room` in 256ths, below which latency is too high.
fn step(depth: u32, room: Option<u64>) -> u32 {
    match room {
        Some(..256) => (depth / 2).max(1),
        _ => depth.saturating_add(1),
    }
}

impl Window for Aimd {
    fn on_start(&mut self, now: Instant, started: &Started) {
        self.base.on_start(now, started);
    }

    fn on_done(&mut self, now: Instant, done: &Done) {
        let alone = self.base.on_done(now, done);
        if !done.ok {
            return;
        }
        let seen = now.since(done.started);
        self.all.add(seen, alone);
        if self.all.count >= self.depth.max(WINDOW_MIN) {
            self.depth = step(self.depth, self.all.room(LATE_ALL)).min(self.depth_max);
            self.all = Against::default();
        }
        if done.sync {
            self.sync.add(seen, alone);
            (self.latency, self.latency_alone) = (seen, alone.unwrap_or_default());
        } else {
            self.write_back_count = self.write_back_count.saturating_add(1);
        }
        self.judge_sync();
    }

    fn depth(&self) -> u32 {
        self.depth
    }

    fn write_back_depth(&self) -> u32 {
        self.write_back_depth
    }

    fn set_depth(&mut self, depth: u32) {
        self.depth_max = depth.clamp(1, WINDOW_DEPTH_MAX);
        self.depth = self.depth_max;
    }

    fn picture(&self) -> WindowPicture {
        WindowPicture {
            depth: self.depth,
            narrowed: (self.depth < self.depth_max).then_some(Narrowed::Latency),
            write_back_depth: self.write_back_depth,
            quiet_latency: self.latency_alone,
            latency: self.latency,
            ..WindowPicture::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;
    use crate::verdict::{Reason, Verdict};
    use crate::window::WriteBack;
    use crate::window::tests::requests::{done, started};

    /// So many requests, two at a time so that none is alone, with that latency.
    fn load(window: &mut Aimd, count: u32, sync: bool, latency: u64) {
        for _ in 0..count {
            window.on_start(Instant::ZERO, &started(sync));
            window.on_start(Instant::ZERO, &started(sync));
            window.on_done(Instant(latency), &done(sync, 0));
            window.on_done(Instant(latency), &Done { ok: false, ..done(sync, 0) });
        }
    }

    /// A window that knows the latency alone of both kinds: 1000 ns.
    fn learned(depth: u32) -> Aimd {
        let mut window = Aimd::new(depth);
        for sync in [true, false] {
            window.on_start(Instant::ZERO, &started(sync));
            window.on_done(Instant(1_000), &done(sync, 0));
        }
        (window.all, window.sync, window.write_back_count) = Default::default();
        window
    }

    #[test]
    fn p1_between_one_and_what_was_set() {
        let mut window = learned(64);
        load(&mut window, 1_000, true, 100_000);
        assert_eq!(window.depth(), 1);
        assert_eq!(window.picture().narrowed, Some(Narrowed::Latency));
        load(&mut window, 10_000, true, 1_000);
        assert_eq!(window.depth(), 64);
        assert_eq!(window.picture().narrowed, None);
        window.set_depth(0);
        assert!(window.has_room(0) && !window.has_room(1));
    }

    #[test]
    fn p2_late_requests_halve_the_depth_once_per_window() {
        let mut window = learned(64);
        load(&mut window, 63, true, 17_000);
        assert_eq!(window.depth(), 64);
        load(&mut window, 1, true, 17_000);
        assert_eq!(window.depth(), 32);
    }

    #[test]
    fn p3_good_latency_lets_it_grow_by_one() {
        let mut window = learned(64);
        load(&mut window, 64, true, 17_000);
        load(&mut window, 32, true, 15_000);
        assert_eq!(window.depth(), 33);
    }

    #[test]
    fn p4_late_reads_halve_write_back() {
        let mut window = learned(64);
        let mut depths = Vec::new();
        for _ in 0..4 {
            load(&mut window, WINDOW_MIN, true, 5_000);
            depths.push(window.picture().write_back_depth);
        }
        assert_eq!(depths, [4, 2, 1, 1]);
        let one = WriteBack { requests_count: 1, ..WriteBack::default() };
        let mut ask = |in_line| window.write_back(Instant::ZERO, &in_line, Bytes(4096));
        assert_eq!(ask(WriteBack::default()), Verdict::Pass);
        assert_eq!(ask(one), Verdict::Wait(Instant::NEVER, Reason::Window));
    }

    #[test]
    fn p5_without_readers_write_back_grows_back() {
        let mut window = learned(64);
        load(&mut window, 4 * WINDOW_MIN, true, 5_000);
        load(&mut window, 7 * WINDOW_MIN, false, 5_000);
        assert_eq!(window.picture().write_back_depth, WRITE_BACK_DEPTH);
    }

    #[test]
    fn not_knowing_it_has_full_depth() {
        let mut window = Aimd::new(64);
        load(&mut window, 1_000, true, 1_000_000);
        assert_eq!(window.depth(), 64);
    }
}
