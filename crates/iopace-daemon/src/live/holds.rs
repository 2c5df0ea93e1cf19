//! Watches that schedulers come to an end.
//!
//! A device decides under its lock. A scheduler that is compiled in and loops cannot be stopped
//! from outside within a process (a loaded policy stops by itself, as its time is counted), but it
//! is seen: by a thread that takes no lock of a device, in the log and as an event, and the control
//! API says so instead of waiting for the same lock.

use super::{Hub, Stop};
use crate::api::EventReport;
use crate::clock;
use crate::device::RunningTurn;
use crate::device_table::DeviceTable;
use iopace_core::time::Instant;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, io};

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// A turn that lasts as long is told: the longest of a sound scheduler, an exchange with 32,768
/// requests queued, takes some 20 ms.
const HELD: Duration = Duration::from_millis(200);

/// The kind of its events.
const KIND: &str = "held";

/// The kernel tells processor time in hundredths of a second (USER_HZ).
const TICK: Duration = Duration::from_millis(10);

/// A turn that was seen.
struct Seen {
    since: Instant,
    /// When it was seen first, and the processor time that the thread had had by then.
    first: (Instant, Duration),
    is_told: bool,
}

/// Looks from now on, until it is time to stop.
pub(super) fn watch(
    devices: Arc<DeviceTable>,
    hub: Arc<Hub>,
    stop: Arc<Stop>,
) -> io::Result<JoinHandle<()>> {
    let run = move || {
        let mut seen = BTreeMap::new();
        while !stop.wait(INTERVAL) {
            for device in devices.all().iter() {
                let name = &device.info().name;
                look(&hub, name, device.running_turn(), &mut seen);
            }
        }
    };
    thread::Builder::new().name("watchdog".into()).spawn(run)
}

fn look(hub: &Hub, device: &str, now: Option<RunningTurn>, seen: &mut BTreeMap<String, Seen>) {
    let is_other = |seen: &Seen| now.is_none_or(|holding| holding.since != seen.since);
    if seen.get(device).is_some_and(is_other) {
        end(hub, device, seen.remove(device).expect("it was seen"));
    }
    let Some(holding) = now else { return };
    let Some((state, spent)) = thread_of(holding.thread) else { return };
    let new = || Seen { since: holding.since, first: (clock::now(), spent), is_told: false };
    let one = seen.entry(device.into()).or_insert_with(new);
    let text = words(&holding, one.first, (state, spent));
    match text {
        _ if clock::elapsed(holding.since) < HELD => {}
        Some(text) if !one.is_told => {
            one.is_told = true;
            tracing::error!(device, kind = KIND, "{text}");
            hub.hold(device, Some(&text));
            raise(hub, device, text);
        }
        Some(text) => hub.hold(device, Some(&text)),
        None => {}
    }
}

/// A turn that was seen is over.
fn end(hub: &Hub, device: &str, former: Seen) {
    if former.is_told {
        let text = format!("goes on after {:.1?}", clock::elapsed(former.since));
        tracing::warn!(device, kind = KIND, "{text}");
        hub.hold(device, None);
        raise(hub, device, text);
    }
}

fn raise(hub: &Hub, device: &str, text: String) {
    let report = EventReport { device: device.into(), age_ns: 0, kind: KIND.into(), text };
    hub.raise(report, clock::now());
}

/// Why it lasts: the thread computes, or it waits. `None` if it would go on and gets no processor,
/// as on a machine with too much to do: that is nobody's fault here.
fn words(
    holding: &RunningTurn,
    (first_at, first_spent): (Instant, Duration),
    (state, spent): (char, Duration),
) -> Option<String> {
    let RunningTurn { scheduler, since, .. } = holding;
    let (time, seen) = (clock::elapsed(*since), clock::elapsed(first_at));
    let computed = spent.saturating_sub(first_spent);
    if computed * 2 >= seen.saturating_sub(TICK) && !computed.is_zero() {
        return Some(format!(
            "scheduler {scheduler} has computed for {time:.1?} without an end: requests wait \
             until it ends; if it does not, restart the daemon"
        ));
    }
    let waits = !matches!(state, 'R');
    waits.then(|| {
        format!(
            "scheduler {scheduler} has waited for {time:.1?} (state {state}): \
             requests wait until it ends; if it does not, restart the daemon"
        )
    })
}

/// State and processor time of a thread of this process.
fn thread_of(thread: u32) -> Option<(char, Duration)> {
    let text = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The name, in brackets, may have any character: the last bracket ends it (proc(5)).
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    // Fields 14 and 15 of all: utime and stime; the state is the third.
    let mut ticks = fields.skip(10).map_while(|field| field.parse::<u32>().ok());
    let (user, system) = (ticks.next()?, ticks.next()?);
    Some((state, TICK * user.saturating_add(system)))
}

#[cfg(test)]
mod tests;
