//! The daemon's end of the control socket.

use super::Controlled;
use super::api::{
    Change, DaemonReport, DeviceReport, EventReport, MountReport, Problem, SchedulerSpec,
};
use super::change::{self, Refusal};
use super::groups::{self, Body, body};
use super::metrics;
use super::policies;
use super::report;
use crate::clock;
use crate::daemon::StartError;
use crate::device::Device;
use crate::nbd::listener::bind_unix;
use axum::Router;
use axum::extract::rejection::{BytesRejection, PathRejection};
use axum::extract::{DefaultBodyLimit, Path as InPath, State};
use axum::http::{StatusCode, Uri, header::CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Serialize;
use std::fs;
use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Longest body of a request: a change with sixteen parameters is under 1 KiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Most of a request's head that is read; longer ones are refused by hyper.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Clients served at once; more wait in the listen queue. Each is a few KiB.
const CLIENTS_MAX: usize = 64;

/// A client that has not sent its request and taken its answer by then is closed.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers on their way at shutdown are waited for this long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// After a failed accept (no descriptors left, for example) the next try waits this long.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

pub(super) const ROUTES: &str = "GET /v1/status, /v1/devices, /v1/devices/NAME, /v1/schedulers, \
                                 /v1/policies, /v1/events, /v1/groups, /v1/groups/files, \
                                 /v1/groups/stat, /v1/connections, /v1/processes, /v1/mounts; POST \
                                 /v1/devices/NAME/scheduler, /v1/devices/NAME/pace, \
                                 /v1/devices/NAME/window, /v1/groups, /v1/groups/files, \
                                 /v1/groups/move; DELETE /v1/groups";

/// A bound control socket. Its path is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's path, so that no other one's socket is removed.
    identity: (u64, u64),
}

impl Server {
    /// Binds with mode 0600, in the place of a socket that nobody serves any more.
    ///
    /// # Errors
    /// The path with what is wrong and what to do.
    pub fn bind(path: &Path) -> Result<Server, StartError> {
        let listener = bind_unix(path).map_err(|error| match error {
            StartError::SocketBusy(path) => StartError::Setting(format!(
                "{path}: a daemon is controlled there already; stop it, choose another --control, \
                 or say --no-control"
            )),
            other => other,
        })?;
        let metadata = fs::symlink_metadata(path);
        let metadata =
            metadata.map_err(|error| StartError::bind(&path.display().to_string(), &error))?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Server { listener, path: path.to_owned(), identity })
    }

    /// Where it is bound.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves until `shutdown`, then removes the socket.
    ///
    /// # Errors
    /// The socket cannot be handed to the runtime.
    pub async fn run(
        self,
        subject: Arc<dyn Controlled>,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(self.listener.try_clone()?)?;
        let service = TowerToHyperService::new(router(subject));
        let permits = Arc::new(Semaphore::new(CLIENTS_MAX));
        let mut clients = JoinSet::new();
        tokio::pin!(shutdown);
        loop {
            let permit = tokio::select! {
                () = &mut shutdown => break,
                permit = Arc::clone(&permits).acquire_owned() => permit,
            };
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
            };
            while clients.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) if is_ours(&stream) => {
                    let service = service.clone();
                    clients.spawn(async move {
                        let _permit = permit;
                        converse(stream, service).await;
                    });
                }
                Ok(_) => tracing::warn!("a control client of another user was turned away"),
                Err(error) => {
                    tracing::warn!(%error, "a control client could not be accepted");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
        drop(listener);
        let all = async { while clients.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, all).await;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if found.is_ok_and(|identity| identity == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds the control socket at `path` and serves it until `shutdown`.
///
/// # Errors
/// The path with what is wrong and what to do.
pub async fn serve(
    subject: Arc<dyn Controlled>,
    path: &Path,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let server = Server::bind(path).map_err(io::Error::other)?;
    server.run(subject, shutdown).await
}

/// Whether the client is our own user or root. The socket's mode says the same; this also covers
/// the moment between its making and its mode.
fn is_ours(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}

async fn converse(stream: UnixStream, service: TowerToHyperService<Router>) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CLIENT_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CLIENT_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a control client broke off"),
        Err(_) => tracing::debug!("a control client took too long and was closed"),
    }
}

pub(super) type Subject = State<Shared>;

#[derive(Clone)]
pub(super) struct Shared {
    pub(super) subject: Arc<dyn Controlled>,
    started: iopace_core::time::Instant,
}

fn router(subject: Arc<dyn Controlled>) -> Router {
    let shared = Shared { subject, started: clock::now() };
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/devices", get(devices))
        .route("/v1/devices/{name}", get(device))
        .route("/v1/devices/{name}/scheduler", post(change_scheduler))
        .route("/v1/schedulers", get(schedulers))
        .route("/v1/events", get(events))
        .route("/v1/mounts", get(mounts))
        .route("/metrics", get(openmetrics))
        .merge(policies::router())
        .merge(groups::router())
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(shared)
}

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
    })
}

async fn devices(State(shared): Subject) -> Answer<Vec<DeviceReport>> {
    Answer(shared.subject.devices().iter().map(|device| report::device(&**device)).collect())
}

async fn device(State(shared): Subject, name: Name) -> Result<Answer<DeviceReport>, Refused> {
    Ok(Answer(report::device(find(&shared, name)?)))
}

async fn openmetrics(State(shared): Subject) -> Result<Response, Refused> {
    let text = metrics::text(&*shared.subject);
    let text = text.map_err(|error| {
        let error = format!("the metrics cannot be written: {error}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error, "see the log of the daemon")
    })?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

async fn mounts(State(shared): Subject) -> Answer<Vec<MountReport>> {
    Answer(shared.subject.mounts())
}

async fn schedulers() -> Answer<Vec<SchedulerSpec>> {
    Answer(report::schedulers())
}

async fn events(State(shared): Subject) -> Answer<Vec<EventReport>> {
    let devices = shared.subject.devices().iter();
    let mut all: Vec<_> = devices.flat_map(|device| report::device(&**device).events).collect();
    all.sort_by_key(|event| std::cmp::Reverse(event.age_ns));
    Answer(all)
}

/// Nothing is awaited between reading the state and changing it, and there is one thread: changes
/// of several clients come one after the other.
async fn change_scheduler(
    State(shared): Subject,
    name: Name,
    sent: Body,
) -> Result<Answer<DeviceReport>, Refused> {
    let change: Change = body(sent, r#"{"action":"insert","algorithm":"rr","set":{"wait_ms":5}}"#)?;
    let device = find(&shared, name)?;
    change::apply(device, &change)?;
    let report = report::device(device);
    let scheduler = &report.scheduler;
    tracing::info!(
        device = report.name,
        scheduler = scheduler.algorithm,
        params = ?scheduler.params,
        "scheduler changed"
    );
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

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = serde_json::to_vec(value).expect("strings, numbers and maps with string keys");
    body.push(b'\n');
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
