//! Runs a program so that it is done in time, and so that others keep their latency until then.
//!
//! # Model
//! A *program* moves bytes; `expected` is how many there will be. It has a *deadline*, a *limit*,
//! both or none. The controller is asked once a tick, a second or so, and answers with a [`Push`]:
//! the class, weight and rate that the program has until the next tick. There are two gears:
//! ```text
//!        urgency = needed / best         needed = (rest + expected / 16) / time left
//!
//!    0        1/2   5/8              7/8        best = highest rate of a window,
//!    ├─────────┼─────┼────────────────┼────►    or less, if pushing gave less
//!      idle ◄──┘     └──► push          all of the disk
//!      class idle        best effort,   weight 10000,
//!      no rate           needed x 5/4   no rate
//! ```
//! *Idle* takes what nobody else wants, as much of that as there is. It is left when five eighths
//! of the best rate would be needed to be done in time, and class idle has given less than that
//! lately: until then the night may still become quiet, and the rest can still be done.
//!
//! *Push* takes the needed rate and a quarter more, and looks for the smallest weight that gives
//! it, up to 10000. It is left when half of the best rate is enough, and for a try after 4 windows
//! that gave enough (8, 16, up to 64 after tries in vain): a rate says nothing about what class
//! idle would give. In the last 8 windows there are no tries.
//!
//! *The best rate* may be wrong: files in memory, a slower part of the disk. It falls by an eighth
//! with each window of push that gave less than was needed. Class idle proves nothing where the
//! disk is busy: if half of the best rate was not reached until the time left has halved, one
//! window is a probe, best effort without a rate, and the best rate is what that gave. The guard
//! puts that off.
//!
//! *Others* have a guard, if it is asked for: at most one in a hundred of their requests takes
//! longer than the goal. While more do, the rate of the program is halved, never below the floor;
//! while fewer do it grows by an eighth, until it has not held for a while. It does not hold where
//! nobody else was there for 16 ticks, and does again, as it was, with the first one who comes.
//! The floor is what the deadline needs, or a 256th of the best rate, or 32 KiB/s: whoever is
//! throttled to nothing learns nothing. There is no verdict before the first window has ended, nor
//! where others could not be seen. A program whose best rate is known begins with a 64th of it.
//!
//! *The time left* is forecast from the mean of the rate of the whole run and that of its last
//! twenty-fourth part, which counts the more the shorter the time left is; not later than nine
//! tenths of the plan, as a program that is late is pushed and has more than it needs then, and not
//! earlier than the best rate allows.
//!
//! # Properties
//! 1. Without a deadline it is class idle, and without limit and guard it has no rate.
//! 2. No rate is above the limit.
//! 3. While the deadline needs less than half of the best rate it is class idle, but for a probe.
//! 4. When it needs more than class idle gives, it pushes; from 7/8 of the best rate on with all
//!    weight and no rate.
//! 5. When the disk becomes quiet it goes back to class idle.
//! 6. When others are late the rate falls, not below what the deadline needs; it comes back.
//! 7. At an even rate the forecast is right, and it is never earlier than the best rate allows.
//! 8. A deadline that cannot be met is told.
//!
//! # When it does not know
//! How much there is: with a deadline it pushes with the default weight from the start, without a
//! rate, and there is no forecast. The best rate: class idle for the first window; earlier runs
//! tell it; if that window was empty it pushes. Once more was moved than expected, the rest is
//! taken for a 64th of it, up to a sixteenth more; beyond that nobody knows how much there is.
//!
//! # Limits
//! A program that computes most of the time needs no disk to be late: it is pushed in vain. One
//! whose small files come last reaches half of its best rate or a bit more: it is pushed too late.
//! There is no probe while the guard holds: a guarded program whose best rate is wrong may be late.
//! Others who come less often than once in 16 ticks find the program unguarded each time. A guard
//! that opens by doubling instead had p99s of 1.26 in place of 1.14 (`iopace sim tables nights`).
//!
//! # Sources
//! Additive increase and multiplicative decrease as in `window/aimd.rs`. That background work is to
//! take what is left, and is given more only when its time runs out: earliest-deadline slack
//! stealing (Lehoczky and Ramos-Thuel, RTSS 1992), with rates in the place of execution times.

mod forecast;
mod guard;
mod probe;

use crate::group::{Class, Weight};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, BytesPerSec, scaled};
use forecast::{mean, plan, rate_for, rate_in, rest};
use probe::Probe;

/// Ticks of a window: fewer are noise, more are late.
const WINDOW_TICKS: u32 = 8;

/// Urgency is counted in so many parts.
const WHOLE: u64 = 1024;

/// Above this urgency it pushes, below that it goes back to idle; from the last on it takes all.
const PUSH_ABOVE: u64 = WHOLE * 5 / 8;
const IDLE_BELOW: u64 = WHOLE / 2;
const ALL_ABOVE: u64 = WHOLE * 7 / 8;

/// Of what is expected this part more is planned for: runs of one program differ by as much.
const MARGIN: u64 = 16;

/// The best rate falls by this part with each window of push that did not give enough.
const FADE: u64 = 8;

/// Windows of push before class idle is tried, at first and at most.
const TRY_AFTER: (u32, u32) = (4, 64);

/// The mean of the rate that the forecast goes by covers this part of the windows so far: what the
/// others do lasts the longer the longer the program runs. Two at least.
const RECENT_PART: u64 = 24;

/// That which the choice of a gear goes by covers so many.
const PACED_WINDOWS: u64 = 4;

/// With so many ticks left it does not wait for the end of a window any more.
const SHORT_TICKS: u64 = 8 * WINDOW_TICKS as u64;

/// The goals that a program is to reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Goals {
    /// The program is done by then.
    pub by: Option<Instant>,
    /// It never moves more.
    pub limit: Option<BytesPerSec>,
    /// Others are guarded from the start.
    pub guarded: bool,
    /// The highest rate of earlier runs, if there were any.
    pub best: BytesPerSec,
}

/// How the program and the others stand at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Bytes that the program has moved since it was started.
    pub moved: Bytes,
    /// Bytes that it will have moved at its end, if that is known.
    pub expected: Option<Bytes>,
    /// Requests of others that ended since the last tick.
    pub others_count: u64,
    /// Those of them that took longer than the goal; none where there is no goal.
    pub late_count: u64,
    /// Others could not be seen this time: the guard stays as it is.
    pub is_blind: bool,
}

/// The share that the program has until the next tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// Idle or best effort.
    pub class: Class,
    /// Among those of best effort.
    pub weight: Weight,
    /// It moves no more than this.
    pub rate: Option<BytesPerSec>,
}

/// The answer to a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// The share that the program has until the next tick.
    pub push: Push,
    /// How long it will still take; none if that is not known.
    pub left: Option<Nanos>,
    /// The rate that it needs from now on to be done in time; none without a deadline or a size.
    pub needed: Option<BytesPerSec>,
    /// The rest takes longer at the best rate than until the deadline.
    pub is_late: bool,
}

/// The gear that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gear {
    Idle,
    Push(Weight),
}

impl Gear {
    fn class(self) -> Class {
        match self {
            Gear::Idle => Class::Idle,
            Gear::Push(_) => Class::BestEffort,
        }
    }

    /// Push, with the weight that it has already.
    fn pushed(self) -> Gear {
        match self {
            Gear::Idle => Gear::Push(Weight::DEFAULT),
            push @ Gear::Push(_) => push,
        }
    }
}

/// The controller of one program.
#[derive(Clone, Debug)]
pub struct Controller {
    goals: Goals,
    gear: Gear,
    /// The first tick, with what was moved by then.
    begun: Option<(Instant, Bytes)>,
    last: Instant,
    /// When the window began, with what was moved by then, and its ticks.
    window: (Instant, Bytes, u32),
    /// The rate of the last window, the mean of some, the best of all; zero: not known yet.
    rate: u64,
    /// The mean of the windows of this gear, the last four above all.
    paced: u64,
    recent: u64,
    /// Windows so far.
    windows: u64,
    best: u64,
    /// Windows of push that gave enough, and after how many class idle is tried.
    tries: (u32, u32),
    /// The rate that the guard allows; none if it does not hold the program back.
    guard: Option<u64>,
    /// Others since the last verdict: requests, late ones, ticks.
    others: (u64, u64, u32),
    /// Ticks since others were there.
    quiet: u32,
    /// A window has ended.
    is_measured: bool,
    probe: Probe,
}

impl Controller {
    /// A program that begins.
    pub fn new(goals: Goals) -> Controller {
        Controller {
            goals,
            gear: Gear::Idle,
            begun: None,
            last: Instant::ZERO,
            window: (Instant::ZERO, Bytes::ZERO, 0),
            rate: 0,
            paced: 0,
            recent: 0,
            windows: 0,
            best: goals.best.0,
            tries: (0, TRY_AFTER.0),
            guard: guard::first(&goals),
            is_measured: false,
            probe: Probe::default(),
            others: (0, 0, 0),
            quiet: 0,
        }
    }

    /// Moves the deadline, as when the clock of the day was set.
    pub fn set_deadline(&mut self, by: Instant) {
        self.goals.by = Some(by);
    }

    /// Looks, and says what the program has until the next tick.
    pub fn tick(&mut self, now: Instant, seen: &Seen) -> Course {
        let (began, first) = *self.begun.get_or_insert((now, seen.moved));
        let tick = now.since(self.last.max(began));
        self.last = now;
        let is_new = self.measure(now, seen.moved);
        let rest = rest(seen);
        let plan = self.goals.by.map(|by| plan(by.since(now), tick));
        let margin = seen.expected.map_or(Bytes::ZERO, |expected| Bytes(expected.0 / MARGIN));
        let needed = plan.zip(rest).map(|(plan, rest)| rate_for(rest + margin, plan));
        let is_short = plan.is_some_and(|plan| plan < tick.times(SHORT_TICKS));
        self.prove(plan, is_new);
        self.choose_gear(needed, is_new, is_short);
        self.guard(seen);
        let mean = rate_in(seen.moved - first, now.since(began));
        Course {
            push: self.push(needed),
            left: rest.and_then(|rest| self.left(rest, mean, plan)),
            needed: needed.map(BytesPerSec),
            is_late: rest.zip(self.goals.by).is_some_and(|(rest, by)| {
                self.best > 0 && BytesPerSec(self.best).time_for(rest) > by.since(now) + tick
            }),
        }
    }

    /// The highest rate of a window so far, for the next run; zero if there was none.
    pub fn best(&self) -> BytesPerSec {
        BytesPerSec(self.best)
    }

    /// Books a tick; whether it ended a window.
    fn measure(&mut self, now: Instant, moved: Bytes) -> bool {
        let (since, before, ticks) = &mut self.window;
        if *ticks == 0 {
            (*since, *before) = (now, moved);
        }
        *ticks += 1;
        if *ticks <= WINDOW_TICKS {
            return false;
        }
        self.rate = rate_in(moved - *before, now.since(*since));
        self.is_measured = true;
        self.window = (now, moved, 1);
        self.best = self.best.max(self.rate);
        self.paced = mean(self.paced, self.rate, PACED_WINDOWS);
        self.windows += 1;
        self.recent = mean(self.recent, self.rate, (self.windows / RECENT_PART).max(2));
        true
    }

    fn urgency(&self, needed: u64) -> u64 {
        match self.best {
            // An empty window: nobody knows what the disk gives, and class idle gives nothing.
            0 if self.is_measured => WHOLE,
            0 => 0,
            best => scaled(needed, WHOLE, best),
        }
    }

    /// Goes from one gear to the other; within push, once a window, to the weight that is enough.
    fn choose_gear(&mut self, needed: Option<u64>, is_new: bool, is_short: bool) {
        let Some(needed) = needed else {
            let is_pushed = self.goals.by.is_some();
            self.gear = if is_pushed { Gear::Push(Weight::DEFAULT) } else { Gear::Idle };
            return;
        };
        let is_enough = self.paced >= needed.saturating_add(needed / 8);
        if is_new && self.gear.class() == Class::BestEffort && !is_enough && self.rate < needed {
            self.best = self.rate.max(self.best - self.best / FADE);
        }
        let before = self.gear;
        self.gear = match self.urgency(needed) {
            _ if self.probe.is_on => before.pushed(),
            ALL_ABOVE.. => Gear::Push(heaviest()),
            // There is no time for a try.
            urgency if is_short && urgency > PUSH_ABOVE => before.pushed(),
            _ if !is_new => before,
            urgency => self.next_gear(urgency, is_enough),
        };
        // A window is of one gear.
        if self.gear.class() != before.class() {
            (self.window.2, self.paced) = (0, 0);
        }
    }

    /// The gear after a window.
    fn next_gear(&mut self, urgency: u64, is_enough: bool) -> Gear {
        let (enough_count, after) = &mut self.tries;
        match self.gear {
            Gear::Idle if is_enough || urgency <= PUSH_ABOVE => {
                if is_enough {
                    *after = TRY_AFTER.0;
                }
                Gear::Idle
            }
            Gear::Idle => {
                *enough_count = 0;
                Gear::Push(Weight::DEFAULT)
            }
            Gear::Push(_) if urgency < IDLE_BELOW => Gear::Idle,
            Gear::Push(weight) if is_enough => {
                *enough_count += 1;
                if enough_count < after {
                    return Gear::Push(lighter(weight));
                }
                *after = after.saturating_mul(2).min(TRY_AFTER.1);
                Gear::Idle
            }
            Gear::Push(weight) => Gear::Push(heavier(weight)),
        }
    }

    fn push(&self, needed: Option<u64>) -> Push {
        let (class, weight, wanted) = match (self.gear, needed) {
            (Gear::Idle, _) => (Class::Idle, Weight::DEFAULT, None),
            (Gear::Push(weight), Some(needed))
                if self.urgency(needed) < ALL_ABOVE && !self.probe.is_on =>
            {
                (Class::BestEffort, weight, Some(needed.saturating_add(needed / 4)))
            }
            (Gear::Push(weight), _) => (Class::BestEffort, weight, None),
        };
        // The deadline goes before the others.
        let guard = match (self.gear, needed) {
            (Gear::Idle, _) => self.guarded(),
            (Gear::Push(weight), _) if weight == heaviest() || self.probe.is_on => None,
            (Gear::Push(_), None) => self.guarded(),
            (Gear::Push(_), Some(needed)) => {
                self.guarded().map(|guard| guard.max(needed.saturating_add(needed / 8)))
            }
        };
        let limit = self.goals.limit.map(|limit| limit.0);
        let rate = [wanted, guard, limit].into_iter().flatten().min();
        Push { class, weight, rate: rate.map(|rate| BytesPerSec(rate.max(1))) }
    }
}

const fn heaviest() -> Weight {
    Weight::new(crate::limits::GROUP_WEIGHT_MAX).expect("the most that is legal")
}

/// Four times as much: from the default to the most in four windows.
fn heavier(weight: Weight) -> Weight {
    Weight::new(weight.get().saturating_mul(4)).unwrap_or(heaviest())
}

/// Half, not below the default: it is best effort for a reason.
fn lighter(weight: Weight) -> Weight {
    Weight::new(weight.get() / 2).unwrap_or_default().max(Weight::DEFAULT)
}

#[cfg(test)]
mod tests;
