//! The choice of the next request.

use super::flight::{Choice, Turn, UNTIL_DONE};
use super::forest::Sight;
use super::load::Side;
use super::rows::Right;
use super::tasks::FairTask;
use super::tree::Index;
use super::{Fair, Pop};
use crate::request::GroupId;
use crate::table::Table;
use crate::time::{Instant, Nanos};
use crate::verdict::Reason;

/// Most tasks that are held back and passed over in one choice.
const ASIDE_MAX: usize = 4;

/// The same with those of class idle, of whom each stands for all in its group, once so many others
/// have been passed over: class idle never keeps others from the disk by its number.
const ASIDE_WITH_IDLE_MAX: usize = 16;

/// Most tasks that are looked at in one choice for one that may pass those that are held back.
const PASS_STEPS: usize = 16;

impl Fair {
    // Goes.

    /// Whether the task in service, which has nothing queued and is waited for, would have the disk
    /// again with its next request: then the end of its go is no reason to give the disk away
    /// meanwhile.
    fn goes_on(&mut self, now: Instant, task: u32) -> bool {
        let (slot, FairTask { node, line, .. }) = (self.slot(), &self.tasks[task]);
        let refills = || line.refills(now, self.config.wait, &self.model);
        let comes_soon = self.goes.waiting().map_or_else(refills, |(_, until)| now < until);
        let is_waited_for = self.model.has_head() && comes_soon && line.is_empty();
        is_waited_for && self.forest.would_lead(*node, slot)
    }

    /// A task has nothing more to do: if the go is its own its next request may be waited for.
    #[inline]
    pub(super) fn awaits(&mut self, now: Instant, task: u32) {
        if self.goes.task() == Some(task) {
            let line = &self.tasks[task].line;
            self.goes.wait(now, line.patience(now, self.config.wait, &self.model));
        }
    }

    /// Why the task in service keeps the disk although it has nothing queued; `None` ends its go.
    fn hold(&mut self, now: Instant, task: u32) -> Option<Pop> {
        if let Some((since, until)) = self.goes.waiting() {
            if now < until {
                return Some(Pop::At(until, Reason::Anticipation));
            }
            self.wait_miss_count += 1;
            self.correct_go(task, until.since(since).0.cast_signed());
        } else if self.tasks[task].line.refills(now, self.config.wait, &self.model) {
            return Some(UNTIL_DONE);
        }
        self.goes.end();
        None
    }

    /// A task has work that had none. `behind`: what is above it and had work already, if it has
    /// had no more than is due to it.
    pub(super) fn comes(&mut self, now: Instant, task: u32, behind: Option<Index>) {
        if !self.model.has_head() || self.goes.is_of_last(&self.tasks, task) {
            return;
        }
        let Some(serviced) = self.goes.rival_comes(now) else { return };
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
            self.goes.light_comes(now, task);
        } else if !line.is_of_others(now)
            && self.next_task(now, GroupId::ROOT) == Some((task, false))
        {
            // A task that flushes comes back to what is left of its share, having thought for
            // longer than it was waited for: it has the next go at once if it would have it anyway.
            // Else each longer pause between the requests of a commit would cost it a whole go of
            // the others.
            self.goes.end();
        }
    }

    /// The next request of a light task, which interrupts the go for it. It pays for the way back
    /// as well, which costs about as much as the way there.
    #[inline(never)]
    fn interrupt(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        let serviced = self.goes.task()?;
        while let Some(task) = self.goes.pop_light() {
            if task == serviced || self.tasks[task].line.is_empty() {
                continue;
            }
            let next = self.next_of(task, now, table)?;
            let way_back = self.model.cost_at_random(&table[next.id]).cast_signed();
            self.correct(task, way_back);
            self.correct_go(serviced, -way_back);
            return Some(Choice { right: Some(Right::Light), ..next });
        }
        None
    }

    /// Whether nothing of this go joins what the device has: something of others is there, or as
    /// much of it as may be.
    fn stands_back(&self, now: Instant) -> bool {
        let (there, more) = (self.flight.cost_of_goes, self.mean / 16);
        self.flight.has_others() || self.goes.is_full(now, &self.config, there, more)
    }

    /// The go is continued with another task of the group, if both ask for single places.
    fn join(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        let FairTask { group, line, .. } = &self.tasks[self.goes.task()?];
        if !line.is_single() {
            return None;
        }
        let (next, is_starved) = self.next_task(now, *group)?;
        if is_starved || !self.goes.is_of_last(&self.tasks, next) {
            return None;
        }
        self.goes.join(&mut self.tasks, next);
        self.next_of(next, now, table)
    }

    /// The next request while a task has a go: of it, if that may go on; `None` if another one has
    /// its turn.
    fn go_on(&mut self, now: Instant, task: u32, table: &Table) -> Option<Turn> {
        let is_over = self.goes.is_used_up(&self.config) || !self.model.has_head();
        if is_over && !self.goes_on(now, task) {
            self.goes.end();
        } else if !self.forest.is_overruled(now, self.tasks[task].node, self.idle_starve(now)) {
            if self.is_held_back(now, task, table) {
                self.goes.end();
                return None;
            }
            if self.stands_back(now) {
                return Some(Err(UNTIL_DONE));
            }
            let next = self.next_of(task, now, table).or_else(|| self.join(now, table));
            if next.is_some() {
                return Some(Ok(next));
            }
            return self.hold(now, task).map(Err);
        }
        None
    }

    /// After how long class idle goes before others: never while the disk has its most of it.
    #[inline]
    fn idle_starve(&self, now: Instant) -> Nanos {
        if self.sides.is_idle_full(now) { Nanos(u64::MAX) } else { self.config.idle_starve }
    }

    /// The task of a group that is next, and whether it goes before a busier class as it has waited
    /// for so long.
    fn next_task(&mut self, now: Instant, group: GroupId) -> Option<(u32, bool)> {
        let starve = self.idle_starve(now);
        self.forest.next(group, now, starve)
    }

    /// The next request of a task, by its own right.
    #[inline(never)]
    fn next_of(&mut self, task: u32, now: Instant, table: &Table) -> Option<Choice> {
        let line = &mut self.tasks[task].line;
        let id = line.pop(now, self.config.expire, &self.rows, table)?;
        Some(Choice { task, id, right: None })
    }

    /// A request of a group that is behind its guaranteed rate, if one has work.
    fn serve_owed(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        for group in self.guarantees.owed(now) {
            let Some((task, _)) = self.next_task(now, group) else {
                continue;
            };
            let next = self.next_of(task, now, table)?;
            self.guarantees.redeem(now, group, &table[next.id]);
            return Some(next);
        }
        None
    }

    /// The task that is next if nothing but shares decides on it, which is the most usual case: see
    /// [`Fair::serve`] for all others.
    #[inline(always)]
    pub(super) fn by_share(&mut self, now: Instant) -> Option<u32> {
        let is_plain = !self.model.has_head() && self.goes.task().is_none() && self.len > 0;
        let is_first = !self.reserved.is_empty() || !self.guarantees.is_empty();
        let [is_flushing, is_bound, is_idle_full] = self.what_is_full(now);
        if !is_plain || is_first || is_flushing || is_bound || is_idle_full {
            return None;
        }
        let starve = self.config.idle_starve;
        let (task, is_starved) = self.forest.descend(GroupId::ROOT, now, starve)?;
        (!is_starved).then_some(task)
    }

    /// The next request: one that goes first, of the go, or of who gets the next one. Or why the
    /// disk is kept although there are some.
    #[inline(never)]
    fn serve(&mut self, now: Instant, table: &Table) -> Turn {
        if self.len == 0 {
            return Ok(None);
        }
        if self.model.has_head()
            && let Some(until) = self.flushes.hold(now)
        {
            return Err(Pop::At(until, Reason::Turn));
        }
        if let Some(first) = self.preferred(now, table) {
            return Ok(Some(first));
        }
        let going = self.goes.task().and_then(|task| self.go_on(now, task, table));
        going.unwrap_or_else(|| self.choose(now, table))
    }

    /// A request that goes first: a guarantee pays for it, or it interrupts a go.
    fn preferred(&mut self, now: Instant, table: &Table) -> Option<Choice> {
        let guaranteed = match self.reserved.pop(table) {
            Some(id) => {
                let task = self.rows[id.slot].task;
                self.tasks[task].line.reserved -= 1;
                Some(Choice { task, id, right: None })
            }
            None => self.serve_owed(now, table),
        };
        let Some(first) = guaranteed else { return self.interrupt(now, table) };
        self.reserved_count += 1;
        Some(Choice { right: Some(Right::Other), ..first })
    }

    /// The next request where more than shares decides on it.
    #[inline(never)]
    pub(super) fn pop_chosen(&mut self, now: Instant, table: &Table) -> Pop {
        let Choice { task, id, right } = match self.serve(now, table) {
            Ok(Some(choice)) => choice,
            Ok(None) => return Pop::Empty,
            Err(hold) => return hold,
        };
        self.starts::<false>(now, task, Some((id, right)), table);
        Pop::Ready(id)
    }

    /// Chooses a task by class and share, and gives it the disk for a go if that has a head.
    fn choose(&mut self, now: Instant, table: &Table) -> Turn {
        let Some((task, is_starved)) = self.next_task(now, GroupId::ROOT) else {
            return Ok(None);
        };
        if self.is_held_back(now, task, table) {
            return self.choose_another(now, task, table);
        }
        if is_starved {
            self.idle_served_count += 1;
        } else if self.model.has_head() {
            if let Some(is_alone) = self.goes.begin(&mut self.tasks, task) {
                self.flight.next_go(is_alone);
            }
            if self.stands_back(now) {
                return Err(UNTIL_DONE);
            }
        } else {
            self.goes.end();
        }
        Ok(self.next_of(task, now, table))
    }

    /// On which side a task is at present, and how its group stands.
    #[inline]
    pub(super) fn side_of(&self, task: u32) -> (Side, &Sight) {
        let FairTask { group, line, .. } = &self.tasks[task];
        let sight = self.forest.sight(*group);
        (sight.side(&line.load, self.sides.few_piece()), sight)
    }

    /// Whether the disk has as much as it may of writes beside flushes, of the many, and of class
    /// idle.
    #[inline(always)]
    fn what_is_full(&self, now: Instant) -> [bool; 3] {
        let is_flushing = self.flushes.hold_writes(now, true).is_some();
        let is_bound = !self.model.has_head() && self.sides.is_bound(now);
        let is_idle_full = self.sides.is_idle_full(now)
            || self.flushes.holds_idle(now)
            || self.idle_grace(now).is_some();
        [is_flushing, is_bound, is_idle_full]
    }

    /// Until when class idle leaves a disk with a head to who flushes again soon, if nobody else
    /// has a request: who has one goes by class and weight.
    #[inline(always)]
    fn idle_grace(&self, now: Instant) -> Option<Instant> {
        let is_of_idle = self.model.has_head() && self.sides.idle_queued() == self.len;
        let grace = self.flushes.grace(now).filter(|_| is_of_idle)?;
        let until = grace.min(self.sides.idle_due(self.config.idle_starve));
        (now < until).then_some(until)
    }

    /// Whether nothing of the task may join what the disk has of its side. Nobody is held back for
    /// a lower class.
    fn is_held_back(&self, now: Instant, task: u32, table: &Table) -> bool {
        let [is_flushing, is_bound, is_idle_full] = self.what_is_full(now);
        let (side, &Sight { rank, .. }) = self.side_of(task);
        let is_full = match side {
            Side::Few => return false,
            Side::Many => is_bound && rank >= self.sides.few_rank(),
            Side::Idle => is_idle_full || is_bound,
        };
        // Who flushes has goes, in which others write nothing, as others have theirs.
        let in_goes = self.model.has_head() && self.flushes.are_in_goes(now, self.config.wait);
        let waits_in_goes = side == Side::Many && in_goes;
        let is_for_flush = is_flushing
            && (side == Side::Idle || self.flushes.hold_writes(now, false).is_some())
            && !waits_in_goes
            && rank >= self.flushes.rank();
        let line = &self.tasks[task].line;
        let writes = || line.first(table).is_some_and(|next| table[next].op().is_write());
        is_full || (is_for_flush && writes() && line.is_of_others(now))
    }

    /// The next request when the task whose turn it is is held back: of the next ones in turn, or
    /// of one that may go past it. Or why nothing goes: something is at the disk, or a flush is
    /// expected.
    #[cold]
    fn choose_another(&mut self, now: Instant, first: u32, table: &Table) -> Turn {
        let rank = self.side_of(first).1.rank;
        let mut aside = [self.tasks[first].node; ASIDE_WITH_IDLE_MAX];
        let mut count = 0;
        let found = loop {
            self.forest.hide(aside[count]);
            count += 1;
            let Some((task, _)) = self.next_task(now, GroupId::ROOT) else { break None };
            if !self.is_held_back(now, task, table) {
                break Some(task);
            }
            let node = self.tasks[task].node;
            aside[count] = match self.side_of(task).0 {
                _ if count < ASIDE_MAX => node,
                Side::Idle if count + 1 < ASIDE_WITH_IDLE_MAX => self.forest.idle_above(node),
                _ => break None,
            };
        };
        for node in aside[..count].iter().rev() {
            self.forest.show(*node);
        }
        let next = found.and_then(|task| self.next_of(task, now, table));
        match next.or_else(|| self.pass(now, rank, table)) {
            Some(next) => {
                let right = self.model.has_head().then_some(Right::Light);
                Ok(Some(Choice { right, ..next }))
            }
            None => self.nothing_goes(now, table),
        }
    }

    /// Why nothing goes, as all are held back; if they wait for the turn of the few, and the disk
    /// has nothing, nobody of the few is there.
    fn nothing_goes(&mut self, now: Instant, table: &Table) -> Turn {
        if self.flight.count == 0 && self.turn_of_few(now).is_some() {
            self.sides.nobody_there();
            if self.turn_of_few(now).is_none() {
                return self.choose(now, table);
            }
        }
        let turn = self.turn_of_few(now);
        let holds = [self.flushes.hold_writes(now, true), self.idle_grace(now), turn];
        let until = holds.into_iter().flatten().min().unwrap_or(Instant::NEVER);
        Err(Pop::At(until, Reason::Turn))
    }

    /// The next request of a task that may go past those that are held back: it has few requests,
    /// or a flush of its own is what they are held back for, and it is of no lower class than
    /// `rank`. Class idle never may.
    fn pass(&mut self, now: Instant, rank: u8, table: &Table) -> Option<Choice> {
        for _ in 0..self.passing.len().min(PASS_STEPS) {
            let task = self.passing.pop(&mut self.tasks)?;
            // A task that is not known any more has no request; its group may be gone.
            let line = &self.tasks[task].line;
            if line.is_empty() {
                continue;
            }
            let (side, sight) = self.side_of(task);
            if side == Side::Idle || (side == Side::Many && line.is_of_others(now)) {
                continue;
            }
            let is_lower = sight.rank > rank;
            let next = if is_lower { None } else { self.next_of(task, now, table) };
            if !self.tasks[task].line.is_empty() {
                self.passing.push(&mut self.tasks, task);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}
