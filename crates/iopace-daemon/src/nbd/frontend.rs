//! The NBD side of a daemon: where clients connect, and those that are connected.

use super::clients::Clients;
use super::listener::{Acceptor, Listener};
use crate::config::Listen;
use crate::exports::ExportTable;
use crate::memory::Memory;
use crate::start_error::StartError;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The exports of a daemon, served over NBD.
pub struct Frontend {
    exports: Arc<ExportTable>,
    listen: Vec<Listen>,
    clients: Arc<Clients>,
    acceptors: Mutex<Vec<Acceptor>>,
    /// TCP addresses as they were really bound.
    addresses: Vec<SocketAddr>,
}

impl Frontend {
    /// Binds the sockets and serves.
    ///
    /// # Errors
    /// A socket that cannot be bound, or no threads; no socket is left behind then, and no client.
    pub(crate) fn start(
        exports: Arc<ExportTable>,
        (listen, connections_max): (Vec<Listen>, usize),
        memory: Arc<Memory>,
    ) -> Result<Frontend, StartError> {
        let clients = Clients::new(Arc::clone(&exports), connections_max, memory);
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
        let start = |listener| Acceptor::start(listener, &clients);
        let acceptors: Result<_, _> = listeners.into_iter().map(start).collect();
        let acceptors = acceptors.map_err(|error| {
            remove_sockets(&listen);
            clients.end(Duration::ZERO);
            StartError::Threads(error)
        })?;
        Ok(Frontend { exports, listen, clients, acceptors: Mutex::new(acceptors), addresses })
    }

    /// A URI for each export on each socket, ready to be pasted.
    pub fn uris(&self) -> Vec<String> {
        let mut uris = Vec::new();
        for (export, _) in self.exports.all() {
            let name = percent_encode(&export.name);
            for listen in &self.listen {
                if let Listen::Unix(path) = listen {
                    let path = percent_encode(&path.display().to_string());
                    uris.push(format!("nbd+unix:///{name}?socket={path}"));
                }
            }
            uris.extend(self.addresses.iter().map(|address| format!("nbd://{address}/{name}")));
        }
        uris
    }

    /// How many clients are connected.
    pub fn connections_count(&self) -> usize {
        self.clients.count()
    }

    /// Accepts nobody any more and removes the sockets. What was asked is answered.
    pub(crate) fn stop_accepting(&self) {
        self.acceptors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        remove_sockets(&self.listen);
        self.clients.stop_reading();
    }

    /// Waits until all clients are gone, and cuts those that are not by then. How many.
    pub(crate) fn end(&self, patience: Duration) -> usize {
        self.clients.end(patience)
    }
}

fn remove_sockets(listen: &[Listen]) {
    for listen in listen {
        if let Listen::Unix(path) = listen {
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
