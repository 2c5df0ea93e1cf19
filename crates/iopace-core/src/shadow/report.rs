//! What a shadow has found: by group, what it would have delayed and by how much.

use crate::limits::SHADOW_GROUPS_MAX;
use crate::request::{GroupId, StageTimes};
use crate::stats::SmallHistogram;
use crate::time::Nanos;
use crate::units::Bytes;
use std::collections::BTreeMap;

/// A latency that differs by at most this part of the live one is the same: the virtual disk is no
/// more exact than that.
const SAME_PART: u64 = 8;

/// What would have become of the requests of a group, without those of the groups below it.
#[derive(Clone, Debug, Default)]
pub struct GroupReport {
    /// Live requests and buffered writes that have ended, and their bytes.
    pub live_count: u64,
    /// See `live_count`.
    pub live_bytes: u64,
    /// Those of them that the shadow has served, and their bytes; of the others, the task would
    /// have come later.
    pub served_count: u64,
    /// See `served_count`.
    pub served_bytes: u64,
    /// By how much those served were later than live: by more than an eighth of the live latency.
    pub delays: SmallHistogram,
    /// How many were sooner by more than an eighth.
    pub hastened_count: u64,
    /// By how much, added up.
    pub hastened: Nanos,
    /// Live latency of those served.
    pub live: SmallHistogram,
    /// Their latency in the shadow.
    pub shadow: SmallHistogram,
    /// Where their time went, live, added up.
    pub live_times: StageTimes,
    /// Where their time went in the shadow, added up. Reasons of one stage are not told apart.
    pub shadow_times: StageTimes,
}

impl GroupReport {
    fn ended(&mut self, size: Bytes) {
        self.live_count += 1;
        self.live_bytes += size.get();
    }

    fn compare(&mut self, size: Bytes, live: &StageTimes, shadow: &StageTimes) {
        let (was, is) = (live.total(), shadow.total());
        let same = Nanos(was.as_nanos() / SAME_PART);
        let (later, sooner) = (is.saturating_sub(was), was.saturating_sub(is));
        self.served_count += 1;
        self.served_bytes += size.get();
        if later > same {
            self.delays.record(later);
        } else if sooner > same {
            self.hastened_count += 1;
            self.hastened += sooner;
        }
        self.live.record(was);
        self.shadow.record(is);
        self.live_times.add(live);
        self.shadow_times.add(shadow);
    }
}

/// What a shadow has found.
#[derive(Debug, Default)]
pub struct Report {
    /// The device as a whole.
    pub all: GroupReport,
    /// By group.
    pub groups: BTreeMap<GroupId, GroupReport>,
    /// Requests that were left out: the live one did not end, or the shadow had no room.
    pub missed_count: u64,
}

impl Report {
    /// The groups beyond `SHADOW_GROUPS_MAX` count for the device only.
    fn group(&mut self, id: GroupId) -> Option<&mut GroupReport> {
        if self.groups.len() >= SHADOW_GROUPS_MAX && !self.groups.contains_key(&id) {
            return None;
        }
        Some(self.groups.entry(id).or_default())
    }

    /// A live request has ended.
    pub(super) fn live(&mut self, group: GroupId, size: Bytes) {
        self.all.ended(size);
        if let Some(report) = self.group(group) {
            report.ended(size);
        }
    }

    /// A request has been served in the shadow.
    pub(super) fn compare(
        &mut self,
        group: GroupId,
        size: Bytes,
        live: &StageTimes,
        shadow: &StageTimes,
    ) {
        self.all.compare(size, live, shadow);
        if let Some(report) = self.group(group) {
            report.compare(size, live, shadow);
        }
    }

    /// A group is gone.
    pub(crate) fn forget(&mut self, id: GroupId) {
        self.groups.remove(&id);
    }
}
