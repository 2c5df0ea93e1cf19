//! What a server's machine reports.

use crate::request::Request;
use crate::{Error, Replies};
use std::fmt;

/// What happened, or what is needed.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// All that was received is used up: fill [`recv_space`](crate::Server::recv_space).
    NeedInput,
    /// Bytes of the handshake are in [`take_output`](crate::Server::take_output). Nothing more is
    /// parsed until they are taken, which bounds them to the answer to one option.
    Send,
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
    /// How replies look.
    pub replies: Replies,
    /// Whether `base:allocation` may be asked for.
    pub block_status: bool,
}

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client said DISC.
    Disconnected,
    /// The client said ABORT.
    Aborted,
    /// Client flags that the server did not offer; the protocol demands to hang up.
    UnknownClientFlags(u32),
    /// Not an option where one must stand.
    BadOptionMagic(u64),
    /// Not a request where one must stand.
    BadRequestMagic(u32),
    /// An option too long even to be skipped, in bytes.
    OptionTooLong(u32),
    /// Options without end.
    TooManyOptions,
    /// EXPORT_NAME of an export that does not exist; the protocol knows no other answer.
    UnknownExport,
    /// A write whose payload is too long to be skipped, in bytes.
    PayloadTooLong(u32),
}

impl CloseReason {
    /// Whether it is an ordinary end.
    pub const fn is_orderly(self) -> bool {
        matches!(self, CloseReason::Disconnected | CloseReason::Aborted)
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Disconnected => write!(f, "the client disconnected"),
            CloseReason::Aborted => write!(f, "the client ended the handshake"),
            CloseReason::UnknownClientFlags(flags) => write!(f, "unknown client flags {flags:#x}"),
            CloseReason::BadOptionMagic(magic) => write!(f, "bad option magic {magic:#x}"),
            CloseReason::BadRequestMagic(magic) => write!(f, "bad request magic {magic:#x}"),
            CloseReason::OptionTooLong(len) => write!(f, "an option of {len} bytes"),
            CloseReason::TooManyOptions => write!(f, "too many options"),
            CloseReason::UnknownExport => write!(f, "the export does not exist"),
            CloseReason::PayloadTooLong(len) => write!(f, "a write of {len} bytes"),
        }
    }
}
