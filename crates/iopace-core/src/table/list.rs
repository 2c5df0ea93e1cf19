//! A list of requests through the table: the links are in their slots, so a request is in one list
//! at a time. What is wrong with a list stays with its owner: no link means anything to the table.

use super::{Request, Table};
use crate::request::RequestId;
use core::cell::Cell;

/// No slot.
const NONE: u32 = u32::MAX;

/// The neighbours of a request in the list that has it.
#[derive(Debug)]
pub(super) struct Links {
    before: Cell<u32>,
    after: Cell<u32>,
}

impl Default for Links {
    fn default() -> Links {
        Links { before: Cell::new(NONE), after: Cell::new(NONE) }
    }
}

/// A list of requests.
#[derive(Debug)]
pub struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> List {
        List { first: NONE, last: NONE }
    }
}

impl List {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Adds a request, which is in no list, at the end.
    #[inline]
    pub fn push(&mut self, id: RequestId, table: &Table) {
        let links = &table.entries[id.slot as usize].links;
        links.before.set(self.last);
        links.after.set(NONE);
        match table.entries.get(self.last as usize) {
            Some(last) => last.links.after.set(id.slot),
            None => self.first = id.slot,
        }
        self.last = id.slot;
    }

    /// The same in order of arrival: mostly it is the last to have come.
    #[inline]
    pub fn push_by_arrival(&mut self, id: RequestId, table: &Table) {
        match table.entries.get(self.last as usize) {
            Some(last) if last.request.sequence > id.sequence => self.insert(id, table),
            _ => self.push(id, table),
        }
    }

    /// Puts one in its place in order of arrival, which is before the last one.
    #[cold]
    #[inline(never)]
    fn insert(&mut self, id: RequestId, table: &Table) {
        let entry = |slot: u32| table.entries.get(slot as usize);
        let (mut before, mut after) = (self.last, NONE);
        while let Some(last) = entry(before).filter(|at| at.request.sequence > id.sequence) {
            after = before;
            before = if before == self.first { NONE } else { last.links.before.get() };
        }
        let links = &table.entries[id.slot as usize].links;
        links.before.set(before);
        links.after.set(after);
        match entry(before) {
            Some(before) => before.links.after.set(id.slot),
            None => self.first = id.slot,
        }
        if let Some(after) = entry(after) {
            after.links.before.set(id.slot);
        }
    }

    /// The first one.
    #[inline]
    pub fn first(&self, table: &Table) -> Option<RequestId> {
        let slot = self.first;
        let entry = table.entries.get(slot as usize)?;
        Some(RequestId { slot, sequence: entry.request.sequence })
    }

    /// All of them.
    pub fn iter<'a>(&self, table: &'a Table) -> impl Iterator<Item = RequestId> + 'a {
        let mut slot = self.first;
        std::iter::from_fn(move || {
            let entry = table.entries.get(slot as usize)?;
            let id = RequestId { slot, sequence: entry.request.sequence };
            slot = entry.links.after.get();
            Some(id)
        })
    }

    /// The slot of the first one; none is that of no request.
    #[inline]
    pub(crate) fn first_slot(&self) -> u32 {
        self.first
    }

    /// Takes the first one out.
    #[inline]
    pub fn pop(&mut self, table: &Table) -> Option<RequestId> {
        Some(self.pop_request(table)?.0)
    }

    /// The same with the request.
    #[inline]
    pub(crate) fn pop_request<'a>(&mut self, table: &'a Table) -> Option<(RequestId, &'a Request)> {
        let slot = self.first;
        let entry = table.entries.get(slot as usize)?;
        self.first = entry.links.after.get();
        if self.first == NONE {
            self.last = NONE;
        }
        Some((RequestId { slot, sequence: entry.request.sequence }, &entry.request))
    }

    /// Takes one out that is in this list.
    #[inline]
    pub fn remove(&mut self, id: RequestId, table: &Table) {
        let links = &table.entries[id.slot as usize].links;
        // Of the first one the link back is that of a request which has left.
        let before = if id.slot == self.first { NONE } else { links.before.get() };
        let after = links.after.get();
        match table.entries.get(before as usize) {
            Some(before) => before.links.after.set(after),
            None => self.first = after,
        }
        match table.entries.get(after as usize) {
            Some(after) => after.links.before.set(before),
            None => self.last = before,
        }
    }
}
