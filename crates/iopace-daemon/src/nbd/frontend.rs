//! The NBD side of a daemon: where clients connect, and those that are connected.

use super::connection::Connection;
use super::drainer::Drainer;
use super::listener::{Acceptor, Listener};
use crate::config::Listen;
use crate::device::Device;
use crate::exports::ExportTable;
use crate::groups::Groups;
use crate::memory::Memory;
use crate::start_error::StartError;
use iopace_groups::tree::TreeError;
use iopace_nbd::{ExportInfo, Exports};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The exports of a daemon, served over NBD.
pub struct Frontend {
    exports: Arc<ExportTable>,
    listen: Vec<Listen>,
    connections_max: usize,
    memory: Arc<Memory>,
    drainer: Arc<Drainer>,
    connections: Mutex<BTreeMap<u64, Arc<Connection>>>,
    acceptors: Mutex<Vec<Acceptor>>,
    /// TCP addresses as they were really bound.
    addresses: Vec<SocketAddr>,
}

impl Frontend {
    /// Binds the sockets and serves.
    ///
    /// # Errors
    /// A socket that cannot be bound, or no threads; nothing is left behind then.
    pub(crate) fn start(
        exports: Arc<ExportTable>,
        (listen, connections_max): (Vec<Listen>, usize),
        memory: Arc<Memory>,
    ) -> Result<Arc<Frontend>, StartError> {
        let drainer = Drainer::start(Arc::clone(&memory)).map_err(StartError::Threads)?;
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
        let (connections, acceptors) = (Mutex::default(), Mutex::default());
        let frontend = Arc::new(Frontend {
            exports,
            listen,
            connections_max,
            memory,
            drainer,
            connections,
            acceptors,
            addresses,
        });
        for listener in listeners {
            let acceptor = Acceptor::start(listener, &frontend);
            let acceptor = acceptor.map_err(|error| {
                frontend.stop_accepting();
                StartError::Threads(error)
            })?;
            frontend.acceptors().push(acceptor);
        }
        Ok(frontend)
    }

    fn acceptors(&self) -> MutexGuard<'_, Vec<Acceptor>> {
        self.acceptors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.connections().len()
    }

    /// Accepts nobody any more and removes the sockets. What was asked is answered.
    pub(crate) fn stop_accepting(&self) {
        self.acceptors().clear();
        remove_sockets(&self.listen);
        for connection in self.connections().values() {
            connection.stop_reading();
        }
    }

    /// Waits until all clients are gone, and cuts those that are not by then. How many.
    pub(crate) fn end(&self, patience: Duration) -> usize {
        let step = Duration::from_millis(5);
        let mut left = patience.as_millis() / step.as_millis();
        while left > 0 && self.connections_count() > 0 {
            thread::sleep(step);
            left -= 1;
        }
        let connections = self.connections();
        connections.values().for_each(|connection| connection.close());
        connections.len()
    }

    /// What connections share.
    pub(super) fn shared(&self) -> (Arc<Memory>, Arc<Drainer>) {
        (Arc::clone(&self.memory), Arc::clone(&self.drainer))
    }

    pub(super) fn next_connection(&self) -> u64 {
        self.exports.next_task()
    }

    /// Counts a client in; false if there are too many.
    pub(super) fn enter(&self, connection: &Arc<Connection>) -> bool {
        let mut connections = self.connections();
        if connections.len() >= self.connections_max {
            let max = self.connections_max;
            tracing::warn!("a client was turned away: {max} are connected already");
            return false;
        }
        connections.insert(connection.number(), Arc::clone(connection));
        true
    }

    pub(super) fn leave(&self, number: u64) {
        self.exports.groups().leave(number);
        self.connections().remove(&number);
    }

    /// Who pays.
    pub(super) fn groups(&self) -> &Groups {
        self.exports.groups()
    }

    /// The device behind an export, by the id that [`Exports::find`] gave.
    pub(super) fn device(&self, id: u64) -> &Arc<dyn Device> {
        &self.exports.all()[export_place(id)].1
    }

    /// The first export of a device, by the name of the device.
    pub(super) fn find_by_device(&self, name: &str) -> Option<ExportInfo> {
        let at = self.exports.all().iter().position(|(export, _)| export.device == name)?;
        Some(self.export_info(at))
    }

    /// A connection has opened an export, with a group of its own if it named one.
    pub(super) fn join(
        &self,
        connection: &Connection,
        export: u64,
        named: Option<&str>,
    ) -> Result<(), TreeError> {
        let (number, payer) = (connection.number(), &connection.payer);
        self.groups().join((number, payer), export_place(export), named)
    }

    fn export_info(&self, id: usize) -> ExportInfo {
        let (export, device) = &self.exports.all()[id];
        let info = device.info();
        let (block_min, block_best) = info.block_bytes;
        ExportInfo {
            id: id as u64,
            name: export.name.clone(),
            description: export.description.clone(),
            size_bytes: info.size_bytes,
            read_only: export.read_only || info.read_only,
            rotational: info.rotational,
            can_multi_conn: true,
            can_flush: true,
            can_fua: true,
            can_trim: true,
            can_write_zeroes: true,
            can_fast_zero: false,
            can_cache: true,
            block_min,
            block_preferred: block_best,
            block_max: iopace_nbd::MAX_REQUEST_LEN,
        }
    }
}

impl Exports for Frontend {
    fn list(&self) -> Vec<ExportInfo> {
        (0..self.exports.all().len()).map(|id| self.export_info(id)).collect()
    }

    /// The empty name is the first export.
    fn find(&self, name: &str) -> Option<ExportInfo> {
        let all = self.exports.all();
        let id = match name {
            "" if all.is_empty() => return None,
            "" => 0,
            _ => all.iter().position(|(export, _)| export.name == name)?,
        };
        Some(self.export_info(id))
    }
}

/// The place of an export in the table. The upper half of an id tells apart the groups that the
/// export was asked for with.
fn export_place(id: u64) -> usize {
    (id & u64::from(u32::MAX)) as usize
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
