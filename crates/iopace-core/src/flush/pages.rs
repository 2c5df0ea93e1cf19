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
//!
//! The order of dirtying has each interval under its *anchor*, some page of it. As intervals do not
//! overlap, the order of anchors is that of first pages; and a stream, which grows at its end and
//! is written back from its beginning, keeps its place until write-back comes by the anchor.

use super::Owner;
use crate::request::{Area, Extent, GroupId, Space};
use crate::time::Instant;
use crate::units::{Bytes, PAGE};
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

    /// The last page of what ends here.
    fn last_before(self) -> Page {
        Page { index: self.index.saturating_sub(1), ..self }
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
pub(super) enum PageState {
    Dirty(Stamp),
    /// On its way to the disk: the number it was dirtied under, and whether it was written again.
    Writing {
        number: u64,
        again: Option<Stamp>,
    },
}

impl PageState {
    /// The number that a sync has to wait for.
    fn number(&self) -> u64 {
        match self {
            PageState::Dirty(stamp) => stamp.number,
            PageState::Writing { number, .. } => *number,
        }
    }

    /// The write-back that this page still has before it, beside the one under way.
    pub(super) fn pending(&self) -> Option<Stamp> {
        match self {
            PageState::Dirty(stamp) => Some(*stamp),
            PageState::Writing { again, .. } => *again,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Interval {
    /// Behind its last page.
    end: Page,
    state: PageState,
    /// A page of it: its place in the order of dirtying.
    anchor: Page,
}

/// Consecutive pages: the first and the one behind the last.
pub(super) type PageRange = Range<Page>;

/// The map.
#[derive(Debug, Default)]
pub(super) struct Pages {
    /// By first page.
    intervals: BTreeMap<Page, Interval>,
    /// Numbers of all that is on its way, and how many intervals have them.
    writing: BTreeMap<u64, u32>,
    /// Number and anchor of all that is dirty and not on its way, by group.
    by_group: BTreeMap<(GroupId, u64, Page), Stamp>,
    /// Those of `by_group` that somebody asked for.
    asked: BTreeSet<(GroupId, u64, Page)>,
    /// Those of `by_group` that a small sync waits for.
    urgent: BTreeSet<(GroupId, u64, Page)>,
}

impl Pages {
    /// The state of a page, and where its interval ends; `None` if it is clean.
    pub(super) fn at(&self, page: Page) -> Option<(PageState, Page)> {
        let (_, interval) = self.intervals.range(..=page).next_back()?;
        (page < interval.end).then_some((interval.state, interval.end))
    }

    /// What of `range` is not clean, in order.
    pub(super) fn unclean(
        &self,
        range: PageRange,
    ) -> impl Iterator<Item = (PageRange, PageState)> + '_ {
        let before = self.intervals.range(..=range.start).next_back();
        let first =
            before.filter(|(_, one)| one.end > range.start).map_or(range.start, |(&at, _)| at);
        let within = self.intervals.range(first..range.end.max(first));
        within.map(move |(&at, one)| (at.max(range.start)..one.end.min(range.end), one.state))
    }

    /// The next part of `range`, which is taken off it: pages in one state, or clean ones without.
    pub(super) fn next_part(
        &self,
        range: &mut PageRange,
    ) -> Option<(PageRange, Option<PageState>)> {
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
    pub(super) fn paint(
        &mut self,
        part: PageRange,
        was: Option<PageState>,
        state: Option<PageState>,
    ) {
        if was.is_some() {
            self.clean(&part);
        }
        let Some(state) = state else { return };
        let next = self.intervals.get(&part.end).filter(|next| next.state == state).copied();
        let end = next.map_or(part.end, |next| next.end);
        if next.is_some() {
            self.intervals.remove(&part.end);
        }
        match self.intervals.range_mut(..part.start).next_back() {
            Some((_, before)) if before.end == part.start && before.state == state => {
                before.end = end;
                if let Some(next) = next {
                    self.take_out(&next);
                }
            }
            _ => {
                let interval = next.unwrap_or_else(|| {
                    let interval = Interval { end, state, anchor: part.start };
                    self.file(&interval);
                    interval
                });
                self.intervals.insert(part.start, interval);
            }
        }
    }

    /// Takes a part of an interval out. What is left of it keeps its place in the order if it has
    /// the anchor; else its last page is the anchor from now on.
    fn clean(&mut self, part: &PageRange) {
        let Some((&first, interval)) = self.intervals.range_mut(..part.end).next_back() else {
            return;
        };
        let old = *interval;
        let (is_before, is_behind) = (old.anchor < part.start, old.anchor >= part.end);
        let before = Interval { end: part.start, anchor: part.start.last_before(), ..old };
        let behind = Interval { anchor: old.end.last_before(), ..old };
        let has_before = first < part.start;
        if has_before {
            *interval = if is_before { Interval { end: part.start, ..old } } else { before };
        } else {
            self.intervals.remove(&first);
        }
        if !is_before && !is_behind {
            self.take_out(&old);
        }
        if has_before && !is_before {
            self.file(&before);
        }
        if part.end < old.end {
            self.intervals.insert(part.end, if is_behind { old } else { behind });
            if !is_behind {
                self.file(&behind);
            }
        }
    }

    /// Puts an interval into the order of dirtying.
    fn file(&mut self, &Interval { state, anchor, .. }: &Interval) {
        match state {
            PageState::Writing { number, .. } => *self.writing.entry(number).or_default() += 1,
            PageState::Dirty(stamp) => {
                let key = (stamp.owner.group, stamp.number, anchor);
                self.asked.extend(stamp.is_asked.then_some(key));
                self.urgent.extend(stamp.is_urgent.then_some(key));
                self.by_group.insert(key, stamp);
            }
        }
    }

    /// Takes an interval out of the order of dirtying.
    fn take_out(&mut self, &Interval { state, anchor, .. }: &Interval) {
        match state {
            PageState::Writing { number, .. } => {
                let count = self.writing.get_mut(&number).expect("it is counted");
                *count -= 1;
                if *count == 0 {
                    self.writing.remove(&number);
                }
            }
            PageState::Dirty(stamp) => {
                let key = (stamp.owner.group, stamp.number, anchor);
                self.asked.remove(&key);
                self.urgent.remove(&key);
                self.by_group.remove(&key);
            }
        }
    }

    /// The oldest dirtying of a group.
    pub(super) fn oldest_stamp(&self, group: GroupId) -> Option<Stamp> {
        self.oldest_anchor(group).map(|(_, stamp)| stamp)
    }

    /// The oldest dirty page of a group.
    pub(super) fn oldest_of(&self, group: GroupId) -> Option<(Page, Stamp)> {
        let (anchor, stamp) = self.oldest_anchor(group)?;
        Some((self.first_page(anchor), stamp))
    }

    fn oldest_anchor(&self, group: GroupId) -> Option<(Page, Stamp)> {
        let mut first = self.by_group.first_key_value();
        if first.is_some_and(|(&(of, ..), _)| of < group) {
            first = self.by_group.range((group, 0, Page::FIRST)..).next();
        }
        let (&(of, _, anchor), stamp) = first?;
        (of == group).then_some((anchor, *stamp))
    }

    /// The first page of the interval that a page belongs to.
    fn first_page(&self, page: Page) -> Page {
        self.intervals.range(..=page).next_back().map_or(page, |(&first, _)| first)
    }

    /// Whether somebody asked for a page of a group.
    pub(super) fn has_asked(&self, group: GroupId) -> bool {
        !self.asked.is_empty() && self.asked_anchor(group).is_some()
    }

    fn asked_anchor(&self, group: GroupId) -> Option<Page> {
        let &(of, _, anchor) = self.asked.range((group, 0, Page::FIRST)..).next()?;
        (of == group).then_some(anchor)
    }

    /// The oldest page of a group that somebody asked for.
    pub(super) fn asked_of(&self, group: GroupId) -> Option<(Page, Stamp)> {
        let anchor = self.asked_anchor(group)?;
        Some((self.first_page(anchor), self.dirty_at(anchor)?))
    }

    /// The oldest page that a small sync waits for, of the groups that are not passed over.
    pub(super) fn urgent(&self, is_passed_over: impl Fn(GroupId) -> bool) -> Option<(Page, Stamp)> {
        let (mut oldest, mut from) = (None, Unbounded);
        while let Some(&(group, number, anchor)) = self.urgent.range((from, Unbounded)).next() {
            if !is_passed_over(group) {
                oldest = Some(oldest.map_or((number, anchor), |one| (number, anchor).min(one)));
            }
            from = Excluded((group, u64::MAX, Page::LAST));
        }
        let (_, anchor) = oldest?;
        Some((self.first_page(anchor), self.dirty_at(anchor)?))
    }

    /// The stamp of a page that is dirty and not on its way.
    pub(super) fn dirty_at(&self, page: Page) -> Option<Stamp> {
        match self.at(page)?.0 {
            PageState::Dirty(stamp) => Some(stamp),
            PageState::Writing { .. } => None,
        }
    }

    /// Whether nothing that was numbered below the mark is on its way.
    pub(super) fn is_written_below(&self, mark: u64) -> bool {
        self.writing.first_key_value().is_none_or(|(&oldest, _)| oldest >= mark)
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
