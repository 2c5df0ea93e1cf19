//! Small types of the interface: numbers that must not be mixed up.

use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl From<$name> for u64 {
            fn from(number: $name) -> u64 {
                number.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The number by which the kernel knows a file.
    INodeNo
}
number! {
    /// The number of an open file or directory, chosen by the file system.
    FileHandle
}
number! {
    /// The owner of a lock: a number that stands for the process or the open file.
    LockOwner
}
number! {
    /// Tells files apart that had the same number one after the other.
    Generation
}

impl INodeNo {
    /// The root of the file system.
    pub const ROOT: INodeNo = INodeNo(1);
}

/// A version of the protocol: major and minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

/// The flags of `open(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFlags(pub i32);

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum OpenAccMode {
    /// To read.
    O_RDONLY,
    /// To write.
    O_WRONLY,
    /// Both.
    O_RDWR,
}

impl OpenFlags {
    /// How the file is opened.
    pub fn acc_mode(self) -> OpenAccMode {
        match self.0 & libc::O_ACCMODE {
            libc::O_RDONLY => OpenAccMode::O_RDONLY,
            libc::O_WRONLY => OpenAccMode::O_WRONLY,
            _ => OpenAccMode::O_RDWR,
        }
    }
}

/// A lock that is asked for, or asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// Its owner.
    pub owner: LockOwner,
    /// The first byte.
    pub start: u64,
    /// The last byte; `i64::MAX` (or more) is the end of the file, wherever that is.
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    /// The process, as the kernel knows it in our pid namespace.
    pub pid: u32,
    /// A lock of `flock(2)` on the whole file; else one of `fcntl(2)`.
    pub is_flock: bool,
}
