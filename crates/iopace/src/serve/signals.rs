//! The signals that end the daemon.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens to SIGTERM, SIGINT and SIGHUP (a terminal that went away).
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Starts listening; from here on these signals do not kill the process.
    ///
    /// # Errors
    /// The system refuses. Panics outside a tokio runtime.
    pub fn listen() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one of them and says which it was.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hang_up.recv() => "SIGHUP",
        }
    }
}
