//! What the rate policy knows of one task: 32 bytes.

use super::pause::THINK_MAX;
use crate::pace::tasks::Record;
use crate::request::TaskId;
use crate::time::Instant;

/// The place is taken.
const USED: u8 = 1;
/// It was told to ask again.
const WAITS: u8 = 2;
/// It waits with a ticket for a limit, and not for its rate.
const TICKET: u8 = 4;

/// One task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Task {
    task: u64,
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
    flags: u8,
}

impl Record for Task {
    fn is_used(&self) -> bool {
        self.flags & USED != 0
    }

    fn task(&self) -> TaskId {
        TaskId(self.task)
    }

    /// After a second its clock begins anew anyway.
    fn is_void(&self, now: Instant) -> bool {
        !self.waits() && now.since(self.clock) > THINK_MAX
    }

    fn is_kept(&self) -> bool {
        self.waits()
    }

    fn new(now: Instant, task: TaskId) -> Task {
        Task { task: task.0, clock: now, flags: USED, ..Task::default() }
    }
}

impl Task {
    pub(super) fn waits(&self) -> bool {
        self.flags & WAITS != 0
    }

    pub(super) fn has_ticket(&self) -> bool {
        self.flags & TICKET != 0
    }

    pub(super) fn wait(&mut self, until: Instant, ticket: Option<u32>) {
        self.until = until;
        self.flags |= WAITS;
        if let Some(size) = ticket {
            self.flags |= TICKET;
            self.ticket = size;
        }
    }

    /// It need not wait any more, or what it waits with is void.
    pub(super) fn go(&mut self) {
        self.flags &= !(WAITS | TICKET);
    }

    /// A portion passes, or it gives up.
    pub(super) fn passes(&mut self) {
        self.flags = USED;
    }
}

const _: () = assert!(size_of::<Task>() == 32, "two to a cache line");
