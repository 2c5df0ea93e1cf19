//! Caps of single tasks, kept for whichever policy of stage pace holds them.

use crate::engine::ControlError;
use crate::limits::TASK_CAPS_MAX;
use crate::pace::{self, Pace, PacePolicy};
use crate::request::TaskId;
use crate::time::Instant;
use core::num::NonZeroU64;
use std::collections::BTreeMap;

/// Bytes per second that each capped task may dirty.
#[derive(Clone, Debug, Default)]
pub(super) struct DirtyRateCaps(BTreeMap<TaskId, NonZeroU64>);

impl DirtyRateCaps {
    /// Tells a policy of all of them.
    pub(super) fn tell(&self, now: Instant, pace: &mut dyn Pace) {
        for (task, rate) in &self.0 {
            pace.set_cap(now, *task, Some(*rate));
        }
    }

    /// Caps a task, or lifts its cap, where that policy is at work.
    pub(super) fn set(
        &mut self,
        policy: &PacePolicy,
        task: TaskId,
        rate: Option<NonZeroU64>,
    ) -> Result<(), ControlError> {
        let Some(rate) = rate else {
            self.0.remove(&task);
            return Ok(());
        };
        pace::check_cap(policy, rate).map_err(ControlError::Cap)?;
        if self.0.len() >= TASK_CAPS_MAX && !self.0.contains_key(&task) {
            return Err(ControlError::TooManyCaps);
        }
        self.0.insert(task, rate);
        Ok(())
    }

    /// All of them, by task.
    pub(super) fn iter(&self) -> impl Iterator<Item = (TaskId, NonZeroU64)> {
        self.0.iter().map(|(task, rate)| (*task, *rate))
    }
}
