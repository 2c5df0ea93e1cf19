//! What everything does, second by second.
//!
//! ```text
//!   devices, groups ──► look.rs  once a second ──► LiveReport ──► hub.rs  the last two minutes
//!   events, as they happen ─────────────────────────────────────►   │  numbered, one after another
//!                                                                    ▼
//!                                                streams, iopace top, dashboards
//! ```
//! [`Live`] has a thread of its own, so that nobody who listens can make it late. It works in
//! pieces of some 100 µs, with pauses. A report is turned into text once, by the first who wants
//! it.

mod activity;
pub(crate) mod below;
#[cfg(test)]
mod bench;
pub(crate) mod explain;
mod holds;
mod hub;
mod limits;
mod look;
mod promises;
mod span;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod text;

pub use hub::{History, Hub, Interval, Item, Reader};
pub(crate) use tasks::name_of;

use crate::api::{EventReport, LiveReport};
use crate::clock;
use crate::device::Device;
use crate::device::events::Listener;
use crate::groups::Groups;
use crate::limits::LOOK_PAUSE;
use iopace_core::time::Nanos;
use limits::SettingsOf;
use look::Looker;
use promises::{OVER, Raised, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// How often it looks.
const INTERVAL: Nanos = Nanos::from_secs(1);

/// How much later than that a look comes: up to 2^26 ns, 67 ms, evenly spread (Weyl's sequence with
/// the golden ratio). A limit lets its requests through a whole number of times a second: looks a
/// second apart would find each of them at the same point, always waiting or never.
fn spread(look: u64) -> Nanos {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    Nanos(look.wrapping_mul(GOLDEN) >> (64 - 26))
}

/// The threads that look, and what they saw.
pub struct Live {
    hub: Arc<Hub>,
    stop: Arc<Stop>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Stop {
    to_end: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits for so long. True when it is time to end.
    fn wait(&self, time: std::time::Duration) -> bool {
        let to_end = self.to_end.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(to_end, time, |to_end| !*to_end);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Live {
    /// Looks once a second from now on; events of the devices are told as they happen.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(groups: Arc<Groups>) -> io::Result<Live> {
        let hub = Arc::new(Hub::new());
        let devices = Arc::clone(groups.device_table());
        let watched = Arc::clone(&devices);
        devices.all().iter().for_each(|device| report_to(&hub, &**device));
        let mut watch = Watch::new(read_only(&devices.all()));
        let mut looker = Looker::new(Arc::clone(&groups));
        let stop = Arc::new(Stop::default());
        let (told, ended) = (Arc::clone(&hub), Arc::clone(&stop));
        let run = move || {
            let mut next = clock::now() + INTERVAL;
            looker.look();
            for look in 1.. {
                if ended.wait(clock::until(next + spread(look)).unwrap_or_default()) {
                    return;
                }
                let mut report = looker.look();
                show_set_weights(&groups, &mut report);
                groups.end_temporary();
                let settings = settings(&groups, &report);
                give_way();
                watch.set_read_only(read_only(&devices.all()));
                watch.set_shared(groups.shared_devices());
                let raised = watch.judge(&mut report, &settings);
                give_way();
                told.add(report);
                raised.into_iter().for_each(|raised| raise(&told, raised));
                next = next + INTERVAL;
                if clock::now() >= next {
                    // Late by a whole interval, as on an overloaded machine (the clock stands still
                    // while it sleeps): this report is longer.
                    next = clock::now() + INTERVAL;
                }
            }
        };
        let thread = thread::Builder::new().name("live".into()).spawn(run)?;
        let live = Live { hub, stop, threads: Mutex::new(vec![thread]) };
        let watchdog = holds::watch(watched, Arc::clone(&live.hub), Arc::clone(&live.stop))?;
        live.threads.lock().unwrap_or_else(PoisonError::into_inner).push(watchdog);
        Ok(live)
    }

    /// Events of a device that was added are told from now on.
    pub(crate) fn add(&self, device: &dyn Device) {
        report_to(&self.hub, device);
    }

    /// What was seen, and what happened.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Ends the threads. What was seen stays.
    pub fn stop(&self) {
        *self.stop.to_end.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let threads = std::mem::take(&mut *threads).into_iter();
        // One of them may be the last that lets a device go.
        for thread in threads.filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop();
    }
}

fn report_to(hub: &Arc<Hub>, device: &dyn Device) {
    device.look(&mut |_, events| events.report_to(Arc::clone(hub) as Arc<dyn Listener>));
}

/// The names of the devices that refuse writes.
fn read_only(devices: &[Arc<dyn Device>]) -> BTreeSet<String> {
    let infos = devices.iter().map(|device| device.info());
    infos.filter(|info| info.read_only).map(|info| info.name.clone()).collect()
}

/// Groups of a report after which the thread gives way: some 50 µs.
const GROUPS_AT_ONCE: usize = 64;

/// Lets those go on who were woken on this processor: what there is to do in a second is some
/// milliseconds, and they would wait for the kernel's next tick.
fn give_way() {
    thread::sleep(LOOK_PAUSE);
}

/// All of them, giving way from time to time.
fn giving_way<T>(all: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    all.enumerate().map(|(place, one)| {
        if place % GROUPS_AT_ONCE == GROUPS_AT_ONCE - 1 {
            give_way();
        }
        one
    })
}

/// What is set for the groups of a report, by device.
fn settings(groups: &Groups, report: &LiveReport) -> BTreeMap<String, SettingsOf> {
    let of = |device: &crate::api::LiveDevice| {
        let paths = device.groups.iter().map(|group| &*group.group);
        (device.device.clone(), groups.settings_on(&device.device, paths))
    };
    report.devices.iter().map(of).collect()
}

/// Weights as they were set, where those that the engine has are this host's part of them.
fn show_set_weights(groups: &Groups, report: &mut LiveReport) {
    for device in &mut report.devices {
        let Some(shared) = groups.shared(&device.device) else { continue };
        for group in &mut device.groups {
            let set = shared.weights.get(&group.group);
            group.weight = set.map_or(group.weight, |weight| weight.get());
        }
    }
}

/// Tells of what the standing check found.
fn raise(hub: &Hub, Raised { device, kind, text }: Raised) {
    match kind {
        OVER => tracing::info!(device, kind, "{text}"),
        _ => tracing::warn!(device, kind, "{text}"),
    }
    hub.raise(EventReport { device, age_ns: 0, kind: kind.into(), text }, clock::now());
}
