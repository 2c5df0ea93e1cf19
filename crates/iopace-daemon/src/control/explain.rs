//! Why requests wait: `GET /v1/explain`.

use super::api::{ExplainReport, ExplainedDevice, LiveReport, Problem};
use super::routes::{Answer, Refused, Shared, Subject, words};
use crate::groups::Groups;
use crate::limits::LIVE_KEPT;
use crate::live::Interval;
use crate::live::explain::{self, chain};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use std::sync::Arc;
use tokio::sync::Semaphore;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The time that is looked at if none is said: long enough for a few of the slowest requests, short
/// enough to be "now".
const OVER_MS: u64 = 10_000;

/// Longest time: as many intervals of a second as are kept.
const OVER_MS_MAX: u64 = LIVE_KEPT as u64 * 1_000;

/// One is answered at a time, on a thread of its own: the thread of the control API goes on.
static TURN: Semaphore = Semaphore::const_new(1);

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(explained))
}

/// Why the requests of a group, a device or all devices wait, and what would change it.
#[utoipa::path(get, path = "/v1/explain", operation_id = "explain",
    params(("group" = Option<String>, Query, description = "Only this group and those below it"),
        ("device" = Option<String>, Query, description = "Only this device"),
        ("over_ms" = Option<u64>, Query,
            description = "The time that is looked at: 1000 to 120000, 10000 without it")),
    responses((status = 200, description = "Why, the largest part first", body = ExplainReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn explained(State(shared): Subject, uri: Uri) -> Result<Answer<ExplainReport>, Refused> {
    let [group, device, over_ms] = words(&uri, ["group", "device", "over_ms"])?;
    let over_ns = over(over_ms.as_deref())? * 1_000_000;
    let groups = shared.subject.groups();
    if let Some(group) = &group {
        groups.list(group)?;
    }
    let devices = shared.subject.devices().iter().map(|device| {
        let info = device.info();
        (info.name.clone(), info.rotational)
    });
    let mut devices: Vec<(String, bool)> = devices.collect();
    if let Some(name) = &device {
        let known: Vec<&str> = devices.iter().map(|(name, _)| &**name).collect();
        let known = known.join(", ");
        devices.retain(|(one, _)| one == name);
        if devices.is_empty() {
            let error = format!("there is no device '{name}'");
            return Err(Refused::new(StatusCode::NOT_FOUND, error, format!("there are: {known}")));
        }
    }
    let hub = shared.subject.live();
    let mut reader = hub.reader(None);
    while hub.latest().is_none() {
        // Within the first second.
        reader.next().await;
    }
    let kept = hub.history(LIVE_KEPT);
    let turn = TURN.acquire().await.ok();
    let subject = Arc::clone(&shared.subject);
    let told = tokio::task::spawn_blocking(move || {
        // Whoever asked may have gone away meanwhile: the turn lasts until this has ended.
        let _turn = turn;
        tell(subject.groups(), &kept, &devices, group.as_deref(), over_ns)
    });
    let told = told.await.map_err(|error| {
        let error = format!("this cannot be explained: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error, "see the log of the daemon")
    })?;
    Ok(Answer(told))
}

/// What is to be said of these devices. Some milliseconds for hundreds of groups.
fn tell(
    groups: &Groups,
    kept: &[Arc<Interval>],
    devices: &[(String, bool)],
    group: Option<&str>,
    over_ns: u64,
) -> ExplainReport {
    let reports = latest(kept, over_ns);
    let one = |(device, is_rotational): &(String, bool)| -> Option<ExplainedDevice> {
        let last = reports.last()?.devices.iter().find(|one| one.device == *device)?;
        let listed = last.groups.iter().map(|group| &*group.group);
        // The one that was asked about may not be listed now.
        let settings = groups.settings_on(device, listed.chain(group.into_iter().flat_map(chain)));
        let subject = explain::Subject { device, is_rotational: *is_rotational };
        explain::explain(&reports, subject, group, &settings)
    };
    let over_ns = reports.iter().map(|report| report.interval_ns).sum();
    ExplainReport { over_ns, devices: devices.iter().filter_map(one).collect() }
}

fn over(over_ms: Option<&str>) -> Result<u64, Refused> {
    let Some(text) = over_ms else { return Ok(OVER_MS) };
    let over = text.parse().ok().filter(|over| (1_000..=OVER_MS_MAX).contains(over));
    over.ok_or_else(|| {
        let error = format!("over_ms={text} is not possible");
        let hint = format!("it is a number of milliseconds, 1000 to {OVER_MS_MAX}");
        Refused::new(StatusCode::BAD_REQUEST, error, hint)
    })
}

/// The last intervals that together are so long, or the last alone.
fn latest(kept: &[Arc<Interval>], over_ns: u64) -> Vec<&LiveReport> {
    let mut length = 0;
    let mut all: Vec<&LiveReport> = Vec::new();
    for interval in kept.iter().rev() {
        let report = interval.report();
        // An interval is a little longer than a second: half of it counts.
        if !all.is_empty() && length + report.interval_ns / 2 > over_ns {
            break;
        }
        length += report.interval_ns;
        all.push(report);
    }
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Backend, DaemonConfig, DeviceConfig};
    use crate::daemon::Daemon;
    use tokio::sync::watch;

    /// On one thread, as the control API has it.
    #[tokio::test]
    async fn while_one_is_answered_the_next_waits_and_the_thread_goes_on() {
        let backend =
            Backend::Emulated { model: "null".into(), store: None, size: None, cache: None };
        let devices = vec![DeviceConfig::new("disk", backend)];
        let daemon = Daemon::start(DaemonConfig { devices, ..DaemonConfig::default() });
        let daemon = daemon.expect("starts");
        daemon.live().hub().reader(None).next().await;
        let (_end, ended) = watch::channel(false);
        let shared = Shared::new(Arc::<Daemon>::clone(&daemon), ended, None);
        let ask = || explained(State(shared.clone()), Uri::from_static("/v1/explain"));
        let turn = TURN.acquire().await.expect("never closed");
        let waiting = tokio::spawn(ask());
        for _ in 0..10 {
            // This thread has all others do what they can.
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        drop(turn);
        let Ok(Answer(told)) = waiting.await.expect("ends") else { panic!("refused") };
        assert_eq!(told.devices[0].device, "disk");
        daemon.shutdown();
    }
}
