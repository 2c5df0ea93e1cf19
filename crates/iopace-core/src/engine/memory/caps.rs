//! Caps of single tasks, kept for whichever policy of stage pace holds them.

use super::Memory;
use crate::engine::ControlError;
use crate::limits::TASK_CAPS_MAX;
use crate::pace::{self, Pace, Policy};
use crate::request::TaskId;
use crate::time::Instant;
use core::num::NonZeroU64;
use std::collections::BTreeMap;

/// Bytes per second that each capped task may dirty.
#[derive(Debug, Default)]
pub(super) struct Caps(BTreeMap<TaskId, NonZeroU64>);

impl Caps {
    /// Tells a policy of all of them.
    pub(super) fn tell(&self, now: Instant, pace: &mut dyn Pace) {
        for (task, rate) in &self.0 {
            pace.set_cap(now, *task, Some(*rate));
        }
    }
}

impl Memory {
    /// Caps a task, or lifts its cap.
    ///
    /// # Errors
    /// The policy holds no caps, this one is too low, or there are as many as may be.
    pub(in crate::engine) fn set_cap(
        &mut self,
        now: Instant,
        policy: &Policy,
        task: TaskId,
        rate: Option<NonZeroU64>,
    ) -> Result<(), ControlError> {
        let caps = &mut self.caps.0;
        match rate {
            Some(rate) => {
                pace::check_cap(policy, rate).map_err(ControlError::Cap)?;
                if caps.len() >= TASK_CAPS_MAX && !caps.contains_key(&task) {
                    return Err(ControlError::TooManyCaps);
                }
                caps.insert(task, rate);
            }
            None => drop(caps.remove(&task)),
        }
        self.pace.set_cap(now, task, rate);
        self.door.ask_all(now);
        Ok(())
    }

    /// Takes over the caps of another device, also if the policy here holds none.
    pub(in crate::engine) fn take_over_caps(&mut self, now: Instant, from: &Memory) {
        self.caps.0.clone_from(&from.caps.0);
        self.caps.tell(now, &mut *self.pace);
    }

    /// The tasks that have a cap, with its bytes per second, by task.
    pub(in crate::engine) fn caps(&self) -> impl Iterator<Item = (TaskId, NonZeroU64)> {
        self.caps.0.iter().map(|(task, rate)| (*task, *rate))
    }
}
