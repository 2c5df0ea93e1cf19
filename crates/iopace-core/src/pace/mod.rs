//! Stage 1: may this task dirty more memory now?
//!
//! [`Pace`] is asked once per buffered write, at the door: before anything is buffered.

use crate::request::{GroupId, TaskId};
use crate::time::Instant;
use crate::units::Bytes;
use crate::verdict::Verdict;
use core::fmt;

pub mod none;

/// How fast tasks may dirty memory.
pub trait Pace: fmt::Debug + Send {
    /// A task wants to dirty `size` bytes. `Pass` charges it; `Wait` leaves all state as it was.
    fn dirty(&mut self, now: Instant, task: TaskId, group: GroupId, size: Bytes) -> Verdict;
}
