//! The NBD side of a daemon: where clients connect, and those that are connected.

use super::client_rules::ClientRules;
use super::clients::{ClientPolicy, Clients};
use super::connection::Connection;
use super::session::Session;
use crate::config::{DaemonConfig, Listen};
use crate::exports::{ExportTable, Frontend, Renewal};
use crate::given::{GivenAddress, GivenSocket};
use crate::limits::CONNECTION_STACK_BYTES;
use crate::listener::{Acceptor, Listener};
use crate::memory::Memory;
use crate::start_error::StartError;
use crate::tls::TlsSettings;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The exports of a daemon, served over NBD.
pub(crate) struct Nbd {
    exports: Arc<ExportTable>,
    listen: Vec<Listen>,
    clients: Arc<Clients>,
    tls: TlsSettings,
    acceptors: Mutex<Vec<Acceptor>>,
    /// TCP addresses as they were really bound.
    addresses: Vec<SocketAddr>,
}

impl Nbd {
    /// Binds the sockets and serves.
    ///
    /// # Errors
    /// Certificates that cannot be used, a socket that cannot be bound, or no threads; no socket is
    /// left behind then, and no client.
    pub(crate) fn start(
        exports: Arc<ExportTable>,
        config: &DaemonConfig,
        memory: Arc<Memory>,
    ) -> Result<Nbd, StartError> {
        let listen = config.listen.clone();
        let clients = Clients::new(Arc::clone(&exports), admission(&exports, config)?, memory);
        let clients = Arc::new(clients.map_err(StartError::Threads)?);
        let mut listeners = Vec::new();
        for one in &listen {
            match Listener::bind(one) {
                Ok(listener) => listeners.push(listener),
                Err(error) => {
                    remove_sockets(&listen[..listeners.len()]);
                    return Err(error);
                }
            }
        }
        let addresses = listeners.iter().filter_map(Listener::address).collect();
        let start = |listener| {
            let clients = Arc::downgrade(&clients);
            Acceptor::start(listener, move |socket| {
                let clients = clients.upgrade();
                clients.is_some_and(|clients| {
                    serve(&clients, socket);
                    true
                })
            })
        };
        let acceptors: Result<_, _> = listeners.into_iter().map(start).collect();
        let acceptors = acceptors.map_err(|error| {
            remove_sockets(&listen);
            clients.end(Duration::ZERO);
            StartError::Threads(error)
        })?;
        let (tls, acceptors) = (config.tls.clone(), Mutex::new(acceptors));
        Ok(Nbd { exports, listen, clients, tls, acceptors, addresses })
    }
}

/// How clients are let in, by the configuration.
fn admission(exports: &ExportTable, config: &DaemonConfig) -> Result<ClientPolicy, StartError> {
    let rules = match config.client_rules.all().is_empty() {
        true => None,
        false => {
            let rules = ClientRules::new(exports.groups(), config.client_rules.clone());
            Some(rules.map_err(|error| StartError::Group(error.to_string()))?)
        }
    };
    if let (Some(address), false) = (remote_address(&config.listen), config.tls.verify_peer) {
        tracing::warn!(
            "everybody who reaches {address} may use the exports; --tls-verify-peer lets in only \
             clients with a certificate"
        );
    }
    Ok(ClientPolicy {
        connections_max: config.connections_max,
        tls_mode: config.tls.mode,
        tls: Mutex::new(config.tls.load()?),
        rules,
    })
}

/// An address that other machines reach.
fn remote_address(listen: &[Listen]) -> Option<SocketAddr> {
    let tcp = listen.iter().filter_map(|one| match one {
        Listen::Tcp(address) => Some(*address),
        Listen::Given(GivenSocket { at: GivenAddress::Tcp(address), .. }) => Some(*address),
        Listen::Unix(_) | Listen::Given(_) => None,
    });
    tcp.into_iter().find(|address| !address.ip().to_canonical().is_loopback())
}

impl Frontend for Nbd {
    fn uris(&self) -> Vec<String> {
        let mut uris = Vec::new();
        let scheme = if self.clients.must_encrypt() { "nbds" } else { "nbd" };
        for export in self.exports.all().iter() {
            let name = percent_encode(&export.config.name);
            for listen in &self.listen {
                let given = match listen {
                    Listen::Given(GivenSocket { at: GivenAddress::Unix(path), .. }) => {
                        path.as_ref()
                    }
                    _ => None,
                };
                if let Some(path) = listen.own_path().or(given) {
                    let path = percent_encode(&path.display().to_string());
                    uris.push(format!("{scheme}+unix:///{name}?socket={path}"));
                }
            }
            let of_tcp = |address| format!("{scheme}://{address}/{name}");
            uris.extend(self.addresses.iter().map(of_tcp));
        }
        uris
    }

    fn connections_count(&self) -> usize {
        self.clients.count()
    }

    fn stop_accepting(&self) {
        self.acceptors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        remove_sockets(&self.listen);
        self.clients.stop_reading();
    }

    fn renewal(&self) -> Result<Option<Renewal>, StartError> {
        let (clients, tls) = (Arc::clone(&self.clients), self.tls.load()?);
        Ok(tls.map(|tls| Box::new(move || clients.renew(Some(tls))) as Renewal))
    }

    fn end(&self, patience: Duration) -> usize {
        self.clients.end(patience)
    }

    fn takes_exports(&self) -> bool {
        !self.listen.is_empty()
    }

    fn end_some(&self, numbers: &BTreeSet<u64>, is_cut: bool) {
        self.clients.end_some(numbers, is_cut);
    }
}

/// Starts the thread of a connection, if there is room for one more.
fn serve(clients: &Arc<Clients>, socket: OwnedFd) {
    let (memory, drainer) = clients.shared();
    let number = clients.next_connection();
    let connection = Connection::new(number, socket, memory, drainer);
    if !clients.enter(&connection) {
        return;
    }
    let entered = Entered { clients: Arc::clone(clients), number };
    let (clients, session_connection) = (Arc::clone(clients), Arc::clone(&connection));
    let builder =
        thread::Builder::new().name(format!("nbd-{number}")).stack_size(CONNECTION_STACK_BYTES);
    let started = builder.spawn(move || {
        let _entered = entered;
        Session::new(clients, session_connection).run();
    });
    if let Err(error) = started {
        tracing::warn!(%error, "no thread for a client: closed");
        connection.close();
    }
}

/// A connection in the table of clients, for as long as its thread lives (or panics).
struct Entered {
    clients: Arc<Clients>,
    number: u64,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.clients.leave(self.number);
    }
}

fn remove_sockets(listen: &[Listen]) {
    for listen in listen {
        if let Some(path) = listen.own_path() {
            let _ = fs::remove_file(path);
        }
    }
}

/// What may stand in a URI stays, everything else is written as %XX.
fn percent_encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uri_cannot_hold_is_encoded() {
        assert_eq!(percent_encode("/run/a b&c.sock"), "/run/a%20b%26c.sock");
        assert_eq!(percent_encode("disk-1"), "disk-1");
        assert_eq!(percent_encode("ä"), "%C3%A4");
    }
}
