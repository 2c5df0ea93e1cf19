//! Memory for large requests, of which the system gives 2 MiB as one page.
//!
//! A direct read of 1 MiB into pages of 4 KiB is 256 places in memory, more than a disk takes in
//! one request; into half a huge page it is one. With virtio-blk that is twice the throughput.
//!
//! The memory of a page is taken as long as one of its halves is in use. So a half whose other one
//! is in use is given out before one of a page that nobody uses, and of the latter a few are kept:
//! with `n` halves in use there are at most `n` + 4 pages, 2 MiB each.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// Size of a huge page, and its alignment.
const HUGE: usize = 2 << 20;

/// Pages kept that nobody uses any part of: 8 MiB.
const FREE_MAX: usize = 4;

static SPARE: Mutex<Spare<Huge>> = Mutex::new(Spare { halves: Vec::new(), pages: Vec::new() });

/// A piece of memory of the size of a huge page.
struct Huge(*mut c_void);

// SAFETY: it is a place in memory that belongs to nobody else and is unmapped once.
unsafe impl Send for Huge {}
// SAFETY: whoever shares it learns its address only.
unsafe impl Sync for Huge {}

impl Huge {
    fn map() -> Option<Huge> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), 2 * HUGE, protection, flags) }.ok()?;
        let before = start.align_offset(HUGE);
        // SAFETY: `before` is less than `HUGE`, so all these addresses are within the mapping.
        let (own, end) = unsafe { (start.byte_add(before), start.byte_add(before + HUGE)) };
        // SAFETY: what lies before and behind `own` in the mapping, which nobody uses.
        unsafe {
            let _ = before == 0 || munmap(start, before).is_ok();
            let _ = munmap(end, HUGE - before);
            // Where the system gives none, its pages are small.
            let _ = madvise(own, HUGE, Advice::LinuxHugepage);
        }
        Some(Huge(own))
    }
}

impl Drop for Huge {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; both halves are gone.
        let _ = unsafe { munmap(self.0, HUGE) };
    }
}

/// One of the two halves of a page.
struct Piece<P> {
    whole: Arc<P>,
    is_second: bool,
}

/// What is not in use. A page has one half here, or stands here whole, or not at all.
struct Spare<P> {
    /// The other half of each is in use: so these are no more than those in use.
    halves: Vec<Piece<P>>,
    /// Nobody uses any part of them; [`FREE_MAX`] at most.
    pages: Vec<Arc<P>>,
}

impl<P> Spare<P> {
    /// A half; of a new page only if there is none.
    fn take(&mut self, make: impl FnOnce() -> Option<P>) -> Option<Piece<P>> {
        if let Some(piece) = self.halves.pop() {
            return Some(piece);
        }
        let whole = match self.pages.pop() {
            Some(whole) => whole,
            None => Arc::new(make()?),
        };
        self.halves.push(Piece { whole: Arc::clone(&whole), is_second: true });
        Some(Piece { whole, is_second: false })
    }

    /// Takes a half back. What is given back is not kept: to be dropped where nobody waits for it.
    fn give(&mut self, piece: Piece<P>) -> Option<Arc<P>> {
        let is_other = |kept: &Piece<P>| Arc::ptr_eq(&kept.whole, &piece.whole);
        let Some(place) = self.halves.iter().rposition(is_other) else {
            self.halves.push(piece);
            return None;
        };
        self.halves.swap_remove(place);
        if self.pages.len() >= FREE_MAX {
            return Some(piece.whole);
        }
        self.pages.push(piece.whole);
        None
    }
}

/// Half a page: as large as the largest request of a mount. Its bytes are initialised.
pub(super) struct Half(Piece<Huge>);

impl Half {
    /// Its size.
    pub(super) const BYTES: usize = HUGE / 2;

    /// One that nobody uses; `None` if the system has no memory for it.
    pub(super) fn take() -> Option<Half> {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).take(Huge::map).map(Half)
    }

    /// Keeps it for the next who needs one.
    pub(super) fn give(self) {
        let left = SPARE.lock().unwrap_or_else(PoisonError::into_inner).give(self.0);
        // Unmapped without the lock.
        drop(left);
    }

    /// Where it begins.
    pub(super) fn start(&self) -> *mut u8 {
        let offset = if self.0.is_second { Half::BYTES } else { 0 };
        // SAFETY: within the mapping.
        unsafe { self.0.whole.0.byte_add(offset).cast() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Stands for a page, and is counted.
    struct Counted(Rc<Cell<usize>>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }

    #[test]
    fn no_more_pages_are_alive_than_halves_in_use_and_four() {
        let alive = Rc::new(Cell::new(0));
        let mut spare = Spare { halves: Vec::new(), pages: Vec::new() };
        let mut used = Vec::new();
        let make = || {
            alive.set(alive.get() + 1);
            Some(Counted(Rc::clone(&alive)))
        };
        let mut place = 0_usize;
        for count in [1, 2, 40, 7, 100, 51, 52, 0, 9, 0] {
            while used.len() < count {
                used.extend(spare.take(make));
                assert!(alive.get() <= used.len() + FREE_MAX);
            }
            while used.len() > count {
                // From all over, so that pages are left with one half in use.
                place = (place * 31 + 17) % used.len();
                drop(spare.give(used.swap_remove(place)));
                assert!(alive.get() <= used.len() + FREE_MAX, "{} {}", alive.get(), used.len());
            }
            let mut all: Vec<_> =
                used.iter().map(|piece| (Arc::as_ptr(&piece.whole), piece.is_second)).collect();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), used.len(), "one half is given to two");
        }
        assert_eq!((alive.get(), spare.pages.len(), spare.halves.len()), (FREE_MAX, FREE_MAX, 0));
    }

    #[test]
    fn a_page_in_use_is_used_whole_before_another() {
        let mut made = 0;
        let mut spare = Spare { halves: Vec::new(), pages: Vec::new() };
        let mut take = |spare: &mut Spare<usize>| {
            let make = || {
                made += 1;
                Some(made)
            };
            spare.take(make).expect("made")
        };
        let [one, two, three, four] = [(); 4].map(|()| take(&mut spare));
        assert_eq!([&one, &two, &three, &four].map(|piece| *piece.whole), [1, 1, 2, 2]);
        // Page 1 is free then, and of page 2 a half.
        for piece in [three, one, two] {
            assert!(spare.give(piece).is_none());
        }
        assert_eq!([(); 3].map(|()| *take(&mut spare).whole), [2, 1, 1]);
    }
}
