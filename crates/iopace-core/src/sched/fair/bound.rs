//! On a disk without a head: how many requests of others may be at the disk while somebody asks
//! for few.
//!
//! # Model
//! Such a disk works on many requests at once, and takes the longer for each the more it holds. Who
//! asks for one after the other pays for the depth of the others; they have little from the last of
//! it. Two sides are told apart (see `load`): *few*, a task with no more than four requests and 256
//! KiB queued and at the disk, whose group has no more than that either; and *many*, all others,
//! among them class idle, with the least weight there is.
//! Where nobody has more, those with requests of 128 KiB are the many. While the few are there, the
//! disk holds no more of the many than the *bound*.
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
//! Weights are those of all groups, and of tasks in the root, of which a request came in the last
//! second. Where no bound leaves the few their part, the two take turns: see `turns`.
//!
//! # Limits
//! One bound for all: of several tasks with few requests their sum counts. A side is judged by its
//! group (by the task in the root): a database beside a backup within one group is not seen. The
//! weights of nested groups count as they stand, whatever those above them weigh.
//!
//! # Sources
//! Nash, "The bargaining problem" (1950); Kelly, "Charging and rate control for elastic traffic"
//! (1997); K2 (Miemietz et al., 2022) for fewer requests at a flash as the means to bounded
//! latency.

use super::load::Side;
use super::turns::{Alternation, Found};
use super::window::{Had, ShareWindow};
use crate::time::{Instant, Nanos};

/// A task that came within this time may come again soon: one that asks once a second is seen.
pub(super) const RECENT: Nanos = Nanos::from_secs(1);

/// Least change of the product that counts, in `log2`: 5 %.
const MARGIN: i64 = 18;

/// Change of the product between two windows at the same depth after which the load is another.
const ANOTHER: i64 = 150;

/// Most windows between two trials.
const PATIENCE_MAX: u32 = 64;

/// Every request counts as this much more than its bytes, or small ones would not count.
const WORK_MIN: u64 = 16 << 10;

/// The first epoch.
const FIRST: u32 = 1;

/// No bound.
const ALL: u32 = u32::MAX;

/// The bound and the search for it.
#[derive(Debug)]
pub(super) struct Bound {
    /// Until then the few count as there.
    until: Instant,
    /// Weights of the two sides: of all groups, and tasks in the root, of which a request came in
    /// the last epoch; and those that have come in this one.
    weights: [u32; 2],
    coming: [u32; 2],
    /// How many groups and tasks the few were in the last one, and are in this one.
    few_groups: [u32; 2],
    epoch: u32,
    epoch_ends: Instant,
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
    window: Option<ShareWindow>,
    /// Rates of both sides at the best bound, and whether turns are taken instead.
    had: Had,
    turns: Alternation,
}

impl Default for Bound {
    fn default() -> Bound {
        Bound {
            until: Instant::ZERO,
            weights: [1, 1],
            coming: [0, 0],
            few_groups: [0, 0],
            epoch: FIRST,
            epoch_ends: Instant(RECENT.0),
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
            had: Had::default(),
            turns: Alternation::default(),
        }
    }
}

impl Bound {
    /// A group of that weight, or a task in the root, is there in this epoch; `moves`: it was
    /// counted as one of the few.
    #[cold]
    pub(super) fn count(&mut self, side: Side, weight: u32, moves: bool) {
        let at = usize::from(side == Side::Many);
        self.coming[at] = self.coming[at].saturating_add(weight);
        if moves {
            self.coming[0] = self.coming[0].saturating_sub(weight);
            self.few_groups[1] -= 1;
        }
        self.few_groups[1] += u32::from(side == Side::Few);
        if self.epoch == FIRST {
            self.weights = self.coming.map(|weight| weight.max(1));
        }
        self.weights[at] = self.weights[at].max(self.coming[at]);
    }

    /// Ends the epoch if it is over.
    #[inline]
    pub(super) fn end_epoch(&mut self, now: Instant) {
        if now >= self.epoch_ends {
            self.next_epoch(now);
        }
    }

    #[cold]
    fn next_epoch(&mut self, now: Instant) {
        for (weight, coming) in self.weights.iter_mut().zip(&mut self.coming) {
            let seen = std::mem::take(coming);
            *weight = if seen > 0 { seen } else { *weight };
        }
        self.turns.set_weights(self.weights);
        self.few_groups = [self.few_groups[1], 0];
        (self.epoch, self.epoch_ends) = ((self.epoch + 1) % (u32::MAX / 4), now + RECENT);
    }

    /// The epoch: see `FairLoad::count`.
    #[inline]
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// A request of the few has come.
    #[inline]
    pub(super) fn few_come(&mut self, now: Instant, rank: u8) {
        if now >= self.until {
            if self.window.is_some_and(|window| !window.pays(self.until)) {
                self.best = ALL;
            }
            self.trial = None;
            self.turns.forget();
            self.settle();
        }
        self.until = now + RECENT;
        self.rank = rank;
    }

    /// A request of the few has come, on whatever disk.
    #[inline]
    pub(super) fn few_queued(&mut self, now: Instant) {
        self.turns.few_comes(now);
    }

    /// The class of the few.
    pub(super) fn rank(&self) -> u8 {
        self.rank
    }

    /// Whether the disk has as much of the many as it may.
    #[inline]
    pub(super) fn is_full(&self, now: Instant) -> bool {
        now < self.until && (self.in_flight >= self.depth() || self.turn_of_few(now).is_some())
    }

    /// Until when it is the turn of the few, if it is: the many wait.
    #[inline]
    pub(super) fn turn_of_few(&self, now: Instant) -> Option<Instant> {
        if now < self.until { self.turns.of_few(now) } else { None }
    }

    /// Whether it is, turns are taken and not only tried, and only one group has few: among several
    /// weights count.
    #[inline]
    pub(super) fn is_turn_paid(&self, now: Instant) -> bool {
        self.turns.is_taken() && self.few_groups[0] <= 1 && self.turn_of_few(now).is_some()
    }

    /// See [`Alternation::nobody_there`].
    pub(super) fn nobody_there(&mut self) {
        self.turns.nobody_there();
    }

    /// The bound at present.
    fn depth(&self) -> u32 {
        if self.turns.is_unbound() { ALL } else { self.trial.unwrap_or(self.best) }
    }

    /// A request of the many goes to the disk.
    #[inline]
    pub(super) fn start(&mut self) {
        self.in_flight += 1;
        if let Some(window) = &mut self.window {
            window.peak = window.peak.max(self.in_flight);
        }
    }

    /// See [`Alternation::few_change`].
    #[inline]
    pub(super) fn few_change(&mut self, by: i32) {
        self.turns.few_change(by);
    }

    /// A request of the many is done, of so many bytes.
    #[inline]
    pub(super) fn many_done(&mut self, now: Instant, bytes: u64) {
        self.in_flight -= 1;
        if now >= self.until {
            return;
        }
        let work = bytes + WORK_MIN;
        if self.turns.many_done(now, work, self.in_flight) {
            self.judge_turns(now);
        } else if let Some(window) = &mut self.window {
            window.many += 1;
            window.work += work;
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
        let is_by_turns = self.turns.few_done(now, arrived);
        if now >= self.until {
            return;
        }
        if is_by_turns {
            self.judge_turns(now);
        } else if let Some(window) = &mut self.window {
            window.few += 1;
            window.few_time += now.since(arrived);
            self.look(now);
        }
    }

    /// Begins a window.
    fn open(&mut self, now: Instant) {
        let (peak, weights) = (self.in_flight, self.weights);
        self.window = Some(ShareWindow { since: now, peak, weights, ..ShareWindow::default() });
    }

    /// Judges the window if it is over.
    #[inline]
    fn look(&mut self, now: Instant) {
        if let Some(window) = self.window.filter(|window| window.is_over(now)) {
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
    fn judge(&mut self, now: Instant, window: &ShareWindow) {
        let score = window.score(now);
        let margin = MARGIN + window.chance();
        if self.turns.is_looking() {
            if self.turns.sees(now, window, &self.had, self.weights) {
                self.window = None;
            }
            return;
        }
        if let Some(trial) = self.trial.take() {
            if self.score.is_some_and(|best| score > best + margin) {
                (self.best, self.score, self.patience) = (trial, Some(score), 1);
                self.had = window.had(now);
                self.next_trial();
            } else {
                self.is_upwards = !self.is_upwards;
                // The first step back is of the coarse kind no more.
                self.pause = if self.is_fine { self.patience } else { 1 };
                self.is_fine = true;
                self.patience = (2 * self.patience).min(PATIENCE_MAX);
            }
            self.settle();
            return;
        }
        self.had.join(&window.had(now));
        if self.best == ALL {
            self.all = window.peak;
        }
        if self.score.is_some_and(|before| (before - score).abs() > ANOTHER) {
            (self.patience, self.pause, self.is_fine) = (1, 0, false);
        }
        self.score = Some(score);
        if !window.pays(now) {
            self.best = ALL;
            return;
        }
        if self.is_fine && self.turns.may_be_tried(now, &self.had) {
            self.turns.begin_trial(now, self.weights);
            self.window = None;
            return;
        }
        self.pause = self.pause.saturating_sub(1);
        if self.pause == 0 {
            self.next_trial();
        }
    }

    /// Judges the turns, if they have shown enough.
    #[inline]
    fn judge_turns(&mut self, now: Instant) {
        match self.turns.judge(now, &self.had, self.weights) {
            Found::Nothing => return,
            Found::Use | Found::NoUse => {}
            Found::Enough => {
                (self.score, self.had) = (None, Had::default());
                (self.patience, self.pause, self.is_fine) = (1, 0, false);
            }
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
            (self.is_upwards, self.is_fine) = (!self.is_upwards, true);
            return;
        }
        self.trial = Some(if to >= self.all { ALL } else { to });
        self.settle();
    }
}
