//! Shared mechanism: requests of one direction of travel, served in C-LOOK order.
//!
//! The key is `(offset - position) mod 2^64`, where the position is the end of the request taken
//! last: ascending from the head, then once around to the lowest. Equal offsets keep their order of
//! arrival. O(log n).
//!
//! Source: FreeBSD `bioq_disksort` (subr_disk.c) gives the order; the tree is ours.

use super::ordered::Ordered;
use crate::request::RequestId;
use crate::table::Table;
use crate::units::Bytes;

/// Where a request is in the order: its offset, then its arrival number.
pub(super) type Key = (Bytes, u64);

/// Requests in C-LOOK order.
#[derive(Debug, Default)]
pub struct Sorted {
    /// The slot of each request in the table.
    by_offset: Ordered<Key, u32>,
    /// Where the head is taken to be: the end of the last request.
    position: Bytes,
}

/// The name of the request with that key in that slot.
fn name(((_, sequence), slot): (Key, u32)) -> RequestId {
    RequestId { slot, sequence }
}

impl Sorted {
    /// Takes a request in.
    pub fn push(&mut self, id: RequestId, table: &Table) {
        let key = (table[id].extent().offset(), id.sequence());
        let is_new = self.by_offset.insert(key, id.slot);
        debug_assert!(is_new, "one request twice");
    }

    /// The next request upwards from the head; from the lowest when there is none above.
    pub fn pop(&mut self, table: &Table) -> Option<RequestId> {
        let id = name(self.by_offset.take_around(&(self.position, 0))?);
        self.position = table[id].extent().end();
        Some(id)
    }

    /// The offset of the request that [`Sorted::pop`] would return.
    pub fn peek(&self) -> Option<Bytes> {
        let next = self.by_offset.from(&(self.position, 0)).or_else(|| self.by_offset.first());
        next.map(|((offset, _), _)| offset)
    }

    /// Takes a certain request out, by offset and arrival number.
    pub fn take(&mut self, key: (Bytes, u64), table: &Table) -> Option<RequestId> {
        let id = name((key, self.by_offset.remove(&key)?));
        self.position = table[id].extent().end();
        Some(id)
    }

    /// The one that came first. O(n).
    pub fn oldest(&self) -> Option<RequestId> {
        self.ids().min_by_key(|id| id.sequence())
    }

    /// All of them, in order of offset.
    pub fn ids(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.by_offset.iter().map(name)
    }

    /// Where the head is taken to be.
    pub fn position(&self) -> Bytes {
        self.position
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_offset.clear();
    }
}
