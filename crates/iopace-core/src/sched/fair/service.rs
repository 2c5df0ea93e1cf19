//! On a disk with a head: service in one go, and waiting for the next request of who has it.

use super::bound::FEW;
use super::tree::Index;
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

/// The most device time of a go that a light task has to wait for, beside its own request:
/// with a seek and a turn of its own (up to 20 ms at 7200 rpm) it is served within 35 ms.
const LIGHT_BEHIND_MAX: Nanos = Nanos::from_millis(15);

/// A task that came within this time may come again soon: one that asks once a second is seen.
pub(super) const RECENT: Nanos = Nanos::from_secs(1);

/// A go: the task that is served in one go, on a disk with a head, or tasks of one group that each
/// ask for one place after the other, and then the last of them.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) group: GroupId,
    pub(super) task: u32,
    /// Device time of this go in ns, waits included.
    pub(super) used: i64,
    pub(super) bytes: Bytes,
    /// Since when and until when its next request is waited for.
    pub(super) waiting: Option<(Instant, Instant)>,
}

impl Fair {
    /// Whether the go of the task in service is over: used up, or the disk has no head after all.
    fn is_used_up(&self) -> bool {
        self.service.as_ref().is_some_and(|service| {
            service.used >= self.config.quantum.0.cast_signed()
                || service.bytes >= self.config.quantum_bytes
                || !self.model.has_head()
        })
    }

    /// Whether the task in service, which has nothing queued and is waited for, would have the disk
    /// again with its next request: then the end of its go is no reason to give the disk away
    /// meanwhile.
    fn goes_on(&mut self, now: Instant) -> bool {
        let Some(Service { task, waiting, .. }) = self.service else { return false };
        let comes_soon = waiting.map_or_else(|| self.refills(now, task), |(_, until)| now < until);
        let (slot, task) = (self.slot(), &self.tasks[task]);
        let is_waited_for = self.model.has_head() && comes_soon && task.line.is_empty();
        is_waited_for && self.forest.would_lead(task.node, slot)
    }

    /// Whether the task reads in sequence.
    fn is_sequential(&self, task: u32) -> bool {
        let seek = self.tasks[task].line.stats.seek();
        seek.is_some_and(|distance| distance <= SEQUENTIAL_MAX)
    }

    /// How long the task's next request is worth waiting for: only on a disk with a head, and if it
    /// thinks for less than a seek takes. A lost turn costs a sequential task two seeks. One that
    /// flushes is waited for if it thinks for less than `wait_ms`: it has several requests with
    /// pauses in each commit, and a go of the others between two of them is a commit ten times as
    /// long. It pays for the pauses.
    pub(super) fn patience(&self, now: Instant, task: u32) -> Option<Nanos> {
        let line = &self.tasks[task].line;
        let think = line.stats.think()?;
        let (wait, seek) = (self.config.wait, self.model.seek());
        let think_max = if line.is_of_others(now) { wait.min(seek) } else { wait };
        let patience =
            if self.is_sequential(task) { seek.times(2) } else { think.times(4).max(PATIENCE_MIN) };
        let pays = self.model.has_head() && think <= think_max && wait > Nanos::ZERO;
        pays.then_some(wait.min(patience))
    }

    /// A task has nothing more to do: if the go is its own its next request may be waited for.
    #[inline]
    pub(super) fn awaits(&mut self, now: Instant, task: u32) {
        if self.service.as_ref().is_some_and(|service| service.task == task) {
            let patience = self.patience(now, task);
            let Some(service) = self.service.as_mut() else { return };
            service.waiting = patience.map(|patience| (now, now + patience));
        }
    }

    /// Whether the task has requests at the device, and the next one may come as soon as one of
    /// them is done: nothing is lost by keeping the device for them. A task that always has several
    /// is never seen to think.
    fn refills(&self, now: Instant, task: u32) -> bool {
        let line = &self.tasks[task].line;
        let may_be_quick = line.stats.think().is_none() && line.in_flight <= FEW;
        line.in_flight > 0
            && (may_be_quick || self.is_sequential(task) || self.patience(now, task).is_some())
    }

    /// Why the task in service keeps the disk although it has nothing queued; `None` ends its go.
    fn hold(&mut self, now: Instant) -> Option<Pop> {
        let Service { task, waiting, .. } = *self.service.as_ref()?;
        if let Some((since, until)) = waiting {
            if now < until {
                return Some(Pop::At(until, Reason::Anticipation));
            }
            self.wait_miss_count += 1;
            self.correct_go(task, until.since(since).0.cast_signed());
        } else if self.refills(now, task) {
            return Some(Pop::At(Instant::NEVER, Reason::Turn));
        }
        self.service = None;
        None
    }

    /// Whether the task asks for one place after the other: several such tasks lose nothing to each
    /// other in one go, and a disk that orders what it holds serves them all sooner.
    fn is_single(&self, task: u32) -> bool {
        let line = &self.tasks[task].line;
        line.in_flight <= 1 && line.count <= 1 && !self.is_sequential(task)
    }

    /// Whether a task may have part of the go that another had last.
    fn is_of_last(&self, task: u32) -> bool {
        let Some((group, last)) = self.last else { return false };
        let is_group = self.tasks[task].group == group;
        task == last || (is_group && self.is_single(task) && self.is_single(last))
    }

    /// A task has work that had none. `behind`: what is above it and had work already, if it has
    /// had no more than is due to it.
    pub(super) fn comes(&mut self, now: Instant, task: u32, behind: Option<Index>) {
        if !self.model.has_head() || self.is_of_last(task) {
            return;
        }
        self.rival_at = now;
        let Some(Service { task: serviced, .. }) = self.service else { return };
        // Nobody interrupts a higher class.
        let is_behind = behind.is_some_and(|above| {
            let rank = |task: u32| self.forest.rank_below(above, self.tasks[task].node);
            rank(serviced).is_some_and(|of| rank(task).is_some_and(|rank| rank <= of))
        });
        if !is_behind {
            return;
        }
        let line = &self.tasks[task].line;
        if line.stats.think().is_some_and(|think| think > self.config.wait) {
            self.light_at = now;
            self.light.push_back(task);
        } else if !line.is_of_others(now) {
            self.take_over(now, task);
        }
    }

    /// A task that flushes comes back to what is left of its share, having thought for longer than
    /// it was waited for: it has the next go at once if it would have it anyway. Else each longer
    /// pause between the requests of a commit would cost it a whole go of the others.
    fn take_over(&mut self, now: Instant, task: u32) {
        let starve = self.idle_starve(now);
        if self.forest.next(GroupId::ROOT, now, starve) == Some((task, false)) {
            self.service = None;
        }
    }

    /// The next request of a light task, which interrupts the go for it. It pays for the way back
    /// as well, which costs about as much as the way there.
    pub(super) fn interrupt(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        let serviced = self.service.as_ref()?.task;
        while let Some(task) = self.light.pop_front() {
            if task == serviced || self.tasks[task].line.is_empty() {
                continue;
            }
            let next = self.next_of(task, now, table)?;
            let way_back = self.model.cost_at_random(&table[next]).cast_signed();
            self.correct(task, way_back);
            self.correct_go(serviced, -way_back);
            return Some((task, next));
        }
        None
    }

    /// Whether the device has as much of this go as it may: nobody is to wait long behind it.
    fn is_full(&self, now: Instant) -> bool {
        let most = if now < self.light_at + RECENT {
            LIGHT_BEHIND_MAX
        } else if now < self.rival_at + RECENT {
            self.config.quantum
        } else {
            return false;
        };
        let there = self.flight.cost_of_goes;
        there > 0 && there + self.mean / 16 > most.0
    }

    /// A task has the go, or part of it.
    fn had_go(&mut self, group: GroupId, task: u32) {
        self.last = Some((group, task));
        self.tasks.pinned = Some(task);
    }

    /// The go is continued with another task of the group, if both ask for single places.
    fn join(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        let Service { group, task, .. } = *self.service.as_ref()?;
        if !self.is_single(task) {
            return None;
        }
        let starve = self.idle_starve(now);
        let (next, is_starved) = self.forest.next(group, now, starve)?;
        if is_starved || !self.is_of_last(next) {
            return None;
        }
        let service = self.service.as_mut()?;
        (service.task, service.waiting) = (next, None);
        self.had_go(group, next);
        self.next_of(next, now, table).map(|id| (next, id))
    }

    /// A request of a group that is behind its guaranteed rate, if one has work.
    pub(super) fn serve_owed(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        let starve = self.idle_starve(now);
        for id in self.guarantees.owed(now) {
            let Some((task, _)) = self.forest.next(id, now, starve) else {
                continue;
            };
            let next = self.next_of(task, now, table)?;
            self.guarantees.redeem(now, id, &table[next]);
            return Some((task, next));
        }
        None
    }

    /// The next request: of the go, or of who gets the next one. Or why the disk is kept although
    /// there are some.
    #[inline]
    pub(super) fn serve(&mut self, now: Instant, table: &Table) -> Result<Option<Choice>, Pop> {
        if self.service.is_some() { self.go_on(now, table) } else { self.choose(now, table) }
    }

    /// The next request while there is a go: of it, if that may go on.
    #[inline(never)]
    fn go_on(&mut self, now: Instant, table: &Table) -> Result<Option<Choice>, Pop> {
        if self.is_used_up() && !self.goes_on(now) {
            self.service = None;
        }
        if let Some(Service { task, .. }) = self.service
            && !self.forest.is_overruled(now, self.tasks[task].node, self.idle_starve(now))
        {
            if self.is_held_back(now, task, table) {
                self.service = None;
                return self.choose(now, table);
            }
            if self.flight.has_others() || self.is_full(now) {
                return Err(Pop::At(Instant::NEVER, Reason::Turn));
            }
            if let Some(next) = self.next_of(task, now, table) {
                return Ok(Some((task, next)));
            }
            if let Some(next) = self.join(now, table) {
                return Ok(Some(next));
            }
            if let Some(hold) = self.hold(now) {
                return Err(hold);
            }
        }
        self.choose(now, table)
    }

    /// The next request of a task.
    #[inline(never)]
    pub(super) fn next_of(&mut self, task: u32, now: Instant, table: &Table) -> Option<RequestId> {
        let line = &mut self.tasks[task].line;
        self.links.pop(line, now, self.config.expire, table)
    }

    /// Chooses a task by class and share, and gives it the disk for a go if that has a head.
    #[inline(always)]
    fn choose(&mut self, now: Instant, table: &Table) -> Result<Option<Choice>, Pop> {
        let starve = self.idle_starve(now);
        let next = self.forest.descend(GroupId::ROOT, now, starve);
        let Some((task, is_starved)) = next else { return Ok(None) };
        if self.is_held_back(now, task, table) {
            return self.choose_another(now, task, table);
        }
        if is_starved {
            self.idle_served_count += 1;
        } else if self.model.has_head() {
            self.begin_go(task);
            if self.flight.has_others() || self.is_full(now) {
                return Err(Pop::At(Instant::NEVER, Reason::Turn));
            }
        } else {
            self.service = None;
        }
        let line = &mut self.tasks[task].line;
        let next = self.links.pop(line, now, self.config.expire, table);
        Ok(next.map(|id| (task, id)))
    }

    /// Gives a task the disk for a go.
    #[inline(never)]
    fn begin_go(&mut self, task: u32) {
        self.slots_count += 1;
        let has_few = self.tasks[task].line.count <= FEW;
        if !self.is_of_last(task) {
            self.flight.next_go(has_few || self.had_few);
        }
        self.had_few = has_few;
        let group = self.tasks[task].group;
        self.had_go(group, task);
        self.service = Some(Service { group, task, used: 0, bytes: Bytes::ZERO, waiting: None });
    }
}
