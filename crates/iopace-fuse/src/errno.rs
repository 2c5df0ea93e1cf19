//! Error numbers.

use std::io;

/// An error number that the kernel gives the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(i32);

macro_rules! errno {
    ($($name:ident),* $(,)?) => {
        impl Errno {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: Errno = Errno(libc::$name);
            )*
        }
    };
}

errno!(
    E2BIG,
    EACCES,
    EAGAIN,
    EBADF,
    EBUSY,
    EDQUOT,
    EEXIST,
    EFAULT,
    EFBIG,
    EINTR,
    EINVAL,
    EIO,
    EISDIR,
    ELOOP,
    EMFILE,
    EMLINK,
    ENAMETOOLONG,
    ENFILE,
    ENODATA,
    ENODEV,
    ENOENT,
    ENOMEM,
    ENOSPC,
    ENOSYS,
    ENOTCONN,
    ENOTDIR,
    ENOTEMPTY,
    ENOTTY,
    ENXIO,
    EOPNOTSUPP,
    EOVERFLOW,
    EPERM,
    EPROTO,
    ERANGE,
    EROFS,
    ESTALE,
    ETIMEDOUT,
    ETXTBSY,
    EXDEV,
);

impl Errno {
    /// This number, if it is one that the kernel accepts in a reply; else `EIO`.
    pub fn from_i32(number: i32) -> Errno {
        // The kernel refuses a reply with any other (MAX_ERRNO is 4095; fuse has 512 as bound).
        if (1..512).contains(&number) { Errno(number) } else { Errno::EIO }
    }

    /// The number.
    pub fn code(self) -> i32 {
        self.0
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        match (error.raw_os_error(), error.kind()) {
            (Some(number), _) => Errno::from_i32(number),
            (None, io::ErrorKind::NotFound) => Errno::ENOENT,
            (None, io::ErrorKind::PermissionDenied) => Errno::EACCES,
            (None, io::ErrorKind::AlreadyExists) => Errno::EEXIST,
            (None, io::ErrorKind::InvalidInput) => Errno::EINVAL,
            (None, io::ErrorKind::Interrupted) => Errno::EINTR,
            (None, io::ErrorKind::WouldBlock) => Errno::EAGAIN,
            (None, io::ErrorKind::TimedOut) => Errno::ETIMEDOUT,
            (None, io::ErrorKind::Unsupported) => Errno::EOPNOTSUPP,
            (None, io::ErrorKind::OutOfMemory) => Errno::ENOMEM,
            (None, _) => Errno::EIO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_the_kernel_refuses_become_eio() {
        for number in [0, -5, 512, 4096, i32::MIN, i32::MAX] {
            assert_eq!(Errno::from_i32(number), Errno::EIO, "{number}");
        }
        assert_eq!(Errno::from_i32(libc::ESTALE), Errno::ESTALE);
        assert_eq!(Errno::from(io::Error::from_raw_os_error(libc::EXDEV)), Errno::EXDEV);
        assert_eq!(Errno::from(io::Error::other("no number")), Errno::EIO);
    }
}
