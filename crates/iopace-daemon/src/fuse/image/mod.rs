//! Images: each export of the daemon as one file, for programs that want a file, and for loop
//! devices where the kernel has neither nbd nor ublk.
//!
//! ```text
//!  mkfs, mount ─► /dev/loopN ─► kernel (FUSE) ─► filesystem.rs  names, attributes
//!                                                     │
//!                                                     ▼
//!                                                 file.rs        read, write, flush, trim: jobs
//!                                                     │          for the device of the export
//!                                                     ▼
//!                                                 the device, as for NBD clients
//! ```
//! The kernel caches nothing of these files (`FOPEN_DIRECT_IO`), unless a program maps one.

mod file;
mod filesystem;
pub mod loops;
mod payers;
mod shown;

pub use loops::Attached;
pub use shown::{Images, clear_away, remove, remove_left};
pub(crate) use shown::{prepare, start};
