//! What a host would use of each limit, by what it has used.

use super::records::{HostValue, LimitKey};
use crate::device::Device;
use crate::groups::Groups;
use iopace_core::stats::OpCounts;
use iopace_core::time::{Instant, Nanos};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

/// A group that has used so many eighths of what it was allowed would use more.
const PRESSED_EIGHTHS: u64 = 7;

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
}

impl Wishes {
    /// Looks at the groups of these limits; `allowed` is what each has at present, with the limit
    /// of the sum.
    pub(super) fn look(
        &mut self,
        now: Instant,
        (groups, device): (&Groups, &dyn Device),
        allowed: &[(LimitKey, (u64, u64))],
    ) -> &HostValue {
        let mut counts = BTreeMap::new();
        for (key, _) in allowed {
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
        for (key, (now_allowed, limit)) in allowed {
            let zero = OpCounts::default();
            let was = before.get(&key.group).unwrap_or(&zero);
            let used = per_second(amount(key, was, &counts[&key.group]), past);
            let is_pressed = used.saturating_mul(8) >= now_allowed.saturating_mul(PRESSED_EIGHTHS);
            let wanted = if is_pressed { *limit } else { used + used / ROOM_PART };
            if is_pressed {
                self.pressed.insert(key.group.clone());
            }
            record.wanted.insert(key.clone(), wanted.min(*limit));
            record.used.insert(key.clone(), used);
        }
        self.before = Some((now, counts));
        self.last = record;
        &self.last
    }

    /// Whether a limit holds a group back.
    pub(super) fn is_pressed(&self, group: &str) -> bool {
        self.pressed.contains(group)
    }
}

/// The amount of a rate between two looks.
fn amount(key: &LimitKey, was: &OpCounts, is: &OpCounts) -> u64 {
    let read = is.read.get().saturating_sub(was.read.get());
    let written = is.written.get().saturating_sub(was.written.get());
    let reads = is.reads_count.saturating_sub(was.reads_count);
    let writes = is.writes_count.saturating_sub(was.writes_count);
    let rates = [read, written, read + written, reads, writes, reads + writes];
    let rates = rates.map(NonZeroU64::new);
    let [rbps, wbps, bps, riops, wiops, iops] = rates;
    let rates = iopace_core::group::Rates { rbps, wbps, bps, riops, wiops, iops };
    key.rate.of(&rates).map_or(0, NonZeroU64::get)
}

fn per_second(amount: u64, past: Nanos) -> u64 {
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(past.0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
