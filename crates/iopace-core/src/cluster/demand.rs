//! A host's record for the others: how its queue stands, and what each of its groups wants.

use super::Allowance;
use crate::group::Weight;
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, scaled};
use crate::window::{QueueTotals, WindowSize};

/// A group that hosts have in common, by a number that all records of a view have in common: such
/// as its place among all names of the view in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterGroup(pub u32);

/// How a group stands on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupDemand {
    /// The group.
    pub group: ClusterGroup,
    /// Its weight for the sum of all hosts.
    pub weight: Weight,
    /// Tasks of the group that had a request here lately. Hosts that want more than there is have
    /// of the group in proportion to them; zero counts as one.
    pub tasks_count: u32,
    /// The amount that it had in a second lately, as [`cost`] counts.
    pub used: Allowance,
    /// The amount that it would use in a second if it had all; `u64::MAX` if that is not known.
    pub wanted: Allowance,
    /// The amount in a second that its guarantee is here: it has that before weights count.
    pub least: Allowance,
}

impl GroupDemand {
    fn is_news(&self, published: &GroupDemand) -> bool {
        let key = |group: &GroupDemand| (group.group, group.weight, group.tasks_count);
        let amounts = |group: &GroupDemand| [group.used.0, group.wanted.0, group.least.0];
        key(self) != key(published)
            || amounts(published).into_iter().zip(amounts(self)).any(differs)
    }
}

/// A host as others see it: made by [`DemandMeter::look`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRecord {
    /// The size of its window.
    pub window: WindowSize,
    /// Its requests at the device, as a mean over time.
    pub in_flight: WindowSize,
    /// Its requests that are done in a second, in 256ths of a request.
    pub done: Allowance,
    /// The latency of its requests if they were alone at the device, if it is known.
    pub alone: Option<Nanos>,
    /// Its groups: all siblings among which weights are shared, used or not.
    pub groups: Vec<GroupDemand>,
}

impl HostRecord {
    /// The mean latency of its requests at the device; none without a request.
    pub fn latency(&self) -> Option<Nanos> {
        // in flight = rate x latency, and both are in 256ths.
        let rate = Some(self.done.0).filter(|rate| *rate > 0)?;
        Some(Nanos(scaled(self.in_flight.0, 1_000_000_000, rate)))
    }

    /// Whether others have to be told of it: something that goes into the parts of all has changed
    /// by more than a [`NEWS_PART`]th since `published`, or the groups are others.
    pub fn is_news(&self, published: &HostRecord) -> bool {
        let queue = |record: &HostRecord| [record.window.0, record.in_flight.0, record.done.0];
        let has_moved = queue(published).into_iter().zip(queue(self)).any(differs);
        let groups = published.groups.iter().zip(&self.groups);
        has_moved
            || self.alone != published.alone
            || self.groups.len() != published.groups.len()
            || groups.into_iter().any(|(was, is)| is.is_news(was))
    }

    /// The amount that it had in a second lately.
    pub(super) fn used(&self) -> u64 {
        self.groups.iter().map(|group| group.used.0).sum()
    }

    /// Whether a group of it wants more than it has by far.
    pub(super) fn is_backlogged(&self) -> bool {
        self.groups.iter().any(|group| group.wanted.0 == u64::MAX)
    }
}

/// A change by less than this part is not told to others: it would move no share by more than that,
/// and amounts that are measured over a look differ by as much from look to look.
pub const NEWS_PART: u64 = 32;

fn differs((was, is): (u64, u64)) -> bool {
    is.abs_diff(was) > is.max(was) / NEWS_PART
}

/// Shortest time between two looks of a host at the records of all.
const LOOK_LEAST: Nanos = Nanos::from_millis(250);

/// And so much for each record: a record is some 250 bytes, so that no host reads more than
/// 32 KiB/s, whatever their number.
const LOOK_PER_RECORD: Nanos = Nanos::from_millis(8);

/// A session of the store lasts for several looks, however many records there are.
const LOOK_MOST: Nanos = Nanos::from_millis(1_500);

/// The time between two looks of a host at a store with so many records.
pub fn look_period(records_count: u64) -> Nanos {
    LOOK_LEAST.max(LOOK_PER_RECORD.times(records_count)).min(LOOK_MOST)
}

/// So many bytes of a request cost as much as a request of no bytes: a flash disk moves them in ten
/// times, a disk with a head in an eighth of what a command takes it.
const COST_BYTES: Bytes = Bytes::from_kib(64);

/// The cost of requests to the volume, in 256ths of a request of no bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestCost(pub u64);

/// The cost of so many requests with so many bytes together.
pub fn cost(requests_count: u64, size: Bytes) -> RequestCost {
    let bytes = scaled(size.0, 256, COST_BYTES.0);
    RequestCost(requests_count.saturating_mul(256).saturating_add(bytes))
}

/// The use of a group since the beginning, as [`crate::engine::Engine`] counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUse {
    /// The cost of its requests that are done, by [`cost`].
    pub cost: RequestCost,
    /// The time in which at least one of its requests waited for its start.
    pub waited: Nanos,
}

/// A group as its host knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostGroup {
    /// The group.
    pub group: ClusterGroup,
    /// See [`GroupDemand::weight`].
    pub weight: Weight,
    /// See [`GroupDemand::tasks_count`].
    pub tasks_count: u32,
    /// The most that its limits let it use in a second, as [`cost`] counts; none: there are none.
    pub most: Option<Allowance>,
    /// See [`GroupDemand::least`].
    pub least: Allowance,
    /// Its use since the beginning.
    pub since_start: GroupUse,
}

/// Means are over about so long: some looks, so that a burst is known within a second.
const MEAN: Nanos = Nanos::from_millis(500);

/// A group that waits for so many thirty-seconds of the time wants more than can be told.
const WAITS_PARTS: u64 = 28;

/// A mean over time that forgets.
#[derive(Clone, Copy, Debug, Default)]
struct FadingMean(u64);

impl FadingMean {
    /// Another value, which was there for so long.
    fn add(&mut self, value: u64, length: Nanos) {
        let whole = length + MEAN;
        let (new, old) = (u128::from(value) * u128::from(length.0), u128::from(self.0));
        let sum = new + old * u128::from(MEAN.0);
        self.0 = u64::try_from(sum / u128::from(whole.0)).unwrap_or(u64::MAX);
    }
}

/// A group between two looks.
#[derive(Clone, Copy, Debug)]
struct MeteredGroup {
    group: ClusterGroup,
    since_start: GroupUse,
    /// The amount in a second.
    used: FadingMean,
    /// The time that it waits, in ns of a second.
    waits: FadingMean,
}

/// Makes a host's record of what its engine has counted.
#[derive(Clone, Debug, Default)]
pub struct DemandMeter {
    looked: Option<(Instant, QueueTotals)>,
    in_flight: FadingMean,
    done: FadingMean,
    groups: Vec<MeteredGroup>,
}

impl DemandMeter {
    /// A look at the engine, a few times a second. A group that is new, and one whose counts have
    /// begun anew, has had nothing until now.
    pub fn look(&mut self, now: Instant, queue: &QueueTotals, groups: &[HostGroup]) -> HostRecord {
        let length = self.looked.map_or(Nanos::ZERO, |(at, _)| now.since(at));
        if let Some((_, before)) = self.looked
            && length > Nanos::ZERO
        {
            let at_disk = queue.at_disk.saturating_sub(before.at_disk);
            self.in_flight.add(WindowSize::mean(at_disk, length).0, length);
            let done_count = queue.done_count.saturating_sub(before.done_count);
            self.done.add(per_second(done_count.saturating_mul(256), length), length);
        }
        self.looked = Some((now, *queue));
        let metered: Vec<MeteredGroup> =
            groups.iter().map(|group| self.meter(group, length)).collect();
        self.groups = metered;
        HostRecord {
            window: queue.size,
            in_flight: WindowSize(self.in_flight.0),
            done: Allowance(self.done.0),
            alone: queue.alone,
            groups: groups
                .iter()
                .zip(&self.groups)
                .map(|(group, seen)| demand(group, seen))
                .collect(),
        }
    }

    /// A group with what it has had since the last look.
    fn meter(&self, group: &HostGroup, length: Nanos) -> MeteredGroup {
        let since_start = group.since_start;
        let known = self.groups.iter().find(|known| known.group == group.group);
        let (mut used, mut waits) = known.map_or_else(Default::default, |k| (k.used, k.waits));
        if let Some(before) = known.map(|known| known.since_start)
            && length > Nanos::ZERO
        {
            used.add(per_second(since_start.cost.0.saturating_sub(before.cost.0), length), length);
            let waited = since_start.waited.saturating_sub(before.waited).0;
            waits.add(per_second(waited, length).min(1_000_000_000), length);
        }
        MeteredGroup { group: group.group, since_start, used, waits }
    }
}

/// So many in so long, as so many in a second.
fn per_second(count: u64, length: Nanos) -> u64 {
    scaled(count, 1_000_000_000, length.0)
}

/// A task that waits for a part of the time would use so much more without: `1 / (1 - part)`.
fn demand(group: &HostGroup, seen: &MeteredGroup) -> GroupDemand {
    let (used, waits) = (seen.used.0, seen.waits.0.min(1_000_000_000));
    let wanted = match waits >= 1_000_000_000 / 32 * WAITS_PARTS {
        true => u64::MAX,
        false => scaled(used, 1_000_000_000, 1_000_000_000 - waits),
    };
    let HostGroup { group, weight, tasks_count, most, least, .. } = *group;
    let wanted = most.map_or(wanted, |most| wanted.min(most.0)).max(used);
    let (used, wanted) = (Allowance(used), Allowance(wanted));
    GroupDemand { group, weight, tasks_count, used, wanted, least }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(cost: u64, waited_ms: u64) -> HostGroup {
        HostGroup {
            group: ClusterGroup(3),
            weight: Weight::DEFAULT,
            tasks_count: 2,
            most: None,
            least: Allowance(0),
            since_start: GroupUse {
                cost: RequestCost(cost),
                waited: Nanos::from_millis(waited_ms),
            },
        }
    }

    /// The last record of a host that is looked at four times a second: in each second 400 requests
    /// of 5 ms are done, and their group waits for so many ms.
    fn record(waited_ms: u64, most: Option<Allowance>) -> HostRecord {
        let mut meter = DemandMeter::default();
        let mut last = HostRecord::default();
        for look in 0..40u64 {
            let totals = QueueTotals {
                done_count: look * 100,
                at_disk: Nanos::from_millis(look * 500),
                alone: Some(Nanos(7)),
                size: WindowSize(999),
            };
            let group = HostGroup { most, ..group(look * 25_600, look * waited_ms / 4) };
            last = meter.look(Instant(look * 250_000_000), &totals, &[group]);
        }
        last
    }

    #[test]
    fn a_record_has_the_rates_of_lately() {
        let record = record(500, None);
        assert_eq!(record.window, WindowSize(999));
        assert!(record.in_flight.0.abs_diff(512) <= 2, "{record:?}");
        assert!(record.done.0.abs_diff(102_400) <= 2, "{record:?}");
        let latency = record.latency().expect("requests were done");
        assert!(latency.0.abs_diff(5_000_000) < 50_000, "{latency}");
        let GroupDemand { used, wanted, .. } = record.groups[0];
        assert!(used.0.abs_diff(102_400) <= 2, "{used:?}");
        assert!(wanted.0.abs_diff(204_800) <= 2_000, "half of the time: {wanted:?}");
        assert!(!record.is_backlogged());
        assert_eq!(HostRecord::default().latency(), None);
    }

    #[test]
    fn who_waits_nearly_always_wants_all_or_its_limit() {
        assert!(record(990, None).is_backlogged());
        let limited = record(990, Some(Allowance(150_000)));
        assert_eq!(limited.groups[0].wanted, Allowance(150_000));
        let beyond = record(990, Some(Allowance(5)));
        assert_eq!(beyond.groups[0].wanted, beyond.groups[0].used);
    }

    #[test]
    fn others_are_told_of_a_change_by_a_thirty_second() {
        let before = record(500, None);
        assert!(!before.is_news(&before));
        let changed = |change: fn(&mut HostRecord)| {
            let mut record = before.clone();
            change(&mut record);
            record.is_news(&before)
        };
        assert!(!changed(|record| record.in_flight.0 += record.in_flight.0 / 40));
        assert!(changed(|record| record.in_flight.0 += record.in_flight.0 / 20));
        assert!(changed(|record| record.alone = None));
        assert!(changed(|record| record.groups[0].tasks_count += 1));
        assert!(changed(|record| record.groups[0].wanted = Allowance(u64::MAX)));
        assert!(!changed(|record| record.groups[0].used.0 -= record.groups[0].used.0 / 40));
        assert!(changed(|record| record.groups.clear()));
    }

    #[test]
    fn looks_are_rarer_with_more_records_but_sessions_last() {
        let looks = [1, 31, 32, 64, 1_000].map(|count| look_period(count).0 / 1_000_000);
        assert_eq!(looks, [250, 250, 256, 512, 1_500]);
    }

    #[test]
    fn counts_that_begin_anew_and_groups_that_come_are_nothing_yet() {
        let mut meter = DemandMeter::default();
        let look = |meter: &mut DemandMeter, ms: u64, done_count, groups: &[HostGroup]| {
            let totals = QueueTotals { done_count, ..QueueTotals::default() };
            meter.look(Instant(ms * 1_000_000), &totals, groups)
        };
        look(&mut meter, 0, 500, &[]);
        let came = look(&mut meter, 250, 400, &[group(1_000_000, 900)]);
        assert_eq!((came.done, came.groups[0].used), (Allowance(0), Allowance(0)));
        let again = look(&mut meter, 500, 400, &[group(10, 1)]);
        assert_eq!(again.groups[0].used, Allowance(0));
        let same_instant = look(&mut meter, 500, 900, &[group(99, 9)]);
        assert_eq!(same_instant.done, Allowance(0));
    }

    #[test]
    fn a_request_costs_itself_and_its_bytes() {
        assert_eq!(cost(1, Bytes::ZERO).0, 256);
        assert_eq!(cost(2, Bytes::from_kib(64)).0, 768);
        assert_eq!(cost(u64::MAX, Bytes(u64::MAX)).0, u64::MAX);
    }
}
