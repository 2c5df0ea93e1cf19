//! What is due, what of it goes to the disk next, and what a sync waits for.
//!
//! What is due by age or by a sync of everything is always the oldest: it ends at one place in the
//! order of dirtying, which only moves forward. What a sync of an extent asks for is marked page by
//! page.

use super::pages::{self, Page, PageState, Stamp};
use super::turns::{Oldest, OwnerPosition};
use super::{AreaMark, DIRTY_EXPIRE, Flusher, Mark, Owner, Run, SMALL_SYNC_MAX};
use crate::request::{Area, GroupId};
use crate::time::Instant;
use crate::units::{Bytes, PAGE};
use std::collections::BTreeSet;

impl Flusher {
    /// Asks for the write-back of all that is dirty now.
    pub fn sync(&mut self) -> Mark {
        self.sync_until = self.next_number;
        self.marked = self.next_number;
        Mark(self.next_number)
    }

    /// Asks for the write-back of what is dirty now in the pages that an area touches.
    pub fn sync_area(&mut self, area: Area) -> AreaMark {
        self.marked = self.next_number;
        let range = pages::touched(area);
        let (mut groups, mut rest) = (BTreeSet::new(), range.clone());
        let pending =
            self.pages.unclean(range.clone()).filter(|(_, state)| state.pending().is_some());
        let most = SMALL_SYNC_MAX.get() / PAGE;
        // Counted only as far as it decides.
        let count = pending
            .map(|(part, _)| part.end - part.start)
            .try_fold(0, |count, pages| Some(count + pages).filter(|count| *count <= most));
        let is_small = count.is_some();
        while let Some((part, state)) = self.pages.next_part(&mut rest) {
            let Some((state, stamp)) = state.and_then(|state| Some((state, state.pending()?)))
            else {
                continue;
            };
            let is_urgent = stamp.is_urgent || is_small;
            let stamp = Stamp { is_asked: true, is_urgent, ..stamp };
            let asked = match state {
                PageState::Dirty(_) => PageState::Dirty(stamp),
                PageState::Writing { number, .. } => {
                    PageState::Writing { number, again: Some(stamp) }
                }
            };
            self.pages.paint(part, Some(state), Some(asked));
            groups.insert(stamp.owner.group);
        }
        for group in groups {
            self.file(group);
        }
        AreaMark { mark: Mark(self.next_number), rest: range, is_small }
    }

    /// Whether all that was dirty at the mark is on the disk, void or lost.
    pub fn is_synced(&self, Mark(mark): Mark) -> bool {
        let oldest = self.turns.oldest();
        oldest.is_none_or(|(number, _)| number >= mark) && self.pages.is_written_below(mark)
    }

    /// The same of an area. The mark remembers how far it was found clean.
    pub fn is_area_synced(&self, area: &mut AreaMark) -> bool {
        let first = self.pages.first_below(area.rest.clone(), area.mark.0);
        area.rest.start = first.unwrap_or(area.rest.end);
        first.is_none()
    }

    /// Whether write-back has failed since this was asked last.
    pub fn take_failure(&mut self) -> bool {
        std::mem::take(&mut self.has_failed)
    }

    /// When the oldest dirty page is due by its age; [`Instant::NEVER`] if nothing is dirty.
    pub fn next_expiry(&self) -> Instant {
        self.turns.oldest().map_or(Instant::NEVER, |(_, since)| since + DIRTY_EXPIRE)
    }

    /// When something becomes due by its age next, of groups that may give candidates and have
    /// nothing due yet.
    pub fn next_due(&self) -> Instant {
        self.turns.oldest_young().map_or(Instant::NEVER, |(_, since)| since + DIRTY_EXPIRE)
    }

    /// The run to write back next, of `run_max` at most (a page at least), if something is due:
    /// everything, if more than `background` is dirty or on its way, or if it is `pressed` because
    /// somebody waits for memory, or all of a group that is above its mark; else what is too old or
    /// was asked for.
    pub fn candidate(
        &mut self,
        now: Instant,
        background: Bytes,
        pressed: bool,
        run_max: Bytes,
    ) -> Option<Run> {
        self.clock = self.clock.max(now);
        // Those of whom something has become due since.
        while let Some((group, _)) = self.turns.oldest_young()
            && self.oldest_of(group).is_some_and(|(.., is_due)| is_due)
        {
            self.file(group);
        }
        let unclean = pages::bytes(self.totals.dirty + self.totals.writing);
        let is_all = pressed || unclean > background;
        let group = self.turns.next(self.clock, is_all, self.chunk_pages)?;
        let is_all = is_all || self.turns.get(group).is_over();
        let (first, stamp) = self.first_of(group, is_all)?;
        let area = self.run_at(first, stamp.owner, run_max, |next| is_all || self.is_due(next));
        Some(Run { owner: stamp.owner, area, is_urgent: false })
    }

    /// Nothing of the group is a candidate until it is released, for a small sync excepted: its own
    /// limit holds it up, and what was taken of it would only stand in line.
    pub fn hold(&mut self, group: GroupId) {
        self.turns.get_mut(group).is_held = true;
        self.file(group);
    }

    /// Ends that.
    pub fn release(&mut self, group: GroupId) {
        if self.turns.get(group).is_held {
            self.turns.get_mut(group).is_held = false;
            self.file(group);
        }
    }

    /// The oldest run that a small sync waits for, of `run_max` at most (a page at least), of the
    /// groups that are not passed over.
    pub fn urgent(&self, run_max: Bytes, is_passed_over: impl Fn(GroupId) -> bool) -> Option<Run> {
        let (first, stamp) = self.pages.urgent(is_passed_over)?;
        let area = self.run_at(first, stamp.owner, run_max, |next| next.is_urgent);
        Some(Run { owner: stamp.owner, area, is_urgent: true })
    }

    /// From a page on the dirty ones of an owner that may go, `run_max` of them at most (a page at
    /// least).
    fn run_at(
        &self,
        first: Page,
        owner: Owner,
        run_max: Bytes,
        may_go: impl Fn(&Stamp) -> bool,
    ) -> Area {
        let most = (run_max.get() / PAGE).max(1);
        let mut end = first;
        while end - first < most
            && let Some((PageState::Dirty(next), next_end)) = self.pages.at(end)
            && next.owner == owner
            && may_go(&next)
        {
            end = next_end.min(first + most);
        }
        pages::area_of(&(first..end))
    }

    /// Where to go on with a group that has something due: behind what was taken last, or with what
    /// was asked for, or with the oldest.
    fn first_of(&self, group: GroupId, is_all: bool) -> Option<(Page, Stamp)> {
        let position = self.turns.get(group).position;
        position
            .filter(|position| position.used < self.chunk_pages)
            .and_then(|position| Some((position, self.pages.dirty_at(position.page)?)))
            .filter(|(position, stamp)| stamp.owner == position.owner)
            .filter(|(_, stamp)| is_all || self.is_due(stamp))
            .map(|(position, stamp)| (position.page, stamp))
            .or_else(|| self.pages.asked_of(group))
            .or_else(|| self.pages.oldest_of(group))
    }

    /// Whether a page is due by itself.
    fn is_due(&self, stamp: &Stamp) -> bool {
        stamp.is_asked || stamp.number < self.sync_until || stamp.since + DIRTY_EXPIRE <= self.clock
    }

    fn oldest_of(&self, group: GroupId) -> Option<Oldest> {
        let stamp = self.pages.oldest_stamp(group)?;
        let is_due =
            self.is_due(&stamp) || self.turns.get(group).is_over() || self.pages.has_asked(group);
        Some((stamp.number, stamp.since, is_due))
    }

    /// Puts a group where it belongs after a change.
    pub(super) fn file(&mut self, group: GroupId) {
        self.turns.file(group, self.oldest_of(group));
    }

    /// That run, as [`Flusher::candidate`] or [`Flusher::urgent`] gave it at this instant, goes.
    pub fn take(&mut self, run: &Run) {
        let range = pages::touched(run.area);
        let count = range.end - range.start;
        let (mut taken, mut rest) = (0, range.clone());
        while let Some((part, state)) = self.pages.next_part(&mut rest) {
            let Some(PageState::Dirty(stamp)) = state else { break };
            assert_eq!(stamp.owner, run.owner, "a run has one owner");
            taken += part.end - part.start;
            let writing = PageState::Writing { number: stamp.number, again: None };
            self.pages.paint(part, state, Some(writing));
        }
        assert_eq!(taken, count, "a run that is taken is dirty: {run:?}");
        let (id, chunk) = (run.owner.group, self.chunk_pages);
        if !run.is_urgent {
            self.turns.took(self.clock, chunk, id, (range.start, count));
        }
        let group = self.turns.get_mut(id);
        group.dirty -= count;
        group.writing += count;
        let used = group.position.filter(|position| {
            position.owner == run.owner && position.page == range.start && position.used < chunk
        });
        let used = used.map_or(0, |position| position.used) + count;
        if !run.is_urgent {
            group.position = Some(OwnerPosition { owner: run.owner, page: range.end, used });
        }
        self.totals.dirty -= count;
        self.totals.writing += count;
        self.stats.runs_count += 1;
        self.stats.taken_pages += count;
        self.file(id);
    }

    /// A run that was taken is on the disk, or failed: then its data is lost, as in an operating
    /// system, and [`Flusher::take_failure`] says so. Returns what is clean now; a page that was
    /// written again meanwhile is dirty.
    pub fn done(&mut self, run: &Run, ok: bool) -> Bytes {
        let mut range = pages::touched(run.area);
        let count = range.end - range.start;
        if !run.is_urgent {
            self.turns.ended(run.owner.group, range.start);
        }
        let (mut others, mut clean) = (BTreeSet::new(), 0);
        while let Some((part, state)) = self.pages.next_part(&mut range) {
            let Some(PageState::Writing { again, .. }) = state else {
                panic!("what is done was on its way: {run:?}")
            };
            let part_count = part.end - part.start;
            self.pages.paint(part, state, again.map(PageState::Dirty));
            let Some(stamp) = again else {
                clean += part_count;
                continue;
            };
            let group = self.turns.get_mut(stamp.owner.group);
            group.again -= part_count;
            group.dirty += part_count;
            self.totals.dirty += part_count;
            if stamp.owner.group != run.owner.group {
                others.insert(stamp.owner.group);
            }
        }
        self.turns.get_mut(run.owner.group).writing -= count;
        self.totals.writing -= count;
        if ok {
            self.stats.written_back_pages += count;
        } else {
            self.stats.lost_pages += count;
            self.has_failed = true;
        }
        self.file(run.owner.group);
        for group in others {
            self.file(group);
        }
        while let Some(passed) = self.turns.newly_passed() {
            self.file(passed);
        }
        pages::bytes(clean)
    }
}
