//! A modelled page cache: frames shared by clean and dirty pages, least recently used first out.
//!
//! # Model
//! ```text
//!            read hit: no disk             write: accepted, or Full above the dirty limit
//!  memory ┌──────────────────────────────────────────────┐
//!         │ clean, LRU ................ │ dirty │ writing │
//!         └──────────────────────────────────────────────┘
//!                ▲ evicted for new pages     └─ oldest first, in contiguous runs, to the disk
//! ```
//! Pages of 4 KiB. Dirty pages are written back once they exceed `dirty_background`, are older than
//! 30 s, a sync asks for them, or a writer waits for room: the oldest first, each with the dirty
//! pages that follow it on the device and belong to the same task, up to `write_back_len`. A page
//! that is written again before its write-back counts once; one that is written again *during* it
//! is dirty again afterwards.
//!
//! Only which page is where is modelled, not what it holds.
//!
//! # Limits
//! No read-ahead (the disk model has its own); no difference between files; a write to a part of a
//! page does not read the rest first.
//!
//! # Sources
//! Thresholds of 10 and 20 percent and the age of 30 s: Linux vm.dirty_background_ratio,
//! dirty_ratio and dirty_expire_centisecs. At most 1 MiB of write-back in flight: FreeBSD's
//! hirunningspace of
//! 2009 (vfs_bio.c).

use iopace_core::request::{Extent, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Size of a page.
pub const PAGE: u64 = 4096;

/// A dirty page is written back after this time at the latest.
pub const DIRTY_EXPIRE: Nanos = Nanos::from_secs(30);

/// Sizes of a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCacheConfig {
    /// All of it.
    pub memory: Bytes,
    /// Write-back starts above this much dirty memory.
    pub dirty_background: Bytes,
    /// Writers wait above this much.
    pub dirty_limit: Bytes,
    /// Largest write-back request.
    pub write_back_len: Bytes,
    /// Most write-back requests at once.
    pub write_back_inflight: u32,
}

impl PageCacheConfig {
    /// A cache of that much memory with the usual thresholds: 10 % background, 20 % limit, and
    /// write-back in eight requests of 128 KiB at once.
    pub fn for_memory(memory: Bytes) -> PageCacheConfig {
        let memory = memory.max(Bytes::from_mib(1));
        PageCacheConfig {
            memory,
            dirty_background: Bytes(memory.get() / 10),
            dirty_limit: Bytes(memory.get() / 5),
            write_back_len: Bytes::from_kib(128),
            write_back_inflight: 8,
        }
    }
}

/// Whether a read needs the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All pages are there.
    Hit,
    /// These pages have to be read, from the first to the last missing one.
    Miss(Extent),
}

/// Whether a write was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Its pages are dirty now.
    Accepted,
    /// Too much is dirty: nothing was changed, ask again after a write-back.
    Full,
}

/// Pages on their way to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Who dirtied them.
    pub task: TaskId,
    /// Where.
    pub extent: Extent,
}

/// Everything that was dirty at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SyncMark(u64);

/// When and by whom a page was dirtied; `number` counts dirtyings.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    number: u64,
    task: TaskId,
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Clean,
    Dirty(Dirty),
    /// On its way to the disk; the number it was dirtied under, and whether it was written again.
    Writing {
        number: u64,
        again: Option<Dirty>,
    },
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    state: State,
    /// Its last use.
    stamp: u64,
}

/// The cache.
#[derive(Debug)]
pub struct PageCache {
    config: PageCacheConfig,
    frames: BTreeMap<u64, Frame>,
    /// Clean pages by last use: what can be evicted.
    lru: BTreeMap<u64, u64>,
    /// Counts uses, from one.
    stamp: u64,
    /// Dirty pages (not those on their way) by the order of dirtying.
    dirty: BTreeMap<u64, u64>,
    /// Numbers of the pages on their way.
    writing: BTreeSet<u64>,
    next_number: u64,
    inflight: u32,
    /// Everything numbered below was asked for by a sync.
    sync_until: u64,
    /// A writer was sent away and has not come back: everything dirty is due.
    is_pressed: bool,
    /// A write-back failed and nobody was told yet.
    failed: bool,
}

impl PageCache {
    /// An empty cache.
    pub fn new(config: PageCacheConfig) -> PageCache {
        PageCache {
            config,
            frames: BTreeMap::new(),
            lru: BTreeMap::new(),
            stamp: 0,
            dirty: BTreeMap::new(),
            writing: BTreeSet::new(),
            next_number: 0,
            inflight: 0,
            sync_until: 0,
            is_pressed: false,
            failed: false,
        }
    }

    /// Looks a read up, and counts it as a use of the pages that are there.
    pub fn read(&mut self, extent: Extent) -> Lookup {
        let (mut first, mut last) = (None, 0);
        for page in pages(extent) {
            if self.frames.contains_key(&page) {
                self.touch(page);
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
                self.frames.insert(page, Frame { state: State::Clean, stamp: 0 });
            }
            self.touch(page);
        }
    }

    /// Takes a write, if not too much is dirty.
    pub fn write(&mut self, now: Instant, task: TaskId, extent: Extent) -> Accept {
        let is_dirty = |page: u64| {
            let state = self.frames.get(&page).map(|frame| frame.state);
            matches!(state, Some(State::Dirty(_) | State::Writing { .. }))
        };
        let new_dirty = pages(extent).filter(|&page| !is_dirty(page)).count() as u64;
        let unclean = self.unclean_pages();
        let over = (unclean + new_dirty) * PAGE > self.config.dirty_limit.get();
        self.is_pressed = over && unclean > 0 && new_dirty > 0;
        if self.is_pressed {
            return Accept::Full;
        }
        // Its own pages must not be the ones that make room for it.
        pages(extent).for_each(|page| self.touch(page));
        let new = pages(extent).filter(|page| !self.frames.contains_key(page)).count() as u64;
        // One that is larger than all the memory is taken alone: it must not wait for ever.
        self.is_pressed = !self.make_room(new) && unclean > 0;
        if self.is_pressed {
            return Accept::Full;
        }
        for page in pages(extent) {
            self.dirty_page(now, task, page);
        }
        Accept::Accepted
    }

    fn dirty_page(&mut self, since: Instant, task: TaskId, page: u64) {
        let number = self.next_number;
        let dirty = Dirty { number, task, since };
        let frame = self.frames.entry(page).or_insert(Frame { state: State::Clean, stamp: 0 });
        match &mut frame.state {
            // Written again before its write-back: counts once, and keeps its age.
            State::Dirty(_) => {}
            State::Writing { again, .. } => *again = Some(dirty),
            State::Clean => {
                self.lru.remove(&frame.stamp);
                frame.state = State::Dirty(dirty);
                self.dirty.insert(number, page);
            }
        }
        self.next_number += 1;
        self.touch(page);
    }

    /// The next run of pages for the disk, if something is due. Its pages are on their way then.
    pub fn next_write_back(&mut self, now: Instant) -> Option<WriteBack> {
        if self.inflight >= self.config.write_back_inflight || !self.is_due(now) {
            return None;
        }
        let (_, &first) = self.dirty.first_key_value()?;
        let most = (self.config.write_back_len.get() / PAGE).max(1);
        let task = self.dirty_task(first)?;
        let mut count = 0;
        while count < most && self.dirty_task(first + count) == Some(task) {
            let frame = self.frames.get_mut(&(first + count)).expect("it is dirty");
            let State::Dirty(Dirty { number, .. }) = frame.state else { unreachable!("dirty") };
            frame.state = State::Writing { number, again: None };
            self.dirty.remove(&number);
            self.writing.insert(number);
            count += 1;
        }
        self.inflight += 1;
        Some(WriteBack { task, extent: page_extent(first, count) })
    }

    fn dirty_task(&self, page: u64) -> Option<TaskId> {
        match self.frames.get(&page)?.state {
            State::Dirty(dirty) => Some(dirty.task),
            _ => None,
        }
    }

    /// Whether something has to be written back now.
    fn is_due(&self, now: Instant) -> bool {
        let Some((&oldest, _)) = self.dirty.first_key_value() else { return false };
        oldest < self.sync_until
            || self.is_pressed
            || self.unclean_pages() * PAGE > self.config.dirty_background.get()
            || self.next_expiry() <= now
    }

    /// When the oldest dirty page gets too old; never if nothing is dirty.
    pub fn next_expiry(&self) -> Instant {
        let oldest = self.dirty.first_key_value().and_then(|(_, page)| self.frames.get(page));
        match oldest.map(|frame| frame.state) {
            Some(State::Dirty(dirty)) => dirty.since + DIRTY_EXPIRE,
            _ => Instant::NEVER,
        }
    }

    /// A run is on the disk, or failed: then its data is lost, as in an operating system, and the
    /// next sync says so.
    pub fn written_back(&mut self, extent: Extent, ok: bool) {
        self.inflight -= 1;
        self.failed |= !ok;
        for page in pages(extent) {
            let Some(frame) = self.frames.get_mut(&page) else { continue };
            let State::Writing { number, again } = frame.state else { continue };
            self.writing.remove(&number);
            frame.state = match again {
                None => {
                    self.lru.insert(frame.stamp, page);
                    State::Clean
                }
                Some(dirty) => {
                    self.dirty.insert(dirty.number, page);
                    State::Dirty(dirty)
                }
            };
        }
    }

    /// Asks for the write-back of all that is dirty now.
    pub fn sync(&mut self) -> SyncMark {
        self.sync_until = self.next_number;
        SyncMark(self.next_number)
    }

    /// Whether all that was dirty at the mark has been written back.
    pub fn is_synced(&self, SyncMark(mark): SyncMark) -> bool {
        self.dirty.first_key_value().is_none_or(|(&oldest, _)| oldest >= mark)
            && self.writing.first().is_none_or(|&oldest| oldest >= mark)
    }

    /// Whether a write-back has failed since this was asked last.
    pub fn take_failure(&mut self) -> bool {
        std::mem::take(&mut self.failed)
    }

    /// Forgets the pages wholly inside `extent`: their content is void.
    pub fn trim(&mut self, extent: Extent) {
        for page in whole_pages(extent) {
            match self.frames.get(&page).map(|frame| frame.state) {
                Some(State::Clean) => {
                    let frame = self.frames.remove(&page).expect("it is there");
                    self.lru.remove(&frame.stamp);
                }
                Some(State::Dirty(dirty)) => {
                    self.dirty.remove(&dirty.number);
                    self.frames.remove(&page);
                }
                // It is clean when its write-back is done.
                Some(State::Writing { number, .. }) => {
                    let frame = self.frames.get_mut(&page).expect("it is there");
                    frame.state = State::Writing { number, again: None };
                }
                None => {}
            }
        }
    }

    /// Dirty memory, on its way to the disk or not.
    pub fn dirty(&self) -> Bytes {
        Bytes(self.unclean_pages() * PAGE)
    }

    /// All cached memory.
    pub fn cached(&self) -> Bytes {
        Bytes(self.frames.len() as u64 * PAGE)
    }

    fn unclean_pages(&self) -> u64 {
        (self.dirty.len() + self.writing.len()) as u64
    }

    /// Counts a use.
    fn touch(&mut self, page: u64) {
        let Some(frame) = self.frames.get_mut(&page) else { return };
        self.stamp += 1;
        if matches!(frame.state, State::Clean) {
            self.lru.remove(&frame.stamp);
            self.lru.insert(self.stamp, page);
        }
        frame.stamp = self.stamp;
    }

    /// Evicts clean pages until `count` more fit; false if there are not enough.
    fn make_room(&mut self, count: u64) -> bool {
        let most = self.config.memory.get() / PAGE;
        while self.frames.len() as u64 + count > most {
            let Some((_, page)) = self.lru.pop_first() else { return false };
            self.frames.remove(&page);
        }
        true
    }
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
