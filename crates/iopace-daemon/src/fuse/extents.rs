//! Where on the disk a file lies, as far as its file system tells (`FIEMAP`).
//!
//! Asked for when a read needs the disk, and remembered for a while: files move (copy on write,
//! defragmentation), and what was just written has no place yet.

use crate::clock;
use iopace_core::time::{Instant, Nanos};
use rustix::ioctl::{self, Ioctl, Opcode};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::AsFd;

/// Extents asked for at once: 64 of them fit into one page with the header.
const ASKED: usize = 64;

/// Most extents remembered of one file; a file with more is in pieces anyway.
const KEPT_MAX: usize = 1_024;

/// What was learned is asked for anew after this time.
const FRESH: Nanos = Nanos::from_secs(10);

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`, of which the header has 32 bytes.
const FS_IOC_FIEMAP: Opcode = ioctl::opcode::read_write::<Header>(b'f', 11);

/// Flags of an extent without a place: not known, not yet allocated, encoded, or inside metadata
/// (linux/fiemap.h: UNKNOWN, DELALLOC, ENCODED, DATA_INLINE, DATA_TAIL).
const NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x200 | 0x400;

/// `struct fiemap` without its extents.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Query {
    header: Header,
    extents: [Raw; ASKED],
}

struct Fiemap<'a>(&'a mut Query);

// SAFETY: the operation takes a pointer to `struct fiemap` with room for `extent_count` extents
// behind it, which `Query` is; it writes there and nowhere else.
unsafe impl Ioctl for Fiemap<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        FS_IOC_FIEMAP
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    // SAFETY: nothing is read through the pointer.
    unsafe fn output_from_ptr(_: ioctl::IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// What is known of one file.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// By offset in the file: length, and place on the disk if there is one.
    known: BTreeMap<u64, (u64, Option<u64>)>,
    learned: Option<Instant>,
}

impl Extents {
    /// Where the byte at `offset` of the file lies on its disk; `None` if it lies nowhere, or its
    /// file system does not say.
    pub(crate) fn place(&mut self, file: impl AsFd, offset: u64) -> Option<u64> {
        let now = clock::now();
        if self.learned.is_none_or(|at| now.since(at) > FRESH) || self.known.len() > KEPT_MAX {
            self.forget();
        }
        if let Some(place) = self.look(offset) {
            return place;
        }
        self.learned.get_or_insert(now);
        self.learn(file, offset);
        self.look(offset).flatten()
    }

    /// The file has changed its shape.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.learned = None;
    }

    fn look(&self, offset: u64) -> Option<Option<u64>> {
        let (from, (len, place)) = self.known.range(..=offset).next_back()?;
        (offset - from < *len).then(|| place.map(|place| place + (offset - from)))
    }

    fn learn(&mut self, file: impl AsFd, offset: u64) {
        let mut query = Query { header: Header::default(), extents: [Raw::default(); ASKED] };
        query.header.start = offset;
        query.header.length = u64::MAX - offset;
        query.header.extent_count = ASKED as u32;
        // SAFETY: see `Fiemap`.
        let asked = unsafe { ioctl::ioctl(file, Fiemap(&mut query)) };
        let count = if asked.is_ok() { query.header.mapped_extents as usize } else { 0 };
        self.answered(offset, &query.extents[..count.min(ASKED)]);
    }

    /// Remembers an answer to the question for `offset`.
    fn answered(&mut self, offset: u64, extents: &[Raw]) {
        self.keep(offset, extents);
        if self.look(offset).is_none() {
            // A hole up to the end, or a file system that does not say.
            self.known.insert(offset, (u64::MAX - offset, None));
        }
    }

    /// Remembers what was said of the file from `offset` on. A damaged file system says anything:
    /// an extent that reaches beyond 64 bits has no place.
    fn keep(&mut self, offset: u64, extents: &[Raw]) {
        let mut at = offset;
        for extent in extents {
            if extent.logical > at {
                self.known.insert(at, (extent.logical - at, None));
            }
            let is_possible = extent.physical.checked_add(extent.length).is_some();
            let place = (extent.flags & NO_PLACE == 0 && is_possible).then_some(extent.physical);
            self.known.insert(extent.logical, (extent.length, place));
            at = extent.logical.saturating_add(extent.length);
        }
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod hostile;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn the_layout_is_that_of_the_kernel() {
        assert_eq!((size_of::<Header>(), size_of::<Raw>()), (32, 56));
        assert_eq!(size_of::<Query>(), 32 + 56 * ASKED);
    }

    #[test]
    fn places_are_within_extents_and_holes_have_none() {
        let mut extents = Extents::default();
        extents.known.insert(4096, (8192, Some(1 << 20)));
        extents.known.insert(12_288, (4096, None));
        assert_eq!(extents.look(4096), Some(Some(1 << 20)));
        assert_eq!(extents.look(12_287), Some(Some((1 << 20) + 8191)));
        assert_eq!(
            (extents.look(12_288), extents.look(0), extents.look(16_384)),
            (Some(None), None, None)
        );
    }

    #[test]
    fn an_extent_beyond_any_disk_has_no_place() {
        let mut extents = Extents::default();
        let beyond = Raw { physical: u64::MAX - 4096, length: 1 << 20, ..Raw::default() };
        let last = Raw { logical: u64::MAX - 9, physical: 7, length: 100, ..Raw::default() };
        extents.keep(0, &[beyond, last]);
        assert_eq!(extents.look(0), Some(None));
        assert_eq!(extents.look(8192), Some(None), "no address wraps");
        assert_eq!(extents.look(u64::MAX), Some(Some(16)));
    }

    #[test]
    fn a_real_file_is_asked_and_what_it_says_is_remembered() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(&[1; 65_536], 1 << 20).expect("written");
        file.sync_all().expect("placed");
        let mut extents = Extents::default();
        assert_eq!(extents.place(&file, 0), None, "a hole");
        let place = extents.place(&file, (1 << 20) + 4096);
        // Only some file systems say: those that do, say the same for the next page.
        if let Some(place) = place {
            assert_eq!(extents.place(&file, (1 << 20) + 8192), Some(place + 4096));
        }
        assert!(!extents.known.is_empty());
        extents.forget();
        assert!(extents.known.is_empty());
    }
}
