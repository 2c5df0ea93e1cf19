//! The requests that have ended on a device within some seconds, to be replayed under other
//! settings (see `replay`), or to be written to a file.
//!
//! The live engine only appends to a list, and only while somebody asks. The reader of a long
//! recording copies the list from time to time and lets the engine forget it.
//!
//! # Limits
//! A request that had not ended is not in it, and nothing is known of what was dirty before.
//! Voided extents are left out.

use crate::request::{Cover, Space, StageTimes, Submit, Tag};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use std::collections::BTreeMap;

/// What has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedKind {
    /// A request of a task.
    Request,
    /// A buffered write, which is in memory.
    Buffered,
    /// A flush.
    Flush,
    /// Write-back of dirty memory.
    WriteBack,
}

/// One that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// What it was.
    pub kind: EndedKind,
    /// What was asked for; of write-back, what was written.
    pub submit: Submit,
    /// When it came; a flush, before the write-back that it waited for.
    pub arrived: Instant,
    /// When it was given to the disk.
    pub started: Instant,
    /// When it ended.
    pub ended: Instant,
    /// Where its time went.
    pub times: StageTimes,
    /// How long a flush waited for write-back: a part of its time at the disk.
    pub written: Nanos,
    /// How many the disk had when it started, with itself; 0: it was not there.
    pub beside: u32,
    /// The owner of its extent.
    pub space: Space,
    /// The part of the device that a flush covers.
    pub cover: Cover,
}

impl Recorded {
    /// Whether it was at the disk: not a buffered write, nor what moves nothing.
    pub fn was_at_disk(&self) -> bool {
        let has_bytes = self.submit.extent.len() > Bytes::ZERO;
        self.kind != EndedKind::Buffered && (has_bytes || self.kind == EndedKind::Flush)
    }

    /// How long the disk had it.
    pub fn took(&self) -> Nanos {
        if self.was_at_disk() { self.ended.since(self.started) } else { Nanos::ZERO }
    }
}

/// What has ended since somebody wants to know.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Since when.
    pub began: Instant,
    most_count: usize,
    /// In order of their ends.
    pub ended: Vec<Recorded>,
    /// So many more have ended for which there was no room.
    pub left_out_count: u64,
    /// What flushes that have not ended cover.
    flushes: BTreeMap<Tag, Cover>,
}

impl Recording {
    pub(crate) fn new(began: Instant, most_count: usize) -> Recording {
        let (ended, flushes) = (Vec::with_capacity(most_count), BTreeMap::new());
        Recording { began, most_count, ended, left_out_count: 0, flushes }
    }

    /// The first so many have been copied. That is quick if they are nearly all of them.
    pub(crate) fn forget(&mut self, count: usize) {
        self.ended.drain(..count.min(self.ended.len()));
    }

    /// A flush comes.
    pub(crate) fn flush_comes(&mut self, tag: Tag, cover: Cover) {
        if self.flushes.len() < self.most_count {
            self.flushes.insert(tag, cover);
        }
    }

    /// One has ended.
    pub(crate) fn add(&mut self, mut one: Recorded) {
        if one.kind == EndedKind::Flush {
            one.cover = self.flushes.remove(&one.submit.tag).unwrap_or_default();
        }
        if self.ended.len() < self.most_count {
            self.ended.push(one);
        } else {
            self.left_out_count += 1;
        }
    }
}
