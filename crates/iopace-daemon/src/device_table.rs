//! The open devices of a daemon, which come and go while it runs.

use crate::device::Device;
use std::sync::{Arc, PoisonError, RwLock};

/// The devices at one moment, in the order in which they were opened.
pub type DeviceList = Arc<[Arc<dyn Device>]>;

/// The open devices. Each look gets a list that does not change; who keeps one keeps its devices.
pub struct DeviceTable(RwLock<DeviceList>);

impl DeviceTable {
    /// These devices.
    pub(crate) fn new(devices: Vec<Arc<dyn Device>>) -> DeviceTable {
        DeviceTable(RwLock::new(devices.into()))
    }

    /// The devices as of now.
    pub fn all(&self) -> DeviceList {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The device of that name.
    pub fn find(&self, name: &str) -> Option<Arc<dyn Device>> {
        self.all().iter().find(|device| device.info().name == name).cloned()
    }

    /// One more device, whose name no other one has.
    pub(crate) fn add(&self, device: Arc<dyn Device>) {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *list = list.iter().cloned().chain([device]).collect();
    }

    /// The device of that name is known no more.
    pub(crate) fn remove(&self, name: &str) {
        let mut list = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *list = list.iter().filter(|device| device.info().name != name).cloned().collect();
    }
}

/// The names of devices, in their order.
pub(crate) fn names(devices: &[Arc<dyn Device>]) -> Vec<&str> {
    devices.iter().map(|device| device.info().name.as_str()).collect()
}
