//! The loopback port: the same API for browsers and programs on this machine, behind a token.
//!
//! Any page that a browser shows can send requests to 127.0.0.1, and a name that points there makes
//! them look like its own (DNS rebinding). So the port answers to its own names only, refuses
//! requests that come from other pages, and wants a token in a header, which other pages can
//! neither read nor send.
//!
//! A port of the metrics alone may be anywhere: it answers to `/metrics`, with a token that opens
//! nothing else.

use super::door::Door;
use super::page;
use super::peer::Owners;
use super::refused::Refused;
use super::token::{Token, TokenOf};
use crate::api::HttpReport;
use crate::start_error::StartError;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;

/// The only path of a port of metrics.
const METRICS: &str = "/metrics";

/// Connections that wait to be accepted; the kernel has a bound of its own, `net.core.somaxconn`.
const BACKLOG: i32 = 4_096;

/// A bound port.
#[derive(Debug)]
pub struct Port {
    listener: TcpListener,
    gate: Arc<Gate>,
    file: PathBuf,
    /// Device and inode of the file of the token, if it goes with the port.
    passing: Option<(u64, u64)>,
}

impl Port {
    /// Binds, with the token in that file; it is made if it is missing, and removed with the port
    /// unless `keeps`.
    ///
    /// # Errors
    /// An address that other machines reach, or is taken; or what is wrong with the file.
    pub fn bind(address: SocketAddr, file: &Path, keeps: bool) -> Result<Port, StartError> {
        check(address).map_err(StartError::Setting)?;
        let mut port = Port::listen(address, (TokenOf::Api, file))?;
        let identity = fs::symlink_metadata(file).map(|found| (found.dev(), found.ino()));
        port.passing = identity.ok().filter(|_| !keeps);
        Ok(port)
    }

    /// Binds a port of the metrics alone, which other machines may reach, with the token in that
    /// file; it is made if it is missing, and kept.
    ///
    /// # Errors
    /// An address that is taken, or what is wrong with the file.
    pub fn bind_metrics(address: SocketAddr, file: &Path) -> Result<Port, StartError> {
        Port::listen(address, (TokenOf::Metrics, file))
    }

    fn listen(address: SocketAddr, (of, file): (TokenOf, &Path)) -> Result<Port, StartError> {
        let shown = |error: io::Error| {
            StartError::Setting(format!(
                "--{of} {address}: cannot listen there: {error}; choose another port, or 0 for any"
            ))
        };
        let listener = TcpListener::bind(address).map_err(shown)?;
        let address = listener.local_addr().map_err(shown)?;
        let gate = Arc::new(Gate { address, token: Token::read_or_make(file, of)?, of });
        Ok(Port { listener, gate, file: file.to_owned(), passing: None })
    }

    /// Whether the token of one is that of the other.
    pub fn has_token_of(&self, other: &Port) -> bool {
        self.gate.token.is(other.gate.token.secret().as_bytes())
    }

    /// Where it is bound.
    pub fn address(&self) -> SocketAddr {
        self.gate.address
    }

    /// What a browser opens; with the token behind the '#', which it sends to nobody.
    pub fn url(&self, with_token: bool) -> String {
        let token = if with_token { Some(&self.gate.token) } else { None };
        url(&self.gate.address.to_string(), token)
    }

    pub(super) fn report(&self) -> HttpReport {
        let token_file = self.file.display().to_string();
        HttpReport { address: self.gate.address.to_string(), token_file }
    }

    pub(super) fn guard(&self, api: Router) -> Router {
        let gate = Arc::clone(&self.gate);
        let routes = match gate.of {
            TokenOf::Api => page::router(),
            TokenOf::Metrics => Router::new(),
        };
        routes.fallback_service(api).layer(from_fn_with_state(gate, guard))
    }

    pub(super) fn door(&self) -> io::Result<PortDoor> {
        self.listener.set_nonblocking(true)?;
        // As many as the system allows wait to be accepted: a flood that finds the daemon without a
        // processor for a moment keeps nobody out.
        let _ = rustix::net::listen(&self.listener, BACKLOG);
        let listener = tokio::net::TcpListener::from_std(self.listener.try_clone()?)?;
        let owners = Owners::new(self.gate.address);
        if owners.is_none() {
            tracing::warn!(
                "the kernel does not say whose connections to the port are (inet_diag): another \
                 user can take all places there"
            );
        }
        Ok(PortDoor { listener, owners, own: self.gate.address })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.file).map(|found| (found.dev(), found.ino())).ok();
        if self.passing.is_some() && found == self.passing {
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// What a browser opens.
pub fn url(address: &str, token: Option<&Token>) -> String {
    match token {
        Some(token) => format!("http://{address}/#token={}", token.secret()),
        None => format!("http://{address}/"),
    }
}

/// Whether an address is one that only this machine reaches.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn check(address: SocketAddr) -> Result<(), String> {
    if address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "--http {address}: other machines would reach it, and nothing is encrypted there: say \
         127.0.0.1, and let others come through a tunnel (ssh -L)"
    ))
}

/// Where clients of the port come in.
pub(super) struct PortDoor {
    listener: tokio::net::TcpListener,
    /// `None`: nobody can be told from anybody.
    owners: Option<Owners>,
    own: SocketAddr,
}

impl Door for PortDoor {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<Option<(TcpStream, Option<u32>)>> {
        let (stream, peer) = self.listener.accept().await?;
        // Reports are to be seen when they are made.
        let _ = stream.set_nodelay(true);
        let own = stream.local_addr().unwrap_or(self.own);
        let uid = match &self.owners {
            Some(owners) => owners.of(peer, own),
            None => Some(rustix::process::geteuid().as_raw()),
        };
        Ok(Some((stream, uid)))
    }
}

/// Marks a request that came by the port: whoever has the token may have sent it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByPort;

/// Who may come in.
#[derive(Debug)]
struct Gate {
    address: SocketAddr,
    token: Token,
    of: TokenOf,
}

impl Gate {
    fn check(&self, request: &Request) -> Result<(), Refused> {
        // Pages of other servers do not have the token, and there is nothing here without it.
        let is_page = self.of == TokenOf::Api;
        if is_page {
            self.check_names(request)?;
            if page::is_public(request.uri().path()) {
                return Ok(());
            }
        }
        let said = only(request.headers(), &header::AUTHORIZATION);
        let said = said.and_then(|said| said.split_once(' '));
        let said = said.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if said.is_some_and(|(_, said)| self.token.is(said.trim().as_bytes())) {
            return self.check_path(request.uri().path());
        }
        let error = match said {
            Some(_) => "the token is not the one of this daemon",
            None => "the request has no token",
        };
        let whence = match is_page {
            true => "'iopace dashboard' prints the address with it",
            false => "it is in the file of --metrics-token-file",
        };
        let hint = format!("send 'Authorization: Bearer TOKEN'; {whence}");
        Err(Refused::new(StatusCode::UNAUTHORIZED, error, hint))
    }

    /// Whether the token opens that.
    fn check_path(&self, path: &str) -> Result<(), Refused> {
        if self.of == TokenOf::Api || path == METRICS {
            return Ok(());
        }
        let error = format!("there is no '{path}'");
        Err(Refused::new(StatusCode::NOT_FOUND, error, "there is GET /metrics"))
    }

    /// Whether a request is for this server, and from one of its pages if it is from one.
    fn check_names(&self, request: &Request) -> Result<(), Refused> {
        let headers = request.headers();
        let forbidden =
            |error: &str, hint: String| Refused::new(StatusCode::FORBIDDEN, error, hint);
        let host = only(headers, &header::HOST);
        let named = request.uri().authority().map(|authority| authority.as_str());
        if !host.is_some_and(|host| self.is_own(host))
            || !named.is_none_or(|named| self.is_own(named))
        {
            let error = "the request is for another host";
            return Err(forbidden(error, format!("this is {}", url(&self.shown(), None))));
        }
        let origins = headers.get_all(header::ORIGIN).iter();
        let is_own = |origin: &HeaderValue| {
            let origin = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            origin.is_some_and(|host| self.is_own(host))
        };
        if !origins.into_iter().all(is_own) {
            let error = "the request comes from another page";
            return Err(forbidden(error, "only pages of this server may ask".into()));
        }
        Ok(())
    }

    fn shown(&self) -> String {
        self.address.to_string()
    }

    /// Whether a host with its port is one of our names.
    fn is_own(&self, host: &str) -> bool {
        let port = self.address.port();
        let (name, said) = match host.rsplit_once(':') {
            Some((name, digits)) if !host.ends_with(']') => (name, digits.parse().ok()),
            _ => (host, Some(80)),
        };
        let own = match self.address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        let names = ["127.0.0.1", "localhost", "[::1]", &own];
        said == Some(port) && names.iter().any(|known| name.eq_ignore_ascii_case(known))
    }
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?;
    first.to_str().ok().filter(|_| all.next().is_none())
}

async fn guard(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    let mut answer = match gate.check(&request) {
        Ok(()) => {
            request.extensions_mut().insert(ByPort);
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    };
    let is_unauthorized = answer.status() == StatusCode::UNAUTHORIZED;
    let headers = answer.headers_mut();
    if is_unauthorized {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    answer
}
