//! The frames of a modelled page cache: what is in memory, least recently used first out.
//!
//! # Model
//! ```text
//!            read hit: no disk           write: its pages are dirty from now on
//!  memory ┌──────────────────────────────────────────────┐
//!         │ clean, least recently used first .. │ dirty   │
//!         └──────────────────────────────────────────────┘
//!                ▲ evicted for new pages          └─ clean again when the flusher says so
//! ```
//! Pages of 4 KiB, shared by readers and writers. Dirty pages cannot be evicted, so whoever dirties
//! takes frames from whoever reads; how much may be dirty and what is written back when is the
//! engine's business. With `drop_behind`, a page that was written and not read since is the first
//! to be evicted once it is clean: what an operating system does that keeps pages used once apart
//! from pages used twice, or a program that drops what it has written (`POSIX_FADV_DONTNEED`).
//! Without, it is as good as any page used at that time, as in the systems of 2006.
//!
//! Only which page is where is modelled, not what it holds. Neighbours that were used one after the
//! other and are in the same state are one run: an operation costs some searches in ordered maps
//! for each run that it touches, however many pages these are.
//!
//! # Limits
//! No read-ahead (the disk model has its own); no difference between files; a write to a part of a
//! page does not read the rest first. When everything is dirty, memory grows beyond its size.

use iopace_core::request::Extent;
use iopace_core::units::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Size of a page.
pub const PAGE: u64 = iopace_core::units::PAGE;

/// Sizes of a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCacheConfig {
    /// All of it.
    pub memory: Bytes,
    /// Whether pages that were only written are evicted first once they are clean.
    pub drop_behind: bool,
}

/// Whether a read needs the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All pages are there.
    Hit,
    /// These pages have to be read, from the first to the last missing one.
    Miss(Extent),
}

/// Frames of consecutive pages in the same state, which were used one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameRun {
    /// Behind its last page.
    end: u64,
    is_dirty: bool,
    /// Whether they were read since they were written last.
    was_read: bool,
    /// The last use of its first page; that of each other one is by one later.
    stamp: u64,
}

impl FrameRun {
    /// Whether a run that begins where this one ends is the same run; `len`: pages of this one.
    fn joins(&self, len: u64, next: &FrameRun) -> bool {
        (self.is_dirty, self.was_read, self.stamp + len)
            == (next.is_dirty, next.was_read, next.stamp)
    }
}

/// The cache.
#[derive(Debug)]
pub struct PageCache {
    config: PageCacheConfig,
    /// By first page.
    runs: BTreeMap<u64, FrameRun>,
    /// First pages of clean runs by last use: what can be evicted. Pages that were only written
    /// come before all others with `drop_behind`.
    lru: BTreeMap<(bool, u64), u64>,
    /// Counts uses, from one.
    stamp: u64,
    pages: u64,
    dirty_pages: u64,
}

impl PageCache {
    /// An empty cache.
    pub fn new(config: PageCacheConfig) -> PageCache {
        let (runs, lru) = (BTreeMap::new(), BTreeMap::new());
        PageCache { config, runs, lru, stamp: 0, pages: 0, dirty_pages: 0 }
    }

    /// Looks a read up, and counts it as a use of the pages that are there.
    pub fn read(&mut self, extent: Extent) -> Lookup {
        let (mut first, mut end) = (None, 0);
        self.each(pages(extent), |cache, part, run| match run {
            Some(run) => cache.used(part, FrameRun { was_read: true, ..run }),
            None => {
                first.get_or_insert(part.start);
                end = part.end;
            }
        });
        match first {
            None => Lookup::Hit,
            Some(first) => Lookup::Miss(page_extent(first, end - first)),
        }
    }

    /// The pages wholly inside `extent` were read from the disk, or written through to it.
    pub fn fill(&mut self, extent: Extent) {
        self.each(whole_pages(extent), |cache, part, run| {
            if let Some(run) = run {
                return cache.used(part, FrameRun { was_read: true, ..run });
            }
            // What is more than memory drives its own first pages out.
            let mut first = part.start;
            loop {
                let end = first + cache.make_room(part.end - first);
                if first == end {
                    return;
                }
                let stamp = cache.stamps(end - first);
                cache.put(first, FrameRun { end, is_dirty: false, was_read: true, stamp });
                first = end;
            }
        });
    }

    /// The pages that `extent` touches are written, and dirty from now on.
    pub fn write(&mut self, extent: Extent) {
        let mut new = 0;
        // Its own pages must not be the ones that make room for it.
        self.each(pages(extent), |cache, part, run| match run {
            Some(run) => cache.used(part, run),
            None => new += part.end - part.start,
        });
        self.make_room(new);
        self.each(pages(extent), |cache, part, run| {
            let stamp = match run {
                Some(run) => {
                    cache.cut(&part);
                    run.stamp
                }
                None => cache.stamps(part.end - part.start),
            };
            cache.put(
                part.start,
                FrameRun { end: part.end, is_dirty: true, was_read: false, stamp },
            );
        });
    }

    /// Pages that are clean now.
    pub fn cleaned(&mut self, extent: Extent) {
        self.each(pages(extent), |cache, part, run| {
            if let Some(run) = run.filter(|run| run.is_dirty) {
                cache.cut(&part);
                cache.put(part.start, FrameRun { is_dirty: false, ..run });
            }
        });
        self.make_room(0);
    }

    /// Forgets the pages wholly inside `extent`: their content is void.
    pub fn trim(&mut self, extent: Extent) {
        self.each(whole_pages(extent), |cache, part, run| {
            if run.is_some() {
                cache.cut(&part);
            }
        });
    }

    /// Dirty memory.
    pub fn dirty(&self) -> Bytes {
        Bytes(self.dirty_pages * PAGE)
    }

    /// All cached memory.
    pub fn cached(&self) -> Bytes {
        Bytes(self.pages * PAGE)
    }

    /// Calls `act` with each part of a range in order: pages of one run, with what the run would be
    /// if it were these alone, or pages that are not there.
    fn each(
        &mut self,
        range: Range<u64>,
        mut act: impl FnMut(&mut PageCache, Range<u64>, Option<FrameRun>),
    ) {
        let mut page = range.start;
        while page < range.end {
            let (end, run) = self.part(page, range.end);
            act(self, page..end, run);
            page = end;
        }
    }

    /// The part of a range that begins with `page`, up to `end` at most.
    fn part(&self, page: u64, end: u64) -> (u64, Option<FrameRun>) {
        let Some(mut last) = self.runs.range(..end).next_back() else { return (end, None) };
        if *last.0 > page {
            last = match self.runs.range(..=page).next_back() {
                Some(before) if before.1.end > page => before,
                _ => {
                    let next = self.runs.range(page..end).next();
                    return (next.map_or(end, |(&first, _)| first), None);
                }
            };
        }
        let (&first, run) = last;
        if run.end <= page {
            return (end, None);
        }
        let end = end.min(run.end);
        (end, Some(FrameRun { end, stamp: run.stamp + (page - first), ..*run }))
    }

    /// Counts as many uses, and says the first of them.
    fn stamps(&mut self, count: u64) -> u64 {
        self.stamp += count;
        self.stamp + 1 - count
    }

    /// Pages of one run are used, and in that state from now on.
    fn used(&mut self, part: Range<u64>, run: FrameRun) {
        self.cut(&part);
        let stamp = self.stamps(part.end - part.start);
        self.put(part.start, FrameRun { stamp, ..run });
    }

    /// Puts pages in that are not there, and joins them with what they touch.
    fn put(&mut self, first: u64, mut run: FrameRun) {
        let len = run.end - first;
        self.pages += len;
        self.dirty_pages += if run.is_dirty { len } else { 0 };
        if let Some(&next) = self.runs.get(&run.end)
            && run.joins(len, &next)
        {
            self.remove(run.end, &next);
            run.end = next.end;
        }
        if let Some((&before_first, before)) = self.runs.range_mut(..first).next_back()
            && before.end == first
            && before.joins(first - before_first, &run)
        {
            before.end = run.end;
            return;
        }
        self.insert(first, run);
    }

    /// Takes pages of one run out.
    fn cut(&mut self, part: &Range<u64>) {
        let Some((&first, run)) = self.runs.range_mut(..part.end).next_back() else { return };
        let old = *run;
        if first < part.start {
            run.end = part.start;
        } else {
            self.remove(first, &old);
        }
        if part.end < old.end {
            self.insert(part.end, FrameRun { stamp: old.stamp + (part.end - first), ..old });
        }
        let len = part.end - part.start;
        self.pages -= len;
        self.dirty_pages -= if old.is_dirty { len } else { 0 };
    }

    fn insert(&mut self, first: u64, run: FrameRun) {
        if !run.is_dirty {
            self.lru.insert(key(&self.config, &run), first);
        }
        self.runs.insert(first, run);
    }

    fn remove(&mut self, first: u64, run: &FrameRun) {
        if !run.is_dirty {
            self.lru.remove(&key(&self.config, run));
        }
        self.runs.remove(&first);
    }

    /// Evicts clean pages until `count` more fit, or there is none left; how many of them fit.
    fn make_room(&mut self, count: u64) -> u64 {
        let most = self.config.memory.get() / PAGE;
        while self.pages + count > most {
            let Some((_, first)) = self.lru.pop_first() else { break };
            let Some(run) = self.runs.remove(&first) else { continue };
            let len = (run.end - first).min(self.pages + count - most);
            self.pages -= len;
            if first + len < run.end {
                self.insert(first + len, FrameRun { stamp: run.stamp + len, ..run });
            }
        }
        most.saturating_sub(self.pages).min(count)
    }
}

/// The place of a clean run in the order of eviction.
fn key(config: &PageCacheConfig, run: &FrameRun) -> (bool, u64) {
    (run.was_read || !config.drop_behind, run.stamp)
}

/// The pages that `extent` touches.
fn pages(extent: Extent) -> Range<u64> {
    let first = extent.offset().get() / PAGE;
    let end = extent.end().get().div_ceil(PAGE);
    first..if extent.is_empty() { first } else { end }
}

/// The pages that lie wholly inside `extent`.
fn whole_pages(extent: Extent) -> Range<u64> {
    let first = extent.offset().get().div_ceil(PAGE);
    first..(extent.end().get() / PAGE).max(first)
}

fn page_extent(first: u64, count: u64) -> Extent {
    Extent::new(Bytes(first * PAGE), Bytes(count * PAGE)).expect("pages of a device")
}

#[cfg(test)]
mod tests;
