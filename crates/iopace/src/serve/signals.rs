//! The signals that end the daemon, and the one that has it read its configuration again.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The daemon is to end; the name of the signal.
    End(&'static str),
    /// SIGHUP: the configuration is to be read again. A terminal that went away sends it too.
    Reload,
}

/// Listens to SIGTERM, SIGINT and SIGHUP.
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
    pub async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.terminate.recv() => Received::End("SIGTERM"),
            _ = self.interrupt.recv() => Received::End("SIGINT"),
            _ = self.hang_up.recv() => Received::Reload,
        }
    }

    /// Waits for one that ends the daemon, and says which it was.
    pub async fn next_end(&mut self) -> &'static str {
        loop {
            if let Received::End(name) = self.next().await {
                return name;
            }
        }
    }
}
