//! Shared mechanism: requests of one direction of travel, served in C-LOOK order.
//!
//! The key is `(offset - position) mod 2^64`, where the position is the end of the request taken
//! last: ascending from the head, then once around to the lowest. Equal offsets keep their order of
//! arrival. O(log n), and mostly the next one is the first of a set:
//! ```text
//!   behind  < pivot <=  ahead            the pivot goes up with the head, as long as nothing
//!   ▪  ▪ ▪      │ ○     ▪    ▪  ▪        that is ahead would fall behind it
//!               pivot, head ──►          nothing left ahead: what is behind is ahead
//! ```
//! Where the head goes back, or past requests that overlap, the next one is searched for.
//!
//! Source: FreeBSD `bioq_disksort` (subr_disk.c) gives the order; the sets are ours.

use super::ordered::{Ordered, Place};
use crate::request::RequestId;
use crate::table::Table;
use crate::units::Bytes;
use core::cmp;

/// A request in the order: by its offset, then by its arrival number, which no two share.
#[derive(Clone, Copy, Debug)]
struct Item {
    offset: Bytes,
    sequence: u64,
    slot: u32,
}

impl Item {
    #[inline]
    fn new(id: RequestId, offset: Bytes) -> Item {
        Item { offset, sequence: id.sequence, slot: id.slot }
    }

    #[inline]
    fn id(&self) -> RequestId {
        RequestId { slot: self.slot, sequence: self.sequence }
    }

    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.offset.get()) << 64 | u128::from(self.sequence)
    }
}

impl PartialEq for Item {
    #[inline]
    fn eq(&self, other: &Item) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    #[inline]
    fn partial_cmp(&self, other: &Item) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Item) -> bool {
        self.key() < other.key()
    }
}

impl Ord for Item {
    #[inline]
    fn cmp(&self, other: &Item) -> cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The sets by number.
const AHEAD: usize = 0;
const BEHIND: usize = 1;

/// Requests in C-LOOK order.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Those from the pivot on, and those below it.
    sets: [Ordered<Item>; 2],
    pivot: Bytes,
    /// Where the head is taken to be: the end of the last request.
    position: Bytes,
}

impl Sorted {
    /// Takes a request in.
    pub fn push(&mut self, id: RequestId, table: &Table) {
        self.insert(id, table[id].extent().offset());
    }

    /// The same of one whose offset is at hand.
    #[inline]
    pub(super) fn insert(&mut self, id: RequestId, offset: Bytes) {
        let item = Item::new(id, offset);
        self.sets[self.set_of(item)].insert(item);
    }

    /// The next request upwards from the head; from the lowest when there is none above.
    #[inline(always)]
    pub fn pop(&mut self, table: &Table) -> Option<RequestId> {
        if self.is_at_pivot()
            && let Some(first) = self.sets[AHEAD].pop_first()
        {
            return Some(self.moves_past(first, table));
        }
        self.search(table)
    }

    /// The same if the next one may be anywhere.
    #[inline(never)]
    fn search(&mut self, table: &Table) -> Option<RequestId> {
        if self.is_empty() {
            return None;
        }
        if self.sets[AHEAD].is_empty() && self.position >= self.pivot {
            self.sets.swap(AHEAD, BEHIND);
            self.pivot = Bytes::ZERO;
            let first = self.sets[AHEAD].pop_first()?;
            return Some(self.moves_past(first, table));
        }
        let place = self.above().or_else(|| self.least())?;
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
        let (set, place) = self.above().or_else(|| self.least())?;
        Some(self.sets[set].get(place).offset)
    }

    /// Takes a certain request out.
    pub fn take(&mut self, id: RequestId, table: &Table) -> Option<RequestId> {
        let item = Item::new(id, table[id].extent().offset());
        let set = self.set_of(item);
        let place = self.sets[set].find(item).filter(|at| self.sets[set].get(*at) == item)?;
        Some(self.remove((set, place), table))
    }

    /// Takes a certain request out that goes in one command with the last one taken, which it
    /// adjoins: the head is at the end of both. Whether it was there.
    pub fn join(&mut self, id: RequestId, table: &Table) -> bool {
        let item = Item::new(id, table[id].extent().offset());
        let set = self.set_of(item);
        let Some(place) = self.sets[set].find(item) else { return false };
        if self.sets[set].get(place) != item {
            return false;
        }
        self.sets[set].remove(place);
        self.set_position(self.position.max(table[id].extent().end()));
        true
    }

    /// The one that came first. O(n).
    pub fn oldest(&self) -> Option<RequestId> {
        self.ids().min_by_key(|id| id.sequence())
    }

    /// All of them, in order of offset.
    pub fn ids(&self) -> impl Iterator<Item = RequestId> + '_ {
        let [ahead, behind] = &self.sets;
        behind.iter().chain(ahead.iter()).map(|item| item.id())
    }

    /// Where the head is taken to be.
    pub fn position(&self) -> Bytes {
        self.position
    }

    /// Moves the head.
    #[inline]
    pub(super) fn set_position(&mut self, position: Bytes) {
        self.position = position;
        let is_next = |first: Item| first.offset >= position;
        if position >= self.pivot && self.sets[AHEAD].first().is_none_or(is_next) {
            self.pivot = position;
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sets.iter().all(Ordered::is_empty)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.sets = Default::default();
    }

    /// Whether all that is ahead is above the head, and nothing that is behind.
    #[inline]
    fn is_at_pivot(&self) -> bool {
        self.position == self.pivot
    }

    #[inline]
    fn set_of(&self, item: Item) -> usize {
        if item.offset >= self.pivot { AHEAD } else { BEHIND }
    }

    /// Where the first request above the head is, if there is one.
    #[inline]
    fn above(&self) -> Option<(usize, Place)> {
        let [ahead, behind] = &self.sets;
        if self.is_at_pivot() {
            return ahead.least().map(|place| (AHEAD, place));
        }
        let key = Item { offset: self.position, sequence: 0, slot: 0 };
        let below = behind.find(key).map(|place| (BEHIND, place));
        below.or_else(|| ahead.find(key).map(|place| (AHEAD, place)))
    }

    /// Where the lowest request is.
    fn least(&self) -> Option<(usize, Place)> {
        let [ahead, behind] = &self.sets;
        let below = behind.least().map(|place| (BEHIND, place));
        below.or_else(|| ahead.least().map(|place| (AHEAD, place)))
    }

    #[inline]
    fn remove(&mut self, (set, place): (usize, Place), table: &Table) -> RequestId {
        let item = self.sets[set].remove(place);
        self.moves_past(item, table)
    }

    /// The head moves to the end of a request that is taken.
    #[inline]
    fn moves_past(&mut self, item: Item, table: &Table) -> RequestId {
        let id = item.id();
        self.set_position(table[id].extent().end());
        id
    }
}
