//! The routes of the control API: what is asked for, and what is answered.

use super::admission::Guest;
use super::metrics::{Format, Scrape};
use super::refused::{Answer, Refused};
use super::shared::{BODY_BYTES_MAX, Body, Name, ROUTES, Shared, Subject, body, find};
use super::{caps, explain, idle_executor, openapi, policies, recommend, record, stream};
use super::{cluster, exports, groups};
use crate::api::{
    Change, DaemonReport, DeviceReport, EventReport, MountReport, Problem, SchedulerSpec,
    SchedulerWarning,
};
use crate::change;
use crate::clock;
use crate::report;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use std::sync::{Arc, LazyLock};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

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
        .routes(routes!(openapi))
        .merge(policies::router())
        .merge(caps::router())
        .merge(recommend::router())
        .merge(record::router())
        .merge(groups::router())
        .merge(exports::router())
        .merge(cluster::router())
        .merge(stream::router())
        .merge(explain::router())
}

pub(super) fn router(shared: Shared) -> Router {
    let (routes, _) = api().split_for_parts();
    routes
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(shared.clone(), no_wait_for_one_held))
        .with_state(shared)
}

/// Answers at once where a device is held by a scheduler that does not come to an end: almost all
/// that can be asked waits for its lock, and the thread of the control API with it.
async fn no_wait_for_one_held(
    State(shared): Subject,
    request: Request,
    next: Next,
) -> Result<Response, Refused> {
    let waits_for_nobody = ["/v1/events", "/v1/live", "/v1/live/stream", "/v1/openapi.json"];
    let held = shared.subject.live().held();
    match held.filter(|_| !waits_for_nobody.contains(&request.uri().path())) {
        None => Ok(next.run(request).await),
        Some((device, text)) => Err(Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("device '{device}': {text}"),
            "'iopace events' goes on meanwhile",
        )),
    }
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
        config: subject.config_file().map(|path| path.display().to_string()),
        control: shared.control.clone(),
        http: shared.ports.0.clone(),
        metrics: shared.ports.1.clone(),
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
    Ok(Answer(report::device(&*find(&shared, name)?)))
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
    let body = idle_executor::body(&guest, scrape.pieces(format));
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
    let device = &*find(&shared, name)?;
    change::apply(device, &change)?;
    shared.subject.unload_retired();
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

async fn no_such_route(uri: Uri) -> Refused {
    let error = format!("there is no '{}'", uri.path());
    Refused::new(StatusCode::NOT_FOUND, error, format!("there are {ROUTES}"))
}

async fn wrong_method(uri: Uri) -> Refused {
    let error = format!("'{}' does not know this method", uri.path());
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, error, format!("there are {ROUTES}"))
}

/// The description as it is served, and as it is in `docs/openapi.json`.
pub(super) static TEXT: LazyLock<String> = LazyLock::new(|| {
    let text = api().into_openapi().to_pretty_json().expect("strings, lists and maps");
    text + "\n"
});

/// This description.
#[utoipa::path(get, path = "/v1/openapi.json",
    responses((status = 200, description = "OpenAPI 3.1", body = Object),
        (status = "default", description = "Refused; nothing is changed", body = Problem)))]
async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}
