//! The FUSE protocol of Linux: the kernel's requests, their replies, and the threads that serve
//! them.
//!
//! ```text
//!  /dev/fuse ─► device.rs     one descriptor per thread
//!                  │ bytes
//!                  ▼
//!               parse.rs      bytes to a typed operation, without I/O; wire/ has the layouts
//!                  │
//!                  ▼
//!               session/      worker.rs: the threads; users.rs: how many each user may hold
//!                  │          dispatch.rs: which method of Filesystem
//!                  ▼
//!               Filesystem ─► reply/ ─► /dev/fuse
//! ```
//! Beside that: `turns.rs` (what waits, by user), `init.rs` (what is agreed with the kernel),
//! `notify.rs` (what the kernel is told unasked), `interrupts.rs` (callers with a signal pending),
//! `mount.rs` (mounting as root).
//!
//! # Threads
//! One thread is always free to receive. A user whose calls the file system cannot end (a lease, a
//! stopped file system below) holds at most a fixed number of threads; his further requests wait in
//! a queue of his own, and everybody else's go on. See `limits.rs`.
//!
//! # Sources
//! Layouts and numbers are those of `include/uapi/linux/fuse.h` of Linux, ABI 7.23 and newer.

mod attributes;
mod device;
mod errno;
mod filesystem;
pub mod flags;
mod init;
mod interrupts;
pub mod limits;
mod mount;
mod notify;
pub mod parse;
mod reply;
mod request;
mod session;
pub mod subordinate;
mod turns;
pub mod types;
pub mod wire;

pub use attributes::{FileAttr, FileType, TimeOrNow};
pub use errno::Errno;
pub use filesystem::Filesystem;
pub use flags::{
    AccessFlags, CopyFileRangeFlags, FopenFlags, InitFlags, IoctlFlags, ReleaseFlags, RenameFlags,
    SetxattrFlags, WriteFlags,
};
pub use init::KernelConfig;
pub use mount::{Config, MountOption};
pub use notify::Notifier;
pub use reply::directory::{ReplyDirectory, ReplyDirectoryPlus};
pub use reply::{
    ReplyAttr, ReplyBmap, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
pub use request::Request;
pub use session::{BackgroundSession, Control, Session, spawn_mount};
pub use turns::Turns;
pub use types::{
    FileHandle, FileLock, Generation, INodeNo, LockOwner, OpenAccMode, OpenFlags, Version,
};
