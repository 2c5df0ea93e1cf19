//! What can be wrong with a device: it stalls, it is much slower than it was, or what is counted
//! does not fit.

use super::super::span::Span;
use super::alarms::Key;
use super::{JUDGED, Wrong};
use crate::control::api::LiveDevice;
use crate::figures::{size, time};
use std::collections::{BTreeMap, VecDeque};

/// Nothing finished for so many intervals while the disk had requests: longer than a disk takes to
/// spin up or to retry a bad sector a few times is worth an event; the kernel itself waits 30 s.
const STALLED: usize = 5;

/// Slow is so many times the usual time at the disk, for [`STALLED`] intervals.
const SLOW_TIMES: u64 = 10;

/// Below this nobody calls a disk slow, whatever it was before.
const SLOW_MIN_NS: u64 = 1_000_000;

/// Intervals of which the median is what is usual; as many at least must be known as a half.
const USUAL: usize = 60;

/// An interval that is longer than this was not looked at in time.
const LATE_NS: u64 = 3_000_000_000;

/// What is remembered of each device.
#[derive(Default)]
pub(super) struct Memory(BTreeMap<String, Known>);

#[derive(Default)]
struct Known {
    /// Time at the disk of a request, of the last intervals in which some finished.
    latencies: VecDeque<u64>,
    /// The newest of them in a row that are slow against the others.
    slow_count: usize,
    stalled_count: usize,
    finished_count: u64,
    astray_count: usize,
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
            add("drift", format!("nobody looked for {late}: the machine was asleep or overloaded"));
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

    fn slow(&mut self, device: &LiveDevice, interval_ns: u64) -> Option<String> {
        let ops_milli = device.activity.read.ops_milli_s + device.activity.write.ops_milli_s;
        let count = u128::from(ops_milli) * u128::from(interval_ns) / 1_000_000_000_000;
        let each = u128::from(device.activity.waits.disk_ns).checked_div(count)?;
        let each = u64::try_from(each).unwrap_or(u64::MAX);
        let mut usual: Vec<u64> = self.latencies.iter().copied().collect();
        usual.sort_unstable();
        let median = (usual.len() >= USUAL / 2).then(|| usual[usual.len() / 2]);
        let is_slow = median
            .is_some_and(|median| each >= SLOW_MIN_NS && each >= median.saturating_mul(SLOW_TIMES));
        if is_slow {
            // What is slow is not usual, until it has been so as long as anything is remembered.
            self.slow_count += 1;
            if self.slow_count > USUAL {
                self.latencies.clear();
                self.slow_count = 0;
            }
        } else {
            self.slow_count = 0;
            if self.latencies.len() == USUAL {
                self.latencies.pop_front();
            }
            self.latencies.push_back(each);
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
        let root = device.groups.first().filter(|_| is_idle && device.groups_left_out_count == 0);
        let taken = root.map_or(0, |root| root.slots_taken_count);
        let dirty: u64 = device.groups.iter().map(|group| group.dirty_bytes).sum();
        let counted = device.pace.as_ref().map_or(dirty, |pace| pace.picture.dirty_bytes);
        let is_astray = root.is_some() && (taken > 0 || dirty != counted);
        self.astray_count = if is_astray { self.astray_count + 1 } else { 0 };
        (self.astray_count >= JUDGED).then(|| {
            format!(
                "nothing is here, but {taken} slots are counted as taken; {} is dirty, {} that of \
                 its groups",
                size(counted),
                size(dirty)
            )
        })
    }
}
