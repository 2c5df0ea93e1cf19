//! Bytes from a client, and how they end.

use super::connection::Connection;
use crate::clock;
use iopace_core::time::Instant;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io;
use std::time::Duration;

/// A thread that waits for the data of a write looks so often whether others wait for its memory.
const PAYLOAD_LOOK: Duration = Duration::from_millis(500);

/// Why a session ended; all of them are ordinary.
#[derive(Debug)]
pub(super) enum End {
    /// The client is gone or asked to go.
    Closed,
    /// The protocol was violated beyond repair, or the handshake took too long.
    Refused(String),
}

/// How long one wait for a client's bytes lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Until the handshake has to be over.
    Handshake,
    /// For ever.
    Requests,
    /// So long at most that a look at the memory for its data is never late.
    Data,
}

impl Waits {
    /// Makes the socket's waits last so long; they stay like that for the writes that follow.
    pub(super) fn data(&mut self, connection: &Connection) {
        if *self != Waits::Data {
            *self = Waits::Data;
            set(connection, Some(PAYLOAD_LOOK));
        }
    }

    /// As the handshake is over.
    pub(super) fn requests(&mut self, connection: &Connection) {
        *self = Waits::Requests;
        set(connection, None);
    }

    /// So much is left for the handshake.
    pub(super) fn handshake(self, connection: &Connection, left: Duration) {
        set(connection, Some(left));
    }

    /// Waits for the client's next bytes; in a handshake there may be none yet, so that the time
    /// that is left is looked at again.
    pub(super) fn receive(
        &mut self,
        connection: &Connection,
        space: &mut [u8],
    ) -> Result<usize, End> {
        loop {
            match connection.receive(space, RecvFlags::empty()) {
                Ok(0) => return Err(End::Closed),
                Ok(count) => return Ok(count),
                // Whoever sends an encrypted handshake bit by bit has no more time for it.
                Err(Errno::INTR) if *self == Waits::Handshake => return Ok(0),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if *self == Waits::Handshake => {
                    return Err(End::Refused("the handshake took too long".into()));
                }
                Err(Errno::AGAIN) => self.requests(connection),
                Err(error) => return Err(End::Refused(io::Error::from(error).to_string())),
            }
        }
    }
}

fn set(connection: &Connection, limit: Option<Duration>) {
    let _ = set_socket_timeout(connection.socket(), Timeout::Recv, limit);
}

/// Waits for what is left of a write, for which memory is held: after `due` not while others wait
/// for that. How many bytes came: fewer than asked for if the socket's wait was over.
pub(super) fn receive_payload(
    connection: &Connection,
    space: &mut [u8],
    due: Instant,
) -> Result<usize, End> {
    loop {
        let is_due = clock::until(due).is_none_or(|left| left.is_zero());
        if is_due && connection.is_memory_wanted() {
            let why = "the data of a write did not come while others waited for memory";
            return Err(End::Refused(why.into()));
        }
        // One call for all of it: it ends early only with the socket's wait, or if it is encrypted.
        match connection.receive(space, RecvFlags::WAITALL) {
            Ok(0) => return Err(End::Closed),
            Ok(count) => return Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(End::Refused(io::Error::from(error).to_string())),
        }
    }
}
