//! What all routes share: the daemon, its bounds, and how requests are read.

use super::Controlled;
use super::query;
use super::refused::Refused;
use super::turns::Turns;
use crate::api::HttpReport;
use crate::clock;
use crate::device::Device;
use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{Path as InPath, State};
use axum::http::{StatusCode, Uri};
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{Semaphore, watch};

/// Longest body of a request: a change with sixteen parameters is under 1 KiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Streams of live data at once: a hundred dashboards, and as many programs. Each holds two
/// reports at most that it has not sent.
pub const STREAMS_MAX: usize = 256;

/// As messages tell them.
pub(super) const ROUTES: &str = "GET /v1/status, /v1/devices, /v1/devices/NAME, /v1/schedulers, \
                                 /v1/policies, /v1/events, /v1/live, /v1/live/stream, \
                                 /v1/explain, /v1/openapi.json, /metrics, /v1/groups, \
                                 /v1/groups/files, /v1/groups/stat, /v1/exports, /v1/connections, \
                                 /v1/processes, /v1/mounts, /v1/devices/NAME/recommend, \
                                 /v1/devices/NAME/record, /v1/cluster, \
                                 /v1/devices/NAME/pace/caps; POST /v1/policies, \
                                 /v1/devices/NAME/scheduler, /v1/devices/NAME/pace, \
                                 /v1/devices/NAME/pace/caps, \
                                 /v1/devices/NAME/window, /v1/devices/NAME/recommend, \
                                 /v1/groups, /v1/groups/files, /v1/groups/cgroup, \
                                 /v1/groups/move, \
                                 /v1/groups/recommend, /v1/exports, /v1/exports/resize, \
                                 /v1/cluster/set, /v1/cluster/forget; \
                                 DELETE /v1/groups, /v1/exports, \
                                 /v1/policies/NAME, \
                                 /v1/devices/NAME/recommend";

pub(super) type Subject = State<Shared>;

#[derive(Clone)]
pub(super) struct Shared {
    pub(super) subject: Arc<dyn Controlled>,
    pub(super) started: iopace_core::time::Instant,
    /// Room for streams.
    pub(super) streams: Arc<Semaphore>,
    /// Turns of those who scrape the metrics.
    pub(super) scrapes: Turns,
    /// Turns of those who ask why requests wait.
    pub(super) explains: Turns,
    /// The right to look at where time goes below iopace: one has it at a time.
    pub(super) looks: Arc<Semaphore>,
    /// The right to load a policy: compiling takes memory, and one after the other has it.
    pub(super) loads: Arc<Semaphore>,
    /// Becomes true when it is time to end.
    pub(super) ended: watch::Receiver<bool>,
    /// Where the control socket is, if there is one.
    pub(super) control: Option<String>,
    /// The ports of the API and of the metrics alone.
    pub(super) ports: (Option<HttpReport>, Option<HttpReport>),
}

impl Shared {
    pub(super) fn new(
        subject: Arc<dyn Controlled>,
        ended: watch::Receiver<bool>,
        (control, ports): (Option<&Path>, (Option<HttpReport>, Option<HttpReport>)),
    ) -> Shared {
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        let (scrapes, explains) = (Turns::new(), Turns::new());
        let (started, looks) = (clock::now(), Arc::new(Semaphore::new(1)));
        let loads = Arc::new(Semaphore::new(1));
        // Whoever pastes a command may be elsewhere.
        let control = control.map(|path| std::path::absolute(path).unwrap_or(path.to_owned()));
        let control = control.map(|path| path.display().to_string());
        Shared { subject, started, streams, scrapes, explains, looks, loads, ended, control, ports }
    }
}

/// A device's name in the path.
pub(super) type Name = Result<InPath<String>, PathRejection>;

/// The same, if it is text.
pub(super) fn name_in(name: Name) -> Result<String, Refused> {
    let InPath(name) = name.map_err(|rejection| {
        Refused::new(rejection.status(), rejection.body_text(), format!("there are {ROUTES}"))
    })?;
    Ok(name)
}

pub(super) fn find(shared: &Shared, name: Name) -> Result<Arc<dyn Device>, Refused> {
    let name = name_in(name)?;
    let devices = shared.subject.devices();
    let found = devices.iter().find(|device| device.info().name == name);
    found.cloned().ok_or_else(|| {
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

fn bad_body(rejection: &BytesRejection) -> Refused {
    let status = rejection.status();
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        let hint = format!("a body has at most {BODY_BYTES_MAX} bytes");
        return Refused::new(status, "the body is too large", hint);
    }
    Refused::new(status, rejection.body_text(), "send the whole body")
}

pub(super) type Body = Result<Bytes, BytesRejection>;

/// What a body says; `example` shows what it could be.
pub(super) fn body<T: DeserializeOwned>(body: Body, example: &str) -> Result<T, Refused> {
    let body = body.map_err(|rejection| bad_body(&rejection))?;
    serde_json::from_slice(&body).map_err(|error| {
        let error = format!("the body is not understood: {error}");
        Refused::new(StatusCode::BAD_REQUEST, error, format!("as in {example}"))
    })
}
