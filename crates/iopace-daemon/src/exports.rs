//! What a daemon serves: its exports, each with its device, and who pays for their requests.

use crate::config::ExportConfig;
use crate::device::Device;
use crate::groups::Groups;
use crate::start_error::StartError;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A way by which clients reach the exports: NBD, or the disks of virtual machines.
pub(crate) trait Frontend: Send + Sync {
    /// Something for each export on each socket that a user can paste: a URI, or options.
    fn uris(&self) -> Vec<String>;

    /// How many clients are connected.
    fn connections_count(&self) -> usize;

    /// Accepts nobody any more and removes the sockets. What was asked is answered.
    fn stop_accepting(&self);

    /// Reads again what may be renewed while it runs: certificates. `None` if there are none.
    ///
    /// # Errors
    /// What was read cannot be used; what holds stays.
    fn renewal(&self) -> Result<Option<Renewal>, StartError> {
        Ok(None)
    }

    /// Waits until all clients are gone, and cuts those that are not by then. How many.
    fn end(&self, patience: Duration) -> usize;
}

/// Has what was read again hold from now on.
pub(crate) type Renewal = Box<dyn FnOnce() + Send>;

/// An export, and its device.
pub type Export = (ExportConfig, Arc<dyn Device>);

/// The exports of a daemon.
pub struct ExportTable {
    groups: Arc<Groups>,
    all: Vec<Export>,
    last_task: AtomicU64,
}

impl ExportTable {
    pub(crate) fn new(groups: Arc<Groups>, all: Vec<Export>) -> ExportTable {
        ExportTable { groups, all, last_task: AtomicU64::new(0) }
    }

    /// The exports with their devices, in the order of the configuration.
    pub fn all(&self) -> &[Export] {
        &self.all
    }

    /// Who pays.
    pub(crate) fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// A number for one more task whose requests come through an export, counted from 1.
    pub(crate) fn next_task(&self) -> u64 {
        self.last_task.fetch_add(1, Relaxed) + 1
    }
}
