//! What a server's machine reports.

use crate::close::CloseReason;
use crate::request::Request;
use crate::{Error, Replies};

/// What happened, or what is needed.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// All that was received is used up: fill [`recv_space`](crate::Server::recv_space).
    NeedInput,
    /// Bytes of the handshake are in [`take_output`](crate::Server::take_output). Nothing more is
    /// parsed until they are taken, which bounds them to the answer to one option.
    Send,
    /// The client asked for encryption and was told that it may begin: carry out the handshake of
    /// TLS on the connection, then call [`tls_started`](crate::Server::tls_started). All that is
    /// received from then on is what was decrypted. If the handshake fails, hang up.
    StartTls,
    /// The handshake is over; the rest of its bytes are in
    /// [`take_output`](crate::Server::take_output).
    Opened(Opened),
    /// A request without payload, checked against the export.
    Request(Request),
    /// A write, checked against the export. Its payload of `len` bytes must be taken by
    /// [`payload_buffered`](crate::Server::payload_buffered) and
    /// [`payload_received`](crate::Server::payload_received) before the next poll.
    Write(Request),
    /// A request that must be answered by this error. If it had a payload, that is gone already.
    Reject {
        /// Whose.
        cookie: u64,
        /// The answer.
        error: Error,
    },
    /// The connection is over: send what is in [`take_output`](crate::Server::take_output), answer
    /// what is in flight, then close.
    Close(CloseReason),
}

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The export's id, as [`Exports`](crate::Exports) gave it.
    pub export: u64,
    /// Its size in bytes as the client was told it.
    pub size_bytes: u64,
    /// How replies look.
    pub replies: Replies,
    /// Whether `base:allocation` may be asked for.
    pub block_status: bool,
}
