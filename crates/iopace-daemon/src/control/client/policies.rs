//! Questions about stages pace and window, and about policies that are loaded.

use super::{Client, ClientError, encode};
use crate::api::{
    CapChange, CapsReport, DeviceReport, LoadedPolicy, PaceChange, PolicyList, WindowChange,
};
use hyper::Method;
use std::time::Duration;

/// A module has been compiled by then: the largest takes some seconds, and others may be before it.
const LOAD_TIMEOUT: Duration = Duration::from_secs(120);

impl Client {
    /// The policies of both stages that the daemon has.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn policies(&self) -> Result<PolicyList, ClientError> {
        self.get("/v1/policies")
    }

    /// Loads the bytes of a module, which were read from that file, as a policy.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn load_policy(&self, path: &str, module: Vec<u8>) -> Result<LoadedPolicy, ClientError> {
        let route = format!("/v1/policies?path={}", encode(path));
        self.call_within(LOAD_TIMEOUT, (Method::POST, &route), ("application/wasm", module))
    }

    /// The same in the place of the policy of its name, also on devices that have that; if none is
    /// loaded, this one is.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn replace_policy(&self, path: &str, module: Vec<u8>) -> Result<LoadedPolicy, ClientError> {
        let route = format!("/v1/policies?replace=true&path={}", encode(path));
        self.call_within(LOAD_TIMEOUT, (Method::POST, &route), ("application/wasm", module))
    }

    /// Takes a policy out again, and says what it was.
    ///
    /// # Errors
    /// See [`ClientError`]; one that a device has is refused.
    pub fn unload_policy(&self, name: &str) -> Result<LoadedPolicy, ClientError> {
        self.call(Method::DELETE, &format!("/v1/policies/{}", encode(name)), Vec::new())
    }

    /// Changes how the writers of a device are paced, and says how the device stands then.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn change_pace(
        &self,
        name: &str,
        change: &PaceChange,
    ) -> Result<DeviceReport, ClientError> {
        self.post(&format!("/v1/devices/{}/pace", encode(name)), change)
    }

    /// The processes that have a cap on a device.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn caps(&self, name: &str) -> Result<CapsReport, ClientError> {
        self.get(&format!("/v1/devices/{}/pace/caps", encode(name)))
    }

    /// Caps a process on a device, or lifts its cap, and says which there are then.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn set_cap(&self, name: &str, change: &CapChange) -> Result<CapsReport, ClientError> {
        self.post(&format!("/v1/devices/{}/pace/caps", encode(name)), change)
    }

    /// Changes who decides how many requests the disk of a device holds, or how many that may be,
    /// and says how the device stands then.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn change_window(
        &self,
        name: &str,
        change: &WindowChange,
    ) -> Result<DeviceReport, ClientError> {
        self.post(&format!("/v1/devices/{}/window", encode(name)), change)
    }
}
