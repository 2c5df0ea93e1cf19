//! Memory for data on its way, aligned so that direct I/O takes it as it is.

mod huge;
mod lent;

use huge::Half;
pub(crate) use lent::Lent;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Alignment and granularity: a page, and no less than any logical block size of today's disks.
const PAGE: usize = 4096;

#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE]);

/// A piece of page-aligned memory, all of it initialised.
#[derive(Default)]
pub struct Buffer {
    memory: Memory,
    len: usize,
}

enum Memory {
    Pages(Vec<Page>),
    Half(Half),
    Lent(Lent),
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::Pages(Vec::new())
    }
}

impl Memory {
    fn capacity(&self) -> usize {
        match self {
            Memory::Pages(pages) => pages.len() * PAGE,
            Memory::Half(_) => Half::BYTES,
            Memory::Lent(lent) => lent.len(),
        }
    }
}

/// Large buffers that are not in use. The system gives a large piece of memory page by page, on
/// first touch, which costs more than the copy into it; small ones come from the allocator's own
/// lists.
static SPARE: Mutex<Spare> = Mutex::new(Spare(Vec::new()));

/// Those that are kept, the one given back last at the end.
struct Spare(Vec<Vec<Page>>);

/// Buffers from here on take half a huge page. Memory is counted by the length of what is in it:
/// an eighth at most is not counted, and less than 900 KiB is few enough places for a disk.
const HALF_BYTES_MIN: usize = 900 << 10;

/// Buffers of fewer pages than this are not kept: 32 KiB.
const SPARE_PAGES_MIN: usize = 8;

/// Buffers of more pages than this are not kept: 4 MiB.
const SPARE_PAGES_MAX: usize = 1024;

/// Most buffers kept: in practice a few MiB of one size.
const SPARE_COUNT_MAX: usize = 64;

/// Most pages kept together: 16 MiB.
const SPARE_TOTAL_PAGES_MAX: usize = 4096;

impl Spare {
    /// So many pages.
    fn take(&mut self, count: usize) -> Option<Vec<Page>> {
        let place = self.0.iter().rposition(|pages| pages.len() == count)?;
        Some(self.0.remove(place))
    }

    /// Keeps pages, and says which go for them: those that nobody has wanted for longest.
    fn keep(&mut self, pages: Vec<Page>) -> Vec<Vec<Page>> {
        self.0.push(pages);
        let (mut count, mut total) = (self.0.len(), self.0.iter().map(Vec::len).sum::<usize>());
        let goes = |pages: &&Vec<Page>| {
            let is_full = count > SPARE_COUNT_MAX || total > SPARE_TOTAL_PAGES_MAX;
            (count, total) = (count - 1, total - pages.len());
            is_full
        };
        let gone_count = self.0.iter().take_while(goes).count();
        self.0.drain(..gone_count).collect()
    }
}

/// Pages that a buffer of so many takes: eight sizes from one power of two to the next, so that
/// what is given back is likely to fit again, and less than an eighth more is taken than counted.
fn class(count: usize) -> usize {
    count.next_multiple_of((1 << count.ilog2()) / 8)
}

impl Buffer {
    /// Bytes of memory that a buffer of so many takes.
    pub fn capacity_for(len: usize) -> usize {
        let count = len.div_ceil(PAGE);
        match len {
            HALF_BYTES_MIN..=Half::BYTES => Half::BYTES,
            _ if (SPARE_PAGES_MIN..=SPARE_PAGES_MAX).contains(&count) => class(count) * PAGE,
            _ => count * PAGE,
        }
    }

    /// `len` bytes; their content is arbitrary.
    pub fn new(len: usize) -> Buffer {
        if (HALF_BYTES_MIN..=Half::BYTES).contains(&len)
            && let Some(half) = Half::take()
        {
            return Buffer { memory: Memory::Half(half), len };
        }
        let mut count = len.div_ceil(PAGE);
        if (SPARE_PAGES_MIN..=SPARE_PAGES_MAX).contains(&count) {
            count = class(count);
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(pages) = spare.take(count) {
                return Buffer { memory: Memory::Pages(pages), len };
            }
        }
        Buffer { memory: Memory::Pages(vec![Page([0; PAGE]); count]), len }
    }

    /// Memory that somebody else lends: data is moved between there and the disk without a copy.
    pub(crate) fn on(lent: Lent) -> Buffer {
        Buffer { len: lent.len(), memory: Memory::Lent(lent) }
    }

    /// Makes it `len` bytes long, keeping its memory where it is large enough, and its content.
    pub fn resize(&mut self, len: usize) {
        if self.memory.capacity() < len {
            debug_assert!(!matches!(self.memory, Memory::Lent(_)), "others look at lent memory");
            let mut larger = Buffer::new(len);
            let (old, new) = larger.as_mut_slice().split_at_mut(self.len);
            old.copy_from_slice(self.as_slice());
            new.fill(0);
            *self = larger;
        }
        self.len = len;
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        let start = match &self.memory {
            Memory::Pages(pages) => pages.as_ptr().cast(),
            Memory::Half(half) => half.start().cast_const(),
            Memory::Lent(lent) => lent.start().cast_const(),
        };
        // SAFETY: `start` is that of contiguous, initialised memory of at least `len` bytes (`new`
        // and `resize` see to it): a `Page` is nothing but its bytes (repr(C), no padding), and a
        // half is zeroes at first, and lent memory is its lender's word. It stays as long as
        // `self`.
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let start = match &mut self.memory {
            Memory::Pages(pages) => pages.as_mut_ptr().cast(),
            Memory::Half(half) => half.start(),
            Memory::Lent(lent) => lent.start(),
        };
        // SAFETY: as in `as_slice`, and `&mut self` makes this the only reference: no two buffers
        // have the same half. Two may have the same lent memory, if a machine asks for that: its
        // bytes are only moved, by system calls and copies of memory, whatever they are.
        unsafe { std::slice::from_raw_parts_mut(start, self.len) }
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl From<&[u8]> for Buffer {
    /// A copy.
    fn from(data: &[u8]) -> Buffer {
        let mut buffer = Buffer::new(data.len());
        buffer.as_mut_slice().copy_from_slice(data);
        buffer
    }
}

impl Drop for Buffer {
    /// Keeps a large one for the next who needs it.
    fn drop(&mut self) {
        let pages = match std::mem::take(&mut self.memory) {
            Memory::Pages(pages) => pages,
            Memory::Half(half) => return half.give(),
            Memory::Lent(_) => return,
        };
        if (SPARE_PAGES_MIN..=SPARE_PAGES_MAX).contains(&pages.len()) {
            let oldest = SPARE.lock().unwrap_or_else(PoisonError::into_inner).keep(pages);
            // To give memory back to the system takes long: not under the lock.
            drop(oldest);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_keep_their_length() {
        for len in [0, 1, 511, 4096, 4097, 1 << 19, 900 << 10, 1 << 20, (1 << 20) + 1] {
            let mut buffer = Buffer::new(len);
            buffer.as_mut_slice().fill(7);
            assert_eq!((buffer.as_slice().len(), buffer.len()), (len, len));
            assert_eq!(buffer.as_slice().as_ptr().addr() % PAGE, 0);
            let is_half = matches!(buffer.memory, Memory::Half(_));
            assert!(!is_half || len >= HALF_BYTES_MIN, "half a huge page for {len}");
        }
        let mut buffer = Buffer::new(10);
        buffer.as_mut_slice().fill(7);
        buffer.resize(100_000);
        assert_eq!(buffer.as_slice()[..10], [7; 10]);
        assert!(buffer.as_slice()[10..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_buffer_takes_less_than_an_eighth_more_than_it_counts() {
        for count in SPARE_PAGES_MIN..=SPARE_PAGES_MAX {
            let class = class(count);
            assert!(class >= count && class - count < count.div_ceil(8), "{class} for {count}");
            assert!(class <= SPARE_PAGES_MAX && super::class(class) == class, "{class}");
        }
        // Whatever is kept by then.
        drop((0..SPARE_COUNT_MAX).map(|_| Buffer::new(4 << 20)).collect::<Vec<Buffer>>());
        for len in [32 << 10, 100_000, 512 << 10, 3 << 20] {
            let capacity = Buffer::new(len).memory.capacity();
            assert!((len..len / 8 * 9 + PAGE).contains(&capacity), "{capacity} for {len}");
        }
    }

    #[test]
    fn what_is_kept_is_what_was_wanted_last() {
        let pages = |count: usize| vec![Page([0; PAGE]); count];
        let mut spare = Spare(Vec::new());
        for _ in 0..SPARE_COUNT_MAX {
            assert!(spare.keep(pages(64)).is_empty());
        }
        assert!(spare.take(8).is_none(), "none of these is for 32 KiB");
        assert_eq!(spare.keep(pages(8)).iter().map(Vec::len).collect::<Vec<_>>(), [64]);
        assert_eq!(spare.take(8).map(|pages| pages.len()), Some(8));
        assert_eq!(spare.take(64).map(|pages| pages.len()), Some(64));
        assert_eq!(spare.0.len(), SPARE_COUNT_MAX - 2);
        // So many pages are kept together.
        assert_eq!(spare.keep(pages(1024)).len(), 14);
        assert!(spare.take(1024).is_some());
    }

    #[test]
    fn no_two_buffers_share_memory() {
        let mut all: Vec<Buffer> = (0..50).map(|at| Buffer::new((1 << 20) - at)).collect();
        for (at, buffer) in (0..).zip(&mut all) {
            buffer.as_mut_slice().fill(at);
        }
        // What is given back is taken by the next.
        all.truncate(25);
        all.extend((25..50).map(|at| Buffer::from(&*vec![at; 1_000_000])));
        for (at, buffer) in (0..).zip(&all) {
            assert!(buffer.as_slice().iter().all(|&byte| byte == at), "{at}");
        }
    }
}
