//! What a host would use of the guarantees of its groups, and what its part of them costs.

use super::records::{HostValue, LimitKey, PartOf};
use iopace_core::cluster::cost;
use iopace_core::stats::OpCounts;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::collections::BTreeMap;

/// A look makes so much of the mean: a slow disk ends no request between some looks.
const NEW_PART: u64 = 4;

/// Whoever has had nothing for so long wants nothing.
const LATELY: Nanos = Nanos::from_secs(2);

/// A group that has had so many eighths of its part would use more.
pub(super) const PRESSED_EIGHTHS: u64 = 7;

/// One guarantee.
#[derive(Clone, Copy, Debug, Default)]
struct SeenGuarantee {
    /// What the group has in a second, in 256ths, as a mean that forgets.
    used: u64,
    /// What one of the rate costs ([`cost`]), in 2^20ths: by the last requests that there were.
    unit_cost: u128,
    /// When there were any last.
    at: Instant,
}

/// The guarantees of a host.
#[derive(Debug, Default)]
pub(super) struct Guaranteed {
    seen: BTreeMap<LimitKey, SeenGuarantee>,
    /// What this host's part of them costs in a second, by group.
    costs: BTreeMap<String, u64>,
}

impl Guaranteed {
    /// Looks at guarantees: `counts` are those of a group before and after this time.
    pub(super) fn look<'a>(
        &mut self,
        (now, past): (Instant, Nanos),
        parts: &[PartOf],
        counts: impl Fn(&str) -> (&'a OpCounts, &'a OpCounts),
        into: &mut HostValue,
    ) {
        self.seen.retain(|key, _| parts.iter().any(|(of, _)| of == key));
        self.costs.clear();
        // By group: reads, writes, and both in one rate.
        let mut costs: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
        for (key, (own, sum)) in parts {
            let (was, is) = counts(&key.group);
            let had = key.rate.amount(was, is);
            let seen = self.seen.entry(key.clone()).or_default();
            seen.used = seen.used - seen.used / NEW_PART
                + per_second(had, past).saturating_mul(256) / NEW_PART;
            if had > 0 {
                seen.at = now;
                seen.unit_cost = (u128::from(cost_of(key, was, is)) << 20) / u128::from(had);
            }
            let used = seen.used / 256;
            let wanted = match now.since(seen.at) > LATELY {
                true => 0,
                false if used.saturating_mul(8) >= own.saturating_mul(PRESSED_EIGHTHS) => *sum,
                false => used + used / 4 + 1,
            };
            into.wanted.insert(key.clone(), wanted.min(*sum));
            into.used.insert(key.clone(), used);
            let own_cost = u64::try_from((u128::from(*own) * seen.unit_cost) >> 20);
            let place = match (key.rate.counts_reads(), key.rate.counts_writes()) {
                (true, false) => 0,
                (false, true) => 1,
                _ => 2,
            };
            let of_group = &mut costs.entry(&key.group).or_default()[place];
            // Bytes and requests of one kind are owed at the same time.
            *of_group = (*of_group).max(own_cost.unwrap_or(u64::MAX));
        }
        for (group, [reads, writes, both]) in costs {
            self.costs.insert(group.to_owned(), reads.saturating_add(writes).max(both));
        }
    }

    /// What this host's part of the guarantees of a group costs in a second.
    pub(super) fn cost(&self, group: &str) -> u64 {
        self.costs.get(group).copied().unwrap_or(0)
    }
}

/// The cost of the requests that a rate counts.
fn cost_of(key: &LimitKey, was: &OpCounts, is: &OpCounts) -> u64 {
    let (mut requests_count, mut bytes) = (0, 0);
    if key.rate.counts_reads() {
        requests_count += is.reads_count.saturating_sub(was.reads_count);
        bytes += is.read.get().saturating_sub(was.read.get());
    }
    if key.rate.counts_writes() {
        requests_count += is.writes_count.saturating_sub(was.writes_count);
        bytes += is.written.get().saturating_sub(was.written.get());
    }
    cost(requests_count, Bytes(bytes)).0
}

/// An amount in so long, as an amount in a second.
pub(super) fn per_second(amount: u64, past: Nanos) -> u64 {
    let rate = u128::from(amount) * 1_000_000_000 / u128::from(past.0.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::records::RateKind;
    use super::*;

    const LOOK: Nanos = Nanos::from_millis(250);

    fn key(rate: &str) -> LimitKey {
        LimitKey { rate: RateKind::find(rate).expect("one"), group: "/db".into() }
    }

    fn counts(reads_count: u64, writes_count: u64) -> OpCounts {
        let [read, written] = [reads_count, writes_count].map(|count| Bytes(count * 65_536));
        OpCounts { reads_count, writes_count, read, written, ..OpCounts::default() }
    }

    /// Looks in turn, with what was done between them.
    fn looks(of: &mut Guaranteed, parts: &[PartOf], done: &[(u64, u64)]) -> HostValue {
        let mut last = HostValue::default();
        for (number, (reads, writes)) in done.iter().enumerate() {
            let now = Instant((number as u64 + 100) * LOOK.0);
            let (was, is) = (counts(0, 0), counts(*reads, *writes));
            last = HostValue::default();
            of.look((now, LOOK), parts, |_| (&was, &is), &mut last);
        }
        last
    }

    #[test]
    fn a_slow_disk_ends_no_guarantee_between_two_looks() {
        let parts = [(key("riops"), (400, 800))];
        let mut guaranteed = Guaranteed::default();
        let told = looks(&mut guaranteed, &parts, &[(1, 0), (0, 0), (0, 0), (1, 0), (0, 0)]);
        assert!((1..10).contains(&told.wanted[&key("riops")]), "{told:?}");
        assert_eq!(guaranteed.cost("/db"), 400 * 512, "64 KiB cost twice as much as nothing");
        // Who has no part of it yet wants all, and who has not used it for seconds nothing.
        let told = looks(&mut guaranteed, &[(key("riops"), (0, 800))], &[(1, 0)]);
        assert_eq!(told.wanted[&key("riops")], 800);
        let told = looks(&mut guaranteed, &parts, &[(0, 0); 30]);
        assert_eq!(told.wanted[&key("riops")], 0);
    }

    #[test]
    fn reads_and_writes_are_owed_beside_each_other() {
        let mut guaranteed = Guaranteed::default();
        let parts = ["riops", "rbps", "wiops"].map(|rate| (key(rate), (100, 100)));
        looks(&mut guaranteed, &parts, &[(50, 50)]);
        assert_eq!(guaranteed.cost("/db"), 2 * 100 * 512, "the bytes are a part of the requests");
        looks(&mut guaranteed, &[(key("iops"), (300, 300))], &[(50, 50)]);
        assert_eq!(guaranteed.cost("/db"), 300 * 512);
        assert_eq!(guaranteed.cost("/other"), 0);
    }
}
