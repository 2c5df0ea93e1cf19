//! What each group did on one device: the groups that the device knows, their requests, counts and
//! pressure. Counts are those of the group and of all below it, as in cgroup v2. Those of the root
//! are the device's, which counts them already: here they are filled in when they are told.

use super::pressure::{Change, Pressure};
use super::{Class, Rates, Settings};
use crate::flush::PAGE;
use crate::request::{GroupId, StageTimes};
use crate::stats::{DeviceCounts, Finished, Histogram, OpCounts, StageHistograms};
use crate::time::Instant;
use crate::units::Bytes;
use core::num::NonZeroU64;

/// One group on one device.
#[derive(Clone, Debug, Default)]
pub struct Account {
    parent: GroupId,
    /// What holds for it here.
    pub settings: Settings,
    /// Its class and those of the groups above it in one.
    class: Class,
    /// Requests, bytes and where their time went.
    pub counts: OpCounts,
    /// Latency of its requests, from arrival to finish; made with the first one.
    pub latency: Option<Box<Histogram>>,
    /// Time per stage of its requests and buffered writes.
    pub by_stage: StageHistograms<4>,
    /// How much of the time it waited.
    pub pressure: Pressure,
    /// Requests of its own and of all below, write-back included, that are not finished.
    below_count: u32,
    /// Holds on the group, such as that of a flush that waits: it is not forgotten.
    held_count: u32,
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

    /// That of the root: all that the device has counted, and its requests that are not finished.
    pub(crate) fn with_device(&self, device: &DeviceCounts, live_count: usize) -> Account {
        let latency = device.latency();
        Account {
            counts: device.counts.clone(),
            latency: (latency.count() > 0).then(|| Box::new(latency)),
            by_stage: device.told.by_stage.coarser(),
            below_count: u32::try_from(live_count).expect("as many as requests there may be"),
            ..self.clone()
        }
    }

    /// A request of the group or of one below it has ended.
    #[inline(always)]
    fn finished(&mut self, finished: &Finished<'_>, by_stage: bool) {
        self.below_count -= 1;
        self.counts.finish(finished);
        if finished.sync {
            let latency = self.latency.get_or_insert_with(Histogram::empty);
            latency.record_placed(finished.total);
        }
        if by_stage {
            self.by_stage.record(finished);
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
        if self.0.get(place).is_some_and(Option::is_some) {
            self.0[place].as_deref_mut().expect("it is there")
        } else {
            self.make(place)
        }
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, place: usize) -> &mut Account {
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place].insert(Box::default())
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
        let was_told = account.is_told;
        let before =
            (was_told && !account.dying && account.parent == parent).then_some(account.settings);
        account.parent = parent;
        account.settings = *settings;
        account.dying = false;
        account.is_told = true;
        // A new group has none below it; the root is never new.
        if self.inherit(id) && (was_told || id == GroupId::ROOT) {
            self.bequeath(id);
        }
        before
    }

    /// Whether the class that a group passes on has changed.
    fn inherit(&mut self, id: GroupId) -> bool {
        let above = self.get(id).filter(|_| id != GroupId::ROOT).map(|account| account.parent);
        let above = above.and_then(|parent| self.get(parent)).map_or(Class::default(), |a| a.class);
        let account = self.ensure(id);
        let now = account.settings.class.within(above);
        std::mem::replace(&mut account.class, now) != now
    }

    /// The class of a group is also that of all below it.
    #[cold]
    fn bequeath(&mut self, id: GroupId) {
        let is_below = |(_, account): &(usize, &Option<Box<Account>>)| {
            account.as_ref().is_some_and(|account| account.parent == id)
        };
        let below = self.0.iter().enumerate().skip(1).filter(is_below);
        let below: Vec<_> = below.map(|(place, _)| GroupId(place as u32)).collect();
        for id in below {
            if self.inherit(id) {
                self.bequeath(id);
            }
        }
    }

    pub(crate) fn get(&self, id: GroupId) -> Option<&Account> {
        self.0.get(id.0 as usize)?.as_deref()
    }

    /// Calls `each` for the group and all above it but the root.
    #[inline(always)]
    fn up(&mut self, mut id: GroupId, mut each: impl FnMut(&mut Account)) {
        while id != GroupId::ROOT {
            let account = self.ensure(id);
            each(account);
            id = account.parent;
        }
    }

    /// Fewer or more of a group wait or are at the disk. The groups above are told only if it was
    /// the first or the last one.
    #[inline(always)]
    fn press(&mut self, now: Instant, id: GroupId, by: Change) {
        let account = self.ensure(id);
        if let Some(by) = account.pressure.change(now, by)
            && id != GroupId::ROOT
        {
            let parent = account.parent;
            self.press_above(now, parent, by);
        }
    }

    #[inline(always)]
    fn press_above(&mut self, now: Instant, mut id: GroupId, mut by: Change) {
        let mut account = self.ensure(id);
        while let Some(above) = account.pressure.change(now, by)
            && id != GroupId::ROOT
        {
            (id, by) = (account.parent, above);
            account = self.ensure(id);
        }
    }

    /// A request or a buffered write comes; `sync`: a task waits for it.
    #[inline(always)]
    pub(crate) fn arrived(&mut self, now: Instant, id: GroupId, sync: bool) {
        self.up(id, |account| account.below_count += 1);
        if sync {
            self.press(now, id, Change::ARRIVED);
        }
    }

    /// Something of the group is elsewhere: it must not be forgotten.
    pub(crate) fn hold(&mut self, id: GroupId) {
        self.ensure(id).held_count += 1;
    }

    /// Ends a hold.
    pub(crate) fn release(&mut self, id: GroupId) {
        self.ensure(id).held_count -= 1;
    }

    /// The class of the group with those above it.
    #[inline(always)]
    pub(crate) fn started(&mut self, now: Instant, id: GroupId, sync: bool) -> Class {
        if sync {
            self.press(now, id, Change::STARTED);
        }
        self.get(id).map_or(Class::default(), |account| account.class)
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
        self.up(id, |account| account.counts.buffered(size));
    }

    /// A buffered write is over; what it moves is a request when it is written back. `by_stage`:
    /// its times count in histograms by stage as well.
    pub(crate) fn wrote(&mut self, now: Instant, id: GroupId, waited: &StageTimes, by_stage: bool) {
        self.up(id, |account| {
            account.below_count -= 1;
            account.counts.paced(waited);
            if by_stage {
                account.by_stage.paced(waited);
            }
        });
        self.press(now, id, Change::FINISHED);
    }

    /// A request has ended; `by_stage` as above.
    #[inline]
    pub(crate) fn finished(
        &mut self,
        now: Instant,
        id: GroupId,
        finished: &Finished<'_>,
        by_stage: bool,
    ) {
        self.up(id, |account| account.finished(finished, by_stage));
        if finished.sync {
            self.press(now, id, Change::FINISHED);
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
        let is_over = |account: &Account| account.below_count == 0 && account.held_count == 0;
        self.get(id).is_some_and(|account| account.dying && is_over(account))
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
