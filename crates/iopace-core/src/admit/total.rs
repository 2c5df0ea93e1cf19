//! Limits of reads and writes together, which buffered writes use up at the door to memory: see
//! [`crate::group::rates`].

use super::Buffered;
use super::tree::Tree;
use crate::group::rates::Rate;
use crate::group::table::{Groups, Kind};
use crate::request::GroupId;
use crate::time::Instant;

impl Tree {
    /// Charges buffered writes of a group that have passed the door.
    pub(super) fn buffered(
        &mut self,
        now: Instant,
        group: GroupId,
        passed: &Buffered,
        groups: &Groups,
    ) {
        if self.totals_count == 0 {
            return;
        }
        let mut is_charged = false;
        for id in groups.chain(group, Kind::Limit) {
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

    /// Buffered writes are no longer charged here.
    pub(super) fn forget_buffered(&mut self, now: Instant, groups: &Groups) {
        for id in (0..groups.end()).map(GroupId) {
            if self.nodes[id].is_some() {
                self.node(id).limits.iter_mut().for_each(|rate| rate.forget_buffered(now));
                self.refresh_up(now, id, groups);
            }
        }
    }
}

/// How many limits of reads and writes together there are.
pub(super) fn totals(limits: &[Rate]) -> usize {
    limits.iter().filter(|rate| rate.is_total()).count()
}
