//! Stage 2: has this request a slot?
//!
//! [`Admission`] charges and passes a request, or leaves all state as it was and says when to ask
//! again. The engine keeps what waits in arrival order; one queue serves while all is one group.

use crate::request::GroupId;
use crate::time::Instant;
use crate::verdict::Verdict;
use core::fmt;

pub mod slots;

/// Whether a request may enter the scheduler's queue.
pub trait Admission: fmt::Debug + Send {
    /// Charges one request of `group`, or says why not yet.
    fn admit(&mut self, now: Instant, group: GroupId) -> Verdict;

    /// A request of `group` that was admitted has finished: its slot is free again.
    fn release(&mut self, now: Instant, group: GroupId);

    /// How many slots there are and how many are taken.
    fn slots(&self) -> (u32, u32);

    /// Changes the number of slots. Those taken beyond it are not revoked.
    fn set_slots(&mut self, nr_requests: u32);
}
