//! The routes of the control API: what is asked for, and what is answered.

use super::Controlled;
use super::groups::{self, Body, body};
use super::hall::Guest;
use super::metrics::{Format, Scrape};
use super::turns::Turns;
use super::{aside, caps, explain, openapi, policies, query, recommend, record, stream};
use crate::api::{
    Change, DaemonReport, DeviceReport, EventReport, HttpReport, MountReport, Problem,
    SchedulerSpec, SchedulerWarning,
};
use crate::change::{self, Refusal};
use crate::clock;
use crate::device::Device;
use crate::report;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path as InPath, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Longest body of a request: a change with sixteen parameters is under 1 KiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Streams of live data at once: a hundred dashboards, and as many programs. Each holds two
/// reports at most that it has not sent.
pub const STREAMS_MAX: usize = 256;

/// As messages tell them.
pub(super) const ROUTES: &str = "GET /v1/status, /v1/devices, /v1/devices/NAME, /v1/schedulers, \
                                 /v1/policies, /v1/events, /v1/live, /v1/live/stream, \
                                 /v1/explain, /v1/openapi.json, /metrics, /v1/groups, \
                                 /v1/groups/files, /v1/groups/stat, /v1/connections, \
                                 /v1/processes, /v1/mounts, /v1/devices/NAME/recommend, \
                                 /v1/devices/NAME/record, \
                                 /v1/devices/NAME/pace/caps; POST \
                                 /v1/devices/NAME/scheduler, /v1/devices/NAME/pace, \
                                 /v1/devices/NAME/pace/caps, \
                                 /v1/devices/NAME/window, /v1/devices/NAME/recommend, \
                                 /v1/groups, /v1/groups/files, /v1/groups/move, \
                                 /v1/groups/recommend; DELETE /v1/groups, \
                                 /v1/devices/NAME/recommend";

pub(super) type Subject = State<Shared>;

#[derive(Clone)]
pub(super) struct Shared {
    pub(super) subject: Arc<dyn Controlled>,
    started: iopace_core::time::Instant,
    /// Room for streams.
    pub(super) streams: Arc<Semaphore>,
    /// Turns of those who scrape the metrics.
    pub(super) scrapes: Turns,
    /// Turns of those who ask why requests wait.
    pub(super) explains: Turns,
    /// The right to look at where time goes below iopace: one has it at a time.
    pub(super) looks: Arc<Semaphore>,
    /// Becomes true when it is time to end.
    pub(super) ended: watch::Receiver<bool>,
    http: Option<HttpReport>,
}

impl Shared {
    pub(super) fn new(
        subject: Arc<dyn Controlled>,
        ended: watch::Receiver<bool>,
        http: Option<HttpReport>,
    ) -> Shared {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let (scrapes, explains) = (Turns::new(), Turns::new());
        let (started, looks) = (clock::now(), Arc::new(Semaphore::new(1)));
        Shared { subject, started, streams, scrapes, explains, looks, ended, http }
    }
}

/// All routes, with their description.
pub(super) fn api() -> OpenApiRouter<Shared> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(status))
        .routes(routes!(devices))
        .routes(routes!(device))
        .routes(routes!(change_scheduler))
        .routes(routes!(schedulers))
        .routes(routes!(events))
        .routes(routes!(mounts))
        .routes(routes!(openmetrics))
        .merge(openapi::router())
        .merge(policies::router())
        .merge(caps::router())
        .merge(recommend::router())
        .merge(record::router())
        .merge(groups::router())
        .merge(stream::router())
        .merge(explain::router())
}

pub(super) fn router(shared: Shared) -> Router {
    let (routes, _) = api().split_for_parts();
    routes
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shared)
}

/// The daemon as a whole.
#[utoipa::path(get, path = "/v1/status",
    responses((status = 200, description = "The daemon", body = DaemonReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn status(State(shared): Subject) -> Answer<DaemonReport> {
    let subject = &shared.subject;
    Answer(DaemonReport {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        uptime_ns: clock::now().since(shared.started).as_nanos(),
        connections_count: subject.connections_count(),
        memory_used_bytes: subject.memory_used_bytes(),
        exports: subject.exports(),
        uris: subject.uris(),
        http: shared.http.clone(),
    })
}

/// All devices as they stand.
#[utoipa::path(get, path = "/v1/devices",
    responses((status = 200, description = "The devices", body = Vec<DeviceReport>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn devices(State(shared): Subject) -> Answer<Vec<DeviceReport>> {
    Answer(shared.subject.devices().iter().map(|device| report::device(&**device)).collect())
}

/// One device as it stands.
#[utoipa::path(get, path = "/v1/devices/{name}",
    params(("name" = String, Path, description = "The device")),
    responses((status = 200, description = "The device", body = DeviceReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn device(State(shared): Subject, name: Name) -> Result<Answer<DeviceReport>, Refused> {
    Ok(Answer(report::device(find(&shared, name)?)))
}

/// Metrics as OpenMetrics text, or as Prometheus' own to those who accept `text/plain` only.
#[utoipa::path(get, path = "/metrics",
    responses((status = 200, description = "Metrics", body = String,
        content_type = "application/openmetrics-text"),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
// Copied on a thread of its own, as it takes some 10 ms for a thousand groups, one after the other;
// put into words aside. The turn lasts as long as the copy.
pub(super) async fn openmetrics(
    State(shared): Subject,
    Extension(guest): Extension<Guest>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept);
    let (turn, copying) = shared.scrapes.take(guest.came()).await?;
    let subject = Arc::clone(&shared.subject);
    let scrape = tokio::task::spawn_blocking(move || {
        // Whoever asked may have gone away meanwhile: nobody else copies until this has ended.
        let _copying = copying;
        Arc::new(Scrape::in_turn(&*subject, turn))
    });
    let scrape = scrape.await;
    let scrape = scrape.map_err(|error| {
        let error = format!("the metrics cannot be gathered: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error, "see the log of the daemon")
    })?;
    guest.keep(Arc::<Scrape>::clone(&scrape));
    let body = aside::body(&guest, scrape.pieces(format));
    Ok(([(CONTENT_TYPE, format.content_type())], body).into_response())
}

/// The directories that are mounted.
#[utoipa::path(get, path = "/v1/mounts",
    responses((status = 200, description = "The mounts", body = Vec<MountReport>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn mounts(State(shared): Subject) -> Answer<Vec<MountReport>> {
    Answer(shared.subject.mounts())
}

/// The schedulers that can be inserted, with their parameters and counters.
#[utoipa::path(get, path = "/v1/schedulers",
    responses((status = 200, description = "The schedulers", body = Vec<SchedulerSpec>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn schedulers() -> Answer<Vec<SchedulerSpec>> {
    Answer(report::schedulers())
}

/// The latest events of all devices, oldest first.
#[utoipa::path(get, path = "/v1/events",
    responses((status = 200, description = "The events", body = Vec<EventReport>),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn events(State(shared): Subject) -> Answer<Vec<EventReport>> {
    Answer(shared.subject.live().events())
}

/// Inserts, configures or removes the scheduler of a device.
#[utoipa::path(post, path = "/v1/devices/{name}/scheduler",
    params(("name" = String, Path, description = "The device")),
    request_body = Change,
    responses((status = 200, description = "The device as it is then", body = DeviceReport),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
// Nothing is awaited between reading the state and changing it, and there is one thread: changes
// of several clients come one after the other.
async fn change_scheduler(
    State(shared): Subject,
    name: Name,
    sent: Body,
) -> Result<Answer<DeviceReport>, Refused> {
    let change: Change = body(sent, r#"{"action":"insert","algorithm":"rr","set":{"wait_ms":5}}"#)?;
    let device = find(&shared, name)?;
    change::apply(device, &change)?;
    let warnings = report::warnings(device, shared.subject.groups());
    let report = DeviceReport { warnings, ..report::device(device) };
    let scheduler = &report.scheduler;
    tracing::info!(
        device = report.name,
        scheduler = scheduler.algorithm,
        params = ?scheduler.params,
        "scheduler changed"
    );
    for SchedulerWarning { groups, groups_count, text, .. } in &report.warnings {
        tracing::warn!(device = report.name, ?groups, groups_count, "{text}");
    }
    Ok(Answer(report))
}

/// A device's name in the path.
pub(super) type Name = Result<InPath<String>, PathRejection>;

pub(super) fn find(shared: &Shared, name: Name) -> Result<&dyn Device, Refused> {
    let InPath(name) = name.map_err(|rejection| {
        Refused::new(rejection.status(), rejection.body_text(), format!("there are {ROUTES}"))
    })?;
    let devices = shared.subject.devices();
    let found = devices.iter().find(|device| device.info().name == name);
    found.map(|device| &**device).ok_or_else(|| {
        let names: Vec<&str> = devices.iter().map(|device| &*device.info().name).collect();
        Refused::new(
            StatusCode::NOT_FOUND,
            format!("there is no device '{name}'"),
            format!("there are: {}", names.join(", ")),
        )
    })
}

/// The words of a request's query.
pub(super) fn words<const N: usize>(
    uri: &Uri,
    words: [&str; N],
) -> Result<[Option<String>; N], Refused> {
    query::parse(uri.query().unwrap_or_default(), words).map_err(|error| {
        Refused::new(StatusCode::BAD_REQUEST, error, format!("there are {ROUTES}"))
    })
}

pub(super) fn bad_body(rejection: &BytesRejection) -> Refused {
    let status = rejection.status();
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        let hint = format!("a body has at most {BODY_BYTES_MAX} bytes");
        return Refused::new(status, "the body is too large", hint);
    }
    Refused::new(status, rejection.body_text(), "send the whole body")
}

async fn no_such_route(uri: Uri) -> Refused {
    let error = format!("there is no '{}'", uri.path());
    Refused::new(StatusCode::NOT_FOUND, error, format!("there are {ROUTES}"))
}

async fn wrong_method(uri: Uri) -> Refused {
    let error = format!("'{}' does not know this method", uri.path());
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, error, format!("there are {ROUTES}"))
}

/// An answer as JSON.
pub(super) struct Answer<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0)
    }
}

/// A refusal as JSON.
pub(super) struct Refused(StatusCode, Problem);

impl Refused {
    pub(super) fn new(
        status: StatusCode,
        error: impl Into<String>,
        hint: impl Into<String>,
    ) -> Refused {
        Refused(status, Problem { error: error.into(), hint: hint.into() })
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        tracing::debug!(%refusal, "a change was refused");
        match refusal {
            Refusal::Illegal { error, hint } => Refused::new(StatusCode::BAD_REQUEST, error, hint),
            Refusal::Conflict { error, hint } => Refused::new(StatusCode::CONFLICT, error, hint),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        json(self.0, &self.1)
    }
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = serde_json::to_vec(value).expect("strings, numbers and maps with string keys");
    body.push(b'\n');
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
