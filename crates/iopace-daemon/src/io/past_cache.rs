//! A file of a tree opened a second time, to be read past the page cache (`O_DIRECT`).
//!
//! Only reads of which nothing is cached when they are carried out go this way, so that nothing of
//! them is dirty. What cannot be read so is read through the cache.

use super::file::File;
use super::pending_space::Hold;
use crate::limits::PAST_CACHE_FILES_MAX;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// File systems on a disk of this machine whose page cache is that of their files, so that the
/// system can say what is cached: not overlayfs, which has its own beside those of the files below,
/// nor network file systems, which write everything back when the way of reading changes.
const KNOWN: [libc::c_long; 3] =
    [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC];

/// A direct read ends within a block only at the end of the file; no disk has smaller ones.
const BLOCK_BYTES: usize = 512;

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// The file, opened so.
#[derive(Debug)]
pub(crate) struct PastCache {
    file: File,
    /// The file system opens it so, but does not read it.
    is_refused: AtomicBool,
    _counted: Counted,
}

#[derive(Debug)]
struct Counted;

impl Counted {
    fn new() -> Option<Counted> {
        let counted = Counted;
        // Counted down again if that is too many.
        (OPEN.fetch_add(1, SeqCst) < PAST_CACHE_FILES_MAX).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, SeqCst);
    }
}

/// Whether that many more can be opened so.
pub(crate) fn has_room() -> bool {
    OPEN.load(SeqCst) < PAST_CACHE_FILES_MAX
}

impl PastCache {
    /// `open` opens the file with `O_DIRECT`. None where that is of no use.
    pub(crate) fn open(
        hold: &Arc<Hold>,
        open: impl FnOnce() -> io::Result<fs::File>,
    ) -> Option<Arc<PastCache>> {
        let counted = Counted::new()?;
        let file = open().ok()?;
        let found = rustix::fs::fstatfs(file.as_fd()).ok()?;
        // The kernel serves some files through the cache all the same: it is not to read ahead.
        let new = || PastCache::of(File::of_tree(file, true).holding(hold), counted);
        KNOWN.iter().any(|known| i128::from(*known) == i128::from(found.f_type)).then(new)
    }

    fn of(file: File, counted: Counted) -> Arc<PastCache> {
        Arc::new(PastCache { file, is_refused: AtomicBool::new(false), _counted: counted })
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Whether it was read in vain.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(SeqCst)
    }

    /// What a read of `len` bytes comes to that ended so: how much was read, fewer only at the end
    /// of the file. None if it is to be done through the cache instead.
    pub(super) fn settled(
        &self,
        result: io::Result<usize>,
        len: usize,
    ) -> Option<io::Result<usize>> {
        let error = match result {
            Ok(count) if count == len || !count.is_multiple_of(BLOCK_BYTES) => {
                return Some(Ok(count));
            }
            Ok(_) => return None,
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EINVAL | libc::EOPNOTSUPP) => {
                self.is_refused.store(true, SeqCst);
                None
            }
            Some(libc::EINTR | libc::EAGAIN) => None,
            _ => Some(Err(error)),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::pending_space::PendingSpace;
    use super::*;

    /// Whatever is open, as if it were the file.
    pub(in crate::io) fn instead(file: fs::File) -> Arc<PastCache> {
        PastCache::of(File::of_tree_unread(file, true), Counted::new().expect("few are open"))
    }

    #[test]
    fn the_end_a_refusal_and_a_failure_are_told_apart() {
        let named = tempfile::tempfile().expect("a file");
        let past = instead(named);
        let errno = |number| Err(io::Error::from_raw_os_error(number));
        let settled = |result| past.settled(result, 8192).map(|done| done.map_err(|e| e.kind()));
        assert_eq!(settled(Ok(8192)), Some(Ok(8192)));
        assert_eq!(settled(Ok(4097)), Some(Ok(4097)), "the end of the file");
        assert_eq!(settled(Ok(4096)), None, "the end or a signal");
        assert_eq!(settled(errno(libc::EIO)), Some(errno(libc::EIO).map_err(|e| e.kind())));
        assert_eq!(settled(errno(libc::EINTR)), None);
        assert!(!past.is_refused());
        assert_eq!(settled(errno(libc::EINVAL)), None);
        assert!(past.is_refused());
    }

    #[test]
    fn only_known_file_systems_are_read_so() {
        let hold = Arc::new(PendingSpace::default()).hold();
        assert!(PastCache::open(&hold, || fs::File::open("/proc/self/mounts")).is_none());
        assert!(PastCache::open(&hold, || Err(io::ErrorKind::InvalidInput.into())).is_none());
    }
}
