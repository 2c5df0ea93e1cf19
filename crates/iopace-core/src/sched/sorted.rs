//! Shared mechanism: requests of one direction of travel, served in C-LOOK order.
//!
//! The key is `(offset - position) mod 2^64`, where the position is the end of the request taken
//! last: ascending from the head, then once around to the lowest. Equal offsets keep their order of
//! arrival. O(log n).
//!
//! Source: FreeBSD `bioq_disksort` (subr_disk.c) gives the order; the tree is ours.

use crate::request::Request;
use crate::units::Bytes;
use std::collections::BTreeMap;

/// Requests in C-LOOK order.
#[derive(Debug, Default)]
pub struct Sorted {
    /// By offset, then by arrival.
    by_offset: BTreeMap<(Bytes, u64), Request>,
    /// Where the head is taken to be: the end of the last request.
    position: Bytes,
}

impl Sorted {
    /// Takes a request in.
    pub fn push(&mut self, request: Request) {
        let key = (request.extent().offset(), request.id().sequence());
        let twice = self.by_offset.insert(key, request);
        debug_assert!(twice.is_none(), "one request twice");
    }

    /// The next request upwards from the head; from the lowest when there is none above.
    pub fn pop(&mut self) -> Option<Request> {
        let above = self.by_offset.range((self.position, 0)..).next();
        let key = *above.or_else(|| self.by_offset.iter().next())?.0;
        let request = self.by_offset.remove(&key)?;
        self.position = request.extent().end();
        Some(request)
    }

    /// What [`Sorted::pop`] would return.
    pub fn peek(&self) -> Option<&Request> {
        let above = self.by_offset.range((self.position, 0)..).next();
        above.or_else(|| self.by_offset.iter().next()).map(|(_, request)| request)
    }

    /// Takes a certain request out.
    pub fn take(&mut self, offset: Bytes, sequence: u64) -> Option<Request> {
        let request = self.by_offset.remove(&(offset, sequence))?;
        self.position = request.extent().end();
        Some(request)
    }

    /// The one that came first. O(n).
    pub fn oldest(&self) -> Option<&Request> {
        self.by_offset.values().min_by_key(|request| request.id().sequence())
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
        into.extend(std::mem::take(&mut self.by_offset).into_values());
    }
}

/// Brings requests that a scheduler hands back into their order of arrival.
pub fn by_arrival(requests: &mut [Request]) {
    requests.sort_unstable_by_key(|request| request.id().sequence());
}
