//! Stage 4: how many requests may the disk hold?
//!
//! [`Window`] is asked before the scheduler, because a popped request cannot be taken back.

use crate::request::Done;
use crate::time::Instant;
use core::fmt;

pub mod fixed;

/// How many requests may be in flight.
pub trait Window: fmt::Debug + Send {
    /// Whether one more may start while `in_flight` are at the disk. Must say yes at zero.
    fn has_room(&self, in_flight: u32) -> bool;

    /// Learns from a completion.
    fn on_done(&mut self, _now: Instant, _done: &Done) {}

    /// The number of requests it allows at present.
    fn depth(&self) -> u32;

    /// Changes the most it will ever allow.
    fn set_depth(&mut self, depth: u32);
}
