//! One group as stage admit sees it.

use super::super::Ask;
use crate::group::Weight;
use crate::group::rates::GroupRate;
use crate::group::table::Groups;
use crate::ordered::Ordered;
use crate::request::{GroupId, Lane};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use std::collections::VecDeque;

/// Fixed-point one for shares: with the largest weight, 10 000, a single slot still counts 104.
const SHARE_ONE: u64 = 1 << 20;

/// What a request costs in the tie-break beside its bytes: a page, so that small ones count.
const OPERATION_BYTES: u64 = 4096;

/// Fixed-point one for service: with the largest weight, 10 000, a page still counts 3355.
const COST_ONE: u64 = 1 << 12;

/// Order among the children of one node; the least is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServiceOrder {
    /// 0 while a guarantee is owed to it or somebody below it, else 1.
    pub(super) rank: u8,
    /// Slots taken, by weight.
    pub(super) usage: u64,
    /// Bytes admitted by weight, since it last began to wait: decides between equal usage.
    pub(super) service: u64,
    /// Which child; the node itself stands for its own requests.
    pub(super) id: GroupId,
}

/// One request that waits.
#[derive(Debug)]
pub(super) struct WaitingRequest {
    pub(super) ask: Ask,
    /// What the line's clock of time without budget showed when it came.
    mark: Nanos,
}

/// The requests of one group and lane that wait, in arrival order, and what the first one of them
/// waited for, so that the wait of each can be told by two readings of a clock.
#[derive(Debug, Default)]
pub(super) struct LaneQueue {
    queue: VecDeque<WaitingRequest>,
    /// Since when its first one is the first.
    since: Instant,
    /// For how long first ones waited for a limit.
    budget: Nanos,
}

impl LaneQueue {
    /// How long the first one has waited for a limit, if the limits on its way open at `opens` and
    /// slots were missing last at `short`. Until a limit opens it is its business, and so is the
    /// time by which the caller's timer is late, but for that in which slots are missing. A limit
    /// that was open between two charges of others counts as closed.
    fn unpaid(&self, now: Instant, (opens, short): (Instant, Instant)) -> Nanos {
        let paid = opens.min(now).max(self.since);
        let short = short.min(now).max(paid);
        let late = if opens > self.since { now.since(short) } else { Nanos::ZERO };
        paid.since(self.since) + late
    }

    /// Takes one in; `way`: when the limits on its way open and when slots were missing last. True
    /// if it is the first.
    pub(super) fn push(&mut self, now: Instant, ask: Ask, way: (Instant, Instant)) -> bool {
        if self.queue.is_empty() {
            self.since = now;
        }
        let mark = self.budget + self.unpaid(now, way);
        self.queue.push_back(WaitingRequest { ask, mark });
        self.queue.len() == 1
    }

    /// Takes the first one out, with its wait for limits.
    pub(super) fn pop(&mut self, now: Instant, way: (Instant, Instant)) -> Option<(Ask, Nanos)> {
        let WaitingRequest { ask, mark } = self.queue.pop_front()?;
        self.budget += self.unpaid(now, way);
        self.since = now;
        Some((ask, self.budget.saturating_sub(mark)))
    }

    pub(super) fn front(&self) -> Option<&Ask> {
        self.queue.front().map(|waiting| &waiting.ask)
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// What every request of a group, and of those below it, reads and writes: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct GuaranteeRow {
    /// Slots of its own requests, and with all below it.
    pub(super) own_taken: u32,
    pub(super) taken: u32,
    /// Most slots.
    pub(super) cap: u32,
    /// The same where no rate is metered; else zero: nobody passes it by the short way.
    pub(super) free_cap: u32,
    /// Bytes admitted by weight: of its own requests, and as a child of its parent.
    pub(super) own_service: u64,
    pub(super) service: u64,
    /// As a parent: the service at which its last child was chosen; newcomers begin there.
    pub(super) floor: u64,
    /// When it last came to have room after it had none: under its cap, or as the device.
    pub(super) short_until: Instant,
}

impl Default for GuaranteeRow {
    /// That of a group without settings.
    fn default() -> GuaranteeRow {
        GuaranteeRow {
            own_taken: 0,
            taken: 0,
            cap: u32::MAX,
            free_cap: u32::MAX,
            own_service: 0,
            service: 0,
            floor: 0,
            short_until: Instant::ZERO,
        }
    }
}

impl GuaranteeRow {
    /// Charges a request to the group's own account, beside the accounts of the groups below.
    pub(super) fn charge_own(&mut self, bytes: Bytes) {
        self.floor = self.own_service.max(self.floor);
        self.own_service = self.floor.saturating_add(cost(bytes, Weight::DEFAULT));
        self.own_taken += 1;
    }

    /// A child with so much service is chosen: where what it is charged begins. The floor goes up.
    pub(super) fn begin(&mut self, service: u64) -> u64 {
        self.floor = self.floor.max(service);
        self.floor
    }
}

/// A group on this device: what is needed once something waits.
#[derive(Debug, Default)]
pub(super) struct GuaranteeNode {
    pub(super) limits: Vec<GroupRate>,
    pub(super) guarantees: Vec<GroupRate>,
    /// Its own requests that wait, in arrival order.
    pub(super) lines: [LaneQueue; Lane::ALL.len()],
    /// Cap while somebody else's latency target is missed.
    pub(super) narrowed: Option<u32>,
    /// Children that could be served now; its own number stands for its own requests.
    pub(super) ready: [Ordered<ServiceOrder>; Lane::ALL.len()],
    pub(super) own_listed: [Option<ServiceOrder>; Lane::ALL.len()],
    /// Its keys in its parent's `ready`; those of the root are in nobody's.
    pub(super) listed: [Option<ServiceOrder>; Lane::ALL.len()],
    /// When it has to be looked at again.
    pub(super) alarm: Option<Instant>,
}

impl GuaranteeNode {
    /// When its limits are open for the lane.
    pub(super) fn opens(&self, lane: Lane) -> Instant {
        let rates = self.limits.iter().filter(|rate| rate.counts(lane));
        rates.map(GroupRate::opens).max().unwrap_or(Instant::ZERO)
    }

    /// When it is owed something of a guarantee for the lane.
    pub(super) fn owed(&self, lane: Lane) -> Instant {
        let rates = self.guarantees.iter().filter(|rate| rate.counts(lane));
        rates.map(GroupRate::opens).min().unwrap_or(Instant::NEVER)
    }

    pub(super) fn own_key(
        &self,
        row: &GuaranteeRow,
        lane: Lane,
        id: GroupId,
    ) -> Option<ServiceOrder> {
        let service = row.own_service.max(row.floor);
        let usage = usage(row.own_taken, Weight::DEFAULT);
        let waits = self.lines[lane as usize].len() > 0;
        waits.then_some(ServiceOrder { rank: 1, usage, service, id })
    }

    /// Its place among its siblings in a lane, if it may go on; and when to look again if not.
    pub(super) fn key(
        &mut self,
        now: Instant,
        row: &GuaranteeRow,
        lane: Lane,
        (id, floor, groups): (GroupId, u64, &Groups),
    ) -> (Option<ServiceOrder>, Option<Instant>) {
        let Some(first) = self.ready[lane as usize].first() else {
            return (None, None);
        };
        if row.taken >= row.cap {
            return (None, None);
        }
        let mut rank = first.rank;
        let opens = self.opens(lane);
        if opens > now {
            self.limits.iter_mut().filter(|rate| rate.counts(lane)).for_each(GroupRate::wait);
            return (None, Some(opens));
        }
        let owed = self.owed(lane);
        let mut again = None;
        if owed <= now || row.taken < groups.settings(id).slots.guaranteed {
            rank = 0;
        } else if !owed.is_never() {
            let owing = self.guarantees.iter_mut().filter(|rate| rate.counts(lane));
            owing.for_each(GroupRate::wait);
            again = Some(owed);
        }
        let service = row.service.max(floor);
        let usage = usage(row.taken, groups.weight(id));
        (Some(ServiceOrder { rank, usage, service, id }), again)
    }
}

/// What a request counts for among siblings with equally many slots, by weight. Sums stay below
/// 2^64 for 4 PiB at the least weight; beyond, they stay where they are.
pub(super) fn cost(bytes: Bytes, weight: Weight) -> u64 {
    (bytes.get() + OPERATION_BYTES).saturating_mul(COST_ONE) / u64::from(weight.get())
}

/// Slots by weight. Whoever has none has used nothing, whatever its weight: were the next one
/// counted in, the larger weight would always be first where slots are not what is scarce.
fn usage(taken: u32, weight: Weight) -> u64 {
    u64::from(taken) * SHARE_ONE / u64::from(weight.get())
}
