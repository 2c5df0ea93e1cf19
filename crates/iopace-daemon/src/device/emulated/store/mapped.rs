//! A store in memory, as its data is moved: copied from and to a mapping of it.
//!
//! A copy of 1 MiB between a buffer and a mapping takes less than half as long as the system call
//! that does the same page by page. But to read a mapping where nothing was ever written takes
//! memory for that, and where the system has none left, a write to it ends the daemon and not the
//! request. So only pages that are known to be there are copied: those that a system call has
//! written before. All other reads and writes are system calls.
//!
//! A lock keeps the table true: copies and writes share it, and a trim has it alone. So no page is
//! taken away between the look at the table and the copy, nor between a write and its mark.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::{fs, io};

/// The bytes that a bit of the table stands for: the least page of any system.
const PAGE: u64 = 4096;

/// The largest store that is mapped: 64 GiB, for which the table takes 2 MiB.
const MAPPED_MAX: u64 = 64 << 30;

/// The mapping, and which of its pages are there.
pub(in crate::device::emulated) struct MappedStore {
    start: *mut c_void,
    len: u64,
    is_there: Box<[AtomicU64]>,
    /// Shared by copies and writes, exclusive for what takes pages away.
    pages: RwLock<()>,
}

// SAFETY: the mapping belongs to no thread; it is only copied from and to.
unsafe impl Send for MappedStore {}
// SAFETY: as above. Requests that overlap are for their clients to order, as with a disk.
unsafe impl Sync for MappedStore {}

impl MappedStore {
    /// All of a file in memory, of which nothing is there yet; `None` if it is too large, or the
    /// system does not map it.
    pub(in crate::device::emulated) fn new(file: &fs::File, len: u64) -> Option<MappedStore> {
        let bytes = usize::try_from(len).ok().filter(|_| (1..=MAPPED_MAX).contains(&len))?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { mmap(ptr::null_mut(), bytes, protection, flags, file, 0) }.ok()?;
        let words = len.div_ceil(PAGE).div_ceil(u64::from(u64::BITS));
        let is_there = (0..words).map(|_| AtomicU64::new(0)).collect();
        Some(MappedStore { start, len, is_there, pages: RwLock::default() })
    }

    fn share(&self) -> RwLockReadGuard<'_, ()> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The words of the table that an extent is in, with its bits.
    fn bits(&self, offset: u64, len: u64) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let (first, last) = (offset / PAGE, (offset + len.max(1) - 1) / PAGE);
        (first / 64..=last / 64).map(move |word| {
            let from = if word == first / 64 { first % 64 } else { 0 };
            let to = if word == last / 64 { last % 64 } else { 63 };
            (&self.is_there[word as usize], (u64::MAX >> (63 - to)) & (u64::MAX << from))
        })
    }

    /// Where an extent lies, if all of it is there.
    fn find(&self, offset: u64, len: usize) -> Option<*mut c_void> {
        let is_within = offset.checked_add(len as u64).is_some_and(|end| end <= self.len);
        let mut bits = is_within.then(|| self.bits(offset, len as u64))?;
        let is_there = bits.all(|(word, bits)| word.load(Relaxed) & bits == bits);
        // SAFETY: within the mapping.
        is_there.then(|| unsafe { self.start.byte_add(offset as usize) })
    }

    /// Whether all of an extent is there at this moment.
    pub(in crate::device::emulated) fn has_all(&self, offset: u64, len: u64) -> bool {
        self.find(offset, len as usize).is_some()
    }

    /// Reads an extent by a copy. False, without a copy, if not all of it is there.
    pub(in crate::device::emulated) fn read(&self, offset: u64, into: &mut [u8]) -> bool {
        let _shared = self.share();
        let Some(from) = self.find(offset, into.len()) else { return false };
        // SAFETY: both have so many bytes, and no buffer is part of the mapping. Somebody may write
        // there meanwhile: so this is the C library's copy of bytes, and no reference is made.
        unsafe { libc::memcpy(into.as_mut_ptr().cast(), from, into.len()) };
        true
    }

    /// Writes an extent: by a copy if all of it is there, by that system call otherwise.
    pub(in crate::device::emulated) fn write(
        &self,
        offset: u64,
        data: &mut [u8],
        by_call: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let _shared = self.share();
        if let Some(to) = self.find(offset, data.len()) {
            // SAFETY: as in `read`.
            unsafe { libc::memcpy(to, data.as_ptr().cast(), data.len()) };
            return Ok(());
        }
        let len = data.len() as u64;
        by_call(data)?;
        for (word, bits) in self.bits(offset, len) {
            word.fetch_or(bits, Relaxed);
        }
        Ok(())
    }

    /// Gives an extent back by that system call: afterwards it is not there.
    pub(in crate::device::emulated) fn give_back(
        &self,
        offset: u64,
        len: u64,
        by_call: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let _exclusive = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        for (word, bits) in self.bits(offset, len) {
            word.fetch_and(!bits, Relaxed);
        }
        by_call()
    }
}

impl Drop for MappedStore {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; nobody copies any more.
        let _ = unsafe { munmap(self.start, self.len as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::in_memory;
    use super::*;
    use crate::io::file::File;

    const PAGES: u64 = 200;

    fn store() -> (File, MappedStore) {
        let file = in_memory(PAGES * PAGE).expect("memory");
        let store = MappedStore::new(file.std(), PAGES * PAGE).expect("mapped");
        (file, store)
    }

    /// Writes, and says whether that was a system call.
    fn write((file, store): &(File, MappedStore), offset: u64, data: &[u8]) -> bool {
        let mut called = false;
        let by_call = |data: &mut [u8]| {
            called = true;
            file.write(data, offset, false)
        };
        store.write(offset, &mut data.to_vec(), by_call).expect("written");
        called
    }

    #[test]
    fn only_what_was_written_and_not_given_back_is_copied() {
        let both = store();
        let (file, store) = &both;
        let mut into = vec![1; 100];
        assert!(!store.read(0, &mut into) && !store.has_all(0, 100));
        // A page that is written in part is there, with zeroes around that.
        assert!(write(&both, 63 * PAGE + 10, b"some"));
        assert!(store.read(63 * PAGE, &mut into) && store.has_all(63 * PAGE, PAGE));
        assert_eq!((&into[..10], &into[10..14]), (&[0; 10][..], &b"some"[..]));
        assert!(!store.read(62 * PAGE + 4000, &mut into) && !store.read(64 * PAGE - 50, &mut into));
        // Over the words of the table, and both ways.
        let all = vec![7; 130 * PAGE as usize];
        assert!(write(&both, 63 * PAGE, &all));
        assert!(!write(&both, 64 * PAGE - 50, &[9; 100]), "it is copied");
        file.read(&mut into, 64 * PAGE - 60).expect("read");
        assert_eq!(into, [&[7; 10][..], &[9; 90][..]].concat());
        assert!(store.has_all(63 * PAGE, 130 * PAGE));
        store.give_back(100 * PAGE, 1, || Ok(())).expect("given back");
        assert!(!store.has_all(63 * PAGE, 130 * PAGE));
        assert!(!store.read(63 * PAGE, &mut vec![0; all.len()]));
        assert!(store.read(101 * PAGE, &mut into) && into == [7; 100]);
        // No more than there is.
        let len = PAGES * PAGE;
        assert!(!store.read(len - 50, &mut into) && !store.read(u64::MAX - 10, &mut into));
    }

    #[test]
    fn pages_that_nobody_wrote_take_no_memory() {
        let (file, store) = store();
        assert!(!store.read(0, &mut [0; 4096]));
        assert_eq!(rustix::fs::fstat(file.std()).expect("open").st_blocks, 0);
        assert!(MappedStore::new(file.std(), MAPPED_MAX + 1).is_none());
    }

    #[test]
    fn a_trim_waits_for_a_write_and_its_mark_and_a_copy_for_the_trim() {
        let (_file, store) = store();
        let written = store.write(0, &mut [1; 10], |_| {
            assert!(store.pages.try_write().is_err(), "no trim meanwhile");
            assert!(store.pages.try_read().is_ok(), "other copies go on");
            Ok(())
        });
        written.expect("written");
        assert!(store.has_all(0, 10));
        let given = store.give_back(0, PAGE, || {
            assert!(store.pages.try_read().is_err(), "no copy and no write meanwhile");
            Ok(())
        });
        given.expect("given back");
        assert!(!store.has_all(0, 10));
    }

    #[test]
    fn a_write_that_fails_marks_nothing() {
        let (_file, store) = store();
        let failed = store.write(0, &mut [1; 10], |_| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(failed.expect_err("it failed").kind(), io::ErrorKind::StorageFull);
        assert!(!store.has_all(0, 10));
    }
}
