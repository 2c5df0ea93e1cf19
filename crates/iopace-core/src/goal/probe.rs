//! Whether the best rate is still true, of which class idle on a busy disk says nothing.

use super::{Controller, Gear};
use crate::time::Nanos;

/// When the best rate was last held against what is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// Time that was left when half of the best rate was last reached, or tried.
    pub(super) left: Option<Nanos>,
    /// This window of push is a probe.
    pub(super) is_on: bool,
}

impl Controller {
    /// Holds the best rate against what was reached, and asks for a probe where nothing was.
    pub(super) fn prove(&mut self, plan: Option<Nanos>, is_new: bool) {
        let Some(plan) = plan else { return };
        if is_new && std::mem::take(&mut self.probe.is_on) {
            self.best = self.rate;
        }
        // A guarded program may not reach it: that says nothing about the disk.
        let is_reached = is_new && (self.rate >= self.best / 2 || self.guarded().is_some());
        let left = *self.probe.left.get_or_insert(plan);
        if is_reached {
            self.probe.left = Some(plan);
        } else if is_new && self.gear == Gear::Idle && plan < Nanos(left.0 / 2) {
            self.probe = Probe { left: Some(plan), is_on: true };
        }
    }
}
