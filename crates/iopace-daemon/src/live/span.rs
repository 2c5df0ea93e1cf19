//! Several intervals of one device taken together.

use crate::api::{Activity, LiveDevice, LiveGroup, LiveReport, WaitCounts, WaitsReport};
use iopace_core::verdict::Reason;
use std::collections::BTreeMap;

/// The reasons for which time is accounted, in the order of the stages: all but the first, that
/// there is nothing to do.
pub(super) const REASONS: [Reason; Reason::ALL.len() - 1] = {
    let [Reason::Idle, rest @ ..] = Reason::ALL else { panic!("the first is Idle") };
    rest
};

/// Time by reason, in the order of [`REASONS`]. Sums of a few minutes of any number of requests
/// that a device can hold are far below 2^127.
pub(super) type Times = [u128; REASONS.len()];

/// The place of a reason in [`Times`].
pub(super) fn place(reason: Reason) -> usize {
    REASONS.iter().position(|one| *one == reason).expect("not idle")
}

/// What stands where, in the order of [`REASONS`].
pub(super) fn counts(now: &WaitCounts) -> [u32; REASONS.len()] {
    REASONS.map(|reason| match reason {
        Reason::Idle => 0,
        Reason::Dirty => now.dirty_count,
        Reason::Memory => now.memory_count,
        Reason::Slot => now.slot_count,
        Reason::Budget => now.budget_count,
        Reason::Turn => now.turn_count,
        Reason::Anticipation => now.anticipation_count,
        Reason::Window => now.window_count,
        Reason::Disk => now.disk_count,
    })
}

fn waits(waits: &WaitsReport) -> [u64; REASONS.len()] {
    REASONS.map(|reason| match reason {
        Reason::Idle => 0,
        Reason::Dirty => waits.dirty_ns,
        Reason::Memory => waits.memory_ns,
        Reason::Slot => waits.slot_ns,
        Reason::Budget => waits.budget_ns,
        Reason::Turn => waits.turn_ns,
        Reason::Anticipation => waits.anticipation_ns,
        Reason::Window => waits.window_ns,
        Reason::Disk => waits.disk_ns,
    })
}

/// What was counted for one group, or for a device, in all intervals together.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// Where the time of what finished went.
    pub(super) waits: Times,
    /// The part of it in which buffered writes waited for a limit.
    pub(super) budget_pace_ns: u128,
    /// The part of `waits` of write-back that nobody waited for.
    pub(super) unawaited: Times,
    /// The time that what was seen at the ends of the intervals stood there.
    pub(super) standing: Times,
    /// Requests that tasks waited for; not buffered writes.
    pub(super) sync_count: u64,
    /// Requests of both directions that finished, write-back included.
    pub(super) ops_count: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) read_ops_milli: u64,
    pub(super) write_ops_milli: u64,
    /// Buffered writes, as they went into the page cache.
    pub(super) buffered_bytes: u64,
    pub(super) buffered_ops_milli: u64,
}

impl Sums {
    pub(super) fn add(&mut self, activity: &Activity, interval_ns: u64) {
        let Activity { read, write, buffered, latency, waits: times, unawaited, now } = activity;
        let whole = |rate: u64| {
            let whole = u128::from(rate) * u128::from(interval_ns);
            u64::try_from(whole.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
        };
        for (sum, time) in self.waits.iter_mut().zip(waits(times)) {
            *sum += u128::from(time);
        }
        for (sum, time) in self.unawaited.iter_mut().zip(waits(unawaited)) {
            *sum += u128::from(time);
        }
        self.budget_pace_ns += u128::from(times.budget_pace_ns);
        for (sum, count) in self.standing.iter_mut().zip(counts(now)) {
            *sum += u128::from(count) * u128::from(interval_ns);
        }
        self.sync_count += latency.count;
        self.read_bytes += whole(read.bytes_s);
        self.write_bytes += whole(write.bytes_s);
        self.read_ops_milli += whole(read.ops_milli_s);
        self.write_ops_milli += whole(write.ops_milli_s);
        self.buffered_bytes += whole(buffered.bytes_s);
        self.buffered_ops_milli += whole(buffered.ops_milli_s);
        self.ops_count = (self.read_ops_milli + self.write_ops_milli) / 1_000;
    }

    /// What tasks waited for: requests, and buffered writes as long as they were on their way into
    /// memory. Write-back is not among it.
    pub(super) fn awaited_count(&self) -> u64 {
        self.sync_count + self.buffered_count()
    }

    /// Bytes and operations (in thousandths) written, as programs see it: those of buffered writes
    /// count as they go into memory, and not again with their write-back. Where both are, what is
    /// most of it counts: write-back is not told apart from other writes.
    pub(super) fn written(&self) -> (u64, u64) {
        match self.buffered_bytes > self.write_bytes / 2 {
            true => (self.buffered_bytes, self.buffered_ops_milli),
            false => (self.write_bytes, self.write_ops_milli),
        }
    }

    /// Buffered writes that went into memory.
    pub(super) fn buffered_count(&self) -> u64 {
        self.buffered_ops_milli.div_ceil(1_000)
    }

    /// Where the time of what finished went, without write-back, for which nobody waits.
    pub(super) fn of_tasks(&self) -> Times {
        std::array::from_fn(|at| self.waits[at].saturating_sub(self.unawaited[at]))
    }

    /// Where the time of buffered writes went: all that is spent in stage pace.
    pub(super) fn of_buffered(&self) -> Times {
        let budget = place(Reason::Budget);
        std::array::from_fn(|at| match at {
            _ if at <= place(Reason::Memory) => self.waits[at],
            _ if at == budget => self.budget_pace_ns,
            _ => 0,
        })
    }

    /// Where the time of requests went that tasks waited for: all that is not in stage pace.
    pub(super) fn of_requests(&self) -> Times {
        let (tasks, buffered) = (self.of_tasks(), self.of_buffered());
        std::array::from_fn(|at| tasks[at].saturating_sub(buffered[at]))
    }

    /// All the time at the disk, write-back included.
    pub(super) fn disk_ns(&self) -> u128 {
        self.waits[place(Reason::Disk)]
    }
}

/// Several intervals of one device.
pub(super) struct Span<'a> {
    pub(super) over_ns: u64,
    /// The device as it is at their end.
    pub(super) last: &'a LiveDevice,
    /// The device as a whole.
    pub(super) all: Sums,
    groups: BTreeMap<&'a str, Listed<'a>>,
    /// The length of each interval.
    intervals: Vec<u64>,
}

/// A group in them.
#[derive(Default)]
struct Listed<'a> {
    sums: Sums,
    now: Option<&'a LiveGroup>,
    /// As it is in each of the intervals, up to the last in which it is listed.
    each: Vec<Option<&'a LiveGroup>>,
}

impl<'a> Span<'a> {
    /// The intervals of a device, oldest first; none if it is not in the last.
    pub(super) fn new(reports: &[&'a LiveReport], device: &str) -> Option<Span<'a>> {
        Span::with_pauses(reports, device, || {})
    }

    /// The same with a pause after each of them.
    pub(super) fn with_pauses(
        reports: &[&'a LiveReport],
        device: &str,
        pause: impl Fn(),
    ) -> Option<Span<'a>> {
        let find = |report: &'a LiveReport| report.devices.iter().find(|one| one.device == device);
        let last = find(reports.last()?)?;
        let intervals = reports.iter().map(|report| report.interval_ns).collect();
        let (all, groups) = (Sums::default(), BTreeMap::new());
        let mut span = Span { over_ns: 0, last, all, groups, intervals };
        for (place, report) in reports.iter().enumerate() {
            let Some(device) = find(report) else { continue };
            span.over_ns += report.interval_ns;
            span.all.add(&device.activity, report.interval_ns);
            for group in &device.groups {
                let listed = span.groups.entry(&group.group).or_default();
                listed.sums.add(&group.activity, report.interval_ns);
                listed.now = std::ptr::eq(device, last).then_some(group);
                if listed.each.capacity() == 0 {
                    listed.each.reserve_exact(reports.len());
                }
                listed.each.resize(place, None);
                listed.each.push(Some(group));
            }
            pause();
        }
        Some(span)
    }

    /// What was counted for a group; the root is the device.
    pub(super) fn sums(&self, group: &str) -> Sums {
        match group {
            "/" => self.all.clone(),
            _ => self.groups.get(group).map(|listed| listed.sums.clone()).unwrap_or_default(),
        }
    }

    /// What was counted for a group in the intervals in which requests of it waited for a limit,
    /// and their length together.
    pub(super) fn held_by_limit(&self, group: &str) -> (Sums, u64) {
        let (mut sums, mut length) = (Sums::default(), 0);
        for (one, interval) in self.each(group).iter().zip(&self.intervals) {
            let Some(LiveGroup { activity, .. }) = one else { continue };
            if activity.waits.budget_ns > 0 || activity.now.budget_count > 0 {
                sums.add(activity, *interval);
                length += interval;
            }
        }
        (sums, length)
    }

    /// A group as it is at the end, if it is listed.
    pub(super) fn now(&self, group: &str) -> Option<&'a LiveGroup> {
        self.groups.get(group).and_then(|listed| listed.now)
    }

    /// A group as it is in each of the intervals, up to the last in which it is listed.
    pub(super) fn each(&self, group: &str) -> &[Option<&'a LiveGroup>] {
        self.groups.get(group).map_or(&[], |listed| &listed.each)
    }

    /// Whether a group is listed in one of the intervals.
    pub(super) fn has(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// What of a group stands where at the end.
    pub(super) fn standing(&self, group: &str) -> WaitCounts {
        match group {
            "/" => self.last.activity.now,
            _ => self.now(group).map(|now| now.activity.now).unwrap_or_default(),
        }
    }

    /// All groups that are listed, by path.
    pub(super) fn paths(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.groups.keys().copied()
    }

    /// The groups right below one.
    pub(super) fn children<'s>(&'s self, group: &'s str) -> impl Iterator<Item = &'a str> + 's {
        self.paths().filter(move |path| parent(path) == Some(group))
    }

    /// What each group has by itself of something that is counted with all below it, the largest
    /// first; those with nothing are left out.
    pub(super) fn own(&self, of: impl Fn(&str) -> u128) -> Vec<(&'a str, u128)> {
        let whole: Vec<_> = self.paths().map(|path| (path, of(path))).collect();
        let below = below(&whole);
        let own = whole.into_iter().map(|(path, part)| {
            let below = below.get(path).copied().unwrap_or_default();
            (path, part.saturating_sub(below))
        });
        let mut all: Vec<_> = own.filter(|(_, part)| *part > 0).collect();
        all.sort_by_key(|(path, part)| (std::cmp::Reverse(*part), *path));
        all
    }
}

/// What the groups right below each have together, of parts by path.
pub(super) fn below<'a>(parts: &[(&'a str, u128)]) -> BTreeMap<&'a str, u128> {
    let mut below = BTreeMap::new();
    for (path, part) in parts {
        if let Some(parent) = parent(path) {
            *below.entry(parent).or_default() += part;
        }
    }
    below
}

/// The group above; none above the root.
pub(super) fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}

/// Whether a group is the other one or below it.
pub(super) fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    above == "/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A group and all above it, the root last.
pub(crate) fn chain(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| parent(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_their_order() {
        assert_eq!(chain("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(chain("/").collect::<Vec<_>>(), ["/"]);
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", "/"));
        assert!(!is_within("/ab", "/a") && !is_within("/", "/a"));
    }

    #[test]
    fn parts_are_added_to_the_group_right_above() {
        let parts = [("/", 10), ("/a", 9), ("/a/b", 4), ("/a/c", 3), ("/ab", 1)];
        assert_eq!(below(&parts), BTreeMap::from([("/", 10), ("/a", 7)]));
    }

    #[test]
    fn write_back_is_not_time_of_tasks() {
        let waits = [5, 0, 100, 107, 100, 0, 0, 200];
        let mut sums = Sums { waits, budget_pace_ns: 7, ..Sums::default() };
        assert_eq!(sums.of_tasks(), sums.waits);
        // All of the waiting for a limit behind stage pace is that of write-back.
        sums.unawaited = [0, 0, 60, 100, 40, 0, 0, 150];
        assert_eq!(sums.of_tasks(), [5, 0, 40, 7, 60, 0, 0, 50]);
        assert_eq!(sums.of_buffered(), [5, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(sums.of_requests(), [0, 0, 40, 0, 60, 0, 0, 50]);
    }
}
