//! The flusher: which memory is dirty, whose it is, and what of it is written back next.
//!
//! Not a stage: it stands between stage pace, which lets writes into memory, and stage admit, where
//! its requests stand in line like everybody's, on the account of the group that dirtied. It holds
//! no data and is never paced itself.

use crate::request::{Extent, GroupId, TaskId};

/// Who dirtied a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// Who wrote.
    pub task: TaskId,
    /// Who pays for the write-back.
    pub group: GroupId,
}

/// Dirty pages, one after the other on the device and of one owner, to be written back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Who dirtied them.
    pub owner: Owner,
    /// Where: whole pages.
    pub extent: Extent,
}

/// Everything that was dirty at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub(crate) u64);
