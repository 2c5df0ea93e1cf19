//! Shared mechanism: requests of one direction of travel, served in C-LOOK order.
//!
//! The key is `(offset - position) mod 2^64`, where the position is the end of the request taken
//! last: ascending from the head, then once around to the lowest. Equal offsets keep their order of
//! arrival. O(log n), and mostly the next one is where the last one was.
//!
//! Source: FreeBSD `bioq_disksort` (subr_disk.c) gives the order; the set is ours.

use super::ordered::{Ordered, Place};
use crate::request::RequestId;
use crate::table::Table;
use crate::units::Bytes;

/// A request in the order: by its offset, then by its arrival number, which no two share.
type Item = (Bytes, u64, u32);

/// Requests in C-LOOK order.
#[derive(Debug, Default)]
pub struct Sorted {
    items: Ordered<Item>,
    /// Where the head is taken to be: the end of the last request.
    position: Bytes,
    /// Where in the first block the next one above the head may be.
    guess: usize,
}

fn item(id: RequestId, table: &Table) -> Item {
    (table[id].extent().offset(), id.sequence, id.slot)
}

fn name((_, sequence, slot): Item) -> RequestId {
    RequestId { slot, sequence }
}

impl Sorted {
    /// Takes a request in.
    #[inline]
    pub fn push(&mut self, id: RequestId, table: &Table) {
        let item = item(id, table);
        self.items.insert(item);
        // The entries of a block lie downwards: what comes in above the head moves others.
        self.guess = self.guess.wrapping_add(usize::from(item.0 >= self.position));
    }

    /// The next request upwards from the head; from the lowest when there is none above.
    #[inline]
    pub fn pop(&mut self, table: &Table) -> Option<RequestId> {
        let place = self.above().or_else(|| self.items.least())?;
        Some(self.remove(place, table))
    }

    /// The next request upwards from the head, if there is one above.
    #[inline]
    pub(super) fn pop_above(&mut self, table: &Table) -> Option<RequestId> {
        let place = self.above()?;
        Some(self.remove(place, table))
    }

    /// The offset of the request that [`Sorted::pop`] would return.
    pub fn peek(&self) -> Option<Bytes> {
        let place = self.above().or_else(|| self.items.least())?;
        Some(self.items.get(place).0)
    }

    /// Takes a certain request out.
    pub fn take(&mut self, id: RequestId, table: &Table) -> Option<RequestId> {
        let item = item(id, table);
        let place = self.items.find(item, self.guess).filter(|at| self.items.get(*at) == item)?;
        Some(self.remove(place, table))
    }

    /// The one that came first. O(n).
    pub fn oldest(&self) -> Option<RequestId> {
        self.ids().min_by_key(|id| id.sequence())
    }

    /// All of them, in order of offset.
    pub fn ids(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.items.iter().map(name)
    }

    /// Where the head is taken to be.
    pub fn position(&self) -> Bytes {
        self.position
    }

    /// Moves the head.
    pub(super) fn set_position(&mut self, position: Bytes) {
        self.position = position;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        (self.items, self.guess) = (Ordered::default(), 0);
    }

    /// Where the first request above the head is, if there is one.
    #[inline]
    fn above(&self) -> Option<Place> {
        self.items.find((self.position, 0, 0), self.guess)
    }

    #[inline]
    fn remove(&mut self, place: Place, table: &Table) -> RequestId {
        let id = name(self.items.remove(place));
        self.guess = place.1.wrapping_sub(1);
        self.position = table[id].extent().end();
        id
    }
}
