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
//! Only which page is where is modelled, not what it holds.
//!
//! # Limits
//! No read-ahead (the disk model has its own); no difference between files; a write to a part of a
//! page does not read the rest first. When everything is dirty, memory grows beyond its size.

use iopace_core::request::Extent;
use iopace_core::units::Bytes;
use std::collections::BTreeMap;

/// Size of a page.
pub const PAGE: u64 = iopace_core::flush::PAGE;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Frame {
    is_dirty: bool,
    /// Whether it was read since it was written last.
    was_read: bool,
    /// Its last use.
    stamp: u64,
}

/// The cache.
#[derive(Debug)]
pub struct PageCache {
    config: PageCacheConfig,
    frames: BTreeMap<u64, Frame>,
    /// Clean pages by last use: what can be evicted. Pages that were only written come before all
    /// others with `drop_behind`.
    lru: BTreeMap<(bool, u64), u64>,
    /// Counts uses, from one.
    stamp: u64,
    dirty_pages: u64,
}

impl PageCache {
    /// An empty cache.
    pub fn new(config: PageCacheConfig) -> PageCache {
        let (frames, lru) = (BTreeMap::new(), BTreeMap::new());
        PageCache { config, frames, lru, stamp: 0, dirty_pages: 0 }
    }

    /// Looks a read up, and counts it as a use of the pages that are there.
    pub fn read(&mut self, extent: Extent) -> Lookup {
        let (mut first, mut last) = (None, 0);
        for page in pages(extent) {
            if self.frames.contains_key(&page) {
                self.touch(page, true);
            } else {
                first.get_or_insert(page);
                last = page;
            }
        }
        match first {
            None => Lookup::Hit,
            Some(first) => Lookup::Miss(page_extent(first, last + 1 - first)),
        }
    }

    /// The pages wholly inside `extent` were read from the disk, or written through to it.
    pub fn fill(&mut self, extent: Extent) {
        for page in whole_pages(extent) {
            if !self.frames.contains_key(&page) && self.make_room(1) {
                self.insert(page, false);
            }
            self.touch(page, true);
        }
    }

    /// The pages that `extent` touches are written, and dirty from now on.
    pub fn write(&mut self, extent: Extent) {
        // Its own pages must not be the ones that make room for it.
        pages(extent).for_each(|page| self.touch(page, false));
        let new = pages(extent).filter(|page| !self.frames.contains_key(page)).count() as u64;
        self.make_room(new);
        for page in pages(extent) {
            match self.frames.get_mut(&page) {
                None => self.insert(page, true),
                Some(frame) if frame.is_dirty => frame.was_read = false,
                Some(frame) => {
                    let key = key(&self.config, frame);
                    frame.is_dirty = true;
                    frame.was_read = false;
                    self.lru.remove(&key);
                    self.dirty_pages += 1;
                }
            }
        }
    }

    /// Pages that are clean now.
    pub fn cleaned(&mut self, extent: Extent) {
        for page in pages(extent) {
            let Some(frame) = self.frames.get_mut(&page).filter(|frame| frame.is_dirty) else {
                continue;
            };
            frame.is_dirty = false;
            self.dirty_pages -= 1;
            self.lru.insert(key(&self.config, frame), page);
        }
        self.make_room(0);
    }

    /// Forgets the pages wholly inside `extent`: their content is void.
    pub fn trim(&mut self, extent: Extent) {
        for page in whole_pages(extent) {
            if let Some(frame) = self.frames.remove(&page) {
                self.lru.remove(&key(&self.config, &frame));
                self.dirty_pages -= u64::from(frame.is_dirty);
            }
        }
    }

    /// Dirty memory.
    pub fn dirty(&self) -> Bytes {
        Bytes(self.dirty_pages * PAGE)
    }

    /// All cached memory.
    pub fn cached(&self) -> Bytes {
        Bytes(self.frames.len() as u64 * PAGE)
    }

    fn insert(&mut self, page: u64, is_dirty: bool) {
        self.stamp += 1;
        let frame = Frame { is_dirty, was_read: !is_dirty, stamp: self.stamp };
        self.frames.insert(page, frame);
        if is_dirty {
            self.dirty_pages += 1;
        } else {
            self.lru.insert(key(&self.config, &frame), page);
        }
    }

    /// Counts a use.
    fn touch(&mut self, page: u64, is_read: bool) {
        let Some(frame) = self.frames.get_mut(&page) else { return };
        let old = key(&self.config, frame);
        self.stamp += 1;
        frame.stamp = self.stamp;
        frame.was_read |= is_read;
        if !frame.is_dirty {
            let new = key(&self.config, frame);
            self.lru.remove(&old);
            self.lru.insert(new, page);
        }
    }

    /// Evicts clean pages until `count` more fit, or there is none left: false then.
    fn make_room(&mut self, count: u64) -> bool {
        let most = self.config.memory.get() / PAGE;
        while self.frames.len() as u64 + count > most {
            let Some((_, page)) = self.lru.pop_first() else { return false };
            self.frames.remove(&page);
        }
        true
    }
}

/// The place of a clean page in the order of eviction.
fn key(config: &PageCacheConfig, frame: &Frame) -> (bool, u64) {
    (frame.was_read || !config.drop_behind, frame.stamp)
}

/// The pages that `extent` touches.
fn pages(extent: Extent) -> impl Iterator<Item = u64> {
    let first = extent.offset().get() / PAGE;
    let end = extent.end().get().div_ceil(PAGE);
    first..if extent.is_empty() { first } else { end }
}

/// The pages that lie wholly inside `extent`.
fn whole_pages(extent: Extent) -> impl Iterator<Item = u64> {
    let first = extent.offset().get().div_ceil(PAGE);
    first..(extent.end().get() / PAGE).max(first)
}

fn page_extent(first: u64, count: u64) -> Extent {
    Extent::new(Bytes(first * PAGE), Bytes(count * PAGE)).expect("pages of a device")
}

#[cfg(test)]
mod tests;
