//! The single pool of request slots of 2009, with caps per group: a baseline, not for production.
//!
//! # Model
//! ```text
//!  group a: tasks that found no slot ──► line of a ─┐
//!  group b: tasks that found no slot ──► line of b ─┴─► [ slot ][ slot ] ... nr_requests
//! ```
//! Requests that somebody waits for and others have a pool of `nr_requests` slots each, and each
//! group a cap and a line of its own in each of them. A task that finds pool or group full joins
//! the line of its group. When a request of the group is done, the first in its line is woken,
//! and may then for 20 ms take up to 32 slots even beyond the limits, up to one and a half times
//! as many, so that one wake-up is worth a burst. So may the task that finds the group full
//! first. A group that has no request at all is woken by the next one of anybody.
//!
//! What this does to a newcomer is what the guaranteed slots are measured against: all slots are
//! taken, and a cap per group helps exactly as far as it leaves slots free for others.
//!
//! # Properties
//! 1. Never more than one and a half times `nr_requests` (or a cap) are taken in a pool; beyond the
//!    limit only by tasks that batch.
//! 2. A line is first come, first served, and a full group holds up no other.
//! 3. Everything is admitted in the end.
//!
//! # When it does not know
//! It needs to know nothing about the device.
//!
//! # Limits
//! No shares, no hierarchy (a child may take what its parent may not), and none of the limits and
//! guarantees of [`super::guaranteed`]: they are not applied.
//!
//! # Sources
//! `get_request`, `ioc_batching` and `freed_request` of block/ll_rw_blk.c (Linux 2.6.2x). The
//! text of the patch that gave groups caps (Gui Jianfeng, 2009) is not on record; lines, flags
//! and wake-ups per group are what its author describes, and what the bandwidth logs of 4 Aug
//! 2009 show: a newcomer took 250 slots beyond the pool of 500 at once.

use super::{Admission, Admit, Ask, GroupSlots};
use crate::group::table::Groups;
use crate::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN};
use crate::request::{GroupId, Lane, TaskId};
use crate::time::{Instant, Nanos};
use crate::verdict::Reason;
use std::collections::{BTreeMap, VecDeque};

/// Slots that a batching task may take after one wake-up (BLKDEV_BATCH_IO).
const BATCH_REQUESTS: u32 = 32;

/// How long it may batch (BLKDEV_BATCH_TIME, HZ/50).
const BATCH_TIME: Nanos = Nanos::from_millis(20);

/// A task that batches.
#[derive(Clone, Copy, Debug)]
struct BatchingTask {
    left: u32,
    until: Instant,
}

/// What a group has of a pool.
#[derive(Debug, Default)]
struct Share {
    taken: u32,
    /// Somebody found it full; from then on only batching tasks get slots beyond the limits.
    full: bool,
    /// Tasks that sleep, with their requests.
    line: VecDeque<(TaskId, VecDeque<Ask>)>,
    /// The first in the line is to be woken.
    wake: bool,
}

/// One direction: those that somebody waits for, or the others.
#[derive(Debug, Default)]
struct Pool {
    taken: u32,
    shares: BTreeMap<GroupId, Share>,
    batches: BTreeMap<TaskId, BatchingTask>,
}

impl Pool {
    fn is_batching(&self, now: Instant, task: TaskId) -> bool {
        self.batches.get(&task).is_some_and(|batch| now <= batch.until)
    }

    fn batch(&mut self, now: Instant, task: TaskId) {
        self.batches.retain(|_, batch| now <= batch.until);
        self.batches.insert(task, BatchingTask { left: BATCH_REQUESTS, until: now + BATCH_TIME });
    }

    /// Takes a slot for the request, if its task may.
    fn try_take(&mut self, now: Instant, ask: &Ask, limit: u32, cap: u32) -> bool {
        let batching = self.is_batching(now, ask.task);
        let beyond = |limit: u32| limit.saturating_add(limit / 2);
        let share = self.shares.entry(ask.group).or_default();
        let at_limit = share.taken + 1 >= cap || self.taken + 1 >= limit;
        let begins = at_limit && !share.full;
        share.full |= at_limit;
        if at_limit && !begins && !batching {
            return false;
        }
        if share.taken >= beyond(cap) || self.taken >= beyond(limit) {
            return false;
        }
        share.taken += 1;
        self.taken += 1;
        if begins {
            self.batch(now, ask.task);
        }
        if let Some(batch) = self.batches.get_mut(&ask.task) {
            batch.left -= 1;
            if batch.left == 0 {
                self.batches.remove(&ask.task);
            }
        }
        true
    }

    fn release(&mut self, group: GroupId, cap: u32) {
        assert!(self.taken > 0, "a slot was given back that nobody took");
        self.taken -= 1;
        let share = self.shares.get_mut(&group).expect("it took one");
        share.taken -= 1;
        if share.taken < cap {
            share.wake = true;
            share.full = false;
        }
        if share.taken == 0 && share.line.is_empty() {
            self.shares.remove(&group);
        }
        let starved = |share: &&mut Share| share.taken == 0 && !share.line.is_empty();
        if let Some(share) = self.shares.values_mut().find(starved) {
            share.wake = true;
        }
    }

    /// The next request of the tasks that sleep in a line: of one that is woken, or that batches.
    fn admit(&mut self, now: Instant, limit: u32, groups: &Groups) -> Option<Ask> {
        let asking: Vec<GroupId> = self.shares.keys().copied().collect();
        for group in asking {
            let cap = cap(groups, group, limit);
            let share = self.shares.get_mut(&group).expect("one of its keys");
            let wake = std::mem::take(&mut share.wake);
            let Some((task, requests)) = share.line.front() else { continue };
            let (task, ask) = (*task, *requests.front().expect("it sleeps for a request"));
            if wake {
                self.batch(now, task);
            } else if !self.is_batching(now, task) {
                continue;
            }
            if !self.try_take(now, &ask, limit, cap) {
                continue;
            }
            let is_batching = self.is_batching(now, task);
            let line = &mut self.shares.get_mut(&group).expect("as above").line;
            let (_, mut requests) = line.pop_front().expect("as above");
            requests.pop_front();
            match requests.is_empty() {
                true => {}
                false if is_batching => line.push_front((task, requests)),
                false => line.push_back((task, requests)),
            }
            return Some(ask);
        }
        None
    }

    fn waits(&self) -> bool {
        self.shares.values().any(|share| !share.line.is_empty())
    }
}

/// Most slots of a group in each pool.
fn cap(groups: &Groups, group: GroupId, limit: u32) -> u32 {
    groups.settings(group).slots.max.unwrap_or(limit)
}

/// The slots of a device.
#[derive(Debug)]
pub struct PlainSlots {
    nr_requests: u32,
    pools: [Pool; 2],
    /// Requests that nobody has looked at yet, in arrival order.
    arrived: VecDeque<Ask>,
}

impl PlainSlots {
    /// So many slots in each pool, brought into the legal range.
    pub fn new(nr_requests: u32) -> PlainSlots {
        let nr_requests = nr_requests.clamp(NR_REQUESTS_MIN, NR_REQUESTS_MAX);
        let pools = [Pool::default(), Pool::default()];
        PlainSlots { nr_requests, pools, arrived: VecDeque::new() }
    }

    /// Those who came just now: a slot, or a place in the line.
    fn admit_arrived(&mut self, now: Instant, groups: &Groups) -> Option<Ask> {
        while let Some(ask) = self.arrived.pop_front() {
            let limit = self.nr_requests;
            let cap = cap(groups, ask.group, limit);
            let pool = &mut self.pools[usize::from(ask.sync)];
            let share = pool.shares.entry(ask.group).or_default();
            let place = share.line.iter_mut().find(|(task, _)| *task == ask.task);
            if let Some((_, requests)) = place {
                requests.push_back(ask);
            } else if pool.try_take(now, &ask, limit, cap) {
                return Some(ask);
            } else {
                let share = pool.shares.entry(ask.group).or_default();
                share.line.push_back((ask.task, VecDeque::from([ask])));
            }
        }
        None
    }
}

impl Admission for PlainSlots {
    fn enqueue(&mut self, _now: Instant, ask: Ask, _groups: &Groups) {
        self.arrived.push_back(ask);
    }

    fn admit(&mut self, now: Instant, groups: &Groups) -> Admit {
        let limit = self.nr_requests;
        let slept = self.pools.iter_mut().find_map(|pool| pool.admit(now, limit, groups));
        let ask = slept.or_else(|| self.admit_arrived(now, groups));
        match ask {
            Some(ask) => {
                let (id, budget) = (ask.id, Nanos::ZERO);
                Admit::Ready { id, reserved: false, budget, totals: Vec::new() }
            }
            None if self.pools.iter().any(Pool::waits) => Admit::At(Instant::NEVER, Reason::Slot),
            None => Admit::Empty,
        }
    }

    fn release(&mut self, _now: Instant, group: GroupId, sync: bool, groups: &Groups) {
        let cap = cap(groups, group, self.nr_requests);
        self.pools[usize::from(sync)].release(group, cap);
    }

    fn slots(&self) -> (u32, u32) {
        (self.nr_requests, self.pools.iter().map(|pool| pool.taken).sum())
    }

    fn set_slots(&mut self, nr_requests: u32) {
        self.nr_requests = nr_requests.clamp(NR_REQUESTS_MIN, NR_REQUESTS_MAX);
        // Whoever waits is looked at again.
        for share in self.pools.iter_mut().flat_map(|pool| pool.shares.values_mut()) {
            share.wake = true;
        }
    }

    fn reason(&self, _now: Instant, _id: GroupId, _lane: Lane, _groups: &Groups) -> Reason {
        Reason::Slot
    }

    fn group(&self, id: GroupId) -> GroupSlots {
        let shares = || self.pools.iter().filter_map(|pool| pool.shares.get(&id));
        let in_line = shares().flat_map(|share| &share.line).map(|(_, requests)| requests.len());
        let arrived = self.arrived.iter().filter(|ask| ask.group == id).count();
        let waiting = in_line.sum::<usize>() + arrived;
        GroupSlots {
            taken_count: shares().map(|share| share.taken).sum(),
            waiting_count: u32::try_from(waiting).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests;
