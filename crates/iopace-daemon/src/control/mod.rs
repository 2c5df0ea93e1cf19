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
mod door;
mod explain;
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
pub use server::{Server, run, serve};
pub use token::Token;

use crate::api::{ExportReport, MountReport};
use crate::daemon::Daemon;
use crate::device::Device;
use crate::groups::Groups;
use crate::live::Hub;
use std::path::Path;
use std::sync::Arc;

/// What can be controlled: the daemon, or a stand-in of a test.
pub trait Controlled: Send + Sync + 'static {
    /// The devices.
    fn devices(&self) -> &[Arc<dyn Device>];

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

    /// The configuration file that it was started with.
    fn config_file(&self) -> Option<&Path> {
        None
    }
}

impl Controlled for Daemon {
    fn devices(&self) -> &[Arc<dyn Device>] {
        Daemon::devices(self)
    }

    fn groups(&self) -> &Groups {
        Daemon::groups(self)
    }

    fn live(&self) -> &Arc<Hub> {
        Daemon::live(self).hub()
    }

    fn exports(&self) -> Vec<ExportReport> {
        let groups = Daemon::groups(self).export_groups();
        let exports = Daemon::exports(self).zip(groups).map(|(export, group)| ExportReport {
            name: export.name.clone(),
            device: export.device.clone(),
            read_only: export.read_only,
            group,
        });
        exports.collect()
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

    fn config_file(&self) -> Option<&Path> {
        self.config().file.as_deref()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::fake::fake_device;
