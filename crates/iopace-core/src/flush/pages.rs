//! The map of dirty pages: intervals of pages in the same state, and their order of dirtying.
//!
//! ```text
//!  page    0         8    10        16   20
//!          │ dirty 4 │    │ dirty 2 │ w 3 │        n: number of dirtying, w: on its way
//!  oldest first: 2 (page 10), 4 (page 0)           on their way: 3 (page 16)
//! ```
//! The pages of all spaces are in it, one space behind the other, and no interval is of two.
//! Neighbours in the same state are one interval. An operation costs a few searches in ordered maps
//! for each interval that it touches; what is clean is not in the map.

use super::{Owner, PAGE};
use crate::request::{Area, Extent, GroupId, Space};
use crate::time::Instant;
use crate::units::Bytes;
use core::ops::Bound::{Excluded, Unbounded};
use core::ops::{Add, Range, Sub};
use std::collections::{BTreeMap, BTreeSet};

/// A page: of which space, and which of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Page {
    space: Space,
    index: u64,
}

impl Page {
    const FIRST: Page = Page { space: Space::DISK, index: 0 };
    const LAST: Page = Page { space: Space(u32::MAX), index: u64::MAX };

    /// The one before it in its space.
    pub(super) fn before(self) -> Option<Page> {
        Some(Page { index: self.index.checked_sub(1)?, ..self })
    }
}

impl Add<u64> for Page {
    type Output = Page;

    fn add(self, count: u64) -> Page {
        Page { index: self.index + count, ..self }
    }
}

impl Sub for Page {
    type Output = u64;

    /// The pages from one to another of the same space.
    fn sub(self, before: Page) -> u64 {
        debug_assert_eq!(self.space, before.space, "pages of one space");
        self.index - before.index
    }
}

/// How a page became dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Counts dirtyings: smaller was earlier, and `since` is in the same order.
    pub(super) number: u64,
    pub(super) since: Instant,
    pub(super) owner: Owner,
    /// Whether somebody waits for its write-back alone.
    pub(super) is_asked: bool,
    /// Whether that is a small sync, whose pages go by themselves.
    pub(super) is_urgent: bool,
}

/// How a page that is not clean stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Dirty(Stamp),
    /// On its way to the disk: the number it was dirtied under, and whether it was written again.
    Writing {
        number: u64,
        again: Option<Stamp>,
    },
}

impl State {
    /// The number that a sync has to wait for.
    fn number(&self) -> u64 {
        match self {
            State::Dirty(stamp) => stamp.number,
            State::Writing { number, .. } => *number,
        }
    }

    /// The write-back that this page still has before it, beside the one under way.
    pub(super) fn pending(&self) -> Option<Stamp> {
        match self {
            State::Dirty(stamp) => Some(*stamp),
            State::Writing { again, .. } => *again,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    /// Behind its last page.
    end: Page,
    state: State,
}

/// Consecutive pages: the first and the one behind the last.
pub(super) type PageRange = Range<Page>;

/// The map.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// By first page.
    intervals: BTreeMap<Page, Interval>,
    /// Number and first page of all that is dirty and not on its way, and since when.
    dirty: BTreeMap<(u64, Page), Instant>,
    /// The same of all that is on its way.
    writing: BTreeSet<(u64, Page)>,
    /// What `dirty` has, by group.
    by_group: BTreeMap<(GroupId, u64, Page), Stamp>,
    /// Those of `by_group` that somebody asked for.
    asked: BTreeSet<(GroupId, u64, Page)>,
    /// Those of `by_group` that a small sync waits for.
    urgent: BTreeSet<(GroupId, u64, Page)>,
}

impl Pages {
    /// The state of a page, and where its interval ends; `None` if it is clean.
    pub(super) fn at(&self, page: Page) -> Option<(State, Page)> {
        let (_, interval) = self.intervals.range(..=page).next_back()?;
        (page < interval.end).then_some((interval.state, interval.end))
    }

    /// What of `range` is not clean, in order.
    pub(super) fn unclean(
        &self,
        range: PageRange,
    ) -> impl Iterator<Item = (PageRange, State)> + '_ {
        let before = self.intervals.range(..=range.start).next_back();
        let first =
            before.filter(|(_, one)| one.end > range.start).map_or(range.start, |(&at, _)| at);
        let within = self.intervals.range(first..range.end.max(first));
        within.map(move |(&at, one)| (at.max(range.start)..one.end.min(range.end), one.state))
    }

    /// The next part of `range`, which is taken off it: pages in one state, or clean ones without.
    pub(super) fn next_part(&self, range: &mut PageRange) -> Option<(PageRange, Option<State>)> {
        let page = range.start;
        if range.is_empty() {
            return None;
        }
        let mut last = self.intervals.range(..range.end).next_back();
        if last.is_some_and(|(&first, _)| first > page) {
            let before = self.intervals.range(..=page).next_back();
            last = before.filter(|(_, interval)| interval.end > page);
            if last.is_none() {
                // It begins clean, and something in it is not.
                let next = self.intervals.range(page..).next();
                range.start = next.map_or(range.end, |(&first, _)| first);
                return Some((page..range.start, None));
            }
        }
        let at = last.map(|(_, interval)| interval).filter(|interval| interval.end > page);
        range.start = at.map_or(range.end, |interval| interval.end.min(range.end));
        Some((page..range.start, at.map(|interval| interval.state)))
    }

    /// Brings a part as [`Pages::next_part`] gave it, with what it was, into another state; `None`
    /// is clean.
    pub(super) fn paint(&mut self, part: PageRange, was: Option<State>, state: Option<State>) {
        if was.is_some() {
            self.clean(&part);
        }
        let Some(state) = state else { return };
        let next = self.intervals.get(&part.end).filter(|next| next.state == state);
        let end = next.map_or(part.end, |next| next.end);
        if end > part.end {
            self.remove(part.end);
        }
        match self.intervals.range_mut(..part.start).next_back() {
            Some((_, before)) if before.end == part.start && before.state == state => {
                before.end = end;
            }
            _ => self.insert(part.start, Interval { end, state }),
        }
    }

    /// Takes a part of an interval out.
    fn clean(&mut self, part: &PageRange) {
        let Some((&first, interval)) = self.intervals.range_mut(..part.end).next_back() else {
            return;
        };
        let old = *interval;
        if first < part.start {
            interval.end = part.start;
        } else {
            self.remove(first);
        }
        if part.end < old.end {
            self.insert(part.end, old);
        }
    }

    fn insert(&mut self, first: Page, interval: Interval) {
        let key = (interval.state.number(), first);
        match interval.state {
            State::Writing { .. } => _ = self.writing.insert(key),
            State::Dirty(stamp) => {
                let group_key = (stamp.owner.group, stamp.number, first);
                self.asked.extend(stamp.is_asked.then_some(group_key));
                self.urgent.extend(stamp.is_urgent.then_some(group_key));
                self.by_group.insert(group_key, stamp);
                self.dirty.insert(key, stamp.since);
            }
        }
        self.intervals.insert(first, interval);
    }

    fn remove(&mut self, first: Page) {
        let Some(interval) = self.intervals.remove(&first) else { return };
        let key = (interval.state.number(), first);
        match interval.state {
            State::Writing { .. } => _ = self.writing.remove(&key),
            State::Dirty(stamp) => {
                let group_key = (stamp.owner.group, stamp.number, first);
                self.asked.remove(&group_key);
                self.urgent.remove(&group_key);
                self.by_group.remove(&group_key);
                self.dirty.remove(&key);
            }
        }
    }

    /// The oldest dirty page of a group.
    pub(super) fn oldest_of(&self, group: GroupId) -> Option<(Page, Stamp)> {
        let (&(of, _, page), stamp) = self.by_group.range((group, 0, Page::FIRST)..).next()?;
        (of == group).then_some((page, *stamp))
    }

    /// The oldest page of a group that somebody asked for.
    pub(super) fn asked_of(&self, group: GroupId) -> Option<(Page, Stamp)> {
        let &(of, _, page) = self.asked.range((group, 0, Page::FIRST)..).next()?;
        if of == group { Some((page, self.dirty_at(page)?)) } else { None }
    }

    /// The oldest page that a small sync waits for, of the groups that are not passed over.
    pub(super) fn urgent(&self, is_passed_over: impl Fn(GroupId) -> bool) -> Option<(Page, Stamp)> {
        let (mut oldest, mut from) = (None, Unbounded);
        while let Some(&(group, number, page)) = self.urgent.range((from, Unbounded)).next() {
            if !is_passed_over(group) {
                oldest = Some(oldest.map_or((number, page), |one| (number, page).min(one)));
            }
            from = Excluded((group, u64::MAX, Page::LAST));
        }
        let (_, page) = oldest?;
        Some((page, self.dirty_at(page)?))
    }

    /// The stamp of a page that is dirty and not on its way.
    pub(super) fn dirty_at(&self, page: Page) -> Option<Stamp> {
        match self.at(page)?.0 {
            State::Dirty(stamp) => Some(stamp),
            State::Writing { .. } => None,
        }
    }

    /// Since when the oldest dirty page is.
    pub(super) fn oldest_since(&self) -> Option<Instant> {
        self.dirty.first_key_value().map(|(_, since)| *since)
    }

    /// Whether nothing that was numbered below the mark is dirty or on its way.
    pub(super) fn is_clean_below(&self, mark: u64) -> bool {
        let dirty = self.dirty.first_key_value().map(|(key, _)| key);
        [dirty, self.writing.first()].into_iter().flatten().all(|&(oldest, _)| oldest >= mark)
    }

    /// The first page of `range` that was numbered below the mark and is not clean.
    pub(super) fn first_below(&self, range: PageRange, mark: u64) -> Option<Page> {
        let mut unclean = self.unclean(range);
        unclean.find(|(_, state)| state.number() < mark).map(|(part, _)| part.start)
    }

    /// The number of intervals.
    #[cfg(test)]
    pub(super) fn intervals_count(&self) -> usize {
        self.intervals.len()
    }
}

/// The pages that an area touches.
pub(super) fn touched(Area { space, extent }: Area) -> PageRange {
    let first = extent.offset().get() / PAGE;
    let end = if extent.is_empty() { first } else { extent.end().get().div_ceil(PAGE) };
    Page { space, index: first }..Page { space, index: end }
}

/// The pages that lie wholly inside an area.
pub(super) fn inside(Area { space, extent }: Area) -> PageRange {
    let first = extent.offset().get().div_ceil(PAGE);
    Page { space, index: first }..Page { space, index: (extent.end().get() / PAGE).max(first) }
}

/// The area of pages; the last page of all ends one byte early, as extents do.
pub(super) fn area_of(range: &PageRange) -> Area {
    let offset = range.start.index * PAGE;
    let len = bytes(range.end - range.start).get().min(u64::MAX - offset);
    let extent = Extent::new(Bytes(offset), Bytes(len)).expect("it ends within 64 bits");
    Area { space: range.start.space, extent }
}

/// The size of that many pages: at most 2^52 of them, all that a space of 2^64 bytes has.
pub(super) fn bytes(pages: u64) -> Bytes {
    Bytes(pages.saturating_mul(PAGE))
}
