//! One task as the rate policy knows it: with its number 32 bytes.

use super::pause::THINK_MAX;
use crate::pace::tasks::Record;
use crate::request::TaskId;
use crate::time::Instant;

/// The thing that a task waits for when it was told to ask again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PaceWait {
    /// For nothing.
    #[default]
    Free,
    /// For its rate.
    Rate,
    /// For a limit, with a ticket.
    Ticket,
}

/// One task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacedTask {
    /// Up to here it has paid.
    pub(super) clock: Instant,
    /// When it is to ask again.
    pub(super) until: Instant,
    /// The bytes that its ticket is good for.
    pub(super) ticket: u32,
    /// The interval in which it was counted.
    pub(super) seen: u16,
    /// The limits by which its ticket was made out.
    pub(super) generation: u8,
    pub(super) stand: PaceWait,
}

impl Record for PacedTask {
    fn new(now: Instant) -> PacedTask {
        PacedTask { clock: now, ..PacedTask::default() }
    }

    /// After a second its clock begins anew anyway.
    fn is_void(&self, now: Instant) -> bool {
        !self.waits() && now.since(self.clock) > THINK_MAX
    }

    fn waits(&self) -> bool {
        self.stand != PaceWait::Free
    }
}

const _: () = assert!(size_of::<(TaskId, Option<PacedTask>)>() == 32, "two to a cache line");
