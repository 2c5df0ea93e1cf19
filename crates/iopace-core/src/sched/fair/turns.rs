//! Turns of few and many on a disk without a head, for loads that no depth divides.
//!
//! # Model
//! A write is done when it is in the disk's cache, and goes on below: who reads beside a writer
//! waits for programs of the flash, however few writes are at the disk. Then the two alternate:
//! ```text
//!         ┌──── a period ─────┐
//!   many  ▓▓▓▓▓▓▓▓▓           ▓▓▓▓▓▓▓▓▓
//!   few   ░░░░░░░░░██████████ ░░░░░░░░░██████████
//!                  ▲    └ alone: what they have by themselves
//!                  └ the many have had their part: of the period, or of the work they do in one
//! ```
//! The few are served at any time, the many for the part of each period that their weight makes
//! due; or until they have done that part of what they do in a period by themselves, as a cache
//! takes in for some time more than the flash does. So each side has its part of what it has
//! alone, at least, and the few what they get beside the many as well.
//!
//! That takes both sides' time apart, so turns are taken only where the few, at the best depth that
//! was found, have less than their part of what they have alone, which two periods show. After some
//! periods a depth is searched for anew, as the load may be another by then.
//!
//! # Limits
//! Writes that a cache has taken in are worked off in the turn of the few.
//!
//! # Sources
//! FIOS (Park and Shen, 2012) and FlashFQ (Shen and Park, 2013) for slices of time on flash where
//! writes delay reads; the length of a period is that of a go on a disk with a head.

use super::window::{Had, LITTLE, ServiceTally, ShareWindow, WINDOW_FEW, log2};
use crate::time::{Instant, Nanos};

/// Length of a period. The few meet what is slow at most for so long, and the many wait so long.
const PERIOD: Nanos = Nanos::from_millis(100);

/// Without a request of the few for so long in their turn the many go on.
const GONE: Nanos = Nanos::from_millis(10);

/// Periods that are tried, and that are tried at most until the few were seen alone.
const TRIAL: u32 = 2;
const TRIAL_MAX: u32 = 10;

/// Periods until a depth is searched for anew: first, and at most. A search takes some three.
const PERIODS: u32 = 20;
const PERIODS_MAX: u32 = 100;

/// Time after turns that were no use until they are tried again: first, and at most. Two periods
/// in so much cost the many 3 %; a trial has up to ten while the few have less than
/// [`WINDOW_FEW`] alone, and lasts 2 s at most.
const PAUSE: Nanos = Nanos::from_secs(3);
const PAUSE_MAX: Nanos = Nanos::from_secs(60);

/// Requests of the few that must have been seen at the best depth.
const HAD_MIN: u64 = 4 * WINDOW_FEW;

/// So far below their part, in [`log2`], the few must be: 15 %. Where one request at a time is at
/// the disk they have it by weight, but for some percent of chance.
const MARGIN: i64 = 60;

/// So much slower, in [`log2`], a bound may make the many in their turn: an eighth.
const SLOWER_MAX: i64 = 49;

/// The figures of the periods since the last judgement.
#[derive(Clone, Copy, Debug, Default)]
struct PeriodFigures {
    periods: u32,
    /// Requests of the few, while none of the many was at the disk.
    alone: ServiceTally,
    /// All requests of the few took so long together, in so much time.
    few_time: Nanos,
    time: Nanos,
}

/// The turns.
#[derive(Debug)]
struct ServiceTurns {
    /// When they began.
    begun: Instant,
    /// The most that the many have of each period: time, and work.
    time: Nanos,
    work: u64,
    /// When the period began, and when the turn of the many is over in it.
    since: Instant,
    over: Instant,
    done: u64,
    /// From when on the few count as alone.
    alone: Option<Instant>,
    alone_count: u64,
    few_time: Nanos,
    /// Requests of the few, queued or at the disk, and when one last came or was done.
    few_there: u32,
    few_at: Instant,
    shown: PeriodFigures,
}

impl ServiceTurns {
    /// They begin with that of the many, who have so much time and work of each period.
    fn new(now: Instant, (time, work): (Nanos, u64), there: u32) -> ServiceTurns {
        ServiceTurns {
            begun: now,
            time,
            work,
            since: now,
            over: now + time,
            done: 0,
            alone: None,
            alone_count: 0,
            few_time: Nanos::ZERO,
            few_there: there,
            few_at: now,
            shown: PeriodFigures::default(),
        }
    }

    /// When the turn of the few is over; it may never begin.
    fn end(&self) -> Instant {
        let end = self.since + PERIOD;
        if self.few_there > 0 { end } else { end.min(self.over.max(self.few_at + GONE)) }
    }

    /// Until when it is the turn of the few, if it is.
    #[inline]
    fn of_few(&self, now: Instant) -> Option<Instant> {
        (now >= self.over).then(|| self.end()).filter(|end| now < *end)
    }

    /// A request of the few comes.
    fn few_comes(&mut self, now: Instant, there: u32) {
        self.roll(now);
        (self.few_there, self.few_at) = (there, now);
    }

    /// One of the few is done.
    fn few_done(&mut self, now: Instant, arrived: Instant, there: u32) {
        self.roll(now);
        (self.few_there, self.few_at) = (there, now);
        self.few_time += now.since(arrived);
        self.alone_count += u64::from(self.alone.is_some_and(|alone| now > alone));
    }

    /// Some of the many is done, which leaves so many of them at the disk.
    fn many_done(&mut self, now: Instant, work: u64, left: u32) {
        self.roll(now);
        self.done += work;
        if self.done >= self.work {
            self.over = self.over.min(now);
        }
        if left == 0 && now >= self.over {
            // The disk's work for the many below its cache is over by then, mostly.
            let rest = (self.since + PERIOD).since(self.over);
            self.alone = Some(now.max(self.over + Nanos(rest.0 / 2)));
            self.alone_count = 0;
        }
    }

    /// Begins the next period if this one is over.
    fn roll(&mut self, now: Instant) {
        let end = self.end();
        if now < end {
            return;
        }
        if let Some(alone) = self.alone.filter(|_| end == self.since + PERIOD) {
            self.shown.alone.add(self.alone_count, end.since(alone));
            self.shown.periods += 1;
            self.shown.few_time += self.few_time;
            self.shown.time += end.since(self.since);
        }
        (self.since, self.over) = (now, now + self.time);
        (self.done, self.alone, self.alone_count, self.few_time) = (0, None, 0, Nanos::ZERO);
    }
}

/// The result of a look at the turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// They go on.
    Nothing,
    /// They are of use, and go on after a look at what the many do without them.
    Use,
    /// They are over: they were no use, and are not tried for a while.
    NoUse,
    /// They are over for now: the load may be another.
    Enough,
}

/// Whether the two sides take turns, and when that is tried.
#[derive(Debug)]
pub(super) struct Alternation {
    turns: Option<ServiceTurns>,
    /// How many periods there are, none while they are only tried; and the next time.
    periods: u32,
    periods_next: u32,
    /// Not tried before that, and the pause after the next failure.
    not_before: Instant,
    pause: Nanos,
    /// There is no bound for a moment, to see what the many do then; what they did.
    looking: Option<Instant>,
    unbound: ServiceTally,
    /// Whether the many have no bound in their turn.
    is_wide: bool,
    /// Requests of the few, queued or at the disk.
    few_there: u32,
}

impl Default for Alternation {
    fn default() -> Alternation {
        Alternation {
            turns: None,
            periods: 0,
            periods_next: PERIODS,
            not_before: Instant::ZERO,
            pause: PAUSE,
            looking: None,
            unbound: ServiceTally::default(),
            is_wide: false,
            few_there: 0,
        }
    }
}

impl Alternation {
    /// Whether they may be tried, where both have that at the best depth.
    pub(super) fn may_be_tried(&self, now: Instant, had: &Had) -> bool {
        had.few.count() >= HAD_MIN && now >= self.not_before
    }

    /// Begins a trial, which needs no more than time.
    pub(super) fn begin_trial(&mut self, now: Instant, weights: [u32; 2]) {
        self.is_wide = false;
        let (time, _) = self.parts(weights);
        self.turns = Some(ServiceTurns::new(now, (time, u64::MAX), self.few_there));
    }

    /// Whether it is looked, before turns that last, at what the many do without a bound.
    pub(super) fn is_looking(&self) -> bool {
        self.looking.is_some()
    }

    /// Whether turns are taken, and not only tried.
    #[inline]
    pub(super) fn is_taken(&self) -> bool {
        self.periods > 0
    }

    /// Whether the many have no bound but their turn.
    #[inline]
    pub(super) fn is_unbound(&self) -> bool {
        self.looking.is_some() || (self.is_wide && self.turns.is_some())
    }

    /// A window of the look is over; whether turns begin.
    pub(super) fn sees(
        &mut self,
        now: Instant,
        window: &ShareWindow,
        had: &Had,
        weights: [u32; 2],
    ) -> bool {
        // After the turn of the few a cache takes in more than it can go on with.
        if self.looking.is_some_and(|since| window.since >= since + PERIOD) {
            let seen = window.had(now).many;
            self.unbound.add(seen.count(), seen.time());
        }
        if self.unbound.time() < PERIOD {
            return false;
        }
        // With a bound in their turn the many might not do their part in it.
        self.is_wide = had.many.rate() < self.unbound.rate() - SLOWER_MAX;
        self.looking = None;
        self.turns = Some(ServiceTurns::new(now, self.parts(weights), self.few_there));
        true
    }

    /// The part of the many of each period: time, and work.
    fn parts(&self, weights: [u32; 2]) -> (Nanos, u64) {
        let [few, many] = weights.map(|weight| u128::from(weight.max(1)));
        let part = |of: u64| (u128::from(of) * many / (few + many)) as u64;
        (Nanos(part(PERIOD.0)), part(self.unbound.in_time(PERIOD)))
    }

    /// The weights of the two sides are others: the work at once, the time from the next period on.
    pub(super) fn set_weights(&mut self, weights: [u32; 2]) {
        let (time, work) = self.parts(weights);
        if let Some(turns) = &mut self.turns {
            turns.time = time;
            turns.work = if self.periods > 0 { work } else { u64::MAX };
        }
    }

    /// Until when it is the turn of the few, if it is.
    #[inline]
    pub(super) fn of_few(&self, now: Instant) -> Option<Instant> {
        self.turns.as_ref()?.of_few(now)
    }

    /// A request of the few comes.
    #[inline]
    pub(super) fn few_comes(&mut self, now: Instant) {
        self.few_there += 1;
        if let Some(turns) = &mut self.turns {
            turns.few_comes(now, self.few_there);
        }
    }

    /// One that came as one of the few leaves the queue, or one goes to the disk as such: mostly
    /// both.
    #[inline]
    pub(super) fn few_change(&mut self, by: i32) {
        debug_assert!(by > 0 || self.few_there > 0, "more have left than have come");
        self.few_there = self.few_there.saturating_add_signed(by);
        if let Some(turns) = &mut self.turns {
            turns.few_there = self.few_there;
        }
    }

    /// One of them is done, and came at `arrived`; whether turns are taken.
    #[inline]
    pub(super) fn few_done(&mut self, now: Instant, arrived: Instant) -> bool {
        self.few_there -= 1;
        if let Some(turns) = &mut self.turns {
            turns.few_done(now, arrived, self.few_there);
        }
        self.turns.is_some()
    }

    /// Some of the many is done, which leaves so many of them; whether turns are taken.
    #[inline]
    pub(super) fn many_done(&mut self, now: Instant, work: u64, left: u32) -> bool {
        if let Some(turns) = &mut self.turns {
            turns.many_done(now, work, left);
        }
        self.turns.is_some()
    }

    /// The disk has nothing and nobody of the few can go: what counts as queued of theirs waits
    /// with the many.
    pub(super) fn nobody_there(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.few_there = 0;
        }
    }

    /// Judges the turns, if they have shown enough.
    #[inline]
    pub(super) fn judge(&mut self, now: Instant, had: &Had, weights: [u32; 2]) -> Found {
        let Some(turns) = &self.turns else { return Found::Nothing };
        // Periods in which the few were gone, or the disk never rid of the many, do not count.
        let least = if self.is_taken() { self.periods } else { TRIAL_MAX };
        let is_late = now >= turns.begun + PERIOD.times(2 * u64::from(least));
        let shown = turns.shown;
        if is_late || shown.periods >= self.periods.max(TRIAL) {
            self.judge_shown(now, &shown, (had, weights), is_late)
        } else {
            Found::Nothing
        }
    }

    /// The few were away: what was known of them is old.
    pub(super) fn forget(&mut self) {
        (self.turns, self.looking, self.periods) = (None, None, 0);
    }

    #[cold]
    fn judge_shown(
        &mut self,
        now: Instant,
        shown: &PeriodFigures,
        (had, weights): (&Had, [u32; 2]),
        is_late: bool,
    ) -> Found {
        if self.periods > 0 {
            (self.turns, self.periods) = (None, 0);
            return Found::Enough;
        }
        let is_seen = shown.alone.count() >= WINDOW_FEW;
        if !is_seen && !is_late && shown.periods < TRIAL_MAX {
            return Found::Nothing;
        }
        let [few, many] = weights.map(|weight| u64::from(weight.max(1)));
        let due = shown.alone.rate() + log2(few) - log2(few + many) - MARGIN;
        let is_there = shown.few_time.times(LITTLE) >= shown.time;
        if is_seen && is_there && had.few.rate() < due {
            (self.periods, self.pause) = (self.periods_next, PAUSE);
            self.periods_next = (2 * self.periods_next).min(PERIODS_MAX);
            (self.looking, self.unbound, self.turns) = (Some(now), ServiceTally::default(), None);
            return Found::Use;
        }
        (self.turns, self.periods_next) = (None, PERIODS);
        self.not_before = now + self.pause;
        self.pause = self.pause.times(2).min(PAUSE_MAX);
        Found::NoUse
    }
}
