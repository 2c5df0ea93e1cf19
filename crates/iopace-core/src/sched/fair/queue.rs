//! The queued requests, by task: in order of arrival, on a disk with a head by position.
//!
//! A task's requests are a list in order of arrival, through the engine's table. Those that
//! come while the disk is known to have a head are also in their task's index by position (C-LOOK:
//! upwards from the end of the task's last request, then from the lowest).

use super::bound::RECENT;
use super::cost::Model;
use super::load::{FEW, FairLoad};
use super::rows::Rows;
use crate::request::{Position, RequestId, Space};
use crate::sched::sorted::Sorted;
use crate::sched::tasks::TaskStats;
use crate::table::{List, Request, Table};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// The age of a task's requests is looked at again after this long at the soonest, as serving by
/// age costs a seek each (as in `rr`).
const AGES_AGAIN: Nanos = Nanos::from_secs(1);

/// A mean distance up to which a task counts as sequential (gsched_rr).
const SEQUENTIAL_MAX: Bytes = Bytes::from_kib(8);

/// Shortest wait for the next request of a task: it needs a switch to it and back, however little
/// it thinks, and more on a host with other work. A lost turn costs ten times that.
const PATIENCE_MIN: Nanos = Nanos::from_millis(1);

/// Bounds of [`TaskQueue::ratio`]: a fourth, as NCQ with 31 gains less than three times, and twice.
const RATIO_MIN: u64 = 64;
const RATIO_MAX: u64 = 512;

/// The requests of one task.
#[derive(Debug)]
#[repr(C)]
pub(super) struct TaskQueue {
    queued: List,
    /// Requests at the device.
    pub(super) in_flight: u32,
    /// Requests that a guarantee pays for, which wait elsewhere.
    pub(super) reserved: u32,
    /// The true cost of its requests over that of the model, in 256ths: a disk that has many of
    /// them at once and orders them itself (NCQ) does each sooner than those of a task with one.
    pub(super) ratio: u16,
    /// Whether it is among those who may pass others.
    pub(super) is_listed: bool,
    /// The space of the task's last request, while there is no index.
    space: Space,
    /// All that it has, wherever that is.
    pub(super) load: FairLoad,
    /// The end of that request in its space.
    offset: Bytes,
    /// Those that are indexed, from the first one that was on.
    sorted: Option<Box<Sorted>>,
    pub(super) stats: TaskStats,
    /// When it last flushed.
    pub(super) flushed: Option<Instant>,
    /// Before then none can have been passed over for too long.
    ages_at: Instant,
}

impl Default for TaskQueue {
    fn default() -> TaskQueue {
        TaskQueue {
            queued: List::default(),
            in_flight: 0,
            reserved: 0,
            ratio: 256,
            is_listed: false,
            space: Space::DISK,
            load: FairLoad::default(),
            offset: Bytes::ZERO,
            sorted: None,
            stats: TaskStats::default(),
            flushed: None,
            ages_at: Instant::ZERO,
        }
    }
}

impl TaskQueue {
    /// Bytes that a choice needs.
    pub(super) const HOT: usize = std::mem::offset_of!(TaskQueue, stats);

    /// The index, made if there is none.
    #[inline(never)]
    fn index(&mut self) -> &mut Sorted {
        let position = self.position();
        self.sorted.get_or_insert_with(|| {
            let mut sorted = Sorted::default();
            sorted.set_position(position);
            Box::new(sorted)
        })
    }

    /// A request of it that goes to the device ends there.
    #[inline]
    pub(super) fn set_position(&mut self, position: Position) {
        match &mut self.sorted {
            Some(sorted) => sorted.set_position(position),
            None => (self.space, self.offset) = (position.space, position.offset),
        }
    }

    /// Where the last one ended.
    fn position(&self) -> Position {
        let TaskQueue { space, offset, .. } = *self;
        self.sorted.as_ref().map_or(Position { space, offset }, |sorted| sorted.position())
    }

    /// Whether it has no queued request.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }

    /// A go of it that had the device to itself took this, in 256ths of what was expected of it.
    pub(super) fn learn(&mut self, ratio: u64) {
        let old = u64::from(self.ratio);
        let seen = old * ratio / 256;
        self.ratio = ((3 * old + seen) / 4).clamp(RATIO_MIN, RATIO_MAX) as u16;
    }

    /// Whether it has not flushed of late: see `flushes`.
    #[inline]
    pub(super) fn is_of_others(&self, now: Instant) -> bool {
        self.flushed.is_none_or(|flushed| now.since(flushed) > RECENT)
    }

    /// Whether the task reads in sequence.
    pub(super) fn is_sequential(&self) -> bool {
        self.stats.seek().is_some_and(|distance| distance <= SEQUENTIAL_MAX)
    }

    /// Whether the task asks for one place after the other: several such tasks lose nothing to each
    /// other in one go, and a disk that orders what it holds serves them all sooner.
    pub(super) fn is_single(&self) -> bool {
        self.in_flight <= 1 && self.count() <= 1 && !self.is_sequential()
    }

    /// How long the task's next request is worth waiting for, `wait` at most: only on a disk with a
    /// head, and if it thinks for less than a seek takes. A lost turn costs a sequential task two
    /// seeks. One that flushes is waited for if it thinks for less than `wait`: it has several
    /// requests with pauses in each commit, and a go of the others between two of them is a commit
    /// ten times as long. It pays for the pauses.
    pub(super) fn patience(&self, now: Instant, wait: Nanos, model: &Model) -> Option<Nanos> {
        let (think, seek) = (self.stats.think()?, model.seek());
        let think_max = if self.is_of_others(now) { wait.min(seek) } else { wait };
        let patience =
            if self.is_sequential() { seek.times(2) } else { think.times(4).max(PATIENCE_MIN) };
        let pays = model.has_head() && think <= think_max && wait > Nanos::ZERO;
        pays.then_some(wait.min(patience))
    }

    /// Whether the task has requests at the device, and the next one may come as soon as one of
    /// them is done: nothing is lost by keeping the device for them. A task that always has several
    /// is never seen to think.
    pub(super) fn refills(&self, now: Instant, wait: Nanos, model: &Model) -> bool {
        let may_be_quick = self.stats.think().is_none() && self.in_flight <= FEW;
        let pays = || self.patience(now, wait, model).is_some();
        self.in_flight > 0 && (may_be_quick || self.is_sequential() || pays())
    }

    /// How many requests are queued here.
    pub(super) fn count(&self) -> u32 {
        self.load.requests() - self.in_flight - self.reserved
    }

    /// Whether nothing of the task is queued or at the device.
    pub(super) fn is_unused(&self) -> bool {
        self.load.requests() == 0
    }
}

impl TaskQueue {
    /// Takes a request in at the end.
    #[inline(always)]
    pub(super) fn push(&mut self, id: RequestId, rows: &Rows, table: &Table) {
        self.queued.push(id, table);
        if rows[id.slot].is_indexed {
            self.index().push(id, table);
        }
    }

    /// The first request to have come.
    pub(super) fn first(&self, table: &Table) -> Option<RequestId> {
        self.queued.first(table)
    }

    /// The next request: the nearest upwards, or the first to come if there is no index or others
    /// have gone before it for `expire`.
    #[inline(always)]
    pub(super) fn pop_request<'a>(
        &mut self,
        now: Instant,
        expire: Nanos,
        rows: &Rows,
        table: &'a Table,
    ) -> Option<(RequestId, &'a Request)> {
        if rows.is_indexed(self.queued.first_slot()) {
            let id = self.pop_nearest(now, expire, rows, table)?;
            return Some((id, &table[id]));
        }
        self.queued.pop_request(table)
    }

    /// Only its name.
    pub(super) fn pop(
        &mut self,
        now: Instant,
        expire: Nanos,
        rows: &Rows,
        table: &Table,
    ) -> Option<RequestId> {
        Some(self.pop_request(now, expire, rows, table)?.0)
    }

    #[inline(never)]
    fn pop_nearest(
        &mut self,
        now: Instant,
        expire: Nanos,
        rows: &Rows,
        table: &Table,
    ) -> Option<RequestId> {
        let first = self.queued.first(table)?;
        let is_nearest = !self.is_due(table[first].arrived(), now, expire);
        let nearest = if is_nearest { self.index().pop(table) } else { None };
        let id = nearest.unwrap_or(first);
        self.queued.remove(id, table);
        if nearest.is_none() && rows[id.slot].is_indexed {
            self.index().take(id, table);
        }
        Some(id)
    }

    /// Takes one out that goes in one command with the last one popped. Whether it was there.
    pub(super) fn join(&mut self, id: RequestId, rows: &Rows, table: &Table) -> bool {
        if rows[id.slot].is_indexed && !self.index().join(id, table) {
            return false;
        }
        self.queued.remove(id, table);
        self.set_position(self.position().max(table[id].end()));
        true
    }

    /// Whether the first one, which came at `arrived`, has been passed over for `expire`; at most
    /// once a second.
    fn is_due(&mut self, arrived: Instant, now: Instant, expire: Nanos) -> bool {
        if now < self.ages_at {
            return false;
        }
        let due = arrived + expire;
        self.ages_at = due.max(now + AGES_AGAIN);
        due <= now
    }
}
