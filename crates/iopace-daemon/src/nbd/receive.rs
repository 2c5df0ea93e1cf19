//! Bytes from a client, and how they end.

use super::connection::Connection;
use crate::clock;
use iopace_core::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io;

/// A thread that waits for the data of a write looks so often whether others wait for its memory.
const PAYLOAD_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// Why a session ended; all of them are ordinary.
#[derive(Debug)]
pub(super) enum End {
    /// The client is gone or asked to go.
    Closed,
    /// The protocol was violated beyond repair, or the handshake took too long.
    Refused(String),
}

/// Waits for more of a write, for which memory is held: after `due` not while others wait for that.
pub(super) fn receive_payload(
    connection: &Connection,
    space: &mut [u8],
    due: Instant,
) -> Result<usize, End> {
    loop {
        match recv(connection.socket(), &mut *space, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {}
            Ok((0, _)) => return Err(End::Closed),
            Ok((count, _)) => return Ok(count),
            Err(Errno::INTR) => continue,
            Err(error) => return Err(End::Refused(io::Error::from(error).to_string())),
        }
        if clock::until(due).is_none_or(|left| left.is_zero()) && connection.is_memory_wanted() {
            let why = "the data of a write did not come while others waited for memory";
            return Err(End::Refused(why.into()));
        }
        let mut socket = [PollFd::from_borrowed_fd(connection.socket(), PollFlags::IN)];
        let _ = poll(&mut socket, Some(&PAYLOAD_LOOK));
    }
}

/// Waits for the client's next bytes.
pub(super) fn receive(connection: &Connection, space: &mut [u8]) -> Result<usize, End> {
    loop {
        match recv(connection.socket(), &mut *space, RecvFlags::empty()) {
            Ok((0, _)) => return Err(End::Closed),
            Ok((count, _)) => return Ok(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                return Err(End::Refused("the handshake took too long".into()));
            }
            Err(error) => {
                let error = io::Error::from(error);
                return Err(End::Refused(error.to_string()));
            }
        }
    }
}
