//! One task as the rate policy knows it: with its number 32 bytes.

use super::pause::THINK_MAX;
use crate::pace::tasks::Record;
use crate::request::TaskId;
use crate::time::Instant;

/// The thing that a task waits for when it was told to ask again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stand {
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
pub(super) struct Task {
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
    pub(super) stand: Stand,
}

impl Record for Task {
    fn new(now: Instant) -> Task {
        Task { clock: now, ..Task::default() }
    }

    /// After a second its clock begins anew anyway.
    fn is_void(&self, now: Instant) -> bool {
        !self.waits() && now.since(self.clock) > THINK_MAX
    }

    fn waits(&self) -> bool {
        self.stand != Stand::Free
    }
}

const _: () = assert!(size_of::<(TaskId, Option<Task>)>() == 32, "two to a cache line");
