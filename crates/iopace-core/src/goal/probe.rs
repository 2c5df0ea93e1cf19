//! Whether the best rate is still true, of which class idle on a busy disk says nothing.

use super::gear::Gear;
use super::guard::OTHERS_TICKS;
use super::{Controller, WHOLE};
use crate::time::Nanos;
use crate::units::scaled;

/// There is slack without doubt where class idle has given so many percent of what is needed.
const ENOUGH_PERCENT: u64 = 100;

/// Class idle that gives less than this part of the best rate says that the best rate may be wrong
/// by far; with more the disk is just busy.
const DOUBTED: u64 = 8;

/// Up to this urgency others are disturbed for the sake of the best rate: a fifth of that from
/// which on it is pushed. With 3/8 others had 1.55 times their p99 in 400 nights, now 1.30.
const PROBE_BELOW: u64 = WHOLE / 8;

/// When the best rate was last held against what is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// Time that was left when half of the best rate was last reached, or tried.
    pub(super) left: Option<Nanos>,
    /// This window of push is a probe.
    pub(super) is_on: bool,
    /// The highest rate of a window since then.
    pub(super) high: u64,
    /// The guard lets this window of class idle be, as a probe that costs others less.
    pub(super) is_open: bool,
    /// A tick of this window was held back by a guard that learns its goal.
    pub(super) was_guarded: bool,
}

impl Controller {
    /// Holds the best rate against what was reached, and asks for a probe where nothing was.
    pub(super) fn prove(&mut self, plan: Option<Nanos>, needed: Option<u64>, is_new: bool) {
        let Some(plan) = plan else { return };
        if is_new && std::mem::take(&mut self.probe.is_on) {
            self.best = self.probed();
        }
        let is_learnt = self.alone.is_some();
        let was_guarded = is_new && std::mem::take(&mut self.probe.was_guarded);
        let was_open = is_new && std::mem::take(&mut self.probe.is_open);
        if is_new {
            self.probe.high = self.probe.high.max(self.rate);
        }
        // A program that is held back as was asked may not reach it: that says nothing about the
        // disk. One that holds back by itself goes by what it needs.
        let is_told = !is_learnt && self.guarded().is_some();
        let times_needed = |rate: u64, percent| {
            is_learnt && needed.is_some_and(|needed| rate >= scaled(needed, percent, 100))
        };
        let is_reached = is_new && (self.rate >= self.best / 2 || is_told);
        let left = *self.probe.left.get_or_insert(plan);
        let is_due = is_new && self.gear == Gear::Idle && plan < Nanos(left.0 / 2);
        // So much is needed that it is pushed soon, which tells it as well.
        let is_late = self.alone.is_some()
            && self.quiet < OTHERS_TICKS
            && needed.is_some_and(|needed| self.urgency(needed) > PROBE_BELOW);
        let is_plausible = times_needed(self.rate, 100)
            || (self.rate >= self.best / DOUBTED
                && (plan >= Nanos(left.0 / 4) || times_needed(self.probe.high, 100)));
        if is_reached || (is_due && times_needed(self.probe.high, ENOUGH_PERCENT)) {
            (self.probe.left, self.probe.high) = (Some(plan), 0);
        } else if is_due && (was_guarded || is_late || (was_open && is_plausible)) {
            self.probe.is_open = true;
        } else if is_due {
            self.probe = Probe { left: Some(plan), is_on: true, ..Probe::default() };
        }
        self.probe.was_guarded |= is_learnt && self.guarded().is_some();
    }

    /// The best rate after a probe: beside others it had but a share.
    fn probed(&self) -> u64 {
        match self.alone {
            Some(_) if self.quiet < OTHERS_TICKS => {
                self.best.min(self.rate.saturating_add(self.rate / 2))
            }
            _ => self.rate,
        }
    }
}
