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

    /// The error for an errno of Linux. What the protocol has no number for is EIO, and what means
    /// "full" is ENOSPC, as it asks for.
    pub const fn from_errno(errno: i32) -> Error {
        match errno {
            // EPERM, EACCES, EROFS
            1 | 13 | 30 => Error::NotPermitted,
            // ENOMEM
            12 => Error::NoMemory,
            // EINVAL
            22 => Error::Invalid,
            // ENOSPC, EFBIG, EDQUOT
            28 | 27 | 122 => Error::NoSpace,
            // EOVERFLOW
            75 => Error::Overflow,
            // EOPNOTSUPP, ENOSYS
            95 | 38 => Error::NotSupported,
            // ESHUTDOWN
            108 => Error::Shutdown,
            _ => Error::Io,
        }
    }

    /// The error for what the operating system or the standard library said.
    pub fn from_io(error: &io::Error) -> Error {
        use io::ErrorKind as Kind;
        if let Some(errno) = error.raw_os_error() {
            return Error::from_errno(errno);
        }
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

#[cfg(test)]
mod tests {
    use super::Error;
    use std::io::{self, ErrorKind};

    const ALL: [Error; 8] = [
        Error::NotPermitted,
        Error::Io,
        Error::NoMemory,
        Error::Invalid,
        Error::NoSpace,
        Error::Overflow,
        Error::NotSupported,
        Error::Shutdown,
    ];

    #[test]
    fn numbers_are_those_of_the_protocol() {
        assert_eq!(ALL.map(Error::code), [1, 5, 12, 22, 28, 75, 95, 108]);
        for error in ALL {
            assert_eq!(Error::from_code(error.code()), error);
        }
    }

    #[test]
    fn a_number_that_clients_cannot_know_is_einval() {
        assert_eq!([0, 2, 13, u32::MAX].map(Error::from_code), [Error::Invalid; 4]);
    }

    #[test]
    fn what_the_system_says_becomes_what_the_protocol_knows() {
        let cases = [
            (5, Error::Io),
            (6, Error::Io),
            (28, Error::NoSpace),
            (27, Error::NoSpace),
            (122, Error::NoSpace),
            (30, Error::NotPermitted),
            (95, Error::NotSupported),
            (108, Error::Shutdown),
        ];
        for (errno, error) in cases {
            assert_eq!(Error::from_io(&io::Error::from_raw_os_error(errno)), error, "{errno}");
        }
        let cases = [
            (ErrorKind::StorageFull, Error::NoSpace),
            (ErrorKind::ReadOnlyFilesystem, Error::NotPermitted),
            (ErrorKind::UnexpectedEof, Error::Io),
        ];
        for (kind, error) in cases {
            assert_eq!(Error::from_io(&kind.into()), error, "{kind}");
        }
    }
}
