//! Questions about what everything does.

use super::{Client, ClientError};
use crate::control::api::LiveReport;

impl Client {
    /// What everything did in the last interval; within the first second of a daemon it waits for
    /// it.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn live(&self) -> Result<LiveReport, ClientError> {
        self.get("/v1/live")
    }

    /// The last intervals, so many at most (1 to 120), oldest first.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn live_history(&self, most: usize) -> Result<Vec<LiveReport>, ClientError> {
        self.get(&format!("/v1/live?history={most}"))
    }
}
