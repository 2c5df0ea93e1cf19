//! The standing check: promised and delivered, for each group, after every interval.
//!
//! ```text
//!   the last ten LiveReports ─► groups.rs, devices.rs  what is wrong now ─► alarms.rs  an event
//!   settings ─────────────────►                                            when it begins and ends
//! ```
//! What is judged is what ten intervals have in common: one second is too short for a burst, a
//! pause of the host or a stall of the disk not to look like a broken promise.

mod alarms;
mod allowed;
mod case;
mod devices;
mod groups;
#[cfg(test)]
mod tests;
mod weights;

use super::give_way;
use super::limits::SettingsOf;
use super::span::Span;
use crate::api::{LiveReport, PromiseReport};
use alarms::{Alarms, Key};
pub(super) use alarms::{OVER, Raised};
use iopace_core::group::Settings;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Intervals that are judged together: ten seconds, as long as the first average of pressure.
const JUDGED: usize = 10;

/// What is wrong with whom: the text says by how much.
type Wrong = BTreeMap<Key, String>;

/// Looks at every report.
pub(super) struct Watch {
    /// Devices that refuse writes.
    read_only: BTreeSet<String>,
    /// Devices that other hosts use too.
    shared: BTreeSet<String>,
    kept: VecDeque<LiveReport>,
    /// What was set for groups, and for how many intervals it has been so.
    settled: BTreeMap<(String, String), (Settings, usize)>,
    groups: groups::Memory,
    devices: devices::Memory,
    alarms: Alarms,
}

impl Watch {
    pub(super) fn new(read_only: BTreeSet<String>) -> Watch {
        Watch {
            read_only,
            shared: BTreeSet::new(),
            kept: VecDeque::new(),
            settled: BTreeMap::new(),
            groups: groups::Memory::default(),
            devices: devices::Memory::default(),
            alarms: Alarms::default(),
        }
    }

    /// Those are the devices that refuse writes.
    pub(super) fn set_read_only(&mut self, names: BTreeSet<String>) {
        self.read_only = names;
    }

    /// Those are the devices that other hosts use too.
    pub(super) fn set_shared(&mut self, names: BTreeSet<String>) {
        self.shared = names;
    }

    /// Judges after one more interval, in which that was set on each device, and writes into the
    /// report how promises stand. Returns what has begun or ended.
    pub(super) fn judge(
        &mut self,
        report: &mut LiveReport,
        settings: &BTreeMap<String, SettingsOf>,
    ) -> Vec<Raised> {
        self.settle(settings);
        give_way();
        if self.kept.len() == JUDGED {
            self.kept.pop_front();
        }
        self.kept.push_back(report.clone());
        give_way();
        let kept: Vec<&LiveReport> = self.kept.iter().collect();
        let mut wrong = Wrong::new();
        let nothing = SettingsOf::new();
        let mut all = Vec::new();
        for device in &report.devices {
            let name = &device.device;
            let Some(span) = Span::with_pauses(&kept, name, give_way) else { continue };
            self.devices.judge(&span, report.interval_ns, &mut wrong);
            let judged = case::Judged {
                span: &span,
                reports: &kept,
                settings: settings.get(name).unwrap_or(&nothing),
                settled: &self.settled,
                is_read_only: self.read_only.contains(name),
                is_shared: self.shared.contains(name),
            };
            give_way();
            let promises = self.groups.judge(&judged, &mut wrong);
            let promises = promises.into_iter().map(|(path, promise)| (path.to_owned(), promise));
            all.push((name.clone(), promises.collect::<BTreeMap<_, _>>()));
        }
        give_way();
        let wrong = self.alarms.confirm(wrong);
        for (name, mut promises) in all {
            let Some(device) = report.devices.iter_mut().find(|one| one.device == name) else {
                continue;
            };
            for group in &mut device.groups {
                let promise = promises.remove(&group.group);
                group.promise = promise.map(|promise| PromiseReport {
                    broken: alarms::kinds(&wrong, &name, &group.group),
                    ..promise
                });
            }
        }
        self.alarms.after(&wrong)
    }

    /// Counts for how long everything has been set as it is.
    fn settle(&mut self, settings: &BTreeMap<String, SettingsOf>) {
        let former = std::mem::take(&mut self.settled);
        for (device, groups) in settings {
            for (group, now) in groups {
                let key = (device.clone(), group.clone());
                let count = match former.get(&key) {
                    Some((before, count)) if before == now => count + 1,
                    _ => 0,
                };
                self.settled.insert(key, (*now, count));
            }
        }
    }
}
