//! The connection to a disk that another server has.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A connection to another NBD server as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemoteReport {
    /// The export, as a URI.
    pub uri: String,
    /// Whether there is a connection. Without one requests wait, or fail when they have waited for
    /// long enough.
    pub connected: bool,
    /// For how long that has been so.
    pub since_ns: u64,
    /// The reason why the last connection was lost, or the last attempt to connect failed; empty if
    /// there was none.
    pub trouble: String,
    /// How long requests wait without a connection until they fail; none: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ns: Option<u64>,
    /// Connections that were made after one was lost.
    pub reconnects_count: u64,
    /// Requests that were sent, or are to be sent, and have no answer.
    pub waiting_count: usize,
    /// Bytes of writes that were answered and that no flush has covered: they are sent again if the
    /// connection is lost.
    pub unflushed_bytes: u64,
}
