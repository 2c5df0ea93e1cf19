//! The tasks that are known, each in its group.

use super::forest::Forest;
use super::queue::TaskQueue;
use super::tree::Index;
use crate::limits::TASKS_MAX;
use crate::request::{GroupId, TaskId};
use crate::sched::roster::Roster;
use crate::time::{Instant, Nanos};
use core::ops::{Deref, DerefMut};

/// A task without requests is forgotten after this long (geom_sched's expire_secs).
pub(super) const EXPIRE: Nanos = Nanos::from_secs(10);

/// Tasks looked at when there are too many: more and the newcomer would wait for it.
const FORGET_STEPS: usize = 64;

/// A task in a group; in another group it is another.
type FairTaskKey = (GroupId, TaskId);

/// One task in one group. All of it that a choice needs is in its first 64 bytes, a line of the
/// processor's cache.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct FairTask {
    pub(super) group: GroupId,
    /// Its leaf in the hierarchy.
    pub(super) node: Index,
    /// Its requests.
    pub(super) line: TaskQueue,
}

const _: () = assert!(FairTask::HOT == 64 && size_of::<FairTask>() <= 168);

impl FairTask {
    /// Bytes that a choice needs.
    const HOT: usize = std::mem::offset_of!(FairTask, line) + TaskQueue::HOT;
}

/// All tasks, by number.
#[derive(Debug, Default)]
pub(super) struct FairTasks {
    roster: Roster<FairTaskKey, FairTask>,
    /// The task that was looked at last for one to forget.
    hand: usize,
    /// Until then none is old enough to be forgotten for its age.
    quiet_until: Instant,
    /// Since then all that were looked at in this round have been idle at most, and how many these
    /// are.
    oldest: Instant,
    looked_at: usize,
    /// This one, which had the last go, is not forgotten.
    pub(super) pinned: Option<u32>,
}

impl FairTasks {
    /// The number of a task that has a request, made if there is none.
    ///
    /// Each call looks at one task, if any can be old enough, and forgets it if it is idle, which
    /// keeps up with any number of new ones.
    #[inline]
    pub(super) fn enter(&mut self, forest: &mut Forest, now: Instant, key: FairTaskKey) -> u32 {
        self.turn_hand();
        if now >= self.quiet_until {
            self.look(forest, now);
        }
        match self.roster.find(key) {
            Some(task) => task,
            None => self.make(forest, now, key),
        }
    }

    /// A number for a task that has none.
    #[cold]
    fn make(&mut self, forest: &mut Forest, now: Instant, key: FairTaskKey) -> u32 {
        for _ in 0..FORGET_STEPS {
            if self.roster.len() < TASKS_MAX {
                break;
            }
            // These are not looked at in the round.
            self.looked_at = 0;
            self.turn_hand();
            self.forget_old(forest, now, Nanos::ZERO);
        }
        self.roster.insert(key, |task| {
            let node = forest.insert_task(key.0, task);
            FairTask { group: key.0, node, line: TaskQueue::default() }
        })
    }

    /// Forgets the idle tasks of a group.
    pub(super) fn leave(&mut self, forest: &mut Forest, group: GroupId) {
        let tasks = self.roster.from((group, TaskId(0))).take_while(|((id, _), _)| *id == group);
        let tasks: Vec<u32> = tasks.map(|(_, task)| task).collect();
        tasks.into_iter().for_each(|task| self.forget(forest, task));
    }

    #[inline]
    fn turn_hand(&mut self) {
        self.hand = if self.hand + 1 < self.roster.numbers_count() { self.hand + 1 } else { 0 };
    }

    /// Looks at one task, and finds out in a round how long it is quiet. A task that comes in
    /// meanwhile, or has something to do, is used later than now.
    #[inline(never)]
    fn look(&mut self, forest: &mut Forest, now: Instant) {
        self.forget_old(forest, now, EXPIRE);
        if self.looked_at == 0 {
            self.oldest = now;
        }
        let task = self.hand as u32;
        let line = self.roster.get(task).map(|task| &task.line);
        let idle = line.filter(|line| line.is_unused() && self.roster.is_known(task));
        self.oldest = idle.map_or(now, |line| line.stats.last_used()).min(self.oldest);
        self.looked_at += 1;
        if self.looked_at >= self.roster.numbers_count() {
            (self.quiet_until, self.looked_at) = (self.oldest + EXPIRE, 0);
        }
    }

    /// Forgets the task that is looked at if it was not heard of for `age`.
    fn forget_old(&mut self, forest: &mut Forest, now: Instant, age: Nanos) {
        let task = self.roster.get(self.hand as u32);
        if task.is_some_and(|task| now.since(task.line.stats.last_used()) >= age) {
            self.forget(forest, self.hand as u32);
        }
    }

    /// Forgets a task if nothing of it is queued, in flight or waited for.
    #[cold]
    fn forget(&mut self, forest: &mut Forest, task: u32) {
        if self[task].line.is_unused() && self.pinned != Some(task) && self.roster.remove(task) {
            forest.remove_task(self[task].node);
        }
    }
}

impl Deref for FairTasks {
    type Target = Roster<FairTaskKey, FairTask>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.roster
    }
}

impl DerefMut for FairTasks {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.roster
    }
}
