//! Where files lie on an emulated disk: the allocator of a file system that does not exist.
//!
//! # Model
//! A file lies in chunks of 64 KiB, 64 KiB, 128 KiB and so on up to 4 MiB, then of 8 MiB each. A
//! chunk gets its place when it is touched first, behind the one that got its place before it:
//! files that are written or first read one after the other lie side by side, a file that is there
//! already lies in one piece, and files that grow at the same time lie in turns. Space of removed
//! files is used again once the disk was filled.
//!
//! # Limits
//! Metadata has no place and costs no disk. A request that crosses the end of a chunk counts as if
//! the file went on behind it. A disk that is too small for all files has two of them in one place,
//! which is wrong in time only.
//!
//! # Sources
//! Growth up to 8 MiB: the preallocation of ext4 (`ext4_mb_normalize_request`, fs/ext4/mballoc.c).

use crate::limits::SYNC_PIECES_MAX;
use iopace_core::request::{Area, Extent};
use iopace_core::units::Bytes;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The first chunk.
const SMALLEST: u64 = 64 << 10;

/// Chunks from this offset on have this size.
const LARGEST: u64 = 8 << 20;

/// How much of a file that is there already gets its place at the first touch.
const AT_ONCE: u64 = 1 << 30;

/// The space of an emulated disk.
#[derive(Debug)]
pub(crate) struct Layout {
    capacity: u64,
    state: Mutex<Space>,
}

#[derive(Debug)]
struct Space {
    /// Free space by its beginning, never two pieces side by side.
    free: BTreeMap<u64, u64>,
    /// Behind what was given last.
    next: u64,
}

/// The chunks of one file: by offset in the file, the place.
#[derive(Debug, Default)]
pub(crate) struct Chunks(Mutex<BTreeMap<u64, u64>>);

impl Chunks {
    /// Whether none has a place.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// From the beginning of the first to the end of the second, which does not begin before it.
fn both(first: Extent, second: Extent) -> Extent {
    let end = first.end().max(second.end());
    Extent::new(first.offset(), end - first.offset()).expect("within the disk")
}

impl Layout {
    /// An empty disk.
    pub(crate) fn new(capacity: Bytes) -> Layout {
        let free = BTreeMap::from([(0, capacity.get())]);
        Layout { capacity: capacity.get(), state: Mutex::new(Space { free, next: 0 }) }
    }

    /// Where a piece of a file of so many bytes lies.
    pub(crate) fn place(&self, chunks: &Chunks, size: u64, offset: u64, len: u64) -> Extent {
        let mut chunks = chunks.0.lock().unwrap_or_else(PoisonError::into_inner);
        if chunks.is_empty() {
            let mut at = 0;
            while at < size.min(AT_ONCE) {
                let (from, len) = chunk(at);
                chunks.insert(from, self.take(len));
                at = from + len;
            }
        }
        let (from, chunk_len) = chunk(offset);
        let place = *chunks.entry(from).or_insert_with(|| self.take(chunk_len));
        let at = (place + (offset - from)).min(self.capacity.saturating_sub(len));
        Extent::new(Bytes(at), Bytes(len.min(self.capacity))).expect("within the disk")
    }

    /// The chunks of a file that have something to write back, neighbours on the disk as one. If
    /// they lie in too many places, one extent from the first to the last, with other files in it.
    pub(crate) fn unclean(
        &self,
        chunks: &Chunks,
        are_clean: impl FnOnce(&[Area]) -> Vec<bool>,
    ) -> Vec<Area> {
        let chunks = chunks.0.lock().unwrap_or_else(PoisonError::into_inner);
        let extents = chunks.iter().filter_map(|(offset, place)| {
            let end = (place + chunk(*offset).1).min(self.capacity);
            Extent::new(Bytes(*place), Bytes(end.saturating_sub(*place)))
        });
        let extents: Vec<Extent> = extents.collect();
        let areas: Vec<Area> = extents.iter().copied().map(Area::from).collect();
        let clean = are_clean(&areas);
        let unclean = extents.into_iter().zip(clean).filter(|(_, is_clean)| !is_clean);
        let mut unclean: Vec<Extent> = unclean.map(|(extent, _)| extent).collect();
        unclean.sort_unstable_by_key(|extent| extent.offset());
        let mut pieces: Vec<Extent> = Vec::new();
        for next in unclean {
            match pieces.last_mut() {
                Some(last) if last.end() >= next.offset() => *last = both(*last, next),
                _ => pieces.push(next),
            }
        }
        if let [first, .., last] = pieces[..]
            && pieces.len() > SYNC_PIECES_MAX
        {
            pieces = vec![both(first, last)];
        }
        pieces.into_iter().map(Area::from).collect()
    }

    /// Everything of a file from an offset on is void: says where that was. Whole chunks are free.
    pub(crate) fn cut(&self, chunks: &Chunks, from: u64, mut void: impl FnMut(Extent)) {
        let mut chunks = chunks.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, first_len) = chunk(from);
        for (offset, place) in chunks.split_off(&first) {
            let (_, len) = chunk(offset);
            let kept = from.saturating_sub(offset).min(len);
            if let Some(extent) = Extent::new(Bytes(place + kept), Bytes(len - kept)) {
                void(extent);
            }
            if kept == 0 {
                self.give(place, len);
            } else {
                debug_assert_eq!(len, first_len);
                chunks.insert(offset, place);
            }
        }
    }

    fn take(&self, len: u64) -> u64 {
        let mut space = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = space.next;
        // The free piece that the last one was cut from begins there.
        let ahead = space.free.range(next..).chain(space.free.range(..next));
        let found = ahead.map(|(from, size)| (*from, *size)).find(|(_, size)| *size >= len);
        let Some((from, size)) = found else {
            // Full: two files in one place.
            space.next = if next + 2 * len > self.capacity { 0 } else { next + len };
            return space.next.min(self.capacity.saturating_sub(len));
        };
        space.free.remove(&from);
        if size > len {
            space.free.insert(from + len, size - len);
        }
        space.next = from + len;
        from
    }

    fn give(&self, from: u64, len: u64) {
        let mut space = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut from, mut len) = (from, len);
        if let Some((before, size)) = space.free.range(..=from).next_back().map(|(b, s)| (*b, *s)) {
            if before + size > from {
                return; // It was in two places: the other file has given it back already.
            }
            if before + size == from {
                space.free.remove(&before);
                (from, len) = (before, size + len);
            }
        }
        let end = from + len;
        match space.free.range(from..).next().map(|(after, size)| (*after, *size)) {
            Some((after, size)) if after <= end => {
                space.free.remove(&after);
                len = (after + size).max(end) - from;
            }
            _ => {}
        }
        space.free.insert(from, len);
    }
}

/// The chunk of a file that a byte lies in: its offset and size.
fn chunk(offset: u64) -> (u64, u64) {
    if offset < SMALLEST {
        (0, SMALLEST)
    } else if offset < LARGEST {
        let from = 1 << offset.ilog2();
        (from, from)
    } else {
        (offset / LARGEST * LARGEST, LARGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn chunks_cover_a_file_without_gaps() {
        let mut at = 0;
        while at < 64 * MIB {
            let (from, len) = chunk(at);
            assert_eq!(from, at);
            assert_eq!((chunk(at + len - 1), chunk(at + len).0), ((from, len), at + len));
            at += len;
        }
    }

    #[test]
    fn what_is_there_lies_in_one_piece_and_what_grows_in_turns() {
        let layout = Layout::new(Bytes(1 << 30));
        let (old, one, two) = (Chunks::default(), Chunks::default(), Chunks::default());
        let at =
            |chunks: &Chunks, size, offset| layout.place(chunks, size, offset, 4096).offset().get();
        assert_eq!(at(&old, 20 * MIB, 10 * MIB), 10 * MIB);
        assert_eq!(at(&old, 20 * MIB, 0), 0);
        let first = at(&one, 0, 0);
        assert_eq!(first, 24 * MIB, "behind the last chunk");
        assert_eq!(at(&two, 0, 0), first + SMALLEST);
        assert_eq!(at(&one, SMALLEST, SMALLEST), first + 2 * SMALLEST);
    }

    #[test]
    fn a_sync_covers_the_chunks_with_something_to_write_back() {
        let layout = Layout::new(Bytes(1 << 30));
        let (one, two) = (Chunks::default(), Chunks::default());
        assert_eq!(layout.unclean(&one, |chunks| vec![false; chunks.len()]), []);
        for offset in [0, SMALLEST] {
            layout.place(&one, 0, offset, 4096);
            layout.place(&two, 0, offset, 4096);
        }
        // Then two of the second, one behind the other.
        layout.place(&two, 0, 2 * SMALLEST, 4096);
        let unclean = |clean: &[bool]| -> Vec<(u64, u64)> {
            let pieces = layout.unclean(&two, |_| clean.to_vec());
            let piece = |e: Extent| (e.offset().get() / SMALLEST, e.len().get() / SMALLEST);
            pieces.iter().map(|area| piece(area.extent)).collect()
        };
        assert_eq!(unclean(&[false, true, true]), [(1, 1)]);
        assert_eq!(unclean(&[false, true, false]), [(1, 1), (4, 2)]);
        assert_eq!(unclean(&[false, false, false]), [(1, 1), (3, 3)]);
        assert_eq!(unclean(&[true, true, true]), []);
    }

    #[test]
    fn a_sync_of_many_places_is_one() {
        let layout = Layout::new(Bytes(1 << 40));
        let (one, two) = (Chunks::default(), Chunks::default());
        for chunk in 0..=SYNC_PIECES_MAX as u64 {
            layout.place(&one, 0, (1 << 30) + chunk * 8 * MIB, 4096);
            layout.place(&two, 0, 0, 4096);
            layout.place(&two, 0, (1 << 30) + chunk * 8 * MIB, 4096);
        }
        let pieces = layout.unclean(&one, |chunks| vec![false; chunks.len()]);
        assert_eq!(pieces.len(), 1);
        assert!(pieces[0].extent.len().get() > 8 * MIB * (1 + SYNC_PIECES_MAX as u64));
    }

    #[test]
    fn what_is_cut_off_is_void_and_free_again() {
        let layout = Layout::new(Bytes(64 * MIB));
        let file = Chunks::default();
        layout.place(&file, 16 * MIB, 0, 1);
        let mut void = Vec::new();
        layout.cut(&file, 12 * MIB, |extent| void.push(extent));
        assert_eq!(void, [Extent::new(Bytes(12 * MIB), Bytes(4 * MIB)).expect("small")]);
        let mut sum = 0;
        layout.cut(&file, 0, |extent| sum += extent.len().get());
        assert_eq!(sum, 16 * MIB);
        let space = layout.state.lock().expect("nobody panics");
        assert_eq!(space.free, BTreeMap::from([(0, 64 * MIB)]));
    }

    proptest! {
        /// Files never share a place unless the disk is full, and all space comes back.
        #[test]
        fn no_two_files_in_one_place(
            steps in prop::collection::vec((0..6_usize, 0..40_u64, any::<bool>()), 1..60)
        ) {
            let layout = Layout::new(Bytes(1 << 30));
            let files: Vec<Chunks> = (0..6).map(|_| Chunks::default()).collect();
            for (file, mib, is_cut) in steps {
                if is_cut {
                    layout.cut(&files[file], mib * MIB, |_| {});
                } else {
                    layout.place(&files[file], 0, mib * MIB, 4096);
                }
            }
            let mut all = Vec::new();
            for file in &files {
                for (offset, place) in file.0.lock().expect("nobody panics").iter() {
                    all.push((*place, chunk(*offset).1));
                }
            }
            for (from, len) in layout.state.lock().expect("nobody panics").free.iter() {
                all.push((*from, *len));
            }
            all.sort_unstable();
            let mut at = 0;
            for (from, len) in all {
                prop_assert_eq!(from, at);
                at += len;
            }
            prop_assert_eq!(at, 1 << 30);
        }
    }
}
