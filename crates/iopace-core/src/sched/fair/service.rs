//! On a disk with a head: service in one go, and waiting for the next request of who has it.

use super::{Choice, Fair};
use crate::request::{GroupId, RequestId};
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
        let (slot, task) = (self.slot(), &self.tasks[task]);
        let is_waited_for = self.model.has_head() && now < until && task.line.is_empty();
        is_waited_for && self.forest.would_lead(task.node, slot)
    }

    /// Whether the task reads in sequence.
    pub(super) fn is_sequential(&self, task: u32) -> bool {
        let seek = self.tasks[task].line.stats.seek();
        seek.is_some_and(|distance| distance <= SEQUENTIAL_MAX)
    }

    /// How long the task's next request is worth waiting for: only on a disk with a head, and if it
    /// thinks for less than a seek takes. A lost turn costs a sequential task two seeks.
    pub(super) fn patience(&self, task: u32) -> Option<Nanos> {
        let think = self.tasks[task].line.stats.think()?;
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
        } else if self.tasks[task].line.in_flight > 0
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
    #[inline]
    pub(super) fn serve_owed(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        if self.guarantees.is_empty() {
            return None;
        }
        for id in self.guarantees.owed(now) {
            let Some((task, _)) = self.forest.next(id, now, self.config.idle_starve) else {
                continue;
            };
            let next = self.next_of(task, now, table)?;
            self.guarantees.redeem(now, id, &table[next]);
            return Some((task, next));
        }
        None
    }

    /// The next request of the task in service, `None` if its go is over, or why it keeps the disk
    /// although it has nothing queued.
    pub(super) fn serve(&mut self, now: Instant, table: &Table) -> Result<Option<Choice>, Pop> {
        if self.is_used_up() && !self.goes_on(now) {
            self.service = None;
        }
        let Some(Service { task, .. }) = self.service else { return Ok(None) };
        if self.forest.is_overruled(now, self.tasks[task].node, self.config.idle_starve) {
            return Ok(None);
        }
        match self.next_of(task, now, table) {
            Some(next) => Ok(Some((task, next))),
            None => self.hold(now).map_or(Ok(None), Err),
        }
    }

    /// The next request of a task.
    #[inline]
    fn next_of(&mut self, task: u32, now: Instant, table: &Table) -> Option<RequestId> {
        let line = &mut self.tasks[task].line;
        self.links.pop(line, now, self.config.expire, table)
    }

    /// Chooses a task by class and share, and gives it the disk for a go if that has a head.
    #[inline]
    pub(super) fn choose(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        let next = self.forest.next(GroupId::ROOT, now, self.config.idle_starve);
        let (task, is_starved) = next?;
        if is_starved {
            self.idle_served_count += 1;
        } else if self.model.has_head() {
            self.slots_count += 1;
            self.service = Some(Service { task, used: 0, bytes: Bytes::ZERO, waiting: None });
        } else {
            self.service = None;
        }
        self.next_of(task, now, table).map(|id| (task, id))
    }
}
