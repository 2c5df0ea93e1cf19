//! What can be asked about exports.

use super::{Client, ClientError, JSON, encode};
use crate::api::{AddExport, ExportSize, ExportState, RemovedExportReport, ResizeExport};
use hyper::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A change of exports has been made by then: clients were ended, and a disk has written what is
/// dirty.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(120);

impl Client {
    /// The exports as they stand.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn exports(&self) -> Result<Vec<ExportState>, ClientError> {
        self.get("/v1/exports")
    }

    /// Adds an export; how it stands then.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn add_export(&self, export: &AddExport) -> Result<ExportState, ClientError> {
        self.change_exports("/v1/exports", export)
    }

    /// Removes an export; one that clients are connected to only if they are to be ended.
    ///
    /// # Errors
    /// See [`ClientError`]; the export stays if it was refused.
    pub fn remove_export(
        &self,
        name: &str,
        disconnects: bool,
    ) -> Result<RemovedExportReport, ClientError> {
        let route = format!("/v1/exports?export={}&disconnect={disconnects}", encode(name));
        self.call_within(CHANGE_TIMEOUT, (Method::DELETE, &route), (JSON, Vec::new()))
    }

    /// Has an export reach as far as its file or disk does, which is made so many bytes long first
    /// if that is named.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn resize_export(&self, name: &str, to: Option<u64>) -> Result<ExportSize, ClientError> {
        let asked = ResizeExport { export: name.into(), size_bytes: to };
        self.change_exports("/v1/exports/resize", &asked)
    }

    fn change_exports<T: DeserializeOwned>(
        &self,
        route: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).expect("strings and numbers");
        self.call_within(CHANGE_TIMEOUT, (Method::POST, route), (JSON, body))
    }
}
