//! The tasks that are known, each in its group.

use super::forest::Forest;
use super::queue::Line;
use super::tree::Index;
use crate::limits::TASKS_MAX;
use crate::request::{GroupId, TaskId};
use crate::sched::ordered::Ordered;
use crate::time::{Instant, Nanos};

/// A task without requests is forgotten after this long (geom_sched's expire_secs).
pub(super) const EXPIRE: Nanos = Nanos::from_secs(10);

/// Tasks looked at when there are too many: more and the newcomer would wait for it.
const FORGET_STEPS: usize = 64;

/// A task in a group; in another group it is another.
type Key = (GroupId, TaskId);

/// One task in one group.
#[derive(Debug)]
pub(super) struct Task {
    /// `None`: the place is free.
    key: Option<Key>,
    /// Its leaf in the hierarchy.
    pub(super) node: Index,
    /// Its requests.
    pub(super) line: Line,
}

/// All tasks, by number.
#[derive(Debug, Default)]
pub(super) struct Roster {
    tasks: Vec<Task>,
    free: Vec<u32>,
    by_key: Ordered<Key, u32>,
    /// The task that a request came from last, by the place of the task's account: mostly the same
    /// again. Without accounts all have one place.
    latest: Vec<u32>,
    /// The task to look at next for one to forget.
    hand: usize,
    /// This one is not forgotten.
    pub(super) pinned: Option<u32>,
}

impl Roster {
    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn get(&self, task: u32) -> &Task {
        &self.tasks[task as usize]
    }

    pub(super) fn get_mut(&mut self, task: u32) -> &mut Task {
        &mut self.tasks[task as usize]
    }

    /// The number of a task that has a request, made if there is none; its account is at `place`.
    ///
    /// Each call looks at one task and forgets it if it is idle, which keeps up with any number of
    /// new ones.
    pub(super) fn enter(
        &mut self,
        forest: &mut Forest,
        now: Instant,
        key: Key,
        place: usize,
    ) -> u32 {
        self.forget_one(forest, now, EXPIRE);
        let latest = self.latest.get(place).copied().unwrap_or(u32::MAX);
        if self.tasks.get(latest as usize).is_some_and(|task| task.key == Some(key)) {
            return latest;
        }
        let task = self.by_key.get(&key).unwrap_or_else(|| self.make(forest, now, key));
        if place >= self.latest.len() {
            self.latest.resize(place + 1, u32::MAX);
        }
        self.latest[place] = task;
        task
    }

    /// A number for a task that has none.
    fn make(&mut self, forest: &mut Forest, now: Instant, key: Key) -> u32 {
        for _ in 0..FORGET_STEPS {
            if self.by_key.len() < TASKS_MAX {
                break;
            }
            self.forget_one(forest, now, Nanos::ZERO);
        }
        let task = self.free.pop().unwrap_or(self.tasks.len() as u32);
        let node = forest.insert_task(key.0, task);
        let entry = Task { key: Some(key), node, line: Line::default() };
        match self.tasks.get_mut(task as usize) {
            Some(place) => *place = entry,
            None => self.tasks.push(entry),
        }
        self.by_key.insert(key, task);
        task
    }

    /// Forgets the idle tasks of a group.
    pub(super) fn leave(&mut self, forest: &mut Forest, group: GroupId) {
        let mut at = (group, TaskId(0));
        while let Some((key, task)) = self.by_key.from(&at).filter(|(key, _)| key.0 == group) {
            self.forget(forest, task);
            let Some(next) = key.1.0.checked_add(1) else { break };
            at = (group, TaskId(next));
        }
    }

    /// Looks at one task and forgets it if it was not heard of for `age`.
    fn forget_one(&mut self, forest: &mut Forest, now: Instant, age: Nanos) {
        self.hand = if self.hand + 1 < self.tasks.len() { self.hand + 1 } else { 0 };
        let task = self.tasks.get(self.hand);
        if task.is_some_and(|task| now.since(task.line.stats.last_used()) >= age) {
            self.forget(forest, self.hand as u32);
        }
    }

    /// Forgets a task if nothing of it is queued, in flight or waited for.
    fn forget(&mut self, forest: &mut Forest, task: u32) {
        let entry = &mut self.tasks[task as usize];
        if !entry.line.is_unused() || self.pinned == Some(task) {
            return;
        }
        if let Some(key) = entry.key.take() {
            self.by_key.remove(&key);
            forest.remove_task(entry.node);
            self.free.push(task);
        }
    }
}
