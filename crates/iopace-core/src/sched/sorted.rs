//! Shared mechanism: requests of one direction of travel, served in C-LOOK order.
//!
//! The key is `(offset - position) mod 2^64`, where the position is the end of the request taken
//! last: ascending from the head, then once around to the lowest. Equal offsets keep their order of
//! arrival. O(log n).
//!
//! Source: FreeBSD `bioq_disksort` (subr_disk.c) gives the order; the tree is ours.

use super::ordered::Ordered;
use crate::request::Request;
use crate::units::Bytes;

/// Requests in C-LOOK order.
#[derive(Debug, Default)]
pub struct Sorted {
    /// By offset, then by arrival: the place in the table.
    by_offset: Ordered<(Bytes, u64), u32>,
    /// The requests themselves, which do not move while others come and go.
    table: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Where the head is taken to be: the end of the last request.
    position: Bytes,
}

impl Sorted {
    /// Takes a request in.
    pub fn push(&mut self, request: Request) {
        let key = (request.extent().offset(), request.id().sequence());
        let place = match self.free.pop() {
            Some(place) => {
                self.table[place as usize] = Some(request);
                place
            }
            None => {
                self.table.push(Some(request));
                self.table.len() as u32 - 1
            }
        };
        let is_new = self.by_offset.insert(key, place);
        debug_assert!(is_new, "one request twice");
    }

    /// The next request upwards from the head; from the lowest when there is none above.
    pub fn pop(&mut self) -> Option<Request> {
        let (_, place) = self.by_offset.take_around(&(self.position, 0))?;
        self.lift(place)
    }

    /// What [`Sorted::pop`] would return.
    pub fn peek(&self) -> Option<&Request> {
        self.table[self.next()?.1 as usize].as_ref()
    }

    fn next(&self) -> Option<((Bytes, u64), u32)> {
        self.by_offset.from(&(self.position, 0)).or_else(|| self.by_offset.first())
    }

    /// Takes a certain request out.
    pub fn take(&mut self, offset: Bytes, sequence: u64) -> Option<Request> {
        let place = self.by_offset.remove(&(offset, sequence))?;
        self.lift(place)
    }

    fn lift(&mut self, place: u32) -> Option<Request> {
        self.free.push(place);
        let request = self.table[place as usize].take()?;
        self.position = request.extent().end();
        Some(request)
    }

    /// The one that came first. O(n).
    pub fn oldest(&self) -> Option<&Request> {
        self.table.iter().flatten().min_by_key(|request| request.id().sequence())
    }

    /// Where the head is taken to be.
    pub fn position(&self) -> Bytes {
        self.position
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_offset.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }

    /// Moves all out, in order of offset.
    pub fn drain(&mut self, into: &mut Vec<Request>) {
        let places = self.by_offset.iter().map(|(_, place)| place as usize);
        into.extend(places.filter_map(|place| self.table[place].take()));
        self.by_offset.clear();
        self.table.clear();
        self.free.clear();
    }
}

/// Brings requests that a scheduler hands back into their order of arrival.
pub fn by_arrival(requests: &mut [Request]) {
    requests.sort_unstable_by_key(|request| request.id().sequence());
}
