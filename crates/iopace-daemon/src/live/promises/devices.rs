//! What can be wrong with a device: it stalls, it is much slower than it was, or what is counted
//! does not fit.

use super::super::span::Span;
use super::alarms::Key;
use super::{JUDGED, Wrong};
use crate::api::{Activity, LiveDevice};
use crate::figures::{permille, size, time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nothing finished for so many intervals while the disk had requests: longer than a disk takes to
/// spin up or to retry a bad sector a few times is worth an event; the kernel itself waits 30 s.
const STALLED: usize = 5;

/// Slow is so many times the usual time at the disk, for [`STALLED`] intervals.
const SLOW_TIMES: u64 = 10;

/// Below this nobody calls a disk slow, whatever it was before.
const SLOW_MIN_NS: u64 = 1_000_000;

/// Intervals of which the median is what is usual; as many at least must be known as a half.
const USUAL: usize = 60;

/// Loads are alike if no part of reads, or of flushes and trims, differs by more, in thousandths.
const MIX_PERMILLE: u32 = 200;

/// An interval that is longer than this was not looked at in time.
const LATE_NS: u64 = 3_000_000_000;

/// What is remembered of each device.
#[derive(Default)]
pub(super) struct Memory(BTreeMap<String, Known>);

#[derive(Default)]
struct Known {
    /// The last intervals in which something was read or written.
    loads: VecDeque<Load>,
    /// The newest of them in a row that are slow against the others.
    slow_count: usize,
    stalled_count: usize,
    finished_count: u64,
    slots_astray: Astray,
    dirty_astray: Astray,
    /// Groups that were listed in the last interval.
    listed: BTreeSet<String>,
    /// Dirty memory of the groups and of the device then.
    dirty: (u64, u64),
    /// Groups that are not listed any more may have dirty memory.
    unlisted_may_be_dirty: bool,
}

impl Memory {
    pub(super) fn judge(&mut self, span: &Span<'_>, interval_ns: u64, wrong: &mut Wrong) {
        let device = span.last;
        let name = &device.device;
        let known = self.0.entry(name.clone()).or_default();
        let mut add = |kind, text| {
            let key = Key { device: name.clone(), group: String::new(), kind };
            wrong.insert(key, text);
        };
        if let Some(text) = known.stalled(device).or_else(|| known.slow(device, interval_ns)) {
            add("device_slow", text);
        }
        if let Some(text) = known.astray(device) {
            add("drift", text);
        }
        if interval_ns > LATE_NS {
            let late = time(interval_ns);
            add(
                "drift",
                format!("nobody looked for {late}: the machine was overloaded or stopped"),
            );
        }
        known.finished_count = device.queue.finished_count;
    }
}

impl Known {
    fn stalled(&mut self, device: &LiveDevice) -> Option<String> {
        let queue = &device.queue;
        let is_still = queue.in_flight_count > 0 && queue.finished_count == self.finished_count;
        self.stalled_count = if is_still { self.stalled_count + 1 } else { 0 };
        (self.stalled_count >= STALLED).then(|| {
            format!(
                "the disk has finished nothing for {} s, with {} requests at it",
                self.stalled_count, queue.in_flight_count
            )
        })
    }

    /// Slow against the intervals in which the load was like that of this one. Without enough of
    /// them nothing is said.
    fn slow(&mut self, device: &LiveDevice, interval_ns: u64) -> Option<String> {
        let finished = device.queue.finished_count.saturating_sub(self.finished_count);
        let load = Load::of(device, interval_ns, finished)?;
        let alike = self.loads.iter().filter(|former| former.is_like(&load));
        let mut usual: Vec<u64> = alike.map(|former| former.each_ns).collect();
        usual.sort_unstable();
        let median = (usual.len() >= USUAL / 2).then(|| usual[usual.len() / 2]);
        let each = load.each_ns;
        let is_slow = median
            .is_some_and(|median| each >= SLOW_MIN_NS && each >= median.saturating_mul(SLOW_TIMES));
        if is_slow {
            // What is slow is not usual, until it has been so as long as anything is remembered.
            self.slow_count += 1;
            if self.slow_count > USUAL {
                self.loads.clear();
                self.slow_count = 0;
            }
        } else {
            self.slow_count = 0;
            if self.loads.len() == USUAL {
                self.loads.pop_front();
            }
            self.loads.push_back(load);
        }
        (self.slow_count >= STALLED).then(|| {
            let usual = time(median.unwrap_or_default());
            format!("the disk takes {} for a request; usual is {usual}", time(each))
        })
    }

    /// On an idle device everything must be counted as gone.
    fn astray(&mut self, device: &LiveDevice) -> Option<String> {
        let queue = &device.queue;
        let here = queue.waiting_count + queue.queued_count + queue.in_flight_count;
        let is_idle = here == 0 && queue.finished_count == self.finished_count;
        let is_whole = device.groups_left_out_count == 0;
        let taken = device.groups.first().map_or(0, |root| root.slots_taken_count);
        let slots = self.slots_astray.after(is_idle && is_whole && taken > 0);
        let dirty = self.dirty_astray(device, is_idle && is_whole);
        let slots = slots.then(|| format!("nothing is here, but {taken} slots are taken"));
        slots.or(dirty)
    }

    /// Dirty memory of the groups against that of the device, while neither changes.
    ///
    /// A group that was removed is not listed any more, and its dirty memory stays until it is
    /// written back. From the moment when one is missing, more may be dirty than the groups that
    /// are left have, until both figures agree again.
    fn dirty_astray(&mut self, device: &LiveDevice, is_idle: bool) -> Option<String> {
        let dirty: u64 = device.groups.iter().map(|group| group.dirty_bytes).sum();
        let counted = device.pace.as_ref().map_or(dirty, |pace| pace.picture.dirty_bytes);
        let listed: BTreeSet<String> =
            device.groups.iter().map(|group| group.group.clone()).collect();
        let is_missing = !self.listed.is_subset(&listed) || device.groups_left_out_count > 0;
        let is_still = self.dirty == (dirty, counted);
        self.unlisted_may_be_dirty = counted != dirty && (self.unlisted_may_be_dirty || is_missing);
        (self.listed, self.dirty) = (listed, (dirty, counted));
        let is_off = counted < dirty || (counted > dirty && !self.unlisted_may_be_dirty);
        self.dirty_astray.after(is_idle && is_still && is_off).then(|| {
            let (counted, dirty) = (size(counted), size(dirty));
            format!("nothing is here; {counted} is dirty, {dirty} that of its groups")
        })
    }
}

/// What the disk had to do in an interval, and how long it took.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Time at the disk of a request.
    each_ns: u64,
    /// Bytes of a read or write.
    bytes: u64,
    /// Requests at the disk at a time, in thousandths; less than one counts as one, as a disk is
    /// not quicker for having nothing to do.
    depth_milli: u64,
    /// Part of reads, in thousandths of all that finished.
    reads_permille: u32,
    /// Part of what is neither a read nor a write.
    others_permille: u32,
}

impl Load {
    /// None if nothing was read or written. So many requests of all kinds finished.
    fn of(device: &LiveDevice, interval_ns: u64, finished_count: u64) -> Option<Load> {
        let Activity { read, write, waits, .. } = &device.activity;
        let whole = |rate: u64| u128::from(rate) * u128::from(interval_ns) / 1_000_000_000;
        let number = |figure: u128| u64::try_from(figure).unwrap_or(u64::MAX);
        let reads = whole(read.ops_milli_s) / 1_000;
        let moved = whole(read.ops_milli_s + write.ops_milli_s) / 1_000;
        // The time at the disk is that of flushes and trims too.
        let all = u128::from(finished_count).max(moved);
        let bytes = (whole(read.bytes_s) + whole(write.bytes_s)).checked_div(moved)?;
        let disk_ns = u128::from(waits.disk_ns);
        let depth_milli = (disk_ns * 1_000).checked_div(u128::from(interval_ns))?;
        Some(Load {
            each_ns: number(disk_ns / all),
            bytes: number(bytes),
            depth_milli: number(depth_milli).max(1_000),
            reads_permille: permille(reads, all),
            others_permille: permille(all - moved, all),
        })
    }

    /// Whether the disk had much the same to do.
    fn is_like(&self, other: &Load) -> bool {
        let is_near = |one: u64, other: u64| one.max(other) / 2 <= one.min(other);
        let is_mixed = |one: u32, other: u32| one.abs_diff(other) <= MIX_PERMILLE;
        is_near(self.bytes, other.bytes)
            && is_near(self.depth_milli, other.depth_milli)
            && is_mixed(self.reads_permille, other.reads_permille)
            && is_mixed(self.others_permille, other.others_permille)
    }
}

/// For how many intervals in a row something has been astray.
#[derive(Debug, Default)]
struct Astray(usize);

impl Astray {
    /// After one more interval: whether it has been so for long enough to be told.
    fn after(&mut self, is_so: bool) -> bool {
        self.0 = if is_so { self.0 + 1 } else { 0 };
        self.0 >= JUDGED
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::bench::{Bench, Client, WEB};
    use super::*;
    use crate::api::LiveGroup;
    use iopace_core::engine::Config;

    const SECOND: u64 = 1_000_000_000;

    fn device() -> LiveDevice {
        Bench::new(Config::default(), &[Client::new(1, WEB, 1)]).second().devices.remove(0)
    }

    /// A second with so many requests at a time, of that size, each taking so long.
    fn loaded(known: &mut Known, depth: u64, bytes: u64, each_ns: u64, reads: u64) -> bool {
        let mut device = device();
        let count = depth * SECOND / each_ns;
        let Activity { read, write, waits, .. } = &mut device.activity;
        (read.ops_milli_s, write.ops_milli_s) = (count * reads * 10, count * (100 - reads) * 10);
        (read.bytes_s, write.bytes_s) =
            (count * reads * bytes / 100, count * (100 - reads) * bytes / 100);
        waits.disk_ns = count * each_ns;
        device.queue.finished_count = known.finished_count + count;
        let is_slow = known.slow(&device, SECOND).is_some();
        known.finished_count = device.queue.finished_count;
        is_slow
    }

    fn used() -> Known {
        let mut known = Known::default();
        // Read one after the other, 64 KiB at a time.
        assert!((0..40).all(|_| !loaded(&mut known, 1, 64 << 10, 400_000, 100)));
        known
    }

    #[test]
    fn another_load_is_not_a_slow_disk() {
        let mut known = used();
        assert!((0..80).all(|_| !loaded(&mut known, 32, 256 << 10, 90_000_000, 100)));
        for (depth, bytes, reads) in [(1, 1 << 20, 100), (8, 64 << 10, 100), (1, 64 << 10, 40)] {
            let mut known = used();
            let told = (0..20).any(|_| loaded(&mut known, depth, bytes, 20_000_000, reads));
            assert!(!told, "{depth} {bytes} {reads}");
        }
    }

    #[test]
    fn the_same_load_on_a_slow_disk_is() {
        let mut known = used();
        let told: Vec<bool> =
            (0..6).map(|_| loaded(&mut known, 1, 60 << 10, 20_000_000, 95)).collect();
        assert_eq!(told, [false, false, false, false, true, true]);
    }

    #[test]
    fn flushes_are_not_reads_that_take_long() {
        let mut known = used();
        for _ in 0..20 {
            let mut device = device();
            // A hundred reads of 0.4 ms, and ninety flushes of 10 ms.
            let Activity { read, write, waits, .. } = &mut device.activity;
            (read.ops_milli_s, read.bytes_s) = (100_000, 100 * (64 << 10));
            (write.ops_milli_s, write.bytes_s) = (0, 0);
            waits.disk_ns = 100 * 400_000 + 90 * 10_000_000;
            device.queue.finished_count = known.finished_count + 190;
            assert_eq!(known.slow(&device, SECOND), None);
            known.finished_count = device.queue.finished_count;
        }
    }

    /// Nothing to do; so much is dirty, and that is the part of each group.
    fn idle(known: &Known, counted: u64, groups: &[(&str, u64)]) -> LiveDevice {
        let mut device = device();
        let queue = &mut device.queue;
        (queue.waiting_count, queue.queued_count, queue.in_flight_count) = (0, 0, 0);
        queue.finished_count = known.finished_count;
        device.pace.as_mut().expect("there is memory").picture.dirty_bytes = counted;
        let sample = LiveGroup { slots_taken_count: 0, ..device.groups[0].clone() };
        let group = |(path, dirty_bytes): &(&str, u64)| LiveGroup {
            group: (*path).into(),
            dirty_bytes: *dirty_bytes,
            ..sample.clone()
        };
        device.groups = groups.iter().map(group).collect();
        device
    }

    fn told(known: &mut Known, counted: u64, groups: &[(&str, u64)]) -> Option<String> {
        (0..JUDGED + 1).filter_map(|_| known.astray(&idle(known, counted, groups))).last()
    }

    #[test]
    fn what_a_removed_group_has_dirtied_is_not_astray() {
        let mut known = Known::default();
        assert_eq!(told(&mut known, 3 << 20, &[("/", 0), ("/a", 1 << 20), ("/b", 2 << 20)]), None);
        // One goes; its dirty memory stays, and then it is cleaned.
        assert_eq!(told(&mut known, 3 << 20, &[("/", 0), ("/a", 1 << 20)]), None);
        assert_eq!(told(&mut known, 1 << 20, &[("/", 0), ("/a", 1 << 20)]), None);
        // Nobody went meanwhile.
        let text = told(&mut known, 2 << 20, &[("/", 0), ("/a", 1 << 20)]).expect("astray");
        assert_eq!(text, "nothing is here; 2 MiB is dirty, 1 MiB that of its groups");
        // Groups have no more than the device, whoever went.
        let text = told(&mut known, 1 << 20, &[("/", 2 << 20)]).expect("astray");
        assert_eq!(text, "nothing is here; 1 MiB is dirty, 2 MiB that of its groups");
    }

    #[test]
    fn slots_that_stay_taken_are_told_without_memory() {
        let mut known = Known::default();
        let taken = |known: &Known| {
            let mut device = idle(known, 1 << 20, &[("/", 1 << 20)]);
            device.groups[0].slots_taken_count = 3;
            device
        };
        let all: Vec<_> = (0..JUDGED).map(|_| known.astray(&taken(&known))).collect();
        assert_eq!(all[..JUDGED - 1], [const { None }; JUDGED - 1]);
        assert_eq!(all[JUDGED - 1].as_deref(), Some("nothing is here, but 3 slots are taken"));
    }
}
