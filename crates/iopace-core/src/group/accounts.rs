//! The account of each group on one device: its requests, counts and pressure. Counts are those of
//! the group and of all below it, as in cgroup v2. Those of the root are the device's, which counts
//! them already: here they are filled in when they are told.

use super::pressure::Pressure;
use super::table::{Column, Groups, SettingKind};
use super::{Class, Rates};
use crate::request::{GroupId, StageTimes};
use crate::stats::{DeviceCounts, Finished, Histogram, OpCounts, StageHistograms};
use crate::time::Instant;
use crate::units::{Bytes, PAGE};
use core::num::NonZeroU64;

/// One group on one device. A request reads and writes four lines of the processor's cache here,
/// the first one at its arrival and its start.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
pub struct Account {
    /// Requests of its own and of all below, write-back included, that are not finished.
    below_count: u32,
    /// Holds on the group, such as that of a flush that waits: it is not forgotten.
    held_count: u32,
    /// Latency of its requests, from arrival to finish; made with the first one.
    pub latency: Option<Box<Histogram>>,
    /// How much of the time it waited.
    pub pressure: Pressure,
    /// Time per stage of its requests and buffered writes.
    pub by_stage: StageHistograms<4>,
    /// Requests, bytes and where their time went.
    pub counts: OpCounts,
}

impl Account {
    /// Requests of the group and of all below it, write-back included, that are not finished.
    pub fn below_count(&self) -> u32 {
        self.below_count
    }

    /// That of the root: all that the device and its tasks have counted, and its requests that are
    /// not finished.
    pub(crate) fn with_device(
        &self,
        device: &DeviceCounts,
        counts: OpCounts,
        live_count: usize,
    ) -> Account {
        let latency = device.latency();
        Account {
            counts,
            latency: (latency.count() > 0).then(|| Box::new(latency)),
            by_stage: device.by_stage().coarser(),
            below_count: u32::try_from(live_count).expect("as many as requests there may be"),
            ..self.clone()
        }
    }

    /// A request of the group or of one below it has ended.
    #[inline(always)]
    fn finished(&mut self, now: Instant, finished: &Finished<'_>, by_stage: bool) {
        self.below_count -= 1;
        self.counts.finish(finished);
        if finished.submit.sync {
            let latency = self.latency.get_or_insert_with(Histogram::empty);
            latency.record_placed(finished.total);
            self.pressure.finished(now);
        }
        if by_stage {
            finished.each_stage(|stage, spent| self.by_stage.add(stage, spent));
        }
    }
}

/// The groups of a device, and the account of each.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(crate) table: Groups,
    accounts: Column<Account>,
}

impl Accounts {
    /// The account of a group; `None` if the device does not know the group.
    pub(crate) fn get(&self, id: GroupId) -> Option<&Account> {
        self.table.knows(id).then(|| &self.accounts[id])
    }

    /// Calls `each` for the group and all above it but the root.
    #[inline(always)]
    fn up(&mut self, mut id: GroupId, mut each: impl FnMut(&mut Account)) {
        while id != GroupId::ROOT {
            each(&mut self.accounts[id]);
            id = self.table.parent(id);
        }
    }

    /// A request or a buffered write comes; `sync`: a task waits for it.
    #[inline(always)]
    pub(crate) fn arrived(&mut self, now: Instant, id: GroupId, sync: bool) {
        if id != GroupId::ROOT {
            self.table.enter(id);
            self.up(id, |account| {
                account.below_count += 1;
                if sync {
                    account.pressure.arrived(now);
                }
            });
        }
        if sync {
            self.accounts[GroupId::ROOT].pressure.arrived(now);
        }
    }

    /// Something of the group is elsewhere: it must not be forgotten.
    pub(crate) fn hold(&mut self, id: GroupId) {
        self.table.enter(id);
        self.accounts[id].held_count += 1;
    }

    /// Ends a hold.
    pub(crate) fn release(&mut self, id: GroupId) {
        self.accounts[id].held_count -= 1;
    }

    /// The class of the group with those above it.
    #[inline(always)]
    pub(crate) fn started(&mut self, now: Instant, id: GroupId, sync: bool) -> Class {
        if sync {
            self.up(id, |account| account.pressure.started(now));
            self.accounts[GroupId::ROOT].pressure.started(now);
        }
        self.table.class(id)
    }

    /// The least bytes per second that limits (`io.max`) of a group and of those above let it
    /// write, whatever the size of its requests: an operation is a page at least. `None` without a
    /// limit.
    pub(crate) fn write_limit(&self, id: GroupId) -> Option<u64> {
        let rates = |id: GroupId| {
            let Rates { wbps, bps, wiops, iops, .. } = self.table.settings(id).max.sustained;
            let pages = wiops.into_iter().chain(iops).map(|rate| rate.get().saturating_mul(PAGE));
            wbps.into_iter().chain(bps).map(NonZeroU64::get).chain(pages)
        };
        self.table.chain(id, SettingKind::Limit).flat_map(rates).min()
    }

    /// A portion of a buffered write is in memory.
    pub(crate) fn buffered(&mut self, id: GroupId, size: Bytes) {
        self.up(id, |account| account.counts.buffered(size));
    }

    /// A buffered write is over; what it moves is a request when it is written back. `by_stage`:
    /// its times count in histograms by stage as well.
    pub(crate) fn wrote(&mut self, now: Instant, id: GroupId, waited: &StageTimes, by_stage: bool) {
        self.up(id, |account| {
            account.below_count -= 1;
            account.counts.paced(waited);
            account.pressure.finished(now);
            if by_stage {
                account.by_stage.paced(waited);
            }
        });
        self.accounts[GroupId::ROOT].pressure.finished(now);
    }

    /// A request has ended; `by_stage` as above.
    #[inline(always)]
    pub(crate) fn finished(
        &mut self,
        now: Instant,
        mut id: GroupId,
        finished: &Finished<'_>,
        by_stage: bool,
    ) {
        while id != GroupId::ROOT {
            self.accounts[id].finished(now, finished, by_stage);
            id = self.table.parent(id);
        }
        if finished.submit.sync {
            self.accounts[GroupId::ROOT].pressure.finished(now);
        }
    }

    /// Requests of the group and of all below it that are not finished.
    pub(crate) fn live_below(&self, id: GroupId) -> u32 {
        self.accounts[id].below_count
    }

    /// Whether a move below `parent` would tear a group away from those above it that count its
    /// requests. The tree moves no group; a number is given again when all of it has ended.
    pub(crate) fn is_torn(&self, id: GroupId, parent: GroupId) -> bool {
        let is_elsewhere = self.table.knows(id) && self.table.parent(id) != parent;
        is_elsewhere && id != GroupId::ROOT && self.live_below(id) > 0
    }

    /// Whether the group was to be forgotten and has no request any more.
    #[inline]
    pub(crate) fn is_dead(&self, id: GroupId) -> bool {
        let is_over = |account: &Account| account.below_count == 0 && account.held_count == 0;
        self.table.is_dying(id) && is_over(&self.accounts[id])
    }

    pub(crate) fn forget(&mut self, id: GroupId) {
        self.table.forget(id);
        self.accounts.take(id);
    }
}
