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
//! window is a probe, best effort without a rate, and the best rate is what that gave. A guard that
//! was told its goal puts that off. Beside others a program that was told none disturbs them less:
//! class idle without the guard comes first, and the guard holds again when what is
//! needed was reached. The probe follows only if class idle gave less than is needed, and
//! less than an eighth of the best rate, or a quarter of the time is left; and not where more than
//! 1/8 of the best rate is needed: a push says it too. The best rate is one and a
//! half times what such a probe gave, as it was shared with others: if the disk gives no more, 5/8
//! of that is still less than all.
//!
//! *Others* have a guard: at most one in a hundred of their requests takes longer than the goal.
//! While more do, the rate of the program is halved, never below the floor; while fewer do it grows
//! by a sixteenth, until it has not held for a while. It does not hold where nobody else was there
//! for 16 ticks, and does again, as it was, with the first one who comes. The floor is what the
//! deadline needs, or a 256th of the best rate, or 32 KiB/s: whoever is throttled to nothing learns
//! nothing. There is no verdict before the first window has ended, nor where others could not be
//! seen. A program whose best rate is known begins with a 64th of it.
//!
//! *The goal* is told, or learnt where there is a deadline: the p99 that others have while
//! the program hardly moves, by itself, held back by the guard, or in a pause.
//! ```text
//!  rate   floor │ allowed by the guard    │ floor  │ ...     until 9/16 of the best rate
//!        ├──────┼─────────────────────────┼────────┤         are needed: no guard any more
//!         pause    128 ticks unheard        pause, 16 ticks at most
//! ```
//! A pause ends after 16 ticks, or with the hundredth request of others: it takes a ninth of the
//! time at most. There is none where others were heard anyway. What was heard is forgotten after
//! 256 to 512 ticks, as loads change. A guard that learns holds while there is slack: in class
//! idle, while less than 9/16 of the best rate is needed. Others who are late while the program
//! hardly moves (a 64th of its best rate for three ticks) are late by themselves and cut nothing.
//! Others who could not be seen for 16 ticks have no guard.
//!
//! *The time left* is forecast from the mean of the rate of the whole run and that of its last
//! twenty-fourth part, which counts the more the shorter the time left is; not later than nine
//! tenths of the plan, as a program that is late is pushed and has more than it needs then, and not
//! earlier than the best rate allows.
//!
//! # Properties
//! 1. Without a deadline it is class idle, and without limit and goal it has no rate.
//! 2. No rate is above the limit.
//! 3. While the deadline needs less than half of the best rate it is class idle, but for a probe.
//! 4. When it needs more than class idle gives, it pushes; from 7/8 of the best rate on with all
//!    weight and no rate.
//! 5. When the disk becomes quiet it goes back to class idle.
//! 6. When others are late the rate falls, not below what the deadline needs; it comes back.
//! 7. At an even rate the forecast is right, and it is never earlier than the best rate allows.
//! 8. A deadline that cannot be met is told.
//! 9. With a deadline and no goal others have nearly the p99 that they have alone, while there is
//!    slack; pauses take a ninth of the time at most, and there are none without others or slack.
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
//! There is no probe while a guard holds that was told its goal, nor beside others where more than
//! 1/8 of the best rate is needed: a program whose best rate is wrong by half or more may be late
//! then. A goal that was learnt is that of all others together: who is slow by himself hides from
//! it what the fast ones lose. Others who come less often than once in 16 ticks find the program
//! unguarded each time. A guard that opens by doubling instead had p99s of 1.26 in place of 1.14
//! (`iopace sim tables nights`). Nights with a busy disk stay above the goal where nothing is held
//! back until the best rate is sure, and after a probe.
//!
//! # Sources
//! Additive increase and multiplicative decrease as in `window/aimd.rs`. That background work is to
//! take what is left, and is given more only when its time runs out: earliest-deadline slack
//! stealing (Lehoczky and Ramos-Thuel, RTSS 1992), with rates in the place of execution times.

mod alone;
mod forecast;
mod gear;
mod guard;
mod others;
mod probe;

use crate::group::{Class, Weight};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, BytesPerSec};
use alone::Alone;
use forecast::{mean, plan, rate_for, rate_in, rest};
use gear::{Gear, TRY_AFTER};
pub use others::OthersTimes;
use probe::Probe;

/// Ticks of a window: fewer are noise, more are late.
const WINDOW_TICKS: u32 = 8;

/// Urgency is counted in so many parts.
const WHOLE: u64 = 1024;

/// Of what is expected this part more is planned for: runs of one program differ by as much.
const MARGIN: u64 = 16;

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
    /// Others are guarded from the start by a goal that is told: [`Seen::late_count`] goes by it.
    /// Without, a program with a deadline learns one from [`Seen::times`].
    pub guarded: bool,
    /// The highest rate of earlier runs, if there were any.
    pub best: BytesPerSec,
}

/// How the program and the others stand at a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen<'a> {
    /// Bytes that the program has moved since it was started.
    pub moved: Bytes,
    /// Bytes that it will have moved at its end, if that is known.
    pub expected: Option<Bytes>,
    /// Requests of others that ended since the last tick.
    pub others_count: u64,
    /// Those of them that took longer than the goal that was told; none where there is none.
    pub late_count: u64,
    /// How long they took, by task or all together: from this a controller that is told no goal
    /// learns one.
    pub times: &'a [OthersTimes],
    /// Others could not be seen this time: a guard that was asked for stays as it is.
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
    /// The goal of a guard that was told none; none where it was, or where there is no deadline.
    alone: Option<Alone>,
    /// A window has ended.
    is_measured: bool,
    probe: Probe,
}

impl Controller {
    /// A program that begins.
    pub fn new(goals: Goals) -> Controller {
        let learns = goals.by.is_some() && !goals.guarded;
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
            quiet: if learns { guard::OTHERS_TICKS } else { 0 },
            alone: learns.then(Alone::new),
        }
    }

    /// Moves the deadline, as when the clock of the day was set.
    pub fn set_deadline(&mut self, by: Instant) {
        self.goals.by = Some(by);
    }

    /// Looks, and says what the program has until the next tick.
    pub fn tick(&mut self, now: Instant, seen: &Seen<'_>) -> Course {
        let (began, first) = *self.begun.get_or_insert((now, seen.moved));
        let tick = now.since(self.last.max(began));
        self.last = now;
        let is_new = self.measure(now, seen.moved);
        let rest = rest(seen);
        let plan = self.goals.by.map(|by| plan(by.since(now), tick));
        let margin = seen.expected.map_or(Bytes::ZERO, |expected| Bytes(expected.0 / MARGIN));
        let needed = plan.zip(rest).map(|(plan, rest)| rate_for(rest + margin, plan));
        let is_short = plan.is_some_and(|plan| plan < tick.times(SHORT_TICKS));
        self.prove(plan, needed, is_new);
        self.choose_gear(needed, is_new, is_short);
        self.hear(tick, seen, needed);
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
}

#[cfg(test)]
mod tests;
