//! The clients that are connected over NBD, and the exports as they see them.

use super::client_rules::ClientRules;
use super::connection::Connection;
use super::drainer::Drainer;
use crate::device::Device;
use crate::exports::{Export, ExportTable};
use crate::groups::{GroupError, Groups};
use crate::memory::Memory;
use iopace_nbd::{ExportInfo, Exports, ServerConfig, TlsMode};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Most connections that have not opened an export yet; beyond that the oldest of them is closed. A
/// handshake takes milliseconds, so more of them at once are made to stand in the way of others.
const HANDSHAKES_MAX: usize = 64;

/// How clients are let in, and as whom.
#[derive(Default)]
pub(super) struct ClientPolicy {
    /// Most clients at once.
    pub(super) connections_max: usize,
    /// Whether they may, or must, encrypt.
    pub(super) tls_mode: TlsMode,
    /// The certificates, where they may; those that come later may see others.
    pub(super) tls: Mutex<Option<Arc<rustls::ServerConfig>>>,
    /// Who pays for those that show a certificate.
    pub(super) rules: Option<ClientRules>,
}

/// The clients of a daemon.
pub(super) struct Clients {
    exports: Arc<ExportTable>,
    admission: ClientPolicy,
    memory: Arc<Memory>,
    drainer: Arc<Drainer>,
    table: Mutex<Table>,
}

/// The connections by number.
#[derive(Default)]
struct Table {
    all: BTreeMap<u64, Arc<Connection>>,
    /// Those that have not opened an export yet.
    handshaking: BTreeSet<u64>,
}

impl Table {
    /// Closes the connection that has been in its handshake for longest; false if there is none. It
    /// counts no more.
    fn close_oldest_handshake(&mut self) -> bool {
        let Some(number) = self.handshaking.pop_first() else { return false };
        if let Some(connection) = self.all.remove(&number) {
            tracing::debug!(connection = number, "closed in its handshake: others have come");
            connection.close();
        }
        true
    }
}

impl Clients {
    /// None yet.
    ///
    /// # Errors
    /// No threads.
    pub(super) fn new(
        exports: Arc<ExportTable>,
        admission: ClientPolicy,
        memory: Arc<Memory>,
    ) -> io::Result<Clients> {
        let drainer = Drainer::start(Arc::clone(&memory))?;
        Ok(Clients { exports, admission, memory, drainer, table: Mutex::default() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are connected.
    pub(super) fn count(&self) -> usize {
        self.table().all.len()
    }

    /// Takes no further requests of them. What was asked is answered.
    pub(super) fn stop_reading(&self) {
        for connection in self.table().all.values() {
            connection.stop_reading();
        }
    }

    /// Ends those with these numbers: what they asked for is answered first, unless they are cut.
    pub(super) fn end_some(&self, numbers: &BTreeSet<u64>, is_cut: bool) {
        let table = self.table();
        for connection in numbers.iter().filter_map(|number| table.all.get(number)) {
            match is_cut {
                true => connection.close(),
                false => connection.stop_reading(),
            }
        }
    }

    /// Waits until all of them are gone, and cuts those that are not by then. How many.
    pub(super) fn end(&self, patience: Duration) -> usize {
        let step = Duration::from_millis(5);
        let mut left = patience.as_millis() / step.as_millis();
        while left > 0 && self.count() > 0 {
            thread::sleep(step);
            left -= 1;
        }
        let table = self.table();
        table.all.values().for_each(|connection| connection.close());
        table.all.len()
    }

    /// What connections share.
    pub(super) fn shared(&self) -> (Arc<Memory>, Arc<Drainer>) {
        (Arc::clone(&self.memory), Arc::clone(&self.drainer))
    }

    pub(super) fn next_connection(&self) -> u64 {
        self.exports.next_task()
    }

    /// What clients may negotiate.
    pub(super) fn server_config(&self) -> ServerConfig {
        ServerConfig { tls: self.admission.tls_mode, ..ServerConfig::default() }
    }

    /// The certificates of the server, if clients may encrypt.
    pub(super) fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        self.certificates().clone()
    }

    /// Who comes from now on sees other certificates.
    pub(super) fn renew(&self, tls: Option<Arc<rustls::ServerConfig>>) {
        *self.certificates() = tls;
    }

    fn certificates(&self) -> MutexGuard<'_, Option<Arc<rustls::ServerConfig>>> {
        self.admission.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all clients must encrypt.
    pub(super) fn must_encrypt(&self) -> bool {
        self.admission.tls_mode == TlsMode::Require
    }

    /// The group that pays for a client with this name in its certificate, if a rule fits.
    pub(super) fn group_of(&self, certificate: &str) -> Option<String> {
        self.admission.rules.as_ref()?.group(self.groups(), certificate)
    }

    /// Counts a client in; false if there are too many that have opened an export. Those that have
    /// not are in nobody's way: nobody knows yet whether they are let in.
    pub(super) fn enter(&self, connection: &Arc<Connection>) -> bool {
        let mut table = self.table();
        if table.handshaking.len() >= HANDSHAKES_MAX {
            table.close_oldest_handshake();
        }
        let max = self.admission.connections_max;
        if table.all.len() >= max && !table.close_oldest_handshake() {
            tracing::warn!("a client was turned away: {max} are connected already");
            return false;
        }
        table.all.insert(connection.number(), Arc::clone(connection));
        table.handshaking.insert(connection.number());
        true
    }

    pub(super) fn leave(&self, number: u64) {
        self.exports.groups().leave(number);
        let mut table = self.table();
        table.handshaking.remove(&number);
        table.all.remove(&number);
    }

    /// Who pays.
    pub(super) fn groups(&self) -> &Groups {
        self.exports.groups()
    }

    /// The device behind an export, by the id that [`Exports::find`] gave; `None` if the export is
    /// removed.
    pub(super) fn device(&self, id: u64) -> Option<Arc<dyn Device>> {
        let all = self.exports.all();
        let found = all.iter().find(|export| export.number == export_number(id))?;
        Some(Arc::clone(&found.device))
    }

    /// The first export of a device, by the name of the device.
    pub(super) fn find_by_device(&self, name: &str) -> Option<ExportInfo> {
        let all = self.exports.all();
        all.iter().find(|export| export.config.device == name).map(info)
    }

    /// A connection has opened an export, with a group of its own if it named one.
    pub(super) fn join(
        &self,
        connection: &Connection,
        export: u64,
        named: Option<&str>,
    ) -> Result<(), GroupError> {
        let number = connection.number();
        self.table().handshaking.remove(&number);
        let who = (number, &connection.payer, connection.certificate());
        self.groups().join(who, export_number(export), named)
    }
}

fn info(Export { number, config, device }: &Export) -> ExportInfo {
    let info = device.info();
    let (block_min, block_best) = info.block_bytes;
    ExportInfo {
        id: *number as u64,
        name: config.name.clone(),
        description: config.description.clone(),
        size_bytes: device.size_bytes(),
        read_only: config.read_only || info.read_only,
        needs_tls: config.needs_tls,
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

impl Exports for Clients {
    fn list(&self) -> Vec<ExportInfo> {
        self.exports.all().iter().map(info).collect()
    }

    /// The empty name is the first export.
    fn find(&self, name: &str) -> Option<ExportInfo> {
        let all = self.exports.all();
        let found = match name {
            "" => all.first(),
            name => all.iter().find(|export| export.config.name == name),
        };
        found.map(info)
    }
}

/// The number of an export. The upper half of an id tells apart the groups that the export was
/// asked for with.
fn export_number(id: u64) -> usize {
    (id & u64::from(u32::MAX)) as usize
}
