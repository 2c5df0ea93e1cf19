//! On a disk without a head: how many requests of others may be at the disk while somebody asks
//! for few.
//!
//! # Model
//! Such a disk works on many requests at once, and takes the longer for each the more it holds. Who
//! asks for one after the other pays for the depth of the others; they have little from the last of
//! it. Two sides are told apart: *few*, a task with no more than [`FEW`] requests and [`FEW_BYTES`]
//! queued and at the disk, whose group has no more than that either; and *many*, all others. While
//! the few are there, the disk holds no more of the many than the *bound*.
//!
//! The bound is searched for, where the product of both throughputs is the largest: a step pays if
//! one side gains a larger part than the other loses. That is proportional fairness, and Nash's
//! solution of the bargaining problem; unequal weights are exponents. The throughput of the few,
//! requests done, has in it how long they think: whoever asks ten times a second gains
//! nothing, and costs the others nothing.
//! ```text
//!   depth of the many   ─────┐ 1/2
//!                            └──┐ 1/2    ┌ 5/4 ┐
//!                               └────────┘     └──── x 3/4, x 5/4 now and then
//!                       ◄─────►◄─►◄─────►◄────►  windows: so many done of each side
//! ```
//! A window that is worse by less than chance could make it changes nothing. Between two trials are
//! 1, 2, 4 and so on up to [`PATIENCE_MAX`] windows; when the product has changed by half the
//! search is quick again. When the few come back they find the bound where they left it.
//!
//! # Limits
//! One bound for all: of several tasks with few requests their sum counts. A side is judged by its
//! group (by the task in the root): a database beside a backup within one group is not seen.
//!
//! # Sources
//! Nash, "The bargaining problem" (1950); Kelly, "Charging and rate control for elastic traffic"
//! (1997); K2 (Miemietz et al., 2022) for fewer requests at a flash as the means to bounded
//! latency.

use crate::time::{Instant, Nanos};

/// A task that came within this time may come again soon: one that asks once a second is seen.
pub(super) const RECENT: Nanos = Nanos::from_secs(1);

/// Most requests of a task or group with few. On a disk with a head (NCQ): so many are lost among
/// others, as it orders them by place; of more, some are always the nearest ones.
pub(super) const FEW: u32 = 4;

/// Their most bytes: two readings ahead of Linux (128 KiB).
const FEW_BYTES: u64 = 256 << 10;

/// The few done in a window, or [`WINDOW_MAX`] is over: some 5 % of chance in what they got.
const WINDOW_FEW: u64 = 24;

/// The many done in a window: as many as were there, twice.
const WINDOW_TURNS: u32 = 2;

/// Longest window.
const WINDOW_MAX: Nanos = Nanos::from_secs(2);

/// Least change of the product that counts, in [`log2`]: 5 %.
const MARGIN: i64 = 18;

/// If requests of the few are there for less than this part of the time, at most a tenth can be
/// gained for them: nothing is tried.
const LITTLE: u64 = 10;

/// Change of the product between two windows at the same depth after which the load is another.
const ANOTHER: i64 = 150;

/// Most windows between two trials.
const PATIENCE_MAX: u32 = 64;

/// Every request counts as this much more than its bytes, or small ones would not count.
const WORK_MIN: u64 = 16 << 10;

/// No bound.
const ALL: u32 = u32::MAX;

/// How much somebody asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Side {
    /// Of class idle, or below a group of that class.
    Idle,
    /// A few requests at a time.
    #[default]
    Few,
    /// Many.
    Many,
}

/// What a task or group has queued and at the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    requests: u32,
    bytes: u64,
}

impl Load {
    pub(super) fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
    }

    /// Harmless for what was never added.
    pub(super) fn remove(&mut self, bytes: u64) {
        self.requests = self.requests.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub(super) fn requests(&self) -> u32 {
        self.requests
    }

    pub(super) fn is_few(&self) -> bool {
        self.requests <= FEW && self.bytes <= FEW_BYTES
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    since: Instant,
    /// Requests of the few that are done, and how long they took in all, waits included.
    few: u64,
    few_time: Nanos,
    /// Those of the many, and what was done by them.
    many: u32,
    work: u64,
    /// The most of the many that were at the disk.
    peak: u32,
    /// Weights of the two sides when it began.
    weights: [u32; 2],
}

impl Window {
    /// What one request more or less of the few would have made of the score.
    fn chance(&self) -> i64 {
        let [few, many] = self.weights.map(i64::from);
        2 * few * (log2(self.few + 1) - log2(self.few)) / (few + many).max(1)
    }

    /// Whether the few would gain something if they were served at once.
    fn pays(&self, now: Instant) -> bool {
        self.few_time.times(LITTLE) >= now.since(self.since)
    }

    /// The logarithm of the product of the throughputs, with weights as exponents.
    fn score(&self, now: Instant) -> i64 {
        let time = log2(now.since(self.since).0);
        let rates = [log2(self.few) - time, log2(self.work) - time];
        let [few, many] = self.weights.map(i64::from);
        2 * (few * rates[0] + many * rates[1]) / (few + many).max(1)
    }
}

/// The bound and the search for it.
#[derive(Debug)]
pub(super) struct Bound {
    /// Until then the few count as there.
    until: Instant,
    /// Weights of the two sides, as last seen.
    weights: [u32; 2],
    /// The class of the few that came last.
    rank: u8,
    /// Requests of the many that are at the disk.
    in_flight: u32,
    /// The best bound so far, and its score in the last window.
    best: u32,
    score: Option<i64>,
    /// The bound that is tried.
    trial: Option<u32>,
    /// How many of the many were there without a bound.
    all: u32,
    is_upwards: bool,
    is_fine: bool,
    /// Windows until the next trial, and after the next failure.
    pause: u32,
    patience: u32,
    /// Completions of the many until the next window begins.
    settling: u32,
    window: Option<Window>,
}

impl Default for Bound {
    fn default() -> Bound {
        Bound {
            until: Instant::ZERO,
            weights: [1, 1],
            rank: 0,
            in_flight: 0,
            best: ALL,
            score: None,
            trial: None,
            all: 0,
            is_upwards: false,
            is_fine: false,
            pause: 0,
            patience: 1,
            settling: 0,
            window: None,
        }
    }
}

impl Bound {
    /// A request of the few has come.
    #[inline]
    pub(super) fn few_come(&mut self, now: Instant, rank: u8, weight: u32) {
        if now >= self.until {
            if self.window.is_some_and(|window| !window.pays(self.until)) {
                self.best = ALL;
            }
            self.trial = None;
            self.settle();
        }
        self.until = now + RECENT;
        self.rank = rank;
        self.weights[0] = weight;
    }

    /// The class of the few.
    pub(super) fn rank(&self) -> u8 {
        self.rank
    }

    /// Whether the disk has as much of the many as it may.
    #[inline]
    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.in_flight >= self.depth() && now < self.until
    }

    /// The bound at present.
    fn depth(&self) -> u32 {
        self.trial.unwrap_or(self.best)
    }

    /// A request of the many goes to the disk.
    #[inline]
    pub(super) fn start(&mut self, weight: u32) {
        self.in_flight += 1;
        self.weights[1] = weight;
        if let Some(window) = &mut self.window {
            window.peak = window.peak.max(self.in_flight);
        }
    }

    /// A request of the many is done, of so many bytes.
    #[inline]
    pub(super) fn many_done(&mut self, now: Instant, bytes: u64) {
        self.in_flight -= 1;
        if now >= self.until {
            return;
        }
        if let Some(window) = &mut self.window {
            window.many += 1;
            window.work += bytes + WORK_MIN;
            self.look(now);
        } else if self.settling > 1 {
            self.settling -= 1;
        } else {
            self.open(now);
        }
    }

    /// A request of the few is done, and came at `arrived`.
    #[inline]
    pub(super) fn few_done(&mut self, now: Instant, arrived: Instant) {
        if let Some(window) = self.window.as_mut().filter(|_| now < self.until) {
            window.few += 1;
            window.few_time += now.since(arrived);
            self.look(now);
        }
    }

    /// Begins a window.
    fn open(&mut self, now: Instant) {
        let (peak, weights) = (self.in_flight, self.weights);
        self.window = Some(Window { since: now, peak, weights, ..Window::default() });
    }

    /// Judges the window if it is over.
    #[inline]
    fn look(&mut self, now: Instant) {
        if let Some(window) = self.window.filter(|window| is_over(now, window)) {
            self.open(now);
            if window.many > 0 && window.few > 0 {
                self.judge(now, &window);
            }
        }
    }

    /// What was at the disk before the depth has changed is not counted.
    fn settle(&mut self) {
        self.window = None;
        self.settling = self.in_flight.max(self.depth().min(self.all));
    }

    /// What a window says about the depth at which it was.
    #[cold]
    fn judge(&mut self, now: Instant, window: &Window) {
        let score = window.score(now);
        let margin = MARGIN + window.chance();
        let Some(trial) = self.trial else {
            if self.score.is_some_and(|before| (before - score).abs() > ANOTHER) {
                (self.patience, self.pause, self.is_fine) = (1, 0, false);
            }
            self.score = Some(score);
            if self.best == ALL {
                self.all = window.peak;
            }
            if !window.pays(now) {
                self.best = ALL;
                return;
            }
            self.pause = self.pause.saturating_sub(1);
            if self.pause == 0 {
                self.next_trial();
            }
            return;
        };
        self.trial = None;
        if self.score.is_some_and(|best| score > best + margin) {
            (self.best, self.score, self.patience) = (trial, Some(score), 1);
            self.next_trial();
        } else {
            self.is_upwards = !self.is_upwards;
            // The first step back is of the coarse kind no more.
            self.pause = if self.is_fine { self.patience } else { 1 };
            self.is_fine = true;
            self.patience = (2 * self.patience).min(PATIENCE_MAX);
        }
        self.settle();
    }

    /// Tries the next depth, if there is one in this direction.
    fn next_trial(&mut self) {
        let from = self.best.min(self.all);
        let step = if self.is_fine { from / 4 } else { from / 2 };
        let to = if self.is_upwards { from + step.max(1) } else { from - step.max(1).min(from) };
        let is_any = if self.is_upwards { self.best != ALL } else { to > 0 };
        if !is_any {
            self.is_upwards = !self.is_upwards;
            return;
        }
        self.trial = Some(if to >= self.all { ALL } else { to });
        self.settle();
    }
}

/// Whether a window has enough of both sides, or has lasted long enough.
fn is_over(now: Instant, window: &Window) -> bool {
    let has_many = window.many >= WINDOW_TURNS * window.peak.max(FEW);
    (window.few >= WINDOW_FEW && has_many) || now.since(window.since) >= WINDOW_MAX
}

/// The binary logarithm in 256ths; of zero as of one.
fn log2(x: u64) -> i64 {
    let x = x.max(1);
    let mut log = i64::from(x.ilog2());
    // A number of at least one and below two, with 63 bits behind the point, is squared: if that is
    // two or more the next bit of its logarithm is one.
    let mut rest = u128::from(x << x.leading_zeros());
    for _ in 0..8 {
        rest = (rest * rest) >> 63;
        let bit = rest >> 64;
        log = 2 * log + i64::from(bit != 0);
        rest >>= bit;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_right() {
        assert_eq!([1, 2, 3, 1 << 63].map(log2), [0, 256, 405, 63 * 256]);
        assert_eq!(log2(u64::MAX), 64 * 256 - 1);
    }
}
