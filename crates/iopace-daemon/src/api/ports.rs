//! Ports beside the control socket.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where something is served over HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HttpReport {
    /// The address, as `127.0.0.1:8080`.
    pub address: String,
    /// The file with the token that requests need.
    pub token_file: String,
}
