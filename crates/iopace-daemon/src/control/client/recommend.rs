//! What can be asked about recommend mode.

use super::{Client, ClientError, encode};
use crate::api::{RecommendChange, RecommendFile, RecommendReport};
use hyper::Method;

impl Client {
    /// What is tried beside a device, and what it would have done.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn recommended(&self, name: &str) -> Result<RecommendReport, ClientError> {
        self.get(&format!("/v1/devices/{}/recommend", encode(name)))
    }

    /// Tries settings beside those of a device, from the beginning.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn recommend(
        &self,
        name: &str,
        change: &RecommendChange,
    ) -> Result<RecommendReport, ClientError> {
        self.post(&format!("/v1/devices/{}/recommend", encode(name)), change)
    }

    /// Ends what is tried beside a device; its last report.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn end_recommend(&self, name: &str) -> Result<RecommendReport, ClientError> {
        let route = format!("/v1/devices/{}/recommend", encode(name));
        self.call(Method::DELETE, &route, Vec::new())
    }

    /// Tries lines of a file of a group; what is tried on each device then.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn recommend_group(
        &self,
        file: &RecommendFile,
    ) -> Result<Vec<RecommendReport>, ClientError> {
        self.post("/v1/groups/recommend", file)
    }
}
