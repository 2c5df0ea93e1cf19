//! Turns of those whose answer is made of a large copy: one copies at a time, and a few copies are
//! there at once, each until its client has gone.
//!
//! ```text
//!   asked ─► a turn; refused after five seconds ─► copied, one at a time ─► sent ─► the turn ends
//! ```

use super::refused::Refused;
use crate::clock;
use axum::http::StatusCode;
use iopace_core::time::{Instant, Nanos};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Copies that are there at once: two clients that do not read are in nobody's way, nor is one more
/// that comes with them. A copy is up to some 12 MB (4000 groups with a histogram of 2.5 KiB each).
pub(super) const COPIES_MAX: usize = 4;

/// A client that has no turn so long after it came is refused: half of what it has in all, so that
/// one whose turn has come has as much for its answer.
pub(super) const TURN_PATIENCE: Nanos = Nanos::from_secs(5);

/// Who makes a copy, and how many there are.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    copies: Arc<Semaphore>,
    copies_now: Arc<Semaphore>,
}

/// The right to have a copy.
#[derive(Debug)]
pub(super) struct Turn(#[allow(dead_code, reason = "given back with it")] OwnedSemaphorePermit);

/// The right to make it now.
#[derive(Debug)]
pub(super) struct Copying(#[allow(dead_code, reason = "as above")] OwnedSemaphorePermit);

impl Turns {
    pub(super) fn new() -> Turns {
        let copies = Arc::new(Semaphore::new(COPIES_MAX));
        Turns { copies, copies_now: Arc::new(Semaphore::new(1)) }
    }

    /// Waits for a turn of a client that came at that time.
    pub(super) async fn take(&self, came: Instant) -> Result<(Turn, Copying), Refused> {
        let turn = in_time(came, Arc::clone(&self.copies).acquire_owned()).await?;
        let copying = in_time(came, Arc::clone(&self.copies_now).acquire_owned()).await?;
        Ok((Turn(turn), Copying(copying)))
    }

    /// Turns that nobody has.
    #[cfg(test)]
    pub(super) fn free_count(&self) -> usize {
        self.copies.available_permits()
    }
}

async fn in_time<E: std::fmt::Debug>(
    came: Instant,
    permit: impl Future<Output = Result<OwnedSemaphorePermit, E>>,
) -> Result<OwnedSemaphorePermit, Refused> {
    let rest = clock::until(came + TURN_PATIENCE).unwrap_or_default();
    let taken = timeout(rest, permit).await.map_err(|_| {
        Refused::new(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{COPIES_MAX} others have not taken their answers to this yet"),
            "ask again in some seconds, by which they have them or are closed",
        )
    })?;
    Ok(taken.expect("never closed"))
}
