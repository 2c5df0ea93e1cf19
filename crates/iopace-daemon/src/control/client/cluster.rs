//! What can be asked about the host's part in a cluster.

use super::{Client, ClientError, JSON};
use crate::api::{ClusterState, ForgetHost, SetShared};
use hyper::Method;
use serde::Serialize;
use std::time::Duration;

/// The store has answered by then, or it has been given up: some questions of a second each for
/// each of its members.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

impl Client {
    /// The volumes that this host shares with others.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn cluster(&self) -> Result<ClusterState, ClientError> {
        self.get("/v1/cluster")
    }

    /// Sets lines for a file of a group on all hosts of a volume.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn set_shared(&self, set: &SetShared) -> Result<ClusterState, ClientError> {
        self.change_cluster("/v1/cluster/set", set)
    }

    /// Frees the static part of a host that is not there any more.
    ///
    /// # Errors
    /// See [`ClientError`]; nothing is changed if it was refused.
    pub fn forget_host(&self, host: &ForgetHost) -> Result<ClusterState, ClientError> {
        self.change_cluster("/v1/cluster/forget", host)
    }

    fn change_cluster(
        &self,
        route: &str,
        body: &impl Serialize,
    ) -> Result<ClusterState, ClientError> {
        let body = serde_json::to_vec(body).expect("strings");
        self.call_within(CHANGE_TIMEOUT, (Method::POST, route), (JSON, body))
    }
}
