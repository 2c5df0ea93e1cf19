//! What is known of a file beside its inode.

use crate::fuse::extents::Extents;
use crate::fuse::file_spaces::FileSpace;
use crate::fuse::layout::Chunks;
use crate::io::untold::Untold;
use std::sync::{Arc, Mutex, OnceLock};

/// What is known of a file as long as the kernel knows it.
#[derive(Debug, Default)]
pub(crate) struct FileState {
    /// Where it is dirty.
    pub(crate) space: OnceLock<Arc<FileSpace>>,
    /// Where it lies on its disk.
    pub(crate) extents: Mutex<Extents>,
    /// Where it lies on an emulated disk.
    pub(crate) chunks: Chunks,
    /// Write-back that failed.
    pub(crate) untold: Arc<Untold>,
}

impl FileState {
    /// Whether nothing is lost when it begins anew: the file is nowhere dirty, has no place on an
    /// emulated disk, and nobody has to hear of a write-back that failed.
    pub(crate) fn is_plain(&self) -> bool {
        self.space.get().is_none_or(|space| !space.is_kept())
            && self.chunks.is_empty()
            && self.untold.is_none()
    }
}
