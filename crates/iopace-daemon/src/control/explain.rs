//! Why requests wait: `GET /v1/explain`.

use super::admission::Guest;
use super::refused::Refused;
use super::shared::{Shared, Subject, words};
use super::turns::Turn;
use super::{Controlled, idle_executor};
use crate::api::{BelowReport, ExplainReport, ExplainedDevice, LiveReport, Problem};
use crate::clock;
use crate::device::Device;
use crate::groups::{Groups, SharedDevice};
use crate::limits::LIVE_KEPT;
use crate::live::explain::{self, SettingsOf, chain};
use crate::live::text::json;
use crate::live::{Interval, below};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use iopace_core::time::Nanos;
use present::PresentScheduler;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

mod present;

/// The time that is looked at if none is said: long enough for a few of the slowest requests, short
/// enough to be "now".
const OVER_MS: u64 = 10_000;

/// Longest look at where time goes below iopace.
const LOOK_MS_MAX: u64 = 5_000;

/// A look waits so long for another one that is taken.
const LOOK_WAITS: Duration = Duration::from_secs(2);

/// After a look, replays under other settings are begun for so long: with the look, half of the ten
/// seconds that a client waits.
const REPLAYS: Nanos = Nanos::from_secs(2);

/// Longest time: as many intervals of a second as are kept.
const OVER_MS_MAX: u64 = LIVE_KEPT as u64 * 1_000;

pub(super) fn router() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(explained))
}

/// Why the requests of a group, a device or all devices wait, and what would change it.
#[utoipa::path(get, path = "/v1/explain", operation_id = "explain",
    params(("group" = Option<String>, Query, description = "Only this group and those below it"),
        ("device" = Option<String>, Query, description = "Only this device"),
        ("over_ms" = Option<u64>, Query,
            description = "The time that is looked at: 1000 to 120000, 10000 without it"),
        ("look_ms" = Option<u64>, Query,
            description = "For so long, from now on, it is recorded where time goes at devices \
                           with something to do, and replayed under other settings: up to 5000; \
                           not at all without it")),
    responses((status = 200, description = "Why, the largest part first", body = ExplainReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn explained(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    uri: Uri,
) -> Result<Response, Refused> {
    let [group, device, over_ms, look_ms] = words(&uri, ["group", "device", "over_ms", "look_ms"])?;
    let look = look(look_ms.as_deref())?;
    let over_ns = over(over_ms.as_deref())? * 1_000_000;
    let groups = shared.subject.groups();
    if let Some(group) = &group {
        groups.list(group)?;
    }
    let open = shared.subject.devices();
    let devices = open.iter().map(|device| {
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
    let looking = shared.may_look(look).await;
    // Settings are looked up for one at a time, on a thread of its own: the thread of the control
    // API goes on. The rest is done aside. The turn lasts as long as the copies.
    let (turn, copying) = shared.explains.take(guest.came()).await?;
    let kept = hub.history(LIVE_KEPT);
    let subject = Arc::clone(&shared.subject);
    let asked = tokio::task::spawn_blocking(move || {
        // Whoever asked may have gone away meanwhile: nobody else copies until this has ended.
        let mut asked = Asked::new(subject.groups(), (kept, turn), devices, (group, over_ns));
        asked.look_at_schedulers(&*subject);
        drop(copying);
        if looking.is_some() {
            asked.look(&*subject, look);
        }
        asked
    });
    let asked = asked.await.map_err(|error| {
        let error = format!("this cannot be explained: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error, "see the log of the daemon")
    })?;
    let asked = Arc::new(asked);
    guest.keep(Arc::<Asked>::clone(&asked));
    let body = idle_executor::body(&guest, Telling { asked, next: 0, told: Vec::new() });
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

impl Shared {
    /// The right to look, if a look is asked for; none where another one takes too long. One looks
    /// at a time: a recording is of whoever began it last.
    async fn may_look(&self, look: Duration) -> Option<OwnedSemaphorePermit> {
        let right = Arc::clone(&self.looks).acquire_owned();
        if look.is_zero() { None } else { timeout(LOOK_WAITS, right).await.ok()?.ok() }
    }
}

/// All that an answer is made of.
struct Asked {
    kept: Vec<Arc<Interval>>,
    /// Each with whether it is rotational.
    devices: Vec<(String, bool)>,
    settings: Vec<SettingsOf>,
    /// By device: how it stands as a part of a volume of several hosts.
    shared: Vec<Option<Arc<SharedDevice>>>,
    group: Option<String>,
    over_ns: u64,
    /// By device: the scheduler at this moment, which the last interval may not know yet.
    present: Vec<Option<PresentScheduler>>,
    /// By device: what a look has found.
    below: Vec<Option<BelowReport>>,
    /// Whose turn it is for as long as this is there.
    _turn: Turn,
}

impl Asked {
    fn new(
        groups: &Groups,
        (kept, turn): (Vec<Arc<Interval>>, Turn),
        devices: Vec<(String, bool)>,
        (group, over_ns): (Option<String>, u64),
    ) -> Asked {
        let last = kept.last().map(|last| last.report());
        let settings = devices.iter().map(|(device, _)| {
            let all = last.and_then(|last| last.devices.iter().find(|one| one.device == *device));
            let listed = all.into_iter().flat_map(|all| &all.groups).map(|group| &*group.group);
            // The one that was asked about may not be listed now.
            groups.settings_on(device, listed.chain(group.iter().flat_map(|group| chain(group))))
        });
        let settings = settings.collect();
        let shared = devices.iter().map(|(device, _)| groups.shared(device)).collect();
        let below = devices.iter().map(|_| None).collect();
        let present = devices.iter().map(|_| None).collect();
        Asked { kept, devices, settings, shared, group, over_ns, below, _turn: turn, present }
    }

    /// Notes which scheduler each device has now.
    fn look_at_schedulers(&mut self, subject: &dyn Controlled) {
        let open = subject.devices();
        for (present, (name, _)) in self.present.iter_mut().zip(&self.devices) {
            let device = open.iter().find(|device| device.info().name == *name);
            *present = device.map(|device| PresentScheduler::of(&**device));
        }
    }

    /// Looks at where time goes on the devices that have something to do, for so long.
    fn look(&mut self, subject: &dyn Controlled, over: Duration) {
        let (reports, groups) = (self.reports(), subject.groups());
        let open = subject.devices();
        let find = |name: &str| open.iter().find(|one| one.info().name == name);
        let wanted = self.devices.iter().enumerate().filter_map(|(place, (name, _))| {
            let device = find(name).filter(|_| below::is_worth_it(&reports, name))?;
            Some((place, &**device))
        });
        let wanted: Vec<(usize, &dyn Device)> = wanted.collect();
        if wanted.is_empty() {
            return;
        }
        let seen: Vec<&dyn Device> = wanted.iter().map(|(_, device)| *device).collect();
        let seen = below::watch(&seen, over);
        let patience = clock::now() + REPLAYS;
        for ((place, device), seen) in wanted.into_iter().zip(seen) {
            let asked = (self.group.as_deref(), patience);
            let told = seen.and_then(|seen| below::report(&seen, device, groups, asked));
            self.below[place] = told;
        }
    }

    fn reports(&self) -> Vec<&LiveReport> {
        latest(&self.kept, self.over_ns)
    }

    /// What is to be said of a device. Some milliseconds for hundreds of groups.
    fn device(&self, place: usize) -> Option<ExplainedDevice> {
        let (device, is_rotational) = &self.devices[place];
        let shared = self.shared[place].as_deref();
        let subject = explain::Subject { device, is_rotational: *is_rotational, shared };
        let settings = &self.settings[place];
        let mut told = explain::explain(&self.reports(), subject, self.group.as_deref(), settings)?;
        if let Some(present) = &self.present[place] {
            present.tell(&mut told);
        }
        if let Some(below) = self.below[place].clone() {
            explain::add_below(&mut told, below);
        }
        Some(told)
    }
}

/// What is said of the devices, one in a piece; the text is the last piece.
struct Telling {
    asked: Arc<Asked>,
    next: usize,
    told: Vec<ExplainedDevice>,
}

impl Iterator for Telling {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let (asked, place) = (&self.asked, self.next);
        self.next += 1;
        if place < asked.devices.len() {
            self.told.extend(asked.device(place));
            return Some(Bytes::new());
        }
        (place == asked.devices.len()).then(|| {
            let over_ns = asked.reports().iter().map(|report| report.interval_ns).sum();
            let report = ExplainReport { over_ns, devices: std::mem::take(&mut self.told) };
            let mut text = json(&report, Vec::new());
            text.push(b'\n');
            text.into()
        })
    }
}

fn look(look_ms: Option<&str>) -> Result<Duration, Refused> {
    let Some(text) = look_ms else { return Ok(Duration::ZERO) };
    let look = text.parse().ok().filter(|look| *look <= LOOK_MS_MAX);
    look.map(Duration::from_millis).ok_or_else(|| {
        let error = format!("look_ms={text} is not possible");
        let hint = format!("it is a number of milliseconds, up to {LOOK_MS_MAX}");
        Refused::new(StatusCode::BAD_REQUEST, error, hint)
    })
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
    use super::super::tests::fake::null_daemon;
    use super::super::turns::{COPIES_MAX, TURN_PATIENCE};
    use super::*;
    use crate::clock;
    use crate::control::admission::Admission;
    use crate::control::routes::openmetrics;
    use axum::http::HeaderMap;
    use http_body_util::BodyExt;
    use std::time::Duration;
    use tokio::sync::watch;
    use tokio::time::Instant;

    async fn begin() -> (Shared, impl FnOnce()) {
        let daemon = null_daemon();
        daemon.live().hub().reader(None).next().await;
        let (_end, ended) = watch::channel(false);
        let shared =
            Shared::new(Arc::<crate::daemon::Daemon>::clone(&daemon), ended, (None, (None, None)));
        (shared, move || drop(daemon.shutdown()))
    }

    fn guest() -> Guest {
        Admission::new().enter(None).0
    }

    async fn ask(shared: Shared, guest: Guest) -> Result<Response, Refused> {
        explained(State(shared), Extension(guest), Uri::from_static("/v1/explain")).await
    }

    async fn text(answer: Result<Response, Refused>) -> Vec<u8> {
        let Ok(answer) = answer else { panic!("refused") };
        answer.into_body().collect().await.expect("whole").to_bytes().to_vec()
    }

    /// On one thread, as the control API has it.
    #[tokio::test]
    async fn while_one_is_answered_the_next_waits_and_the_thread_goes_on() {
        let (shared, end) = begin().await;
        let turn = shared.explains.take(clock::now()).await.ok().expect("nobody has one");
        let waiting = tokio::spawn(ask(shared.clone(), guest()));
        for _ in 0..10 {
            // This thread has all others do what they can.
            tokio::task::yield_now().await;
        }
        assert!(!waiting.is_finished());
        drop(turn);
        let text = text(waiting.await.expect("ends")).await;
        let told: ExplainReport = serde_json::from_slice(&text).expect("understood");
        assert_eq!(told.devices[0].device, "disk");
        end();
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_as_many_copies_as_turns_whoever_reads_them() {
        let (shared, end) = begin().await;
        let mut unread = Vec::new();
        for _ in 0..COPIES_MAX {
            let guest = guest();
            unread.push((ask(shared.clone(), guest.clone()).await, guest));
        }
        assert_eq!(shared.explains.free_count(), 0, "they have their answers and not read them");
        let began = Instant::now();
        let Err(refused) = ask(shared.clone(), guest()).await else { panic!("not refused") };
        assert_eq!(refused.into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
        let patience = Duration::from_nanos(TURN_PATIENCE.as_nanos());
        assert!((patience / 2..2 * patience).contains(&began.elapsed()));
        // One goes, and the next is answered.
        let (waiting, gone) = (tokio::spawn(ask(shared.clone(), guest())), unread.pop());
        drop(gone);
        assert!(!text(waiting.await.expect("ends")).await.is_empty());
        drop(unread);
        assert_eq!(shared.explains.free_count(), COPIES_MAX);
        end();
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_holds_for_scrapes() {
        let (shared, end) = begin().await;
        let scrape = |guest| openmetrics(State(shared.clone()), Extension(guest), HeaderMap::new());
        let mut unread = Vec::new();
        for _ in 0..COPIES_MAX {
            let guest = guest();
            unread.push((scrape(guest.clone()).await, guest));
        }
        assert_eq!(shared.scrapes.free_count(), 0);
        let Err(refused) = scrape(guest()).await else { panic!("not refused") };
        assert_eq!(refused.into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(unread);
        assert!(!text(scrape(guest()).await).await.is_empty());
        end();
    }
}
