//! The running daemon: its devices, its listeners, and an orderly end.

use crate::config::DaemonConfig;
use crate::device::Device;
use std::sync::Arc;

/// What runs.
pub struct Daemon {
    config: DaemonConfig,
    devices: Vec<Arc<dyn Device>>,
}

impl Daemon {
    /// The devices, in the order of the configuration.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        &self.devices
    }

    /// The device of that name.
    pub fn device(&self, name: &str) -> Option<&Arc<dyn Device>> {
        self.devices.iter().find(|device| device.info().name == name)
    }

    /// What it was told at its start.
    pub fn config(&self) -> &DaemonConfig {
        &self.config
    }
}
