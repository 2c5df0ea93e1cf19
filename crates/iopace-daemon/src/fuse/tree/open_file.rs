//! An open file, and the thread that closes it.
//!
//! Whoever lets go of a file last closes it, and `close` waits for whoever serves the file system
//! (`FLUSH`). Where that is a user, it is done by a thread of him who has opened the file: the
//! kernel ends its use in nobody's name, and all that hold it may be at work in threads of others.

use super::open_shares::OpenPlace;
use crate::fuse::inflight_operations::InflightOperations;
use crate::io::file::File;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};

/// An open file with its place among those of its user, which is given back once it is closed.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: ManuallyDrop<(Arc<File>, OpenPlace)>,
    /// The user whose threads close it, if a user serves it.
    closer: Option<(Weak<InflightOperations>, u32)>,
}

impl OpenFile {
    pub(super) fn new(
        file: File,
        place: OpenPlace,
        closer: Option<(Weak<InflightOperations>, u32)>,
    ) -> OpenFile {
        OpenFile { file: ManuallyDrop::new((Arc::new(file), place)), closer }
    }
}

impl Deref for OpenFile {
    type Target = Arc<File>;

    fn deref(&self) -> &Arc<File> {
        &self.file.0
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.0.as_fd()
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // SAFETY: nothing else takes it, and it is used nowhere after this.
        let file = unsafe { ManuallyDrop::take(&mut self.file) };
        let Some((inflight, uid)) = self.closer.take() else { return };
        if let Some(inflight) = inflight.upgrade() {
            inflight.carry_out(uid, move || drop(file));
        }
    }
}
