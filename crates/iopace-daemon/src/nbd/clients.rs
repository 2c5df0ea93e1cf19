//! The clients that are connected over NBD, and the exports as they see them.

use super::connection::Connection;
use super::drainer::Drainer;
use crate::device::Device;
use crate::exports::{Export, ExportTable};
use crate::groups::{GroupError, Groups};
use crate::memory::Memory;
use iopace_nbd::{ExportInfo, Exports};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The clients of a daemon.
pub(super) struct Clients {
    exports: Arc<ExportTable>,
    connections_max: usize,
    memory: Arc<Memory>,
    drainer: Arc<Drainer>,
    connections: Mutex<BTreeMap<u64, Arc<Connection>>>,
}

impl Clients {
    /// None yet, of so many.
    ///
    /// # Errors
    /// No threads.
    pub(super) fn new(
        exports: Arc<ExportTable>,
        connections_max: usize,
        memory: Arc<Memory>,
    ) -> io::Result<Clients> {
        let drainer = Drainer::start(Arc::clone(&memory))?;
        let connections = Mutex::default();
        Ok(Clients { exports, connections_max, memory, drainer, connections })
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are connected.
    pub(super) fn count(&self) -> usize {
        self.connections().len()
    }

    /// Takes no further requests of them. What was asked is answered.
    pub(super) fn stop_reading(&self) {
        for connection in self.connections().values() {
            connection.stop_reading();
        }
    }

    /// Ends those with these numbers: what they asked for is answered first, unless they are cut.
    pub(super) fn end_some(&self, numbers: &BTreeSet<u64>, is_cut: bool) {
        let connections = self.connections();
        for connection in numbers.iter().filter_map(|number| connections.get(number)) {
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
        let (number, payer) = (connection.number(), &connection.payer);
        self.groups().join((number, payer), export_number(export), named)
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
