//! What a host would use of each limit and guarantee, by what it has used.

use super::guaranteed::{Guaranteed, PRESSED_EIGHTHS, per_second};
use super::records::{HostValue, PartOf};
use crate::device::Device;
use crate::groups::Groups;
use iopace_core::stats::OpCounts;
use iopace_core::time::{Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};

/// Whoever is not held up is left room to grow by a quarter.
const ROOM_PART: u64 = 4;

/// The counts of groups when they were last looked at.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    before: Option<(Instant, BTreeMap<String, OpCounts>)>,
    /// Of the last look.
    last: HostValue,
    /// Groups that use as much as a limit lets them.
    pressed: BTreeSet<String>,
    guaranteed: Guaranteed,
}

impl Wishes {
    /// Looks at the groups of these limits and guarantees.
    pub(super) fn look(
        &mut self,
        now: Instant,
        (groups, device): (&Groups, &dyn Device),
        (limits, guarantees): (&[PartOf], &[PartOf]),
    ) -> &HostValue {
        let mut counts = BTreeMap::new();
        for (key, _) in limits.iter().chain(guarantees) {
            let id = groups.find(&key.group).ok();
            let status = id.and_then(|id| device.group(id));
            let own = status.map(|status| status.account.counts).unwrap_or_default();
            counts.entry(key.group.clone()).or_insert(own);
        }
        let Some((since, before)) = &self.before else {
            self.before = Some((now, counts));
            return &self.last;
        };
        let past = now.since(*since);
        // Requests of some milliseconds come and go within less.
        if past < Nanos::from_millis(100) {
            return &self.last;
        }
        let mut record = HostValue::default();
        self.pressed.clear();
        let nothing = OpCounts::default();
        let around = |group: &str| (before.get(group).unwrap_or(&nothing), &counts[group]);
        // A limit on the same rate knows more: it has the last word.
        self.guaranteed.look((now, past), guarantees, around, &mut record);
        for (key, (own, sum)) in limits {
            let (was, is) = around(&key.group);
            let used = per_second(key.rate.amount(was, is), past);
            let is_pressed = used.saturating_mul(8) >= own.saturating_mul(PRESSED_EIGHTHS);
            let wanted = if is_pressed { *sum } else { used + used / ROOM_PART };
            if is_pressed {
                self.pressed.insert(key.group.clone());
            }
            record.wanted.insert(key.clone(), wanted.min(*sum));
            record.used.insert(key.clone(), used);
        }
        self.before = Some((now, counts));
        self.last = record;
        &self.last
    }

    /// See [`Guaranteed::cost`].
    pub(super) fn guaranteed(&self, group: &str) -> u64 {
        self.guaranteed.cost(group)
    }

    /// Whether a limit holds a group back.
    pub(super) fn is_pressed(&self, group: &str) -> bool {
        self.pressed.contains(group)
    }
}
