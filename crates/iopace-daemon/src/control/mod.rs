//! The control socket: HTTP with JSON over a Unix socket of mode 0600, for `iopace sched` and for
//! scripts (`curl --unix-socket iopace.ctl http://localhost/v1/devices`).
//!
//! [`crate::api`] is what goes over it, [`server`] answers, [`client`] asks. [`crate::change`]
//! turns a request into a change of a device, `groups` answers for groups, `stream` tells what
//! everything does. What takes long is done by the `idle_executor`. One request per connection,
//! bounded in size, time and number; only the daemon's own user and root are heard. [`port`] is the
//! same for browsers, behind a [`token`].

mod admission;
mod caps;
pub mod client;
mod cluster;
mod door;
mod explain;
mod exports;
mod groups;
mod guest;
mod idle_executor;
pub mod metrics;
mod openapi;
mod page;
mod peer;
mod policies;
pub mod port;
mod query;
mod recommend;
mod record;
mod refused;
mod routes;
pub mod server;
mod shared;
mod stream;
pub mod token;
mod turns;

pub use client::{Client, ClientError, Follow, LiveMessage, LiveStream, RecordStream};
pub use port::Port;
pub use server::{Ports, Server, run, serve};
pub use token::Token;

use crate::api::{ExportReport, ExportState, MountReport};
use crate::cluster::Cluster;
use crate::config::{DeviceConfig, ExportConfig};
use crate::daemon::Daemon;
use crate::device_table::DeviceList;
use crate::exporting::{ExportError, RemovedExport};
use crate::groups::Groups;
use crate::live::Hub;
use std::path::Path;
use std::sync::Arc;

/// What can be controlled: the daemon, or a stand-in of a test.
pub trait Controlled: Send + Sync + 'static {
    /// The devices.
    fn devices(&self) -> DeviceList;

    /// Who pays.
    fn groups(&self) -> &Groups;

    /// What everything does, second by second.
    fn live(&self) -> &Arc<Hub>;

    /// What clients see of them.
    fn exports(&self) -> Vec<ExportReport>;

    /// Where clients find it.
    fn uris(&self) -> Vec<String>;

    /// How many clients are connected.
    fn connections_count(&self) -> usize;

    /// Bytes of requests and replies held beyond what each client may hold by itself.
    fn memory_used_bytes(&self) -> u64;

    /// The directories that are mounted.
    fn mounts(&self) -> Vec<MountReport>;

    /// The exports as they stand.
    fn export_states(&self) -> Vec<ExportState> {
        Vec::new()
    }

    /// See [`Daemon::add_export`].
    ///
    /// # Errors
    /// See [`ExportError`]; a stand-in takes none.
    fn add_export(
        &self,
        _export: ExportConfig,
        _device: Option<&DeviceConfig>,
    ) -> Result<(), ExportError> {
        Err(ExportError::NoSocket)
    }

    /// See [`Daemon::remove_export`].
    ///
    /// # Errors
    /// See [`ExportError`].
    fn remove_export(&self, name: &str, _disconnects: bool) -> Result<RemovedExport, ExportError> {
        Err(ExportError::NoExport { name: name.into(), known: Vec::new() })
    }

    /// See [`Daemon::resize_export`].
    ///
    /// # Errors
    /// See [`ExportError`].
    fn resize_export(&self, name: &str, _to: Option<u64>) -> Result<(u64, u64), ExportError> {
        Err(ExportError::NoExport { name: name.into(), known: Vec::new() })
    }

    /// See [`Daemon::unload_retired`].
    fn unload_retired(&self) {}

    /// Its part in a cluster.
    fn cluster(&self) -> Option<&Cluster> {
        None
    }

    /// The configuration file that it was started with.
    fn config_file(&self) -> Option<&Path> {
        None
    }
}

impl Controlled for Daemon {
    fn cluster(&self) -> Option<&Cluster> {
        Daemon::cluster(self)
    }

    fn devices(&self) -> DeviceList {
        Daemon::devices(self)
    }

    fn groups(&self) -> &Groups {
        Daemon::groups(self)
    }

    fn live(&self) -> &Arc<Hub> {
        Daemon::live(self).hub()
    }

    fn exports(&self) -> Vec<ExportReport> {
        let states = Daemon::export_states(self).into_iter();
        let report = |ExportState { name, device, read_only, group, .. }| ExportReport {
            name,
            device,
            read_only,
            group,
        };
        states.map(report).collect()
    }

    fn uris(&self) -> Vec<String> {
        Daemon::uris(self)
    }

    fn connections_count(&self) -> usize {
        Daemon::connections_count(self)
    }

    fn memory_used_bytes(&self) -> u64 {
        Daemon::memory_used_bytes(self)
    }

    fn mounts(&self) -> Vec<MountReport> {
        Daemon::mounts(self).reports()
    }

    fn export_states(&self) -> Vec<ExportState> {
        Daemon::export_states(self)
    }

    fn add_export(
        &self,
        export: ExportConfig,
        device: Option<&DeviceConfig>,
    ) -> Result<(), ExportError> {
        Daemon::add_export(self, export, device)
    }

    fn remove_export(&self, name: &str, disconnects: bool) -> Result<RemovedExport, ExportError> {
        Daemon::remove_export(self, name, disconnects)
    }

    fn resize_export(&self, name: &str, to: Option<u64>) -> Result<(u64, u64), ExportError> {
        Daemon::resize_export(self, name, to)
    }

    fn unload_retired(&self) {
        Daemon::unload_retired(self);
    }

    fn config_file(&self) -> Option<&Path> {
        self.config().file.as_deref()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::fake::fake_device;
