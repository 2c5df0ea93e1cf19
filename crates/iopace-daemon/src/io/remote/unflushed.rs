//! Acknowledged changes that no flush has covered yet: a server that is started anew may have
//! forgotten them, and gets them again.

use super::abilities::{Abilities, Piece};
use crate::buffer::Buffer;
use crate::limits::{UNFLUSHED_EACH, UNFLUSHED_MAX};
use iopace_core::request::{Extent, Op};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An acknowledged change.
#[derive(Debug)]
pub(super) struct Change {
    op: Op,
    extent: Extent,
    /// The data of a write; nothing else has any.
    pub(super) data: Arc<Buffer>,
}

impl Change {
    /// The next request for a part of it, of which `done` bytes were sent for; `None` if all were.
    pub(super) fn piece(&self, abilities: &Abilities, done: u64) -> Option<Piece> {
        (done < self.extent.len().get()).then(|| abilities.piece(self.op, self.extent, done, false))
    }

    /// The place of that byte of the export in the data.
    pub(super) fn start_of(&self, offset: u64) -> usize {
        (offset - self.extent.offset().get()) as usize
    }

    fn bytes(&self) -> u64 {
        (self.data.len() as u64).max(UNFLUSHED_EACH.get())
    }
}

/// These changes, each by its number in the order of the acknowledgements.
#[derive(Debug, Default)]
pub(super) struct Unflushed {
    changes: BTreeMap<u64, Change>,
    /// The number of the next one: a flush that is sent now covers all before it.
    pub(super) next: u64,
    bytes: u64,
}

impl Unflushed {
    /// One more was acknowledged.
    pub(super) fn add(&mut self, op: Op, extent: Extent, data: &[u8]) {
        let change = Change { op, extent, data: Arc::new(Buffer::from(data)) };
        self.bytes += change.bytes();
        self.changes.insert(self.next, change);
        self.next += 1;
    }

    /// Those before that number are durable, or given up.
    pub(super) fn forget_before(&mut self, number: u64) {
        let kept = self.changes.split_off(&number);
        let gone = std::mem::replace(&mut self.changes, kept);
        self.bytes -= gone.values().map(Change::bytes).sum::<u64>();
    }

    /// That one is given up.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(change) = self.changes.remove(&number) {
            self.bytes -= change.bytes();
        }
    }

    pub(super) fn get(&self, number: u64) -> Option<&Change> {
        self.changes.get(&number)
    }

    /// Their numbers, in order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.changes.keys().copied()
    }

    /// Their bytes, as counted against [`UNFLUSHED_MAX`].
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether one of them is of a part of this.
    pub(super) fn overlaps(&self, extent: Extent) -> bool {
        self.changes.values().any(|change| {
            change.extent.offset() < extent.end() && extent.offset() < change.extent.end()
        })
    }

    /// Whether a flush is due without anybody asking for one.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes >= UNFLUSHED_MAX.get() / 2
    }

    /// Whether no further write is sent for now.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= UNFLUSHED_MAX.get()
    }
}
