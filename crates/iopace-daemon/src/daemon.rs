//! The running daemon: its devices, its listeners, and an orderly end.

use crate::config::{DaemonConfig, ExportConfig, Listen};
use crate::device::Device;
use crate::dirty::Manager;
use crate::fuse::image::{self, Images};
use crate::fuse::mounts::{self, Mounts};
use crate::fuse::raise_descriptors;
use crate::fuse::session::Ended;
use crate::groups::Groups;
use crate::limits::{DESCRIPTORS_OWN, DRAIN_TIMEOUT, MOUNT_PATIENCE};
use crate::live::Live;
use crate::memory::{Memory, return_what_is_freed};
use crate::nbd::connection::Connection;
use crate::nbd::drainer::Drainer;
use crate::nbd::listener::{Acceptor, Listener};
use crate::opening::{default_export, open_devices, resolve_exports};
pub use crate::start_error::StartError;
use crate::timer::Timers;
use iopace_groups::tree::TreeError;
use iopace_nbd::{ExportInfo, Exports};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What runs.
pub struct Daemon {
    config: DaemonConfig,
    devices: Vec<Arc<dyn Device>>,
    groups: Arc<Groups>,
    /// What everything does, second by second.
    live: Live,
    /// Each export with the place of its device.
    exports: Vec<(ExportConfig, usize)>,
    memory: Arc<Memory>,
    drainer: Arc<Drainer>,
    timers: Arc<Timers>,
    /// Divides dirty memory among the devices.
    dirty: Manager,
    /// The directories that it is mounted over.
    mounts: Mounts,
    /// The exports as files.
    images: Images,
    connections: Mutex<BTreeMap<u64, Arc<Connection>>>,
    last_connection: AtomicU64,
    acceptors: Mutex<Vec<Acceptor>>,
    /// TCP addresses as they were really bound.
    addresses: Mutex<Vec<SocketAddr>>,
    /// Sees changes of `/etc/subuid`, if something is mounted.
    _subordinates: Option<iopace_fuse::subordinate::Watch>,
}

/// How a shutdown went.
#[derive(Debug, Default)]
pub struct ShutdownReport {
    /// Connections that had to be cut because their requests did not finish in time.
    pub cut_count: usize,
    /// Devices that could not be flushed, with the error.
    pub unflushed: Vec<(String, io::Error)>,
    /// Each mount point, and how the mount there ended.
    pub mounts: Vec<(PathBuf, Ended)>,
}

impl Daemon {
    /// Opens the devices, inserts their schedulers, binds the sockets and serves.
    ///
    /// # Errors
    /// What was asked, what is wrong and what would be right; nothing is left behind then.
    pub fn start(mut config: DaemonConfig) -> Result<Arc<Daemon>, StartError> {
        // Before there is a mount, which may be over `/etc`.
        iopace_fuse::subordinate::look_again();
        let mut prepared = mounts::prepare(&config)?;
        let shown = image::prepare(&config)?;
        make_room_for(config.connections_max);
        return_what_is_freed();
        let memory = Arc::new(Memory::beside_the_process(config.memory_max.get()));
        let timers = Timers::start().map_err(StartError::Threads)?;
        let drainer = Drainer::start(Arc::clone(&memory)).map_err(StartError::Threads)?;
        let devices = open_devices(&config, &mut prepared, &timers)?;
        if config.exports.is_empty() {
            config.exports = config.devices.iter().map(default_export).collect();
        }
        let exports = resolve_exports(&config)?;
        let groups = Groups::start(&config.groups, &config.exports, devices.clone())?;
        for warning in groups.all_warnings() {
            tracing::warn!("{warning}");
        }
        let groups = Arc::new(groups);
        let live = Live::start(&devices, Arc::clone(&groups)).map_err(StartError::Threads)?;
        let dirty = Manager::start(config.all_devices(), &devices).map_err(StartError::Threads)?;
        let is_mount = !config.mounts.is_empty();
        let subordinates = is_mount.then(iopace_fuse::subordinate::watch).transpose();
        let subordinates = subordinates.map_err(StartError::Threads)?;
        let listen = config.listen.clone();
        let daemon = Arc::new(Daemon {
            config,
            devices,
            groups,
            live,
            exports,
            memory,
            drainer,
            timers,
            dirty,
            mounts: Mounts::default(),
            images: Images::default(),
            connections: Mutex::default(),
            last_connection: AtomicU64::new(0),
            _subordinates: subordinates,
            acceptors: Mutex::default(),
            addresses: Mutex::default(),
        });
        daemon.listen(&listen)?;
        let started = mounts::start(&daemon, prepared)
            .and_then(|()| shown.map_or(Ok(()), |place| image::start(&daemon, place)));
        if let Err(error) = started {
            daemon.shutdown();
            return Err(error);
        }
        Ok(daemon)
    }

    fn listen(self: &Arc<Self>, all: &[Listen]) -> Result<(), StartError> {
        let mut listeners = Vec::new();
        for listen in all {
            match Listener::bind(listen) {
                Ok(listener) => listeners.push(listener),
                Err(error) => {
                    let bound = &all[..listeners.len()];
                    remove_sockets(bound);
                    return Err(error);
                }
            }
        }
        let addresses = listeners.iter().filter_map(Listener::address).collect();
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
        let mut acceptors = self.acceptors.lock().unwrap_or_else(PoisonError::into_inner);
        for listener in listeners {
            acceptors.push(Acceptor::start(listener, self).map_err(StartError::Threads)?);
        }
        Ok(())
    }

    /// The devices, in the order of the configuration.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        &self.devices
    }

    /// The directories that it is mounted over.
    pub fn mounts(&self) -> &Mounts {
        &self.mounts
    }

    /// The exports as files, if they are shown.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Who pays.
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// What everything does, second by second.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The device of that name.
    pub fn device(&self, name: &str) -> Option<&Arc<dyn Device>> {
        self.devices.iter().find(|device| device.info().name == name)
    }

    /// The exports, with the names of their devices.
    pub fn exports(&self) -> impl Iterator<Item = &ExportConfig> {
        self.exports.iter().map(|(export, _)| export)
    }

    /// What it was told at its start, with the default exports filled in.
    pub fn config(&self) -> &DaemonConfig {
        &self.config
    }

    /// A URI for each export on each socket, ready to be pasted.
    pub fn uris(&self) -> Vec<String> {
        let tcp = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut uris = Vec::new();
        for (export, _) in &self.exports {
            let name = percent_encode(&export.name);
            for listen in &self.config.listen {
                if let Listen::Unix(path) = listen {
                    let path = percent_encode(&path.display().to_string());
                    uris.push(format!("nbd+unix:///{name}?socket={path}"));
                }
            }
            uris.extend(tcp.iter().map(|address| format!("nbd://{address}/{name}")));
        }
        uris
    }

    /// How many clients are connected.
    pub fn connections_count(&self) -> usize {
        self.connections().len()
    }

    /// Bytes of requests and replies held for clients beyond what each may hold by itself.
    pub fn memory_used_bytes(&self) -> u64 {
        self.memory.used_bytes()
    }

    /// Accepts nobody any more, answers what was asked, makes everything durable, and removes the
    /// sockets. Takes at most some 20 seconds, and as long again if there are mounts.
    pub fn shutdown(&self) -> ShutdownReport {
        self.acceptors.lock().unwrap_or_else(PoisonError::into_inner).clear();
        remove_sockets(&self.config.listen);
        for connection in self.connections().values() {
            connection.stop_reading();
        }
        // Whoever still uses files of a mount is answered until it ends or is cut.
        let mounts = thread::scope(|scope| {
            let images = scope.spawn(|| self.images.end(MOUNT_PATIENCE));
            let mut mounts = self.mounts.end(MOUNT_PATIENCE);
            mounts.extend(images.join().ok().flatten());
            mounts
        });
        let mut report = ShutdownReport { mounts, ..ShutdownReport::default() };
        let step = Duration::from_millis(5);
        let mut left = (DRAIN_TIMEOUT + Duration::from_secs(1)).as_millis() / step.as_millis();
        while left > 0 && self.connections_count() > 0 {
            thread::sleep(step);
            left -= 1;
        }
        report.cut_count = self.connections_count();
        for connection in self.connections().values() {
            connection.close();
        }
        for device in &self.devices {
            if let Err(error) = device.flush_all() {
                report.unflushed.push((device.info().name.clone(), error));
            }
        }
        self.mounts.forget();
        self.images.forget();
        self.live.stop();
        self.dirty.stop();
        self.timers.stop();
        report
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What connections share.
    pub(crate) fn shared(&self) -> (Arc<Memory>, Arc<Drainer>) {
        (Arc::clone(&self.memory), Arc::clone(&self.drainer))
    }

    pub(crate) fn next_connection(&self) -> u64 {
        self.last_connection.fetch_add(1, Relaxed) + 1
    }

    /// Counts a client in; false if there are too many.
    pub(crate) fn enter(&self, connection: &Arc<Connection>) -> bool {
        let mut connections = self.connections();
        if connections.len() >= self.config.connections_max {
            let max = self.config.connections_max;
            tracing::warn!("a client was turned away: {max} are connected already");
            return false;
        }
        connections.insert(connection.number(), Arc::clone(connection));
        true
    }

    pub(crate) fn leave(&self, number: u64) {
        self.groups.leave(number);
        self.connections().remove(&number);
    }

    /// The device behind an export, by the id that [`Exports::find`] gave.
    pub(crate) fn export_device(&self, id: u64) -> &Arc<dyn Device> {
        &self.devices[self.exports[export_place(id)].1]
    }

    /// A connection has opened an export, with a group of its own if it named one.
    pub(crate) fn join(
        &self,
        connection: &Arc<Connection>,
        export: u64,
        named: Option<&str>,
    ) -> Result<(), TreeError> {
        self.groups.join(connection, export_place(export), named)
    }

    fn export_info(&self, id: usize) -> ExportInfo {
        let (export, device) = &self.exports[id];
        let info = self.devices[*device].info();
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

/// Each client takes two descriptors: its socket, and the file that its flushes go to.
fn make_room_for(connections_max: usize) {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let wanted = 2 * connections_max as u64 + DESCRIPTORS_OWN;
    if most.is_some_and(|most| most < wanted)
        && let Err(error) = raise_descriptors()
    {
        tracing::debug!(%error, "no more descriptors for clients");
    }
}

impl Exports for Daemon {
    fn list(&self) -> Vec<ExportInfo> {
        (0..self.exports.len()).map(|id| self.export_info(id)).collect()
    }

    /// The empty name is the first export.
    fn find(&self, name: &str) -> Option<ExportInfo> {
        let id = match name {
            "" if self.exports.is_empty() => return None,
            "" => 0,
            _ => self.exports.iter().position(|(export, _)| export.name == name)?,
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
