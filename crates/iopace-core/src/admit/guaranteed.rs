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

use super::tree::{Taken, Tree};
use super::{Admission, Admit, Ask, Buffered, GroupSlots};
use crate::group::table::Groups;
use crate::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN};
use crate::request::{GroupId, Lane};
use crate::time::Instant;
use crate::units::Bytes;
use crate::verdict::Reason;

/// The slots of a device.
#[derive(Debug)]
pub struct GuaranteedSlots {
    nr_requests: u32,
    tree: Tree,
}

impl GuaranteedSlots {
    /// So many slots, brought into the legal range.
    pub fn new(nr_requests: u32) -> GuaranteedSlots {
        let nr_requests = nr_requests.clamp(NR_REQUESTS_MIN, NR_REQUESTS_MAX);
        GuaranteedSlots { nr_requests, tree: Tree::default() }
    }
}

impl Admission for GuaranteedSlots {
    #[inline(always)]
    fn pass(&mut self, group: GroupId, bytes: Bytes, groups: &Groups) -> bool {
        self.tree.taken < self.nr_requests && self.tree.pass(group, bytes, groups)
    }

    fn enqueue(&mut self, now: Instant, ask: Ask, groups: &Groups) {
        self.tree.enqueue(now, ask, groups);
    }

    fn admit(&mut self, now: Instant, groups: &Groups) -> Admit {
        if self.tree.waiting_count == 0 {
            return Admit::Empty;
        }
        self.tree.wake(now, groups);
        if self.tree.taken < self.nr_requests
            && let Some(taken) = self.tree.take(now, groups)
        {
            let Taken { ask, reserved, budget, totals } = taken;
            return Admit::Ready { id: ask.id, reserved, budget, totals };
        }
        if self.tree.has_ready() {
            return Admit::At(Instant::NEVER, Reason::Slot);
        }
        let at = self.tree.next_alarm();
        Admit::At(at, if at.is_never() { Reason::Slot } else { Reason::Budget })
    }

    fn is_closed(&self, now: Instant, group: GroupId, lane: Lane, groups: &Groups) -> bool {
        self.tree.opens(group, lane, groups) > now
    }

    fn buffered(&mut self, now: Instant, group: GroupId, passed: &Buffered, groups: &Groups) {
        self.tree.buffered(now, group, passed, groups);
    }

    fn forget_buffered(&mut self, now: Instant, groups: &Groups) {
        self.tree.forget_buffered(now, groups);
    }

    #[inline]
    fn release(&mut self, now: Instant, group: GroupId, _sync: bool, groups: &Groups) {
        self.tree.release(now, group, self.tree.taken >= self.nr_requests, groups);
    }

    fn slots(&self) -> (u32, u32) {
        (self.nr_requests, self.tree.taken)
    }

    fn set_slots(&mut self, nr_requests: u32) {
        self.nr_requests = nr_requests.clamp(NR_REQUESTS_MIN, NR_REQUESTS_MAX);
    }

    fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        self.tree.set(now, id, groups);
    }

    fn narrow(&mut self, now: Instant, id: GroupId, cap: Option<u32>, groups: &Groups) {
        self.tree.narrow(now, id, cap, groups);
    }

    fn remove_group(&mut self, id: GroupId) {
        self.tree.remove(id);
    }

    fn group(&self, id: GroupId) -> GroupSlots {
        self.tree.group(id)
    }

    fn reason(&self, now: Instant, id: GroupId, lane: Lane, groups: &Groups) -> Reason {
        if self.tree.opens(id, lane, groups) > now { Reason::Budget } else { Reason::Slot }
    }
}

#[cfg(test)]
mod tests;
