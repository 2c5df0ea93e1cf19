//! Memory that somebody else lends for a while: that of a virtual machine, which the disk then
//! reads into and is written from without a copy.

use std::any::Any;
use std::sync::Arc;

/// A piece of memory of somebody else, and that which keeps it mapped.
pub(crate) struct Lent {
    start: *mut u8,
    len: usize,
    /// Keeps it mapped for as long as this is there.
    _lender: Arc<dyn Any + Send + Sync>,
}

// SAFETY: no thread is bound to it: the lender keeps it mapped, whichever thread has it.
unsafe impl Send for Lent {}
// SAFETY: the same; nothing is changed through a shared reference.
unsafe impl Sync for Lent {}

impl Lent {
    /// So many bytes from there on.
    ///
    /// # Safety
    /// They are mapped, readable and writable, for as long as `lender` is there, and this program
    /// has no reference to them. Whoever lends them may change them at any time: they are data
    /// that is only moved, never looked at.
    pub(crate) unsafe fn new(
        start: *mut u8,
        len: usize,
        lender: Arc<dyn Any + Send + Sync>,
    ) -> Lent {
        Lent { start, len, _lender: lender }
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}
