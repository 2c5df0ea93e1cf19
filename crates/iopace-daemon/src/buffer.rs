//! Memory for data on its way, aligned so that direct I/O takes it as it is.

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
    pages: Vec<Page>,
    len: usize,
}

/// Large buffers that are not in use. The system gives a large piece of memory page by page, on
/// first touch, which costs more than the copy into it; small ones come from the allocator's own
/// lists.
static SPARE: Mutex<Vec<Vec<Page>>> = Mutex::new(Vec::new());

/// Buffers of fewer pages than this are not kept: 32 KiB.
const SPARE_PAGES_MIN: usize = 8;

/// Buffers of more pages than this are not kept: 4 MiB.
const SPARE_PAGES_MAX: usize = 1024;

/// Most buffers kept: at most 64 MiB, in practice a few MiB of one size.
const SPARE_COUNT_MAX: usize = 16;

impl Buffer {
    /// `len` bytes; their content is arbitrary.
    pub fn new(len: usize) -> Buffer {
        let count = len.div_ceil(PAGE);
        if (SPARE_PAGES_MIN..=SPARE_PAGES_MAX).contains(&count) {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = spare.iter().rposition(|pages| pages.len() >= count) {
                return Buffer { pages: spare.swap_remove(place), len };
            }
        }
        Buffer { pages: vec![Page([0; PAGE]); count], len }
    }

    /// Makes it `len` bytes long, keeping its memory where it is large enough.
    pub fn resize(&mut self, len: usize) {
        if self.pages.is_empty() {
            *self = Buffer::new(len);
        } else if self.pages.len() * PAGE < len {
            self.pages.resize(len.div_ceil(PAGE), Page([0; PAGE]));
        }
        self.len = len;
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `pages` is contiguous, initialised memory of at least `len` bytes (`new` and
        // `resize` see to it), and a `Page` is nothing but its bytes (repr(C), no padding).
        unsafe { std::slice::from_raw_parts(self.pages.as_ptr().cast(), self.len) }
    }

    /// The bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `&mut self` makes this the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.pages.as_mut_ptr().cast(), self.len) }
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
        if (SPARE_PAGES_MIN..=SPARE_PAGES_MAX).contains(&self.pages.len()) {
            let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < SPARE_COUNT_MAX {
                spare.push(std::mem::take(&mut self.pages));
            }
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
        for len in [0, 1, 511, 4096, 4097, 1 << 20] {
            let mut buffer = Buffer::new(len);
            buffer.as_mut_slice().fill(7);
            assert_eq!((buffer.as_slice().len(), buffer.len()), (len, len));
            assert_eq!(buffer.as_slice().as_ptr().addr() % PAGE, 0);
        }
        let mut buffer = Buffer::new(10);
        buffer.resize(100_000);
        assert!(buffer.as_slice()[10..].iter().all(|&byte| byte == 0));
    }
}
