//! Requests for the tests of window policies.

use crate::request::{Done, Extent, GroupId, Op, RequestId, TaskId};
use crate::time::Instant;
use crate::units::Bytes;
use crate::window::Started;

/// A read of 4 KiB, or write-back of 128 KiB.
pub(in crate::window) fn started(sync: bool) -> Started {
    let (op, size) = kind(sync);
    Started { op, size, sync }
}

/// The end of such a request, which was started at that many nanoseconds.
pub(in crate::window) fn done(sync: bool, started: u64) -> Done {
    let (op, size) = kind(sync);
    Done {
        id: RequestId::forge(1),
        task: TaskId(1),
        group: GroupId::ROOT,
        op,
        extent: Extent::new(Bytes::ZERO, size).expect("small"),
        started: Instant(started),
        sync,
        ok: true,
    }
}

fn kind(sync: bool) -> (Op, Bytes) {
    if sync { (Op::Read, Bytes::from_kib(4)) } else { (Op::Write, Bytes::from_kib(128)) }
}

/// Numbers in no order: the upper bits of a linear congruence.
pub(in crate::window) struct Numbers(pub(in crate::window) u64);

impl Numbers {
    /// The next, below a bound.
    pub(in crate::window) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        ((u128::from(self.0 >> 11) * u128::from(bound)) >> 53) as u64
    }
}
