//! The answer that a request of a machine must get.

use super::blk::Status;
use super::chain::scatter;
use super::machine::Machine;
use super::regions::{Regions, Segment};
use crate::answer::{Answer, Answered, Touched};
use crate::buffer::Buffer;
use crate::device::pieces::Parts;
use crate::held::Held;
use iopace_core::request::Outcome;
use std::sync::Arc;

/// Where a request is to be answered.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The queue.
    pub(super) ring: usize,
    /// The head of its chain.
    pub(super) head: u16,
    /// The byte for its status.
    pub(super) status: Segment,
    /// Keeps that mapped.
    pub(super) regions: Arc<Regions>,
}

/// The right and the duty to answer one request.
#[derive(Debug)]
#[must_use = "a request must be answered"]
pub(super) struct Pending {
    machine: Option<Arc<Machine>>,
    place: Place,
    /// Memory counted for it.
    held: Held,
    /// Room for the data of a read.
    room: Vec<Segment>,
    /// Its length.
    room_bytes: u32,
    /// The request of which it is a piece.
    parts: Option<Arc<Parts<Status>>>,
}

impl Pending {
    /// For a request; `held` was counted for it already.
    pub(super) fn new(machine: Arc<Machine>, place: Place, held: Held) -> Pending {
        let (room, room_bytes) = (Vec::new(), 0);
        Pending { machine: Some(machine), place, held, room, room_bytes, parts: None }
    }

    /// Data of that length is read into the machine's memory: `room`, unless the disk does that.
    pub(super) fn reading(mut self, bytes: u32, room: Vec<Segment>) -> Pending {
        (self.room, self.room_bytes) = (room, bytes);
        self
    }

    /// It is for a piece of a request: only the last piece is answered.
    pub(super) fn part_of(mut self, parts: &Arc<Parts<Status>>) -> Pending {
        self.parts = Some(Arc::clone(parts));
        self
    }

    fn write(&self, machine: &Machine, outcome: Result<(), Status>, data: &Buffer) {
        let ended = self.parts.as_ref().map_or(Some(outcome), |parts| parts.done(outcome));
        let Some(outcome) = ended else { return machine.account.close(self.held) };
        let mut written = 1;
        if outcome.is_ok() {
            scatter(&self.room, data.as_slice());
            written += self.room_bytes;
        }
        let Place { ring, head, status, .. } = self.place;
        let outcome = outcome.err().unwrap_or(Status::Ok);
        status.write_from(&[outcome as u8]);
        machine.account.close(self.held);
        machine.answer(ring, &[(head, written)]);
    }
}

impl Answer for Pending {
    fn answer(mut self: Box<Self>, answered: Answered, touched: &mut Touched) {
        let machine = self.machine.take().expect("answered once");
        let outcome = match answered.outcome {
            Outcome::Ok => Ok(()),
            Outcome::Refused | Outcome::Failed(_) => Err(Status::IoError),
        };
        self.write(&machine, outcome, &answered.data);
        touched.add(machine);
    }
}

impl Drop for Pending {
    /// One that nobody answered is a bug. Tests hear of it; a machine gets an error.
    fn drop(&mut self) {
        let Some(machine) = self.machine.take() else {
            return;
        };
        self.write(&machine, Err(Status::IoError), &Buffer::default());
        machine.call();
        debug_assert!(std::thread::panicking(), "a request was dropped unanswered");
        tracing::error!(head = self.place.head, "a request was dropped unanswered");
    }
}
