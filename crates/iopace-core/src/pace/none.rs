//! Lets every write through at once.
//!
//! # Model
//! No dirty accounting: the kernel's (or the modelled) page cache takes what comes until it is
//! full.
//!
//! # Properties
//! 1. No write ever waits here.
//!
//! # When it does not know
//! There is nothing to know.
//!
//! # Limits
//! A heavy writer fills the page cache and everybody pays for it.

use super::Pace;
use crate::request::{GroupId, TaskId};
use crate::time::Instant;
use crate::units::Bytes;
use crate::verdict::Verdict;

/// No pacing.
#[derive(Debug, Default)]
pub struct None;

impl Pace for None {
    fn dirty(&mut self, _: Instant, _: TaskId, _: GroupId, _: Bytes) -> Verdict {
        Verdict::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_no_write_ever_waits() {
        for size in [0, 1, 4096, u64::MAX] {
            let verdict = None.dirty(Instant::ZERO, TaskId(1), GroupId::ROOT, Bytes(size));
            assert_eq!(verdict, Verdict::Pass);
        }
    }
}
