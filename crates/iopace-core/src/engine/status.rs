//! The device as it stands, to be looked at.

use super::{Engine, Status};
use crate::pace::{self, Dirty};
use crate::request::GroupId;
use crate::stats::{DeviceStats, Histogram, TaskAccount};
use crate::table::State;
use crate::time::Instant;
use crate::window;
use core::ops::Range;

impl Engine {
    /// The device as it stands.
    pub fn status(&self) -> Status {
        Status {
            algorithm: self.sched.algorithm,
            inserted: self.inserted,
            params: self.sched.params.clone(),
            disk: self.sched.disk(),
            counters: self.sched.counters(),
            waiting_count: self.table.count(State::Waiting),
            queued_count: self.table.count(State::Queued) + self.table.count(State::Held),
            in_flight_count: self.table.count(State::InFlight),
            totals_count: self.table.totals(),
            nr_requests: self.admit.slots().0,
            window_depth: self.window.depth(),
            window: self.window_policy,
            pace: self.memory.policy,
            paced_count: self.memory.door.live_count(),
            reason: self.reason,
        }
    }

    /// What the device did since the beginning.
    pub fn stats(&self) -> DeviceStats {
        self.stats.stats()
    }

    /// What tasks did: of those that have something here or had at `since` or later, in no order
    /// that means anything. `into` is emptied first; at most `limits::TASK_ACCOUNTS_MAX` and one
    /// more for the tasks that found no room.
    pub fn tasks(&self, since: Instant, into: &mut Vec<TaskAccount>) {
        into.clear();
        into.extend(self.accounting.tasks(since).cloned());
    }

    /// The same of the tasks in these places only, added to `into`; returns how many places there
    /// are. For who would hold the engine up with all of them at once: a task stays in its place
    /// unless it is forgotten meanwhile.
    pub fn tasks_in(
        &self,
        places: Range<usize>,
        since: Instant,
        into: &mut Vec<TaskAccount>,
    ) -> usize {
        let (tasks, places_count) = self.accounting.tasks_in(places, since);
        into.extend(tasks.cloned());
        places_count
    }

    /// Requests and buffered writes that came and have not ended.
    pub fn live_count(&self) -> usize {
        self.table.live() + self.memory.live_count()
    }

    /// Dirty memory of the device, and of a group alone.
    pub fn dirty(&self, group: GroupId) -> Dirty {
        self.memory.flusher.dirty(group)
    }

    /// How stage pace sees the device; dirty memory and its limit are there for every policy.
    pub fn pace_picture(&self) -> pace::Picture {
        let dirty = self.memory.flusher.dirty(GroupId::ROOT);
        let limit = self.memory.frames.budget().device.limit;
        pace::Picture { dirty: dirty.device, limit, ..self.memory.pace.picture(&dirty) }
    }

    /// How stage pace sees a group; `None` if its policy has no view of groups or does not know it.
    pub fn group_pace_picture(&self, id: GroupId) -> Option<pace::Picture> {
        self.memory.pace.group_picture(id, &self.memory.flusher.dirty(id))
    }

    /// How stage window stands.
    pub fn window_picture(&self) -> window::Picture {
        self.window.picture()
    }

    /// The pauses of buffered writes: from the first question for a portion until it went on.
    pub fn pauses(&self) -> &Histogram {
        &self.memory.pauses
    }
}
