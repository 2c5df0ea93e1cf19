//! On a disk with a head: service in one go, and waiting for the next request of who has it.

use super::Fair;
use crate::request::RequestId;
use crate::table::Table;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::{Pop, Reason};

/// A mean distance up to which a task counts as sequential (gsched_rr).
const SEQUENTIAL_MAX: Bytes = Bytes::from_kib(8);

/// Shortest wait for the next request of a task: it needs a switch to it and back, however little
/// it thinks, and more on a host with other work. A lost turn costs ten times that.
const PATIENCE_MIN: Nanos = Nanos::from_millis(1);

/// The task that is served in one go, on a disk with a head.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) task: u32,
    /// Device time of this go in ns, waits included.
    pub(super) used: i64,
    pub(super) bytes: Bytes,
    /// Since when and until when its next request is waited for.
    pub(super) waiting: Option<(Instant, Instant)>,
}

impl Fair {
    /// Whether the go of the task in service is over: used up, or the disk has no head after all.
    pub(super) fn is_used_up(&self) -> bool {
        self.service.as_ref().is_some_and(|service| {
            service.used >= self.config.quantum.0.cast_signed()
                || service.bytes >= self.config.quantum_bytes
                || !self.model.has_head()
        })
    }

    /// Whether the task in service, waited for, would have the disk again with its next request:
    /// then the end of its go is no reason to give the disk away meanwhile.
    pub(super) fn goes_on(&mut self, now: Instant) -> bool {
        let Some(Service { task, waiting: Some((_, until)), .. }) = self.service else {
            return false;
        };
        let (slot, task) = (self.slot(), self.roster.get(task));
        let is_waited_for = self.model.has_head() && now < until && task.line.is_empty();
        is_waited_for && self.forest.would_lead(task.node, slot)
    }

    /// Whether the task reads in sequence.
    pub(super) fn is_sequential(&self, task: u32) -> bool {
        let seek = self.roster.get(task).line.stats.seek();
        seek.is_some_and(|distance| distance <= SEQUENTIAL_MAX)
    }

    /// How long the task's next request is worth waiting for: only on a disk with a head, and if it
    /// thinks for less than a seek takes. A lost turn costs a sequential task two seeks.
    pub(super) fn patience(&self, task: u32) -> Option<Nanos> {
        let think = self.roster.get(task).line.stats.think()?;
        let (wait, seek) = (self.config.wait, self.model.seek());
        let patience =
            if self.is_sequential(task) { seek.times(2) } else { think.times(4).max(PATIENCE_MIN) };
        let pays = self.model.has_head() && think <= wait.min(seek) && wait > Nanos::ZERO;
        pays.then_some(wait.min(patience))
    }

    /// Why the task in service keeps the disk although it has nothing queued; `None` ends its go.
    pub(super) fn hold(&mut self, now: Instant) -> Option<Pop> {
        let Service { task, waiting, .. } = *self.service.as_ref()?;
        if let Some((since, until)) = waiting {
            if now < until {
                return Some(Pop::At(until, Reason::Anticipation));
            }
            self.wait_miss_count += 1;
            self.correct(task, until.since(since).0.cast_signed());
        } else if self.roster.get(task).line.in_flight > 0
            && (self.is_sequential(task) || self.is_crowded())
            && self.patience(task).is_some()
        {
            return Some(Pop::At(Instant::NEVER, Reason::Turn));
        }
        self.service = None;
        None
    }

    /// Whether some tasks have many requests: beside them one request at a time is lost in the
    /// device's queue, which is ordered by position alone.
    fn is_crowded(&self) -> bool {
        self.len + self.flying_count > 2 * self.busy_tasks
    }

    /// A request of a group that is behind its guaranteed rate, if one has work.
    pub(super) fn serve_owed(&mut self, now: Instant, table: &Table) -> Option<(u32, RequestId)> {
        if self.guarantees.is_empty() {
            return None;
        }
        for id in self.guarantees.owed(now) {
            let Some(choice) = self.forest.next_below(id, now, self.config.idle_starve) else {
                continue;
            };
            let next = self.next_of(choice.task, now, table)?;
            self.guarantees.redeem(now, id, &table[next]);
            return Some((choice.task, next));
        }
        None
    }

    /// The next request of the task in service.
    pub(super) fn serve(&mut self, now: Instant, table: &Table) -> Option<(u32, RequestId)> {
        let task = self.service.as_ref()?.task;
        self.next_of(task, now, table).map(|id| (task, id))
    }

    /// The next request of a task.
    fn next_of(&mut self, task: u32, now: Instant, table: &Table) -> Option<RequestId> {
        let line = &mut self.roster.get_mut(task).line;
        self.links.pop(line, now, self.config.expire, table)
    }

    /// Chooses a task by class and share, and gives it the disk for a go if that has a head.
    pub(super) fn choose(&mut self, now: Instant, table: &Table) -> Option<(u32, RequestId)> {
        let choice = self.forest.next(now, self.config.idle_starve)?;
        if choice.is_starved {
            self.idle_served_count += 1;
        } else {
            let go = Service { task: choice.task, used: 0, bytes: Bytes::ZERO, waiting: None };
            self.service = self.model.has_head().then_some(go);
            self.slots_count += u64::from(self.service.is_some());
        }
        self.next_of(choice.task, now, table).map(|id| (choice.task, id))
    }
}
