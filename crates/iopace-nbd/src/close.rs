//! Why a connection is over.

use std::fmt;

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
    /// EXPORT_NAME without encryption where it is required; the protocol knows no other answer.
    TlsRequired,
    /// Bytes right behind STARTTLS, before it was answered: whoever sent them, they are not
    /// encrypted.
    BytesBehindStartTls,
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
            CloseReason::TlsRequired => write!(f, "it asked for an export without TLS"),
            CloseReason::BytesBehindStartTls => {
                write!(f, "bytes behind STARTTLS that are not encrypted")
            }
            CloseReason::PayloadTooLong(len) => write!(f, "a write of {len} bytes"),
        }
    }
}
