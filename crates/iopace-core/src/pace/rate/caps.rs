//! The limits of a group (`io.max`) on what may be dirtied, exact for any size of write.
//!
//! Each rate has a meter, a virtual clock that every portion pushes forward. A write that finds a
//! meter closed *reserves*: its portion is charged at once, and it passes at the instant at which
//! the meter had opened without it. So everybody behind one limit has an instant of his own, in
//! order of arrival, and nobody is woken in vain.
//!
//! Portions are 4 ms of the rate and at least a page, so that large writes do not come in lumps of
//! seconds. An operation is what write-back makes of a large write, 128 KiB: so the disk counts no
//! more than the door has let in, and a sync at the end does not wait for the rest. A portion
//! counts those that it begins.

use super::pause::PAGE;
use crate::group::Limits;
use crate::group::Rates;
use crate::group::rates::{GroupRate, Total, limit_rates, pieces, set_rates};
use crate::request::Lane;
use crate::time::Instant;
use crate::units::Bytes;
use core::num::NonZeroU64;

/// A portion is so many of a second's bytes: far below the per cent that a limit may be off.
const PORTIONS_PER_SEC: u64 = 250;

/// The meters of one group.
#[derive(Debug, Default)]
pub(super) struct CapMeters {
    limits: Limits,
    bytes: Vec<GroupRate>,
    operations: Vec<GroupRate>,
    /// The largest portion.
    portion: u64,
}

impl CapMeters {
    /// Takes over limits; true if nothing of those before holds: neither what is owed nor an
    /// instant that a write was told. Limits that are given for a time are renewed again and again:
    /// both stay.
    pub(super) fn set(&mut self, now: Instant, limits: &Limits) -> bool {
        if *limits == self.limits {
            return false;
        }
        let is_renewed = self.limits.end.is_some() && limits.end.is_some();
        self.limits = *limits;
        let new = limit_rates(now, limits).into_iter();
        let new = new.filter(|rate| rate.counts(Lane::Write)).collect();
        let mut rates: Vec<GroupRate> =
            self.bytes.drain(..).chain(self.operations.drain(..)).collect();
        if !is_renewed {
            rates.clear();
        }
        set_rates(now, &mut rates, new);
        let of_writes = rates.into_iter();
        (self.bytes, self.operations) = of_writes.partition(GroupRate::counts_bytes);
        self.portion = match self.bytes_s() {
            u64::MAX => u64::MAX,
            rate => (rate / PORTIONS_PER_SEC / PAGE * PAGE).max(PAGE),
        };
        !is_renewed
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

    /// When all meters are open for a portion of `size` bytes, `done` bytes into its write.
    pub(super) fn opens(&self, done: Bytes, size: Bytes) -> Instant {
        let begins = pieces(done, size, self.limits.iops_size) > 0;
        let operations = self.operations.iter().filter(|_| begins);
        let opens = self.bytes.iter().chain(operations).map(GroupRate::opens);
        opens.max().unwrap_or(Instant::ZERO)
    }

    /// Charges a portion of `size` bytes, `done` bytes into its write, and the operations that it
    /// begins. Somebody waits: lateness of his timer is not lost.
    pub(super) fn charge(&mut self, now: Instant, done: Bytes, size: Bytes) {
        for rate in &mut self.bytes {
            rate.charge(now, Lane::Write, size.get(), None);
        }
        let pieces = pieces(done, size, self.limits.iops_size);
        for rate in self.operations.iter_mut().filter(|_| pieces > 0) {
            rate.charge_operations(now, pieces);
        }
        self.bytes.iter_mut().chain(&mut self.operations).for_each(GroupRate::wait);
    }

    /// Charges a request to what counts reads and writes together.
    pub(super) fn admitted(&mut self, now: Instant, total: Total) {
        let all = self.bytes.iter_mut().chain(&mut self.operations);
        all.for_each(|rate| rate.charge_total(now, total));
    }
}
