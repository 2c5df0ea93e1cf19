//! What each group did on one device: the groups that the device knows, their requests, counts and
//! pressure. Counts are those of the group and of all below it, as in cgroup v2.

use super::pressure::Pressure;
use super::{Rates, Settings};
use crate::flush::PAGE;
use crate::request::{GroupId, StageTimes};
use crate::stats::{Finished, Histogram, OpCounts, StageHistograms};
use crate::time::Instant;
use crate::units::Bytes;
use core::num::NonZeroU64;

/// One group on one device.
#[derive(Clone, Debug, Default)]
pub struct Account {
    parent: GroupId,
    /// What holds for it here.
    pub settings: Settings,
    /// Requests, bytes and where their time went.
    pub counts: OpCounts,
    /// Latency of its requests, from arrival to finish; made with the first one.
    pub latency: Option<Box<Histogram>>,
    /// Time per stage of its requests and buffered writes.
    pub by_stage: StageHistograms<4>,
    /// How much of the time it waited.
    pub pressure: Pressure,
    /// Requests of its own, not of groups below, that are not finished.
    live_count: u32,
    /// Requests of its own and of all below, write-back included, that are not finished.
    below_count: u32,
    /// It is to be forgotten with its last request.
    dying: bool,
    /// Whether anybody said what holds for it; else stages know nothing of it.
    is_told: bool,
}

impl Account {
    /// Whether the group was removed.
    pub(crate) fn is_dying(&self) -> bool {
        self.dying
    }

    /// The group above.
    pub(crate) fn parent(&self) -> GroupId {
        self.parent
    }

    /// Requests of the group and of all below it, write-back included, that are not finished.
    pub fn below_count(&self) -> u32 {
        self.below_count
    }

    /// A request of the group or of one below it has ended.
    #[inline]
    fn finished(&mut self, now: Instant, finished: &Finished<'_>) {
        self.below_count -= 1;
        self.counts.finish(finished);
        if finished.sync {
            self.pressure.finished(now);
            self.latency.get_or_insert_with(Histogram::empty).record(finished.total);
        }
    }
}

/// All groups that a device knows, by the number of the group.
#[derive(Debug)]
pub(crate) struct Accounts(Vec<Option<Box<Account>>>);

impl Default for Accounts {
    fn default() -> Accounts {
        Accounts(vec![Some(Box::default())])
    }
}

impl Accounts {
    /// The account of a group, made if there is none.
    #[inline]
    fn ensure(&mut self, id: GroupId) -> &mut Account {
        let place = id.0 as usize;
        if !self.0.get(place).is_some_and(Option::is_some) {
            self.make(place);
        }
        self.0[place].as_deref_mut().expect("it is made")
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, place: usize) {
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(Box::default());
    }

    /// Says what holds for a group from now on; what held until now, if it was here already, below
    /// the same parent.
    pub(crate) fn set(
        &mut self,
        id: GroupId,
        parent: GroupId,
        settings: &Settings,
    ) -> Option<Settings> {
        let account = self.ensure(id);
        let before = (account.is_told && !account.dying && account.parent == parent)
            .then_some(account.settings);
        account.parent = parent;
        account.settings = *settings;
        account.dying = false;
        account.is_told = true;
        before
    }

    pub(crate) fn get(&self, id: GroupId) -> Option<&Account> {
        self.0.get(id.0 as usize)?.as_deref()
    }

    /// Calls `own` for the group, then `each` for it and all above it, the root last: the group's
    /// number with its account.
    #[inline(always)]
    fn up(
        &mut self,
        mut id: GroupId,
        own: impl FnOnce(&mut Account),
        mut each: impl FnMut(GroupId, &mut Account),
    ) {
        let mut own = Some(own);
        loop {
            let account = self.ensure(id);
            if let Some(own) = own.take() {
                own(account);
            }
            each(id, account);
            if id == GroupId::ROOT {
                return;
            }
            id = account.parent;
        }
    }

    /// A request or a buffered write comes; `sync`: a task waits for it.
    #[inline(always)]
    pub(crate) fn arrived(&mut self, now: Instant, id: GroupId, sync: bool) {
        let own = |account: &mut Account| account.live_count += 1;
        self.up(id, own, |_, account| {
            account.below_count += 1;
            if sync {
                account.pressure.arrived(now);
            }
        });
    }

    /// Something of the group is elsewhere: it must not be forgotten.
    pub(crate) fn hold(&mut self, id: GroupId) {
        self.ensure(id).live_count += 1;
    }

    /// Ends a hold.
    pub(crate) fn release(&mut self, id: GroupId) {
        self.ensure(id).live_count -= 1;
    }

    #[inline(always)]
    pub(crate) fn started(&mut self, now: Instant, id: GroupId, sync: bool) {
        if sync {
            self.up(id, |_| (), |_, account| account.pressure.started(now));
        }
    }

    /// The least bytes per second that limits (`io.max`) of a group and of those above let it
    /// write, whatever the size of its requests: an operation is a page at least. `None` without a
    /// limit.
    pub(crate) fn write_limit(&self, id: GroupId) -> Option<u64> {
        let (mut least, mut id) = (None, id);
        while let Some(account) = self.get(id) {
            let Rates { wbps, bps, wiops, iops, .. } = account.settings.max.sustained;
            let pages = wiops.into_iter().chain(iops).map(|rate| rate.get().saturating_mul(PAGE));
            let rates = wbps.into_iter().chain(bps).map(NonZeroU64::get).chain(pages);
            least = least.into_iter().chain(rates).min();
            if id == GroupId::ROOT {
                break;
            }
            id = account.parent;
        }
        least
    }

    /// A portion of a buffered write is in memory.
    pub(crate) fn buffered(&mut self, id: GroupId, size: Bytes) {
        self.up(id, |_| (), |_, account| account.counts.buffered(size));
    }

    /// A buffered write is over; what it moves is a request when it is written back.
    pub(crate) fn wrote(&mut self, now: Instant, id: GroupId, waited: &StageTimes) {
        let own = |account: &mut Account| account.live_count -= 1;
        self.up(id, own, |_, account| {
            account.below_count -= 1;
            account.counts.paced(waited);
            account.pressure.finished(now);
        });
    }

    /// A request has ended. `by_stage`: its times count in histograms by stage as well; those of
    /// the root are those of the device.
    #[inline]
    pub(crate) fn finished(
        &mut self,
        now: Instant,
        id: GroupId,
        finished: &Finished<'_>,
        by_stage: bool,
    ) {
        self.ensure(id).live_count -= 1;
        if id != GroupId::ROOT {
            self.finished_below(now, id, finished, by_stage);
        }
        self.ensure(GroupId::ROOT).finished(now, finished);
    }

    /// The same for the group and all above it but the root.
    #[inline(never)]
    fn finished_below(
        &mut self,
        now: Instant,
        mut id: GroupId,
        finished: &Finished<'_>,
        by_stage: bool,
    ) {
        while id != GroupId::ROOT {
            let account = self.ensure(id);
            account.finished(now, finished);
            if by_stage {
                account.by_stage.record(finished);
            }
            id = account.parent;
        }
    }

    /// Counts the times of a buffered write that is over in the histograms of the group and all
    /// above it but the root: there they are those of the device.
    pub(crate) fn paced_by_stage(&mut self, mut id: GroupId, waited: &StageTimes) {
        while id != GroupId::ROOT {
            let account = self.ensure(id);
            account.by_stage.paced(waited);
            id = account.parent;
        }
    }

    /// The group and all above it, without the root.
    pub(crate) fn ancestors(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let is_group = |id: &GroupId| *id != GroupId::ROOT;
        std::iter::successors(Some(id).filter(is_group), move |id| {
            self.get(*id).map(|account| account.parent).filter(is_group)
        })
    }

    /// The other groups with the same parent.
    pub(crate) fn siblings(&self, id: GroupId) -> Vec<GroupId> {
        let Some(parent) = self.get(id).map(|account| account.parent) else {
            return Vec::new();
        };
        let known = (0u32..).zip(&self.0).skip(1).map(|(index, account)| (GroupId(index), account));
        let others = known.filter(|(other, account)| {
            *other != id && account.as_ref().is_some_and(|account| account.parent == parent)
        });
        others.map(|(other, _)| other).collect()
    }

    /// Requests of the group and of all below it that are not finished.
    pub(crate) fn live_below(&self, id: GroupId) -> u32 {
        self.get(id).map_or(0, |account| account.below_count)
    }

    /// Marks a group to be forgotten.
    pub(crate) fn dies(&mut self, id: GroupId) {
        if let Some(Some(account)) = self.0.get_mut(id.0 as usize) {
            account.dying = true;
        }
    }

    /// Whether the group was to be forgotten and has no request any more.
    pub(crate) fn is_dead(&self, id: GroupId) -> bool {
        self.get(id).is_some_and(|account| account.dying && account.live_count == 0)
    }

    pub(crate) fn forget(&mut self, id: GroupId) {
        if let Some(account) = self.0.get_mut(id.0 as usize) {
            *account = None;
        }
        while self.0.last().is_some_and(Option::is_none) {
            self.0.pop();
        }
    }

    /// The root and then every other group, as [`Accounts::settings`].
    pub(crate) fn all_settings(&self) -> Vec<(GroupId, GroupId, Settings)> {
        let root = self.get(GroupId::ROOT).map_or_else(Settings::default, |root| root.settings);
        let mut all = vec![(GroupId::ROOT, GroupId::ROOT, root)];
        all.extend(self.settings());
        all
    }

    /// The numbers of all groups are below this one.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.0.len()).expect("as many as group numbers")
    }

    /// Every group but the root with parent and settings, parents before children.
    pub(crate) fn settings(&self) -> Vec<(GroupId, GroupId, Settings)> {
        let known = (0u32..).zip(&self.0).skip(1);
        let mut all: Vec<(usize, GroupId, GroupId, Settings)> = known
            .filter_map(|(index, account)| {
                let account = account.as_ref()?;
                let id = GroupId(index);
                Some((self.depth(id), id, account.parent, account.settings))
            })
            .collect();
        all.sort_by_key(|(depth, id, ..)| (*depth, *id));
        all.into_iter().map(|(_, id, parent, settings)| (id, parent, settings)).collect()
    }

    fn depth(&self, mut id: GroupId) -> usize {
        let mut depth = 0;
        while let Some(account) = self.get(id).filter(|_| id != GroupId::ROOT) {
            id = account.parent;
            depth += 1;
        }
        depth
    }
}
