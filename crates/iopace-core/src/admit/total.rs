//! Limits of reads and writes together, which buffered writes use up at the door to memory: see
//! [`crate::group::rates`].

use super::Buffered;
use super::tree::{Tree, place};
use crate::group::rates::Rate;
use crate::request::GroupId;
use crate::time::Instant;

impl Tree {
    /// Charges buffered writes of a group that have passed the door.
    pub(super) fn buffered(&mut self, now: Instant, id: GroupId, passed: &Buffered) {
        if self.totals_count == 0 {
            return;
        }
        self.ensure(place(id));
        let (mut index, mut is_charged) = (place(id), false);
        while index != 0 {
            let node = self.node(index);
            let iops_size = node.settings.max.iops_size;
            let total = passed.total(iops_size);
            for rate in node.limits.iter_mut().filter(|rate| rate.is_total()) {
                rate.buffered(now, total, (passed.dirty.get(), iops_size));
                is_charged = true;
            }
            index = self.parent(index);
        }
        if is_charged && self.waiting_count > 0 {
            self.refresh_up(now, place(id));
        }
    }

    /// Buffered writes are no longer charged here.
    pub(super) fn forget_buffered(&mut self, now: Instant) {
        for index in (1..).take(self.nodes.len().saturating_sub(1)) {
            let Some(node) = &mut self.nodes[index as usize] else { continue };
            node.limits.iter_mut().for_each(|rate| rate.forget_buffered(now));
            self.refresh_up(now, index);
        }
    }
}

/// How many limits of reads and writes together there are.
pub(super) fn totals(limits: &[Rate]) -> usize {
    limits.iter().filter(|rate| rate.is_total()).count()
}
