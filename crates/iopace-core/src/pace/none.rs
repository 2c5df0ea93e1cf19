//! Lets every write through at once.
//!
//! # Model
//! No rate: memory takes what comes until the hard limit is reached, and then as much as is written
//! back, in order of arrival.
//!
//! # Properties
//! 1. No write ever waits here.
//!
//! # When it does not know
//! There is nothing to know.
//!
//! # Limits
//! A heavy writer fills the dirty memory and everybody waits behind it.

use super::{Dirty, Grant, Pace, PacePolicy, Write};
use crate::group::table::Groups;
use crate::time::Instant;

/// The registry's line.
pub static POLICY: PacePolicy = PacePolicy {
    name: "none",
    summary: "no pacing: writes are taken until the dirty limit, then in order of arrival",
    build: || Box::new(None),
};

/// No pacing.
#[derive(Debug, Default)]
pub struct None;

impl Pace for None {
    fn ask(&mut self, _: Instant, write: &Write, _: &Dirty, _: &Groups) -> Grant {
        Grant::Pass(write.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{GroupId, TaskId};
    use crate::units::Bytes;

    #[test]
    fn p1_no_write_ever_waits() {
        for size in [1, 4096, u64::MAX] {
            let (task, group) = (TaskId(1), GroupId::ROOT);
            let (done, size) = (Bytes(0), Bytes(size));
            let write = Write { task, group, done, size, fresh: size };
            let dirty = Dirty { device: size, ..Dirty::default() };
            let grant = None.ask(Instant::ZERO, &write, &dirty, &Groups::default());
            assert_eq!(grant, Grant::Pass(size));
        }
    }
}
