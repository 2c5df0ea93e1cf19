//! A second table, of one that is elsewhere: for a scheduler of this crate that runs as a loaded
//! policy and is told of requests by slot and arrival number.
//!
//! It holds what the scheduler may look up, in the same slots, so that the scheduler decides as it
//! does beside the table itself.

use super::{Entry, Request, RequestState, Table, VACANT};
use crate::request::{RequestId, Space, Submit};
use crate::time::Instant;

impl Table {
    /// Puts a request in as one that is in the scheduler, into its slot, which must be free.
    ///
    /// # Panics
    /// If it is not.
    pub fn mirror(&mut self, id: RequestId, request: &Mirrored) {
        let Mirrored { submit, arrived, space, is_reserved } = *request;
        let slot = id.slot as usize;
        while self.entries.len() <= slot {
            self.entries.push(Entry::new(submit));
        }
        let entry = &mut self.entries[slot];
        assert_eq!(entry.request.sequence, VACANT, "two requests in one slot");
        entry.begin(id.sequence, arrived, &submit);
        (entry.request.space, entry.request.reserved) = (space, is_reserved);
        entry.request.state = RequestState::Queued;
        self.counts[RequestState::Queued as usize] += 1;
    }

    /// One that was put in goes to the disk.
    pub fn mirror_started(&mut self, id: RequestId) {
        self.start(id, RequestState::Queued);
    }

    /// Takes one out again, wherever it stands; the request as it was, or `None` if there is none.
    pub fn unmirror(&mut self, id: RequestId) -> Option<Request> {
        let entry = self.entries.get_mut(id.slot as usize)?;
        if entry.request.sequence != id.sequence {
            return None;
        }
        let request = entry.request;
        self.counts[request.state as usize] -= 1;
        entry.request.sequence = VACANT;
        Some(request)
    }
}

/// A request of the other table.
#[derive(Clone, Copy, Debug)]
pub struct Mirrored {
    /// Everything that it came with.
    pub submit: Submit,
    /// When it came.
    pub arrived: Instant,
    /// The owner of its extent.
    pub space: Space,
    /// Whether a guarantee pays for it.
    pub is_reserved: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Extent, GroupId, Op, Tag, TaskId};
    use crate::units::Bytes;

    #[test]
    fn it_shows_what_the_other_table_has() {
        let extent = Extent::new(Bytes(4096), Bytes(512)).expect("within bounds");
        let (task, group, op) = (TaskId(7), GroupId(3), Op::Read);
        let submit = Submit { tag: Tag(1), task, group, op, extent, fua: false, sync: true };
        let mut other = Table::default();
        other.queue(Instant(1), submit);
        let id = other.queue_in(Space(2), Instant(5), submit);

        let mut table = Table::default();
        let (arrived, space) = (Instant(5), Space(2));
        let mirrored = Mirrored { submit, arrived, space, is_reserved: true };
        let again = RequestId::at(id.slot(), id.sequence());
        table.mirror(again, &mirrored);
        assert_eq!(table[again].area(), other[id].area());
        assert_eq!(table[again].arrived(), other[id].arrived());
        assert!(table[again].is_reserved());
        assert_eq!(table.queued_count(), 1);
        table.mirror_started(again);
        assert_eq!((table.queued_count(), table.in_flight()), (0, 1));
        assert_eq!(table.unmirror(again).map(|gone| gone.task()), Some(TaskId(7)));
        assert!(table.unmirror(again).is_none());
        assert_eq!(table.in_flight(), 0);
    }
}
