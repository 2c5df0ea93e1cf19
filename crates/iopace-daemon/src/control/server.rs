//! The daemon's end of the control socket: who may come in, and how many.

use super::Controlled;
use super::admission::{Admissions, in_turn};
use super::door::Door;
use super::guest::converse;
use super::idle_executor::{IdleExecutor, PATIENCE};
use super::port::Port;
use super::routes::router;
use super::shared::Shared;
use crate::given::{GivenAddress, GivenSocket};
use crate::listener::bind_unix;
use crate::start_error::StartError;
use axum::Router;
use axum::middleware::from_fn;
use std::fs;
use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Answers on their way at shutdown are waited for this long: on a machine without a moment for the
/// thread [`idle_executor`](super::idle_executor) their ends are sent once its patience is over.
const DRAIN_TIMEOUT: Duration = PATIENCE.saturating_mul(3);

/// After a failed accept (no descriptors left, for example) the next try waits this long.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// A bound control socket. Its path is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's path, so that no other one's socket is removed; of one that
    /// was given none, as it stays.
    identity: Option<(u64, u64)>,
}

impl Server {
    /// Binds with mode 0600, in the place of a socket that nobody serves any more.
    ///
    /// # Errors
    /// The path with what is wrong and what to do.
    pub fn bind(path: &Path) -> Result<Server, StartError> {
        let listener = bind_unix(path).map_err(|error| match error {
            StartError::SocketBusy(path, by) => StartError::ControlBusy(path, by),
            other => other,
        })?;
        let metadata = fs::symlink_metadata(path);
        let metadata =
            metadata.map_err(|error| StartError::bind(&path.display().to_string(), &error))?;
        let identity = Some((metadata.dev(), metadata.ino()));
        Ok(Server { listener, path: path.to_owned(), identity })
    }

    /// A socket that a service manager has made. Whoever else may connect to it, only the daemon's
    /// own user and root are heard.
    ///
    /// # Errors
    /// It is no Unix socket with a path.
    pub fn given(socket: &GivenSocket) -> Result<Server, StartError> {
        let GivenAddress::Unix(Some(path)) = &socket.at else {
            return Err(StartError::NotASocket(format!("the given socket '{}'", socket.name)));
        };
        let fd = socket.open().map_err(|error| StartError::bind(&socket.name, &error))?;
        Ok(Server { listener: fd.into(), path: path.clone(), identity: None })
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
        run(subject, Some(self), Ports::default(), shutdown).await
    }

    fn door(&self) -> io::Result<tokio::net::UnixListener> {
        self.listener.set_nonblocking(true)?;
        tokio::net::UnixListener::from_std(self.listener.try_clone()?)
    }
}

/// Ports beside the control socket.
#[derive(Debug, Default)]
pub struct Ports {
    /// The whole API and the dashboard, for this machine.
    pub api: Option<Port>,
    /// The metrics alone.
    pub metrics: Option<Port>,
}

/// Serves the control socket and the ports, if they are there, until `shutdown`; then removes the
/// socket.
///
/// # Errors
/// A socket cannot be handed to the runtime.
pub async fn run(
    subject: Arc<dyn Controlled>,
    control: Option<Server>,
    ports: Ports,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (end, ended) = watch::channel(false);
    let report = |port: &Option<Port>| port.as_ref().map(Port::report);
    let reports = (report(&ports.api), report(&ports.metrics));
    let path = control.as_ref().map(Server::path);
    let shared = Shared::new(subject, ended.clone(), (path, reports));
    let (api, aside) = (router(shared).layer(from_fn(in_turn)), IdleExecutor::start());
    let control = async {
        if let Some(control) = &control {
            serve_all(control.door()?, (api.clone(), &aside), ended.clone()).await;
        }
        Ok(())
    };
    let serve_port = async |port: &Option<Port>| {
        if let Some(port) = port {
            serve_all(port.door()?, (port.guard(api.clone()), &aside), ended.clone()).await;
        }
        Ok(())
    };
    let wait = async {
        shutdown.await;
        end.send_replace(true);
        Ok(())
    };
    let (api_port, metrics_port) = (serve_port(&ports.api), serve_port(&ports.metrics));
    tokio::try_join!(wait, control, api_port, metrics_port).map(|_| ())
}

impl Drop for Server {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if found.is_ok_and(|identity| Some(identity) == self.identity) {
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

/// Serves all who come until `ended` says so, and waits a moment for the answers on their way.
pub(super) async fn serve_all(
    door: impl Door,
    (api, aside): (Router, &Arc<IdleExecutor>),
    mut ended: watch::Receiver<bool>,
) {
    let halls = Admissions::new();
    let mut clients = JoinSet::new();
    let mut over = std::pin::pin!(async move {
        let _ = ended.wait_for(|ended| *ended).await;
    });
    loop {
        let accepted = tokio::select! {
            () = &mut over => break,
            accepted = door.next() => accepted,
        };
        while clients.try_join_next().is_some() {}
        match accepted {
            Ok(Some((stream, uid))) => {
                // Closed at once if its user has as many as he may.
                let Some(admitted) = halls.admit(uid) else { continue };
                let by = (api.clone(), Arc::clone(aside));
                clients.spawn(async move {
                    let hall = Arc::clone(admitted.hall());
                    hall.room().await;
                    converse(stream, by, hall.enter(uid)).await;
                    drop(admitted);
                });
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "a control client could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(door);
    let all = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, all).await;
}
