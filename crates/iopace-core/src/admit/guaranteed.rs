//! Slots shared by weight, with limits and guarantees: the admission of every device.
//!
//! # Model
//! ```text
//!  group a ──► waiting ─┐ limits of a ┐
//!  group b ──► waiting ─┤ limits of b ├─ limits of parent ─► [slot][slot] ... ─► scheduler, disk
//!  group c ──► waiting ─┘ limits of c ┘        nr_requests of the device
//! ```
//! Each free slot goes to the waiting group that has the fewest for its weight, at every level of
//! the tree. While all slots are busy this converges to shares of `nr_requests` by weight among
//! those that ask (weighted max-min fairness); what somebody does not ask for is lent, and as a
//! newcomer has no slot at all, it gets the next one that comes back, whoever filled the queue.
//! So the share of a group is guaranteed without anything being kept free for it.
//!
//! Before it may compete a request needs room under the cap (`io.nr_group_requests`) and an open
//! meter for every limit (`io.max`) of its group and of each ancestor. A group to which a guarantee
//! (`io.min`, or the guaranteed part of its slots) owes something goes before those to whom nothing
//! is owed.
//!
//! Between groups with equally many slots for their weight, as when a limit of their parent and not
//! the slots is what is scarce, so that nobody has any, the one with fewer bytes admitted for its
//! weight is first (start-time fair queueing): one request at a time gets its share beside
//! sixty-four, and the smaller weight its part.
//!
//! # Properties
//! 1. Never more than `nr_requests` slots are taken, nor more than a cap, through all ancestors.
//! 2. With all slots busy, groups that always ask have slots by weight, at every level.
//! 3. A newcomer gets the next slot that is given back.
//! 4. A slot is never left free while somebody waits that no cap and no limit holds up.
//! 5. No limit is exceeded: a group and all below it stay under its rates, whatever the sizes.
//! 6. A guarantee is served before weights count, as long as limits permit.
//! 7. A group that may not go on holds up nobody else, and no flush.
//!
//! # When it does not know
//! It needs to know nothing about the device.
//!
//! # Limits
//! A slot is a slot: a request of 1 MiB counts like one of 512 B. What the disk's time goes to is
//! the scheduler's business (`fair`).
//!
//! # Sources
//! Requests per group: the io-controller's patches of 2009 (Gui Jianfeng), whose authors left open
//! limits per device, the hierarchy and the reserve for newcomers. Limits by weight among active
//! groups: Linux 5.16, commit 76f1df88bbc2 (BFQ). Guarantee before weight: mClock (Gulati and
//! others, OSDI 2010). Start-time fair queueing: Goyal, Vin, Cheng (SIGCOMM 1996).

use super::{Admission, Admit, Ask, Buffered, GroupSlots};
use crate::group::rates::{GroupRate, guarantee_rates, limit_rates, set_rates};
use crate::group::table::{Column, Groups, SettingKind};
use crate::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN};
use crate::ordered::Ordered;
use crate::request::{GroupId, Lane};
use crate::time::Instant;
use crate::units::Bytes;
use crate::verdict::Reason;
use node::{GuaranteeNode, GuaranteeRow, LaneQueue};

mod node;
#[cfg(test)]
mod tests;
mod tree;

/// The slots of a device.
#[derive(Debug)]
pub struct GuaranteedSlots {
    nr_requests: u32,
    /// When the device last came to have a slot after it had none.
    short_until: Instant,
    rows: Column<GuaranteeRow>,
    /// Of groups of which, or below which, something waits, or something is metered.
    nodes: Column<Option<Box<GuaranteeNode>>>,
    /// When which node has to be looked at again.
    alarms: Ordered<(Instant, GroupId)>,
    waiting_count: usize,
    /// Limits of reads and writes together, of all groups.
    totals_count: usize,
}

impl GuaranteedSlots {
    /// So many slots, brought into the legal range.
    pub fn new(nr_requests: u32) -> GuaranteedSlots {
        GuaranteedSlots {
            nr_requests: nr_requests.clamp(NR_REQUESTS_MIN, NR_REQUESTS_MAX),
            short_until: Instant::ZERO,
            rows: Column::default(),
            nodes: Column::default(),
            alarms: Ordered::default(),
            waiting_count: 0,
            totals_count: 0,
        }
    }

    /// Slots taken: those of the root and of all below it.
    fn taken(&self) -> u32 {
        self.rows[GroupId::ROOT].taken
    }

    /// Puts what follows from the settings and limits of a group into its row.
    fn tell(&mut self, id: GroupId, groups: &Groups) {
        let cap = groups.settings(id).slots.max.unwrap_or(u32::MAX);
        let node = self.nodes[id].as_deref();
        let cap = cap.min(node.and_then(|node| node.narrowed).unwrap_or(u32::MAX));
        let metered =
            |node: &GuaranteeNode| !(node.limits.is_empty() && node.guarantees.is_empty());
        let free_cap = if node.is_some_and(metered) { 0 } else { cap };
        let row = &mut self.rows[id];
        (row.cap, row.free_cap) = (cap, free_cap);
    }
}

impl Admission for GuaranteedSlots {
    #[inline(always)]
    fn pass(&mut self, group: GroupId, bytes: Bytes, groups: &Groups) -> bool {
        if self.waiting_count > 0 {
            return false;
        }
        let (mut id, mut row) = (group, &mut self.rows[group]);
        while row.taken < row.free_cap {
            if id == GroupId::ROOT {
                let is_free = row.taken < self.nr_requests;
                if is_free {
                    self.charge(bytes, group, groups);
                }
                return is_free;
            }
            id = groups.parent(id);
            row = &mut self.rows[id];
        }
        false
    }

    fn enqueue(&mut self, now: Instant, ask: Ask, groups: &Groups) {
        let way = self.way(ask.group, ask.lane, groups);
        let is_first = self.node(ask.group).lines[ask.lane as usize].push(now, ask, way);
        self.waiting_count += 1;
        if is_first {
            self.refresh_up(now, ask.group, groups);
        }
    }

    fn admit(&mut self, now: Instant, groups: &Groups) -> Admit {
        if self.waiting_count == 0 {
            return Admit::Empty;
        }
        self.wake(now, groups);
        if self.taken() < self.nr_requests
            && let Some((group, lane)) = self.next()
        {
            return self.take(now, group, lane, groups);
        }
        let is_any_ready = self.node(GroupId::ROOT).listed.iter().any(Option::is_some);
        match self.alarms.first() {
            Some((at, _)) if !is_any_ready => Admit::At(at, Reason::Budget),
            _ => Admit::At(Instant::NEVER, Reason::Slot),
        }
    }

    fn is_closed(&self, now: Instant, group: GroupId, lane: Lane, groups: &Groups) -> bool {
        self.opens(group, lane, groups) > now
    }

    /// See `group/rates.rs`.
    fn buffered(&mut self, now: Instant, group: GroupId, passed: &Buffered, groups: &Groups) {
        if self.totals_count == 0 {
            return;
        }
        let mut is_charged = false;
        for id in groups.chain(group, SettingKind::Limit) {
            let iops_size = groups.settings(id).max.iops_size;
            let total = passed.total(iops_size);
            for rate in self.node(id).limits.iter_mut().filter(|rate| rate.is_total()) {
                rate.buffered(now, total, (passed.dirty.get(), iops_size));
                is_charged = true;
            }
        }
        if is_charged && self.waiting_count > 0 {
            self.refresh_up(now, group, groups);
        }
    }

    fn forget_buffered(&mut self, now: Instant, groups: &Groups) {
        for id in (0..groups.end()).map(GroupId) {
            if let Some(node) = &mut self.nodes[id] {
                node.limits.iter_mut().for_each(|rate| rate.forget_buffered(now));
                self.refresh_up(now, id, groups);
            }
        }
    }

    #[inline(always)]
    fn release(&mut self, now: Instant, group: GroupId, _sync: bool, groups: &Groups) {
        let (mut id, mut row) = (group, &mut self.rows[group]);
        assert!(row.own_taken > 0, "a slot was given back that nobody took");
        row.own_taken -= 1;
        loop {
            if row.taken >= row.cap {
                row.short_until = now;
            }
            row.taken -= 1;
            if id == GroupId::ROOT {
                break;
            }
            id = groups.parent(id);
            row = &mut self.rows[id];
        }
        if row.taken + 1 >= self.nr_requests {
            self.short_until = now;
        }
        if self.waiting_count > 0 {
            self.refresh_up(now, group, groups);
        }
    }

    fn slots(&self) -> (u32, u32) {
        (self.nr_requests, self.taken())
    }

    fn set_slots(&mut self, nr_requests: u32) {
        self.nr_requests = nr_requests.clamp(NR_REQUESTS_MIN, NR_REQUESTS_MAX);
    }

    fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        let settings = groups.settings(id);
        let limits = limit_rates(now, &settings.max);
        let guarantees = guarantee_rates(now, &settings.min);
        if self.nodes[id].is_some() || !(limits.is_empty() && guarantees.is_empty()) {
            let node = self.node(id);
            let before = totals(&node.limits);
            set_rates(now, &mut node.limits, limits);
            set_rates(now, &mut node.guarantees, guarantees);
            let after = totals(&node.limits);
            self.totals_count = self.totals_count + after - before;
        }
        self.tell(id, groups);
        self.refresh_up(now, id, groups);
    }

    fn narrow(&mut self, now: Instant, id: GroupId, cap: Option<u32>, groups: &Groups) {
        self.node(id).narrowed = cap;
        self.tell(id, groups);
        self.refresh_up(now, id, groups);
    }

    fn remove_group(&mut self, id: GroupId) {
        assert_eq!(self.rows.take(id).taken, 0, "a group with requests was removed");
        let Some(node) = self.nodes.take(id) else { return };
        self.totals_count -= totals(&node.limits);
        if let Some(at) = node.alarm {
            self.alarms.take((at, id));
        }
    }

    fn group(&self, id: GroupId) -> GroupSlots {
        let lines = self.nodes[id].iter().flat_map(|node| &node.lines);
        let waiting_count =
            u32::try_from(lines.map(LaneQueue::len).sum::<usize>()).unwrap_or(u32::MAX);
        GroupSlots { taken_count: self.rows[id].taken, waiting_count }
    }

    fn reason(&self, now: Instant, id: GroupId, lane: Lane, groups: &Groups) -> Reason {
        if self.is_closed(now, id, lane, groups) { Reason::Budget } else { Reason::Slot }
    }
}

/// How many limits of reads and writes together there are.
fn totals(limits: &[GroupRate]) -> usize {
    limits.iter().filter(|rate| rate.is_total()).count()
}
