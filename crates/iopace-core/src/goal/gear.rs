//! The gears: class idle while that is enough, then as much as the deadline needs.

use super::{Controller, Push, WHOLE};
use crate::group::{Class, Weight};
use crate::units::{BytesPerSec, scaled};

/// Above this urgency it pushes, below that it goes back to idle; from the last on it takes all.
const PUSH_ABOVE: u64 = WHOLE * 5 / 8;
const IDLE_BELOW: u64 = WHOLE / 2;
const ALL_ABOVE: u64 = WHOLE * 7 / 8;

/// The best rate falls by this part with each window of push that did not give enough.
const FADE: u64 = 8;

/// Windows of push before class idle is tried, at first and at most.
pub(super) const TRY_AFTER: (u32, u32) = (4, 64);

/// The gear that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gear {
    Idle,
    Push(Weight),
}

impl Gear {
    pub(super) fn class(self) -> Class {
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

impl Controller {
    pub(super) fn urgency(&self, needed: u64) -> u64 {
        match self.best {
            // An empty window: nobody knows what the disk gives, and class idle gives nothing.
            0 if self.is_measured => WHOLE,
            0 => 0,
            best => scaled(needed, WHOLE, best),
        }
    }

    /// Goes from one gear to the other; within push, once a window, to the weight that is enough.
    pub(super) fn choose_gear(&mut self, needed: Option<u64>, is_new: bool, is_short: bool) {
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

    pub(super) fn push(&self, needed: Option<u64>) -> Push {
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

pub(super) const fn heaviest() -> Weight {
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
