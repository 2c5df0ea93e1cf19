//! Shared mechanism: requests of one direction of travel, served in C-LOOK order.
//!
//! Upwards from the head, which is at the end of the request taken last, then once around from the
//! lowest: first the disk by offset, then one file after another, each by offset. Requests at one
//! place keep their order of arrival. O(log n), and mostly the next one is the first of a set:
//! ```text
//!   behind  < pivot <=  ahead            the pivot goes up with the head, as long as nothing
//!   ▪  ▪ ▪      │ ○     ▪    ▪  ▪        that is ahead would fall behind it
//!               pivot, head ──►          nothing left ahead: what is behind is ahead
//! ```
//! Where the head goes back, or past requests that overlap, the next one is searched for. Those of
//! files, of a mount whose file system does not say where they lie, have a set of their own.
//!
//! Source: FreeBSD `bioq_disksort` (subr_disk.c) gives the order; the sets are ours.

use crate::ordered::{Ordered, Place};
use crate::request::{Position, RequestId, Space};
use crate::table::{Request, Table};
use crate::units::Bytes;
use core::cmp;
use std::collections::BTreeSet;

/// A request in the order: by its offset, then by its arrival number, which no two share.
#[derive(Clone, Copy, Debug)]
struct SortedRequest {
    offset: Bytes,
    sequence: u64,
    slot: u32,
}

impl SortedRequest {
    #[inline]
    fn new(id: RequestId, offset: Bytes) -> SortedRequest {
        SortedRequest { offset, sequence: id.sequence, slot: id.slot }
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

impl PartialEq for SortedRequest {
    #[inline]
    fn eq(&self, other: &SortedRequest) -> bool {
        self.key() == other.key()
    }
}

impl Eq for SortedRequest {}

impl PartialOrd for SortedRequest {
    #[inline]
    fn partial_cmp(&self, other: &SortedRequest) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &SortedRequest) -> bool {
        self.key() < other.key()
    }
}

impl Ord for SortedRequest {
    #[inline]
    fn cmp(&self, other: &SortedRequest) -> cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// The sets by number.
const AHEAD: usize = 0;
const BEHIND: usize = 1;

/// Requests for the disk in C-LOOK order.
#[derive(Debug, Default)]
struct Sweep {
    /// Those from the pivot on, and those below it.
    sets: [Ordered<SortedRequest>; 2],
    pivot: Bytes,
    /// Where the head is taken to be: the end of the last request.
    position: Bytes,
}

impl Sweep {
    #[inline]
    fn insert(&mut self, id: RequestId, offset: Bytes) {
        let item = SortedRequest::new(id, offset);
        self.sets[self.set_of(item)].insert(item);
    }

    /// The next one, if the first one ahead is known to be it; the head is where it was.
    #[inline(always)]
    fn pop_first(&mut self) -> Option<RequestId> {
        if !self.is_at_pivot() {
            return None;
        }
        Some(self.sets[AHEAD].pop_first()?.id())
    }

    /// The next one, which may be anywhere.
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

    #[inline]
    fn pop_above(&mut self, table: &Table) -> Option<RequestId> {
        let place = self.above()?;
        Some(self.remove(place, table))
    }

    /// The offset of the next request above the head, or of the lowest.
    fn peek(&self) -> Option<Bytes> {
        let (set, place) = self.above().or_else(|| self.least())?;
        Some(self.sets[set].get(place).offset)
    }

    /// Takes a certain request out; false if it is not there.
    fn take(&mut self, id: RequestId, offset: Bytes) -> bool {
        let item = SortedRequest::new(id, offset);
        let set = &mut self.sets[self.set_of(item)];
        let place = set.find(item).filter(|place| set.get(*place) == item);
        place.is_some_and(|place| set.remove(place) == item)
    }

    fn ids(&self) -> impl Iterator<Item = RequestId> + '_ {
        let [ahead, behind] = &self.sets;
        behind.iter().chain(ahead.iter()).map(|item| item.id())
    }

    #[inline]
    fn set_position(&mut self, position: Bytes) {
        self.position = position;
        let is_next = |first: SortedRequest| first.offset >= position;
        if position >= self.pivot && self.sets[AHEAD].first().is_none_or(is_next) {
            self.pivot = position;
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.sets.iter().all(Ordered::is_empty)
    }

    /// Whether all that is ahead is above the head, and nothing that is behind.
    #[inline]
    fn is_at_pivot(&self) -> bool {
        self.position == self.pivot
    }

    #[inline]
    fn set_of(&self, item: SortedRequest) -> usize {
        if item.offset >= self.pivot { AHEAD } else { BEHIND }
    }

    /// Where the first request above the head is, if there is one.
    #[inline]
    fn above(&self) -> Option<(usize, Place)> {
        let [ahead, behind] = &self.sets;
        if self.is_at_pivot() {
            return ahead.least().map(|place| (AHEAD, place));
        }
        let key = SortedRequest { offset: self.position, sequence: 0, slot: 0 };
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
    fn moves_past(&mut self, item: SortedRequest, table: &Table) -> RequestId {
        let id = item.id();
        self.set_position(table[id].extent().end());
        id
    }
}

/// A request of a file: where it begins, its arrival number, its slot.
type OfFile = (Position, u64, u32);

/// Requests in C-LOOK order.
#[derive(Debug, Default)]
pub struct Sorted {
    disk: Sweep,
    files: BTreeSet<OfFile>,
    /// Where the head is, if it is in a file.
    away: Option<Position>,
}

impl Sorted {
    /// Takes a request in.
    pub fn push(&mut self, id: RequestId, table: &Table) {
        self.insert(id, table[id].begin());
    }

    /// The same of one whose position is at hand.
    #[inline]
    pub(super) fn insert(&mut self, id: RequestId, begin: Position) {
        match begin.space {
            Space::DISK => self.disk.insert(id, begin.offset),
            _ => _ = self.files.insert((begin, id.sequence, id.slot)),
        }
    }

    /// The next request upwards from the head; from the lowest when there is none above.
    #[inline(always)]
    pub fn pop(&mut self, table: &Table) -> Option<RequestId> {
        Some(self.pop_request(table)?.0)
    }

    /// The same with what there is of it in the table.
    #[inline(always)]
    pub(super) fn pop_request<'a>(&mut self, table: &'a Table) -> Option<(RequestId, &'a Request)> {
        if self.is_on_disk()
            && let Some(id) = self.disk.pop_first()
        {
            let request = &table[id];
            self.disk.set_position(request.extent().end());
            return Some((id, request));
        }
        let id = self.search(table)?;
        Some((id, &table[id]))
    }

    #[inline(never)]
    fn search(&mut self, table: &Table) -> Option<RequestId> {
        if self.is_on_disk() { self.disk.search(table) } else { self.pop_among_files(table) }
    }

    #[inline(never)]
    fn pop_among_files(&mut self, table: &Table) -> Option<RequestId> {
        if let Some(id) = self.pop_above(table) {
            return Some(id);
        }
        // Nothing is above the head: it goes back to the beginning of the disk.
        self.set_position(Position::default());
        self.pop_above(table)
    }

    /// The next request upwards from the head, if there is one above.
    #[inline]
    pub(super) fn pop_above(&mut self, table: &Table) -> Option<RequestId> {
        if self.is_on_disk() { self.disk.pop_above(table) } else { self.pop_upwards(table) }
    }

    #[inline(never)]
    fn pop_upwards(&mut self, table: &Table) -> Option<RequestId> {
        if self.away.is_none()
            && let Some(id) = self.disk.pop_above(table)
        {
            return Some(id);
        }
        let next = self.file_above()?;
        self.files.remove(&next);
        Some(self.moves_past(id_of(&next), table))
    }

    /// The position of the request that [`Sorted::pop`] would return.
    pub fn peek(&self) -> Option<Position> {
        let of_disk = |offset| Position { space: Space::DISK, offset };
        if self.is_on_disk() {
            return self.disk.peek().map(of_disk);
        }
        let is_above = |place: &Position| *place >= self.position();
        let above = self.disk.peek().map(of_disk).filter(is_above);
        let above = above.or_else(|| self.file_above().map(|(begin, ..)| begin));
        let least =
            || self.disk.least().map(|(set, at)| of_disk(self.disk.sets[set].get(at).offset));
        above.or_else(least).or_else(|| self.files.first().map(|(begin, ..)| *begin))
    }

    /// Takes a certain request out.
    pub fn take(&mut self, id: RequestId, table: &Table) -> Option<RequestId> {
        self.take_out(id, table).then(|| self.moves_past(id, table))
    }

    /// Takes a certain request out that goes in one command with the last one taken, which it
    /// adjoins: the head is at the end of both. Whether it was there.
    pub fn join(&mut self, id: RequestId, table: &Table) -> bool {
        let is_there = self.take_out(id, table);
        if is_there {
            self.set_position(self.position().max(table[id].end()));
        }
        is_there
    }

    fn take_out(&mut self, id: RequestId, table: &Table) -> bool {
        let begin = table[id].begin();
        match begin.space {
            Space::DISK => self.disk.take(id, begin.offset),
            _ => self.files.remove(&(begin, id.sequence, id.slot)),
        }
    }

    /// The one that came first. O(n).
    pub fn oldest(&self) -> Option<RequestId> {
        self.ids().min_by_key(|id| id.sequence())
    }

    /// All of them, in order of position.
    pub fn ids(&self) -> impl Iterator<Item = RequestId> + '_ {
        self.disk.ids().chain(self.files.iter().map(id_of))
    }

    /// Where the head is taken to be.
    pub fn position(&self) -> Position {
        let of_disk = Position { space: Space::DISK, offset: self.disk.position };
        self.away.unwrap_or(of_disk)
    }

    /// Moves the head.
    #[inline]
    pub(super) fn set_position(&mut self, position: Position) {
        self.away = (position.space != Space::DISK).then_some(position);
        if self.away.is_none() {
            self.disk.set_position(position.offset);
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.disk.is_empty() && self.files.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.disk.sets = Default::default();
        self.files.clear();
    }

    /// Whether there is nothing but the disk.
    #[inline(always)]
    fn is_on_disk(&self) -> bool {
        self.files.is_empty() && self.away.is_none()
    }

    fn file_above(&self) -> Option<OfFile> {
        self.files.range((self.position(), 0, 0)..).next().copied()
    }

    /// The head moves to the end of a request that is taken.
    fn moves_past(&mut self, id: RequestId, table: &Table) -> RequestId {
        self.set_position(table[id].end());
        id
    }
}

fn id_of(&(_, sequence, slot): &OfFile) -> RequestId {
    RequestId { slot, sequence }
}

#[cfg(test)]
mod tests;
