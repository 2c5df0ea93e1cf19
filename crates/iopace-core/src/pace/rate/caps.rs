//! The limits of a group (`io.max`) on what may be dirtied, exact for any size of write.
//!
//! Each rate has a meter, a virtual clock that every portion pushes forward. A write that finds a
//! meter closed *reserves*: its portion is charged at once, and it passes at the instant at which
//! the meter had opened without it. So everybody behind one limit has an instant of his own, in
//! order of arrival, and nobody is woken in vain.
//!
//! Portions are 4 ms of the rate and at least a page, so that large writes do not come in lumps of
//! seconds. An operation is what write-back makes of a large write, 128 KiB: so the disk counts no
//! more than the door has let in, and a sync at the end does not wait for the rest. All of a write
//! are counted with its first portion.

use super::pause::PAGE;
use crate::group::Limits;
use crate::group::Rates;
use crate::group::rates::{Rate, limit_rates};
use crate::limits::WRITE_BACK_LEN;
use crate::request::Lane;
use crate::time::Instant;
use core::num::NonZeroU64;

/// A portion is so many of a second's bytes: far below the per cent that a limit may be off.
const PORTIONS_PER_SEC: u64 = 250;

/// An operation is no more than this.
const PIECE: NonZeroU64 = NonZeroU64::new(WRITE_BACK_LEN.0).expect("it is above 0");

/// The meters of one group.
#[derive(Debug)]
pub(super) struct Caps {
    limits: Limits,
    bytes: Vec<Rate>,
    operations: Vec<Rate>,
    /// So many bytes of a write are one operation.
    operation: NonZeroU64,
    /// The largest portion.
    portion: u64,
}

impl Default for Caps {
    fn default() -> Caps {
        let (bytes, operations) = (Vec::new(), Vec::new());
        Caps { limits: Limits::default(), bytes, operations, operation: PIECE, portion: 0 }
    }
}

impl Caps {
    /// Takes over limits; true if they are others than before. Nothing is owed to the new ones.
    pub(super) fn set(&mut self, now: Instant, limits: &Limits) -> bool {
        if *limits == self.limits {
            return false;
        }
        self.limits = *limits;
        let part = |rates: &Rates, bytes: bool| match bytes {
            true => Rates { wbps: rates.wbps, bps: rates.bps, ..Rates::default() },
            false => Rates { wiops: rates.wiops, iops: rates.iops, ..Rates::default() },
        };
        let meters = |bytes| {
            let (sustained, burst) = (part(&limits.sustained, bytes), part(&limits.burst, bytes));
            let rates = limit_rates(now, &Limits { sustained, burst, ..*limits });
            rates.into_iter().map(|(rate, ..)| rate).collect()
        };
        (self.bytes, self.operations) = (meters(true), meters(false));
        self.operation = limits.iops_size.map_or(PIECE, |size| size.min(PIECE));
        let slowest = limits.sustained.wbps.into_iter().chain(limits.sustained.bps).min();
        self.portion = slowest
            .map_or(u64::MAX, |rate| (rate.get() / PORTIONS_PER_SEC / PAGE * PAGE).max(PAGE));
        true
    }

    /// Whether there is any limit.
    pub(super) fn is_any(&self) -> bool {
        !self.bytes.is_empty() || !self.operations.is_empty()
    }

    /// The least rate for what is written, in bytes/s; [`u64::MAX`] if there is none.
    pub(super) fn bytes_s(&self) -> u64 {
        let Rates { wbps, bps, .. } = self.limits.sustained;
        wbps.into_iter().chain(bps).map(NonZeroU64::get).min().unwrap_or(u64::MAX)
    }

    /// The largest portion, in bytes.
    pub(super) fn portion(&self) -> u64 {
        self.portion
    }

    /// When all meters are open for a portion; `first`: it is the first one of its write.
    pub(super) fn opens(&self, first: bool) -> Instant {
        let operations = self.operations.iter().filter(|_| first);
        let opens = self.bytes.iter().chain(operations).map(|rate| rate.meter.opens());
        opens.max().unwrap_or(Instant::ZERO)
    }

    /// Charges a portion of `size` bytes, and if it is the first, the operations of the `write`.
    pub(super) fn charge(&mut self, now: Instant, size: u64, write: Option<u64>) {
        for rate in &mut self.bytes {
            rate.charge(now, Lane::Write, size, None);
        }
        let Some(write) = write else { return };
        for rate in &mut self.operations {
            rate.charge(now, Lane::Write, write, Some(self.operation));
        }
    }

    /// Somebody waits: lateness of his timer is not lost.
    pub(super) fn wait(&mut self) {
        for rate in self.bytes.iter_mut().chain(&mut self.operations) {
            rate.meter.wait();
        }
    }
}
