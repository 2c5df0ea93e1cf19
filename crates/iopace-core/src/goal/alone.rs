//! The p99 that others have while the program hardly moves: the goal of a guard that is told none.

use super::guard::{FLOOR_BYTES_S, OTHERS_TICKS};
use super::{Controller, Gear, OthersTimes, Seen, WHOLE};
use crate::stats::Histogram;
use crate::time::Nanos;
use crate::units::{Bytes, scaled};

/// There is slack up to this urgency; from there on it has all that class idle gives.
const SLACK_BELOW: u64 = WHOLE * 9 / 16;

/// Others are alone while the program moves at most this part of its best rate.
const STILL: u64 = 64;

/// It is still after so many ticks at that rate: what it had in the disk's queue is done by then.
const SETTLE_TICKS: u64 = 3;

/// A pause ends after so many ticks, or so many requests: enough for a 99th percentile.
const PAUSE_TICKS: u32 = 16;
const PAUSE_COUNT: u64 = 100;

/// Ticks between two pauses: a pause is a ninth of the time at most.
const APART_TICKS: u32 = 8 * PAUSE_TICKS;

/// Times of others are forgotten after one to two times so many ticks, or requests: loads change.
const KEPT_TICKS: u32 = 2 * APART_TICKS;
const KEPT_COUNT: u64 = 10_000;

/// Fewer requests say nothing of a 99th percentile.
const COUNT_MIN: u64 = 8;

/// So many percent of the p99 alone are the goal: less would call even times late.
const GOAL_PERCENT: u64 = 100;

/// The times of others while they were alone.
#[derive(Clone, Debug)]
pub(super) struct Alone {
    /// Their times: the last ones, and those before.
    times: Box<[Histogram; 2]>,
    counts: [u64; 2],
    /// Ticks that the last ones cover.
    age: u32,
    /// The bytes that the program had moved by the last tick.
    before: Option<Bytes>,
    /// Lengths of the last ticks, and what it moved in each.
    moved: [(Nanos, u64); SETTLE_TICKS as usize],
    /// Ticks since the last pause.
    apart: u32,
    /// Ticks and requests of the pause; none if there is no pause.
    pause: Option<(u32, u64)>,
    /// Others had the disk for themselves in the last tick.
    is_still: bool,
    /// The deadline leaves time for others.
    pub(super) has_slack: bool,
}

impl Alone {
    pub(super) fn new() -> Alone {
        Alone {
            times: Box::default(),
            counts: [0; 2],
            age: 0,
            moved: [(Nanos::ZERO, 0); SETTLE_TICKS as usize],
            apart: APART_TICKS,
            pause: None,
            is_still: false,
            has_slack: true,
            before: None,
        }
    }

    /// The program waits, so that others can be heard.
    pub(super) fn is_pause(&self) -> bool {
        self.pause.is_some()
    }

    /// The goal that others have; none if too little was heard of them.
    pub(super) fn goal(&self) -> Option<Nanos> {
        if self.counts[0].saturating_add(self.counts[1]) < COUNT_MIN {
            return None;
        }
        let mut all = self.times[0].clone();
        all.merge(&self.times[1]);
        Some(Nanos(scaled(all.quantile(990).0, GOAL_PERCENT, 100)))
    }

    /// Others who were late; what happens while they are alone is their own doing.
    pub(super) fn late(&self, others: &[OthersTimes]) -> u64 {
        let goal = self.goal().filter(|_| !self.is_still);
        let late = |goal| others.iter().map(|times| times.late_count(goal)).sum();
        goal.map_or(0, late)
    }

    /// Whether the program has moved so little in the last ticks that others do not notice.
    fn settle(&mut self, tick: Nanos, moved: Bytes, still: u64) {
        let new = moved - self.before.replace(moved).unwrap_or(moved);
        self.moved.rotate_left(1);
        self.moved[SETTLE_TICKS as usize - 1] = (tick, new.0);
        let (time, bytes) = self.moved.iter().fold((Nanos::ZERO, 0_u64), |(time, bytes), last| {
            (time + last.0, bytes.saturating_add(last.1))
        });
        self.is_still = self.moved.iter().all(|(tick, _)| *tick > Nanos::ZERO)
            && bytes <= scaled(still, time.0, 1_000_000_000);
    }

    /// Counts others who have the disk for themselves, and forgets the older ones.
    fn hear(&mut self, others: &[OthersTimes]) {
        self.age += 1;
        if self.age > KEPT_TICKS || self.counts[1] > KEPT_COUNT {
            self.times.swap(0, 1);
            self.times[1] = Histogram::default();
            self.counts = [self.counts[1], 0];
            self.age = 0;
        }
        if !self.is_still {
            return;
        }
        for times in others {
            self.counts[1] += times.record(&mut self.times[1]);
        }
    }

    /// Begins a pause when others were not heard for long, and ends it.
    fn pace(&mut self, count: u64, may_pause: bool) {
        self.apart = self.apart.saturating_add(1);
        if !may_pause {
            // One that is cut short counts: at the border of slack there would be another at once.
            if self.pause.take().is_some() {
                self.apart = 0;
            }
            return;
        }
        let heard = if self.is_still { count } else { 0 };
        let (ticks, so_far) = self.pause.unwrap_or_default();
        let (ticks, so_far) = (ticks + 1, so_far.saturating_add(heard));
        match self.pause {
            Some(_) if ticks >= PAUSE_TICKS || so_far >= PAUSE_COUNT => {
                (self.pause, self.apart) = (None, 0);
            }
            Some(_) => self.pause = Some((ticks, so_far)),
            None if self.is_still => self.apart = 0,
            None if self.apart >= APART_TICKS => self.pause = Some((0, 0)),
            None => {}
        }
    }
}

impl Controller {
    /// Hears others while the program is still, and has it pause for that now and then.
    pub(super) fn hear(&mut self, tick: Nanos, seen: &Seen<'_>, needed: Option<u64>) {
        let still = (self.best / STILL).max(FLOOR_BYTES_S);
        let is_slack = needed.is_some_and(|needed| self.urgency(needed) <= SLACK_BELOW);
        let may_pause = self.is_measured && self.quiet < OTHERS_TICKS;
        let Some(alone) = &mut self.alone else { return };
        alone.has_slack = self.gear == Gear::Idle && is_slack;
        alone.settle(tick, seen.moved, still);
        if !seen.is_blind {
            alone.hear(seen.times);
        }
        alone.pace(seen.others_count, may_pause && alone.has_slack && !seen.is_blind);
    }
}
