//! The asking end of the control socket: blocking calls, one connection each.

mod cluster;
mod exports;
mod groups;
mod live;
mod policies;
mod recommend;
mod record;
mod sse;

pub use live::{Follow, LiveMessage, LiveStream};
pub use record::RecordStream;

use crate::api::{Change, DaemonReport, DeviceReport, EventReport, Problem, SchedulerSpec};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// An answer that has not come by then will not come.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The content of a body.
const JSON: &str = "application/json";

/// Longest answer that is read: a thousand devices with 64 events each.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A daemon, by its control socket.
#[derive(Clone, Debug)]
pub struct Client {
    path: PathBuf,
    /// Only a daemon of the same user is asked.
    only_own: bool,
}

/// Why an answer did not come, or was a refusal.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error(
        "no daemon listens at {0}: start one with 'iopace serve FILE' or 'iopace mount DIR', or \
         name its socket with --control"
    )]
    NoDaemon(String),
    /// Not for us.
    #[error("{0}: permission denied: only the daemon's own user and root may control it")]
    Denied(String),
    /// Somebody else listens there.
    #[error(
        "{0} is served by the user {1}: only a daemon of your own, or of root, is believed; name \
         its socket with --control"
    )]
    Foreign(String, u32),
    /// The connection failed.
    #[error("{path}: cannot be asked: {error}")]
    Broken {
        /// The socket.
        path: String,
        /// What went wrong.
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time.
    #[error("{0}: the daemon did not answer within 10 s; see its log")]
    Silent(String),
    /// A stream is over.
    #[error("{0}: the daemon has ended the stream")]
    Ended(String),
    /// The daemon refused; nothing was changed.
    #[error("{}", told(problem))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Why.
        problem: Problem,
    },
    /// Not the answer of a daemon of this version.
    #[error("{0}: the answer is not understood ({1}): is it a daemon of another version?")]
    Garbled(String, String),
}

impl Client {
    /// The daemon behind the socket at `path`; nothing is asked yet.
    pub fn new(path: impl Into<PathBuf>) -> Client {
        Client { path: path.into(), only_own: false }
    }

    /// The same, which believes a daemon of this very user only, not one of root.
    #[must_use]
    pub fn only_own(&self) -> Client {
        Client { path: self.path.clone(), only_own: true }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The daemon as a whole.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn status(&self) -> Result<DaemonReport, ClientError> {
        self.get("/v1/status")
    }

    /// All devices as they stand.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn devices(&self) -> Result<Vec<DeviceReport>, ClientError> {
        self.get("/v1/devices")
    }

    /// One device as it stands.
    ///
    /// # Errors
    /// See [`ClientError`]; an unknown name is refused with those that there are.
    pub fn device(&self, name: &str) -> Result<DeviceReport, ClientError> {
        self.get(&format!("/v1/devices/{}", encode(name)))
    }

    /// The schedulers that the daemon has.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn schedulers(&self) -> Result<Vec<SchedulerSpec>, ClientError> {
        self.get("/v1/schedulers")
    }

    /// The latest events of all devices, oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn events(&self) -> Result<Vec<EventReport>, ClientError> {
        self.get("/v1/events")
    }

    /// Changes the scheduler of a device, and says how the device stands then.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn change(&self, name: &str, change: &Change) -> Result<DeviceReport, ClientError> {
        self.post(&format!("/v1/devices/{}/scheduler", encode(name)), change)
    }

    fn get<T: DeserializeOwned>(&self, route: &str) -> Result<T, ClientError> {
        self.call(Method::GET, route, Vec::new())
    }

    fn post<T: DeserializeOwned>(
        &self,
        route: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).expect("strings and numbers");
        self.call(Method::POST, route, body)
    }

    fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        route: &str,
        body: Vec<u8>,
    ) -> Result<T, ClientError> {
        self.call_within(TIMEOUT, (method, route), (JSON, body))
    }

    fn call_within<T: DeserializeOwned>(
        &self,
        timeout: Duration,
        (method, route): (Method, &str),
        (kind, body): (&str, Vec<u8>),
    ) -> Result<T, ClientError> {
        let path = self.path.display().to_string();
        let runtime = runtime(&path)?;
        let request = self.request(method, route, &[("content-type", kind)], body);
        let asked = async { tokio::time::timeout(timeout, self.ask(request)).await };
        let (status, body) =
            runtime.block_on(asked).map_err(|_| ClientError::Silent(path.clone()))??;
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|error| ClientError::Garbled(path, error.to_string()));
        }
        Err(refusal(&path, status, &body))
    }

    fn request(
        &self,
        method: Method,
        route: &str,
        head: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method).uri(route);
        request = request.header("host", "localhost");
        for (name, value) in head {
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::from(body))).expect("a method, an encoded path and words")
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), ClientError> {
        let (answer, driver) = self.open(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let path = self.path.display().to_string();
        let body = body.map_err(|error| ClientError::Broken { path, error })?.to_bytes();
        driver.abort();
        Ok((status, body))
    }

    /// Asks on a connection of its own; the task drives it.
    async fn open(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, JoinHandle<hyper::Result<()>>), ClientError> {
        let path = self.path.display().to_string();
        let stream = UnixStream::connect(&self.path).await;
        let stream = stream.map_err(|error| no_connection(path.clone(), error))?;
        let peer = stream.peer_cred().map_err(|error| no_connection(path.clone(), error))?;
        let own = geteuid().as_raw();
        if !is_believed(own, peer.uid()) || (self.only_own && peer.uid() != own) {
            return Err(ClientError::Foreign(path, peer.uid()));
        }
        let broken = |error: hyper::Error| {
            let path = path.clone();
            ClientError::Broken { path, error: error.into() }
        };
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let driver = tokio::spawn(connection);
        let answer = sender.send_request(request).await.map_err(broken)?;
        Ok((answer, driver))
    }
}

/// Whether `own` believes the daemon of the user `peer`. Root names the socket of a user's daemon
/// itself: none is found in a place that users can write to.
fn is_believed(own: u32, peer: u32) -> bool {
    own == 0 || peer == 0 || peer == own
}

/// What a call runs on.
fn runtime(path: &str) -> Result<Runtime, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|error| ClientError::Broken { path: path.into(), error: error.into() })
}

/// Why the daemon refused.
fn refusal(path: &str, status: StatusCode, body: &[u8]) -> ClientError {
    match serde_json::from_slice(body) {
        Ok(problem) => ClientError::Refused { status: status.as_u16(), problem },
        Err(error) => ClientError::Garbled(path.into(), error.to_string()),
    }
}

/// What is wrong, and what would be right if that is said apart.
fn told(Problem { error, hint }: &Problem) -> String {
    if hint.is_empty() { error.clone() } else { format!("{error}; {hint}") }
}

fn no_connection(path: String, error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ClientError::NoDaemon(path),
        io::ErrorKind::PermissionDenied => ClientError::Denied(path),
        _ => ClientError::Broken { path, error: error.into() },
    }
}

/// A name as one piece of a path.
fn encode(name: &str) -> String {
    let mut encoded = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
