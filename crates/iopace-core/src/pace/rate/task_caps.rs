//! Caps of single tasks: how many bytes of clean memory each may dirty in a second.
//!
//! # Model
//! A capped task has a meter, a virtual clock that every portion pushes forward by what it makes
//! dirty. While the meter is closed the task waits until it opens, also where nobody is paced
//! (below the free-run mark). Only one write of a task is asked for at a time, so that nothing has
//! to be reserved, and the limits of groups are charged only with what passes.
//!
//! A rewrite of what is dirty already costs the disk nothing and passes: the cap is on what has to
//! be written back for the task, as `dirty_ratelimit` in the kernel's throttling counts pages that
//! become dirty.
//!
//! # Properties
//! 1. In any second a task dirties no more than its cap, the 20 ms by which the meter lets it be
//!    late, and a portion, whatever the size of its writes.
//! 2. Other tasks are not held up here, and get what it leaves. (A file's lock is the kernel's.)

use super::pause::PAGE;
use crate::group::meter::Meter;
use crate::request::TaskId;
use crate::time::{Instant, Nanos};
use core::num::NonZeroU64;
use std::collections::BTreeMap;

/// A portion is so many of a second's bytes, as with the limits of groups: far below the per cent
/// that a cap may be off.
const PORTIONS_PER_SEC: u64 = 250;

/// The caps of a device; the engine bounds their number.
#[derive(Debug, Default)]
pub(super) struct TaskCaps {
    caps: BTreeMap<TaskId, Cap>,
}

/// The cap of one task.
#[derive(Debug)]
pub(super) struct Cap {
    meter: Meter,
    /// The most that it dirties in one go.
    portion: u64,
}

impl TaskCaps {
    /// Sets the cap of a task, in bytes per second, or lifts it.
    pub(super) fn set(&mut self, now: Instant, task: TaskId, rate: Option<NonZeroU64>) {
        let Some(rate) = rate else {
            self.caps.remove(&task);
            return;
        };
        let portion = (rate.get() / PORTIONS_PER_SEC / PAGE * PAGE).max(PAGE);
        let new = Meter::new(now, rate, Nanos::ZERO);
        let cap = self.caps.entry(task).or_insert(Cap { meter: new, portion });
        cap.meter.set(now, &new);
        cap.portion = portion;
    }

    /// The cap of a task, if it has one.
    #[inline]
    pub(super) fn of(&mut self, task: TaskId) -> Option<&mut Cap> {
        if self.caps.is_empty() {
            return None;
        }
        self.caps.get_mut(&task)
    }
}

impl Cap {
    /// When its task may go on, if that is later than `now`.
    pub(super) fn closed_until(&mut self, now: Instant) -> Option<Instant> {
        let opens = self.meter.opens();
        if opens <= now {
            return None;
        }
        // Lateness of the timer is not lost to it.
        self.meter.wait();
        Some(opens)
    }

    /// The most that the task may dirty in one go.
    pub(super) fn portion(&self) -> u64 {
        self.portion
    }

    /// The task dirties so many bytes.
    pub(super) fn charge(&mut self, now: Instant, fresh: u64) {
        if fresh > 0 {
            self.meter.charge(now, fresh);
        }
    }
}
