//! The flusher: which memory is dirty, whose it is, and what of it is written back next.
//!
//! Not a stage: it stands between stage pace, which lets writes into memory, and stage admit, where
//! its requests stand in line like everybody's, on the account of the group that dirtied. It holds
//! no data and is never paced itself.
//!
//! # Model
//! ```text
//!          promise            wrote                 take                 done
//!  clean ───────────► about to be ──► dirty ───────────────► on its way ─────► clean
//!    ▲       broken       │             │ ▲ wrote: counts once   │ wrote       (again: dirty)
//!    └────────────────────┘◄── discard ─┘ └───┘                  └──► on its way, dirty again
//! ```
//! Pages of 4 KiB, of the disk itself or of a file above it (a space). They are written back when
//! dirty memory is above `background`, when that of their group is above a mark of its own, when
//! they are older than 30 s, when a sync asks for them, or when somebody waits for memory. If only
//! age or a sync makes something due, only what is due is written.
//!
//! *Which group:* the turn goes round among groups with something due (turns.rs). *Which pages of
//! it:* those that a sync of their extent waits for, else the oldest, with the dirty pages of the
//! same owner that follow them in their space; and then the pages behind those, until a chunk of
//! that owner is written, so that streams stay streams on the disk.
//!
//! *A small sync* of an extent is served by itself: what it waits for is given apart from all turns
//! and chunks, which it leaves where they are, and goes as a request that a task waits for, as if
//! the task had written through. A larger one would keep others waiting: it has turns.
//!
//! *Age.* A page keeps the age of its first write. What is written directly behind a page that the
//! same owner dirtied within the last second gets the age and the place of that page (it is due up
//! to a second early, never late), unless a sync has come between.
//!
//! *Work and frames.* A page written again on its way is one frame of memory, but one more page of
//! write-back. So there are two sums, both exact at every moment:
//! ```text
//!  frames:  dirty(device) = dirty pages + pages on their way + promised
//!  work:    sum of wrote() = sum of the runs of done() + sum of discard()
//!                          + dirty pages + pages on their way + pages dirty again
//! ```
//! The frame belongs to the group whose write-back is under way, then to the one that wrote again.
//! Whoever compares the rate of dirtying with the rate of write-back counts a whole run as written
//! at its `done()`; what `done()` returns is what became clean.
//!
//! # Properties
//! 1. Dirty memory is counted page by page, and a rewrite of a dirty page changes nothing.
//! 2. Both sums above hold.
//! 3. A sync waits for all that was dirty at its time, and for nothing that became dirty later.
//! 4. No dirty page is older than 30 s without being due.
//! 5. Only what is due is written back if not everything is.
//! 6. A stream is written back in contiguous runs, a chunk at a time, whoever else is dirty.
//! 7. A group whose write-back is held up does not hold up that of others.
//! 8. Failed write-back is told once, and its pages are clean.
//! 9. What a small sync waits for waits for no turn, no chunk and no gap.
//! 10. A group that is held back gives no candidate, and all others do as if it had nothing.
//! 11. A group above its own mark is written back down to it, and no other one because of that.
//!
//! # When it does not know
//! Before the bandwidth of the disk is measured, a chunk is 4 MiB.
//!
//! # Limits
//! Pages are written back in the order of age, not of place: random writes stay random but for what
//! is adjacent. A write to a part of a page dirties all of it. The engine holds a group back whose
//! own limit is used up; with more groups held up by something else (their slots, their class) than
//! there are places in line, others get their turns only.
//!
//! # Sources
//! Age of 30 s: vm.dirty_expire_centisecs of Linux. Chunk: `writeback_chunk_size` (fs-writeback.c),
//! half a second of bandwidth, at least 4 MiB. Dirtied and written are counted as in the kernel: a
//! page that is dirtied on its way counts as dirtied, and each end of write-back as written.

use crate::pace::Dirty;
use crate::request::{Area, GroupId, TaskId};
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, PAGE};
use pages::{Page, PageRange, PageState, Pages, Stamp};
use std::collections::BTreeMap;
use turns::{FlushTurns, Totals};

mod pages;
mod turns;
mod write_back;

pub use turns::{GROUP_IN_LINE_MAX, GROUP_IN_LINE_RUNS, PASSED_RUNS, TURN_MAX};

/// A dirty page is due after this time at the latest.
pub const DIRTY_EXPIRE: Nanos = Nanos::from_secs(30);

/// What is appended to dirty pages gets their age if they are not older than this: a thirtieth of
/// [`DIRTY_EXPIRE`], so that a stream is one interval for each second of writing.
pub const MERGE_AGE: Nanos = Nanos::from_secs(1);

/// Pages of one owner that are written back in a row before bandwidth is known: the smallest chunk
/// of the kernel (MIN_WRITEBACK_PAGES).
pub const CHUNK: Bytes = Bytes::from_mib(4);

/// A sync of an extent is small if it asks for so much at most, in pages wherever they are: it may
/// take as many seeks. A commit of a database is some pages, a file that is made durable some tens.
pub const SMALL_SYNC_MAX: Bytes = Bytes::from_kib(256);

/// Who dirtied a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Who wrote.
    pub task: TaskId,
    /// Who pays for the write-back.
    pub group: GroupId,
}

/// Dirty pages, one after the other in their space and of one owner, to be written back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Who dirtied them.
    pub owner: Owner,
    /// Where: whole pages.
    pub area: Area,
    /// Whether a small sync waits for it: a task waits, as for a read.
    pub is_urgent: bool,
}

/// Everything that was dirty at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub(crate) u64);

/// Everything that was dirty inside an area at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaMark {
    mark: Mark,
    /// What is not known to be clean since.
    rest: PageRange,
    is_small: bool,
}

impl AreaMark {
    /// Whether it waits for so little that [`Flusher::urgent`] gives it.
    pub fn is_small(&self) -> bool {
        self.is_small
    }
}

/// What has happened so far, in pages.
///
/// `dirtied = written_back + lost + discarded`, and what is dirty, on its way, or dirty again on
/// its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushStats {
    /// Became dirty, or dirty again on their way.
    pub dirtied_pages: u64,
    /// The part of them that was on its way.
    pub dirtied_again_pages: u64,
    /// Were written while they were dirty: no work.
    pub rewritten_pages: u64,
    /// Reached the disk.
    pub written_back_pages: u64,
    /// Failed to.
    pub lost_pages: u64,
    /// Were void or written through before that.
    pub discarded_pages: u64,
    /// Runs that were taken.
    pub runs_count: u64,
    /// Their size.
    pub taken_pages: u64,
}

/// The flusher of one device.
#[derive(Debug)]
pub struct Flusher {
    pages: Pages,
    turns: FlushTurns,
    totals: Totals,
    /// The number of the next dirtying, and of the first one behind the last mark of any kind.
    next_number: u64,
    marked: u64,
    /// Everything numbered below was asked for.
    sync_until: u64,
    /// The latest moment it was asked for a candidate.
    clock: Instant,
    chunk_pages: u64,
    has_failed: bool,
    stats: FlushStats,
}

impl Default for Flusher {
    /// One with nothing dirty.
    fn default() -> Flusher {
        Flusher {
            pages: Pages::default(),
            turns: FlushTurns::default(),
            totals: Totals::default(),
            next_number: 0,
            marked: 0,
            sync_until: 0,
            clock: Instant::ZERO,
            chunk_pages: CHUNK.get() / PAGE,
            has_failed: false,
            stats: FlushStats::default(),
        }
    }
}

impl Flusher {
    /// The pages that a write of the area would newly dirty: those that are clean, and those on
    /// their way to the disk that are not dirty again.
    pub fn fresh(&self, area: Area) -> Bytes {
        let range = pages::touched(area);
        let all = range.end - range.start;
        let pending = self.pages.unclean(range).filter(|(_, state)| state.pending().is_some());
        pages::bytes(all - pending.map(|(part, _)| part.end - part.start).sum::<u64>())
    }

    /// Whether no page at all is dirty or on its way to the disk.
    pub fn is_empty(&self) -> bool {
        self.totals.dirty == 0 && self.totals.writing == 0
    }

    /// Whether nothing in an area is dirty or on its way to the disk.
    pub fn is_clean(&self, area: Area) -> bool {
        self.pages.unclean(pages::touched(area)).next().is_none()
    }

    /// A group is due from now on while more than so much of it is dirty and not on its way;
    /// `None`: it has no mark of its own.
    pub fn set_background(&mut self, id: GroupId, background: Option<Bytes>) {
        let group = self.turns.get_mut(id);
        let former = std::mem::replace(&mut group.background, background.map(|b| b.get() / PAGE));
        if group.background != former {
            self.file(id);
        }
    }

    /// A write that has passed stage pace is about to dirty so much: it counts as dirty until
    /// [`Flusher::wrote`] or [`Flusher::broken`].
    pub fn promise(&mut self, group: GroupId, size: Bytes) {
        self.turns.get_mut(group).promised += size;
        self.totals.promised += size;
    }

    /// The write is in memory: its pages are dirty now. `promised` is what was promised for it.
    /// Returns what is newly dirty, as [`Flusher::fresh`] would have said.
    pub fn wrote(&mut self, now: Instant, owner: Owner, area: Area, promised: Bytes) -> Bytes {
        self.broken(owner.group, promised);
        let (mut fresh, mut rest) = (0, pages::touched(area));
        while let Some((part, state)) = self.pages.next_part(&mut rest) {
            let count = part.end - part.start;
            if state.is_some_and(|state| state.pending().is_some()) {
                self.stats.rewritten_pages += count;
                continue;
            }
            fresh += count;
            let stamp = self.stamp(now, owner, part.start);
            let group = self.turns.get_mut(owner.group);
            let new = if let Some(PageState::Writing { number, .. }) = state {
                group.again += count;
                self.stats.dirtied_again_pages += count;
                PageState::Writing { number, again: Some(stamp) }
            } else {
                group.dirty += count;
                self.totals.dirty += count;
                PageState::Dirty(stamp)
            };
            self.pages.paint(part, state, Some(new));
        }
        self.stats.dirtied_pages += fresh;
        self.file(owner.group);
        pages::bytes(fresh)
    }

    /// The age and number of a page that becomes dirty: that of the page before it if that may be.
    fn stamp(&mut self, now: Instant, owner: Owner, page: Page) -> Stamp {
        let before = page.before().and_then(|before| self.pages.at(before));
        let before = before.and_then(|(state, _)| state.pending()).filter(|before| {
            before.owner == owner
                && before.number >= self.marked
                && now.since(before.since) <= MERGE_AGE
        });
        before.unwrap_or_else(|| {
            let number = self.next_number;
            self.next_number += 1;
            Stamp { number, since: now, owner, is_asked: false, is_urgent: false }
        })
    }

    /// The write failed and dirtied nothing.
    pub fn broken(&mut self, group: GroupId, promised: Bytes) {
        let account = self.turns.get_mut(group);
        assert!(promised <= account.promised, "{group:?} broke more than it was promised");
        account.promised = account.promised - promised;
        self.totals.promised = self.totals.promised - promised;
    }

    /// The content of the area is void, or was written through to the disk: dirty pages wholly
    /// inside are clean, and pages on their way are not dirty again. Says what write-back each
    /// group is spared.
    pub fn discard(&mut self, area: Area, mut cleaned: impl FnMut(GroupId, Bytes)) {
        let mut spared = BTreeMap::<GroupId, u64>::new();
        let mut range = pages::inside(area);
        while let Some((part, state)) = self.pages.next_part(&mut range) {
            let Some(stamp) = state.and_then(|state| state.pending()) else { continue };
            let count = part.end - part.start;
            let group = self.turns.get_mut(stamp.owner.group);
            let rest = if let Some(PageState::Writing { number, .. }) = state {
                group.again -= count;
                Some(PageState::Writing { number, again: None })
            } else {
                group.dirty -= count;
                self.totals.dirty -= count;
                None
            };
            self.pages.paint(part, state, rest);
            *spared.entry(stamp.owner.group).or_default() += count;
        }
        for (group, count) in spared {
            self.stats.discarded_pages += count;
            self.file(group);
            cleaned(group, pages::bytes(count));
        }
    }

    /// Dirty memory as stage pace sees it: of the device, and of a group alone.
    pub fn dirty(&self, group: GroupId) -> Dirty {
        self.totals.dirty(self.turns.memory(group))
    }

    /// Whether a group has dirty memory or promises: then it must not be forgotten.
    pub fn has_dirty(&self, group: GroupId) -> bool {
        self.turns.get(group).has_any()
    }

    /// Forgets a group that has none.
    pub fn remove_group(&mut self, group: GroupId) {
        self.turns.remove(group);
    }

    /// How much of one owner's pages is written back before another's turn; a page at least.
    pub fn set_chunk(&mut self, chunk: Bytes) {
        self.chunk_pages = (chunk.get() / PAGE).max(1);
    }

    /// What has happened so far.
    pub fn stats(&self) -> FlushStats {
        self.stats
    }
}

#[cfg(test)]
mod tests;
