//! Memory for data on its way, aligned so that direct I/O takes it as it is.

use std::fmt;

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

impl Buffer {
    /// `len` bytes; their content is arbitrary.
    pub fn new(len: usize) -> Buffer {
        Buffer { pages: vec![Page([0; PAGE]); len.div_ceil(PAGE)], len }
    }

    /// Makes it `len` bytes long, keeping its memory where it is large enough.
    pub fn resize(&mut self, len: usize) {
        if self.pages.len() * PAGE < len {
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
