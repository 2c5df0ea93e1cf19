//! The request table: every request of an engine, and the authority on where it stands.
//!
//! A request is a slot here from its arrival to its end. Schedulers hold names ([`RequestId`]) and
//! look requests up; their queues are lists of names, or columns by slot. Whatever a scheduler
//! loses, invents or takes down with it in a panic, the requests are recovered from here, in the
//! order of their arrival.
//!
//! A slot is four cache lines: the first, [`Request`], has what every stage reads, the others
//! what is needed once per request or for few of them. Where the time of a request went is filled
//! in as it goes, and read when its end is told; only then the slot is used again.
//!
//! The conservation law, checked after every step in debug builds:
//! `submitted = waiting + queued + held + in flight + joined + finished`.

use crate::request::{RequestId, Space, Submit};
use crate::time::Instant;
use core::ops::Index;

mod entry;
mod list;
mod mirror;
mod request;

pub(crate) use entry::Entry;
pub use list::List;
pub use mirror::Mirrored;
pub use request::Request;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestState {
    /// Waits for a slot of stage admit.
    Waiting,
    /// In the scheduler.
    Queued,
    /// A flush that has its slot and waits for the window; schedulers never see it.
    Held,
    /// At the device.
    InFlight,
    /// At the device in the command of another one.
    Joined,
}

/// The arrival number of a slot without a request.
const VACANT: u64 = u64::MAX;

/// Release builds look at the conservation law once for so many requests.
const CHECKED_EVERY: u64 = 64;

/// All requests that exist in an engine.
#[derive(Debug, Default)]
pub struct Table {
    entries: Vec<Entry>,
    /// As many places as there are slots: first those of free ones, the one to use next the last.
    free: Vec<u32>,
    free_count: usize,
    submitted_count: u64,
    finished_count: u64,
    /// How many stand where, by `RequestState as usize`.
    counts: [u32; 5],
}

impl Table {
    /// Puts a request into the table as one that is in the scheduler: for tests of schedulers
    /// outside an engine.
    pub fn queue(&mut self, now: Instant, submit: Submit) -> RequestId {
        self.queue_in(Space::DISK, now, submit)
    }

    /// The same with an extent of this space.
    pub fn queue_in(&mut self, space: Space, now: Instant, submit: Submit) -> RequestId {
        let (id, entry) = self.enter(now, &submit);
        entry.request.space = space;
        self.entered(RequestState::Waiting);
        self.advance(id, RequestState::Queued);
        id
    }

    /// Ends a request that was put in by [`Table::queue`].
    pub fn end(&mut self, id: RequestId) {
        self.leave(id, RequestState::Queued);
        self.free(id.slot);
    }

    /// How many requests are in the scheduler.
    pub fn queued_count(&self) -> usize {
        self.count(RequestState::Queued)
    }

    /// The request, or `None` if it has ended or never was.
    #[inline]
    pub fn get(&self, id: RequestId) -> Option<&Request> {
        self.entry(id).map(|entry| &entry.request)
    }

    /// Takes a new request in, which waits for a slot of stage admit; [`Table::entered`] follows.
    #[inline]
    pub(crate) fn enter(&mut self, now: Instant, submit: &Submit) -> (RequestId, &mut Entry) {
        let sequence = self.submitted_count;
        self.submitted_count += 1;
        if self.free_count == 0 {
            self.grow(submit);
        }
        self.free_count -= 1;
        let slot = self.free[self.free_count];
        let entry = &mut self.entries[slot as usize];
        entry.begin(sequence, now, submit);
        (RequestId { slot, sequence }, entry)
    }

    /// A new request stands there.
    #[inline(always)]
    pub(crate) fn entered(&mut self, at: RequestState) {
        self.counts[at as usize] += 1;
    }

    /// One more slot.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, submit: &Submit) {
        let slot = u32::try_from(self.entries.len()).expect("bounded by DEVICE_REQUESTS_MAX");
        self.entries.push(Entry::new(*submit));
        self.free.push(slot);
        (self.free[0], self.free_count) = (slot, 1);
    }

    /// Whether the request waits for a slot of stage admit.
    pub(crate) fn is_waiting(&self, id: RequestId) -> bool {
        self.get(id).is_some_and(|request| request.state == RequestState::Waiting)
    }

    /// A request that was refused: it exists only in the counts.
    pub(crate) fn refuse(&mut self) {
        self.submitted_count += 1;
        self.finished_count += 1;
    }

    /// The entry, or `None` if no such request exists (any more).
    #[inline]
    pub(crate) fn entry(&self, id: RequestId) -> Option<&Entry> {
        let entry = self.entries.get(id.slot as usize)?;
        (entry.request.sequence == id.sequence).then_some(entry)
    }

    /// Moves a request on and gives its entry for the rest of the bookkeeping.
    #[inline]
    pub(crate) fn advance(&mut self, id: RequestId, to: RequestState) -> &mut Entry {
        let entry = &mut self.entries[id.slot as usize];
        assert_eq!(entry.request.sequence, id.sequence, "a request of the past was moved");
        self.counts[entry.request.state as usize] -= 1;
        self.counts[to as usize] += 1;
        entry.request.state = to;
        entry
    }

    /// A request that stands there goes to the device; false if there is no such one.
    #[inline(always)]
    pub(crate) fn start(&mut self, id: RequestId, from: RequestState) -> bool {
        let Some(entry) = self.entries.get_mut(id.slot as usize) else { return false };
        let Request { sequence, state, .. } = &mut entry.request;
        if *sequence != id.sequence || *state != from {
            return false;
        }
        *state = RequestState::InFlight;
        self.counts[from as usize] -= 1;
        self.counts[RequestState::InFlight as usize] += 1;
        entry.beside = self.counts[RequestState::InFlight as usize];
        true
    }

    /// A queued request goes to the device in the command of another one that has just started.
    pub(crate) fn join(&mut self, id: RequestId) {
        let beside = self.counts[RequestState::InFlight as usize];
        self.advance(id, RequestState::Joined).beside = beside;
    }

    /// The entry of a request that has just started.
    #[inline(always)]
    pub(crate) fn at_device(&mut self, id: RequestId) -> &mut Entry {
        &mut self.entries[id.slot as usize]
    }

    /// Takes a finished request out of where it stands. Its entry stays until it is freed.
    #[inline]
    pub(crate) fn leave(&mut self, id: RequestId, from: RequestState) -> &mut Entry {
        let may_be = |state| {
            state == from || (state, from) == (RequestState::Joined, RequestState::InFlight)
        };
        let is_there = |of: &Request| of.sequence == id.sequence && may_be(of.state);
        let entry = self.entries.get_mut(id.slot as usize);
        let entry = entry.filter(|entry| is_there(&entry.request));
        let Some(entry) = entry else { panic_elsewhere(id, from) };
        self.counts[entry.request.state as usize] -= 1;
        self.finished_count += 1;
        entry.request.sequence = VACANT;
        entry
    }

    /// The slot of a request that has left may be used again; its entry can be read until it is.
    #[inline]
    pub(crate) fn free(&mut self, slot: u32) -> &Entry {
        self.free[self.free_count] = slot;
        self.free_count += 1;
        &self.entries[slot as usize]
    }

    /// All that is in the scheduler, in the order of arrival.
    pub(crate) fn queued(&self) -> Vec<RequestId> {
        self.those(|entry| entry.state() == RequestState::Queued)
    }

    /// All requests that are meant, in the order of arrival.
    pub(crate) fn those(&self, are_meant: impl Fn(&Entry) -> bool) -> Vec<RequestId> {
        let mut those: Vec<RequestId> = (0u32..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.request.sequence != VACANT && are_meant(entry))
            .map(|(slot, entry)| RequestId { slot, sequence: entry.request.sequence })
            .collect();
        those.sort_unstable_by_key(|id| id.sequence);
        those
    }

    /// Everything that is not finished.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.request.sequence != VACANT)
    }

    /// How many requests stand there.
    pub(crate) fn count(&self, state: RequestState) -> usize {
        self.counts[state as usize] as usize
    }

    /// How many commands are at the device.
    pub(crate) fn in_flight(&self) -> u32 {
        self.counts[RequestState::InFlight as usize]
    }

    /// How many requests are at the device.
    pub(crate) fn at_device_count(&self) -> usize {
        self.count(RequestState::InFlight) + self.count(RequestState::Joined)
    }

    /// How many requests exist: submitted and not finished.
    pub(crate) fn live(&self) -> usize {
        (self.submitted_count - self.finished_count) as usize
    }

    /// Submitted and finished since the beginning.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.submitted_count, self.finished_count)
    }

    /// Looks at the conservation law, once all ends were told: after every step in debug builds,
    /// now and then in others, as once broken it stays broken.
    #[inline]
    pub(crate) fn check_conserved(&self) {
        if cfg!(debug_assertions) || self.finished_count.is_multiple_of(CHECKED_EVERY) {
            self.assert_conserved();
        }
    }

    #[inline(never)]
    fn assert_conserved(&self) {
        let standing: u64 = self.counts.iter().copied().map(u64::from).sum();
        assert_eq!(
            self.submitted_count,
            standing + self.finished_count,
            "conservation law: submitted = waiting + queued + held + in flight + joined + finished"
        );
        assert_eq!(standing as usize, self.entries.len() - self.free_count);
    }
}

/// The caller ends a request that does not stand there.
#[cold]
#[inline(never)]
fn panic_elsewhere(id: RequestId, from: RequestState) -> ! {
    match from {
        RequestState::InFlight => panic!("completed {id:?}, which is not in flight"),
        _ => panic!("ended {id:?}, which is not {from:?}"),
    }
}

impl Index<RequestId> for Table {
    type Output = Request;

    /// The request, which must not have ended.
    #[inline]
    fn index(&self, id: RequestId) -> &Request {
        let request = &self.entries[id.slot as usize].request;
        assert_eq!(request.sequence, id.sequence, "a request of the past");
        request
    }
}

#[cfg(test)]
mod tests;
