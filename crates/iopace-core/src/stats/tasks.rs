//! What each task did on one device: those with something here, and as many more as there is room
//! for, the one idle for longest forgotten first.
//!
//! A request looks its task up once, when it arrives, and keeps the place. Look-ups go through a
//! table of chains with a multiplicative hash; nothing is listed in the order of that table, so
//! that the hash can reach no output.

use super::{Finished, OpCounts, SmallHistogram};
use crate::limits::TASK_ACCOUNTS_MAX;
use crate::request::{GroupId, StageTimes, TaskId};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use core::ops::Range;

/// No place.
const NONE: u32 = u32::MAX;

/// The place of all tasks for which there was none.
const OTHERS: u32 = 0;

/// Binary logarithm of the number of chains: as many as there are tasks.
const CHAINS_POWER: u32 = TASK_ACCOUNTS_MAX.trailing_zeros();

/// 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// One task on one device.
#[derive(Clone, Debug)]
pub struct TaskAccount {
    /// Which one; `None` for all those together for which there was no room, because more tasks
    /// than [`TASK_ACCOUNTS_MAX`] had requests at a time.
    pub task: Option<TaskId>,
    /// Who paid for its latest request.
    pub group: GroupId,
    /// Since when it is counted: a task that was forgotten begins anew.
    pub since: Instant,
    /// When something of it last came or ended.
    pub last: Instant,
    /// Requests and buffered writes that have not ended.
    pub live_count: u32,
    /// Requests, bytes and where their time went, the write-back of what it dirtied included.
    pub counts: OpCounts,
    /// From arrival to finish, of requests that it waited for.
    pub latency: SmallHistogram,
}

/// Where the account of a task is, while it has something here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TaskPlace(u32);

impl TaskPlace {
    /// That of all without a place.
    pub(crate) const NONE: TaskPlace = TaskPlace(OTHERS);
}

/// An account with its place in chain and line.
#[derive(Debug)]
struct Slot {
    account: TaskAccount,
    /// Time with the window full that ended with a start of its own.
    own: Nanos,
    /// The next one in the chain.
    chain: u32,
    /// Neighbours among the idle ones, once no place is left. The others, which are never idle,
    /// stand between the latest and the one idle for longest: so the ends of the line are places
    /// like all.
    before: u32,
    after: u32,
}

impl Slot {
    fn new(now: Instant, task: Option<TaskId>, group: GroupId, chain: u32) -> Slot {
        let (counts, latency) = (OpCounts::default(), SmallHistogram::default());
        let (since, last) = (now, now);
        let account = TaskAccount { task, group, since, last, live_count: 0, counts, latency };
        Slot { account, own: Nanos::ZERO, chain, before: OTHERS, after: OTHERS }
    }

    /// One more of the task comes.
    #[inline(always)]
    fn enter(&mut self, now: Instant, group: GroupId) {
        let account = &mut self.account;
        account.live_count += 1;
        (account.group, account.last) = (group, now);
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Tasks {
    slots: Vec<Slot>,
    chains: Box<[u32; TASK_ACCOUNTS_MAX]>,
    /// Counts of tasks that were forgotten, and of all while there are no accounts.
    pub(crate) forgotten: OpCounts,
}

impl Default for Tasks {
    fn default() -> Tasks {
        Tasks {
            slots: Vec::new(),
            chains: Box::new([NONE; TASK_ACCOUNTS_MAX]),
            forgotten: OpCounts::default(),
        }
    }
}

impl Tasks {
    fn slot(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[place as usize]
    }

    fn chain(task: TaskId) -> usize {
        (task.0.wrapping_mul(GOLDEN) >> (u64::BITS - CHAINS_POWER)) as usize
    }

    /// A request or buffered write of a task comes: where it is counted, and the task's clock.
    #[inline(always)]
    pub(crate) fn arrived(
        &mut self,
        now: Instant,
        task: TaskId,
        group: GroupId,
    ) -> (TaskPlace, Nanos) {
        let mut place = self.chains[Self::chain(task)];
        // No place is out of bounds, and ends the chain.
        while let Some(slot) = self.slots.get_mut(place as usize) {
            if slot.account.task == Some(task) {
                let (own, was_idle) = (slot.own, slot.account.live_count == 0);
                slot.enter(now, group);
                if was_idle && self.is_full() {
                    self.leave_idle(place);
                }
                return (TaskPlace(place), own);
            }
            place = slot.chain;
        }
        let place = self.make(now, task, group);
        self.slot(place).enter(now, group);
        (TaskPlace(place), self.slot(place).own)
    }

    /// A place for a task that has none.
    #[cold]
    #[inline(never)]
    fn make(&mut self, now: Instant, task: TaskId, group: GroupId) -> u32 {
        if self.slots.is_empty() {
            self.slots.push(Slot::new(now, None, group, NONE));
        }
        if self.slots.len() == TASK_ACCOUNTS_MAX {
            self.line_up();
        }
        let next = self.slots.len() as u32;
        let place = if self.is_full() { self.take_idle() } else { Some(next) };
        let Some(place) = place else { return OTHERS };
        let head = std::mem::replace(&mut self.chains[Self::chain(task)], place);
        let slot = Slot::new(now, Some(task), group, head);
        match self.slots.get_mut(place as usize) {
            Some(old) => {
                self.forgotten.add(&old.account.counts);
                *old = slot;
            }
            None => self.slots.push(slot),
        }
        place
    }

    /// Whether no place is left: one that comes takes that of an idle one.
    #[inline]
    fn is_full(&self) -> bool {
        self.slots.len() > TASK_ACCOUNTS_MAX
    }

    /// The last place is given away: from now on it matters who has been idle for longest.
    fn line_up(&mut self) {
        let idle = |place: &u32| self.slots[*place as usize].account.live_count == 0;
        let mut idle: Vec<u32> = (OTHERS + 1..self.slots.len() as u32).filter(idle).collect();
        idle.sort_by_key(|place| self.slots[*place as usize].account.last);
        idle.into_iter().for_each(|place| self.enter_idle(place));
    }

    /// Takes the one idle for longest out of its chain.
    fn take_idle(&mut self) -> Option<u32> {
        let oldest = self.slot(OTHERS).after;
        if oldest == OTHERS {
            return None;
        }
        self.leave_idle(oldest);
        self.leave_chain(oldest);
        Some(oldest)
    }

    #[inline(never)]
    fn enter_idle(&mut self, place: u32) {
        // The account of the others is no task's.
        if place == OTHERS {
            return;
        }
        let latest = std::mem::replace(&mut self.slot(OTHERS).before, place);
        self.slot(latest).after = place;
        let slot = self.slot(place);
        (slot.before, slot.after) = (latest, OTHERS);
    }

    #[inline(never)]
    fn leave_idle(&mut self, place: u32) {
        let Slot { before, after, .. } = *self.slot(place);
        self.slot(before).after = after;
        self.slot(after).before = before;
    }

    fn leave_chain(&mut self, place: u32) {
        let (task, next) = (self.slot(place).account.task, self.slot(place).chain);
        let chain = Self::chain(task.expect("the others are never idle"));
        let mut at = self.chains[chain];
        if at == place {
            self.chains[chain] = next;
            return;
        }
        while self.slot(at).chain != place {
            at = self.slot(at).chain;
        }
        self.slot(at).chain = next;
    }

    /// Its clock of time with the window full that ended with a start of its own.
    pub(crate) fn own(&self, place: TaskPlace) -> Nanos {
        self.slots[place.0 as usize].own
    }

    /// A request of the task starts, after so much time with the window full since the last start
    /// of anybody; its clock from then on.
    pub(crate) fn started(&mut self, place: TaskPlace, full: Nanos) -> Nanos {
        let slot = self.slot(place.0);
        slot.own = slot.own.with(full);
        slot.own
    }

    /// A request of the task has ended.
    #[inline(always)]
    pub(crate) fn finished(&mut self, now: Instant, place: TaskPlace, finished: &Finished<'_>) {
        let account = &mut self.slot(place.0).account;
        account.counts.finish(finished);
        if finished.submit.sync {
            account.latency.record_placed(finished.total);
        }
        account.last = now;
        account.live_count -= 1;
        if account.live_count == 0 && self.is_full() {
            self.enter_idle(place.0);
        }
    }

    /// A portion of a buffered write of the task is in memory.
    pub(crate) fn buffered(&mut self, now: Instant, place: TaskPlace, size: Bytes) {
        let account = &mut self.slot(place.0).account;
        account.counts.buffered(size);
        account.last = now;
    }

    /// A buffered write of the task is over.
    pub(crate) fn paced(&mut self, now: Instant, place: TaskPlace, waited: &StageTimes) {
        let account = &mut self.slot(place.0).account;
        account.counts.paced(waited);
        account.last = now;
        account.live_count -= 1;
        if account.live_count == 0 && self.is_full() {
            self.enter_idle(place.0);
        }
    }

    /// Those with something here, and those that had something here at `since` or later.
    pub(crate) fn since(&self, since: Instant) -> impl Iterator<Item = &TaskAccount> {
        self.since_in(0..self.slots.len(), since)
    }

    /// The same of those in these places; there are as many as [`Tasks::places_count`].
    pub(crate) fn since_in(
        &self,
        places: Range<usize>,
        since: Instant,
    ) -> impl Iterator<Item = &TaskAccount> {
        let end = places.end.min(self.slots.len());
        let slots = &self.slots[places.start.min(end)..end];
        let accounts = slots.iter().map(|slot| &slot.account);
        accounts.filter(move |account| {
            // The account of the others is there also if there are none.
            let is_one = account.task.is_some() || account.counts.stages.total() > Nanos::ZERO;
            account.live_count > 0 || (is_one && account.last >= since)
        })
    }

    /// The counts of all tasks together, those forgotten included: of the device.
    pub(crate) fn counts(&self) -> OpCounts {
        let mut all = self.forgotten.clone();
        self.slots.iter().for_each(|slot| all.add(&slot.account.counts));
        all
    }

    /// Places for accounts that there are.
    pub(crate) fn places_count(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests;
