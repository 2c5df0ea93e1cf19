//! Who has few requests, who has many, and who is of class idle: at the disk they are kept apart.

use super::bound::Side;
use super::flight::Landed;
use super::forest::Sight;
use super::tasks::Task;
use super::{Choice, Fair};
use crate::request::GroupId;
use crate::table::{Request, Table};
use crate::time::{Instant, Nanos};
use crate::verdict::{Pop, Reason};

/// Most requests of class idle at the disk while others come and go: whoever comes then stands
/// behind no more than these.
const IDLE_BEHIND_MAX: u32 = 2;

/// Most tasks that are held back and passed over in one choice.
const ASIDE_MAX: usize = 4;

/// So long after a request of another class its next one is still expected: the default of
/// `idle_starve_ms`, from BFQ.
const OTHERS_RECENT: Nanos = Nanos::from_millis(200);

/// The requests of class idle at the disk, and when one of another class last came.
#[derive(Debug, Default)]
pub(super) struct Idle {
    pub(super) in_flight: u32,
    others_at: Option<Instant>,
}

impl Idle {
    /// Whether the disk has as much of class idle as it may.
    fn is_full(&self, now: Instant) -> bool {
        let is_recent = |at: Instant| now < at + OTHERS_RECENT;
        self.in_flight >= IDLE_BEHIND_MAX && self.others_at.is_some_and(is_recent)
    }
}

impl Fair {
    /// How the group of a task stands.
    #[inline]
    pub(super) fn sight_of(&self, task: u32) -> &Sight {
        self.forest.sight(self.tasks[task].group)
    }

    /// On which side a task is at present.
    #[inline]
    pub(super) fn side_of(&self, task: u32) -> Side {
        let Task { group, line, .. } = &self.tasks[task];
        self.forest.sight(*group).side(&line.load)
    }

    /// A request of a task has come.
    #[inline]
    pub(super) fn load(&mut self, now: Instant, task: u32, request: &Request) {
        let bytes = request.service_bytes().get();
        let Task { group, line, .. } = &mut self.tasks[task];
        line.load.add(bytes);
        let sight = self.forest.load(*group, bytes);
        let side = sight.side(&line.load);
        let is_of_others = line.is_of_others(now);
        if !is_of_others {
            self.flushes.comes(now);
        }
        if side != Side::Idle {
            self.idle.others_at = Some(now);
        }
        if side == Side::Few && !self.model.has_head() {
            self.bound.few_come(now, sight.rank, sight.weight);
        }
        if !line.is_listed && (side == Side::Few || !is_of_others) {
            self.enlist(task);
        }
    }

    /// A request is done.
    #[inline]
    pub(super) fn unload(&mut self, now: Instant, group: GroupId, landed: &Landed) {
        let Landed { task, side, bytes, arrived, .. } = *landed;
        self.tasks[task].line.load.remove(bytes);
        self.forest.unload(group, bytes);
        match side {
            Side::Idle => self.idle.in_flight -= 1,
            Side::Many => self.bound.many_done(now, bytes),
            Side::Few => self.bound.few_done(now, arrived),
        }
    }

    /// Whether nothing of the task may join what the disk has of its side. Nobody is held back for
    /// a lower class.
    #[inline(always)]
    pub(super) fn is_held_back(&self, now: Instant, task: u32, table: &Table) -> bool {
        let is_flushing = self.flushes.hold_writes(now).is_some();
        let is_bound = self.bound.is_full(now) && !self.model.has_head();
        let is_idle_full = self.idle.is_full(now);
        if !(is_flushing || is_bound || is_idle_full) {
            return false;
        }
        self.is_kept(now, task, table, [is_flushing, is_bound, is_idle_full])
    }

    #[inline(never)]
    fn is_kept(
        &self,
        now: Instant,
        task: u32,
        table: &Table,
        [is_flushing, is_bound, is_idle_full]: [bool; 3],
    ) -> bool {
        let rank = self.sight_of(task).rank;
        let side = self.side_of(task);
        let is_full = match side {
            Side::Few => return false,
            Side::Many => is_bound && rank >= self.bound.rank(),
            Side::Idle => is_idle_full,
        };
        let waits_in_goes = side == Side::Many && self.flushes_in_goes(now);
        let is_for_flush = is_flushing && !waits_in_goes && rank >= self.flushes.rank();
        is_full || (is_for_flush && self.writes_next(task, table) && self.is_of_others(now, task))
    }

    /// Whether who flushes has goes, in which others write nothing, as others have theirs.
    fn flushes_in_goes(&self, now: Instant) -> bool {
        self.model.has_head() && self.flushes.are_in_goes(now, self.config.wait)
    }

    /// The next request when the task whose turn it is is held back: of the next ones in turn, or
    /// of one that may go past it. Or why nothing goes: something is at the disk, or a flush is
    /// expected.
    #[cold]
    pub(super) fn choose_another(
        &mut self,
        now: Instant,
        first: u32,
        table: &Table,
    ) -> Result<Option<Choice>, Pop> {
        let rank = self.sight_of(first).rank;
        let mut aside = [first; ASIDE_MAX];
        let mut found = None;
        let mut count = 0;
        while count < ASIDE_MAX {
            self.forest.hide(self.tasks[aside[count]].node);
            count += 1;
            let next = self.forest.next(GroupId::ROOT, now, self.idle_starve(now));
            match next {
                Some((task, _)) if self.is_held_back(now, task, table) => {
                    if count < ASIDE_MAX {
                        aside[count] = task;
                    }
                }
                Some((task, _)) => {
                    found = Some(task);
                    break;
                }
                None => break,
            }
        }
        for task in aside[..count].iter().rev() {
            self.forest.show(self.tasks[*task].node);
        }
        let next = found.and_then(|task| self.next_of(task, now, table).map(|next| (task, next)));
        match next.or_else(|| self.pass(now, rank, table)) {
            Some(next) => {
                self.is_past = true;
                Ok(Some(next))
            }
            None => {
                let until = self.flushes.hold_writes(now).unwrap_or(Instant::NEVER);
                Err(Pop::At(until, Reason::Turn))
            }
        }
    }

    /// After how long class idle goes before others: never while the disk has its most of it.
    #[inline]
    pub(super) fn idle_starve(&self, now: Instant) -> Nanos {
        if self.idle.is_full(now) { Nanos(u64::MAX) } else { self.config.idle_starve }
    }
}
