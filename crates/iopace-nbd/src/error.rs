//! Errors as they go over the wire.

use std::fmt;
use std::io;

/// The errors of the NBD protocol; each stands for one errno value on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// EPERM: a write to a read-only export.
    NotPermitted,
    /// EIO.
    Io,
    /// ENOMEM: the server has no room for the request now.
    NoMemory,
    /// EINVAL: the request makes no sense.
    Invalid,
    /// ENOSPC: no space left, or a write past the end.
    NoSpace,
    /// EOVERFLOW: the request is too large.
    Overflow,
    /// ENOTSUP: the export cannot do that.
    NotSupported,
    /// ESHUTDOWN: the server is going away.
    Shutdown,
}

impl Error {
    /// The number on the wire.
    pub const fn code(self) -> u32 {
        match self {
            Error::NotPermitted => 1,
            Error::Io => 5,
            Error::NoMemory => 12,
            Error::Invalid => 22,
            Error::NoSpace => 28,
            Error::Overflow => 75,
            Error::NotSupported => 95,
            Error::Shutdown => 108,
        }
    }

    /// The error for a number on the wire; as the protocol says, unknown ones count as EINVAL.
    pub const fn from_code(code: u32) -> Error {
        match code {
            1 => Error::NotPermitted,
            5 => Error::Io,
            12 => Error::NoMemory,
            28 => Error::NoSpace,
            75 => Error::Overflow,
            95 => Error::NotSupported,
            108 => Error::Shutdown,
            _ => Error::Invalid,
        }
    }

    /// The error for what the operating system said.
    pub fn from_io(error: &io::Error) -> Error {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Error::NotPermitted,
            Kind::OutOfMemory => Error::NoMemory,
            Kind::InvalidInput => Error::Invalid,
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Error::NoSpace,
            Kind::Unsupported => Error::NotSupported,
            _ => Error::Io,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::NotPermitted => "not permitted: the export is read-only",
            Error::Io => "input/output error",
            Error::NoMemory => "the server has no room for the request now",
            Error::Invalid => "invalid request",
            Error::NoSpace => "no space left on the device",
            Error::Overflow => "the request is too large",
            Error::NotSupported => "not supported by the export",
            Error::Shutdown => "the server is going away",
        })
    }
}

impl std::error::Error for Error {}
