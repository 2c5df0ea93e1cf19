//! An export as a block device of the kernel by its ublk driver: `/dev/ublkbN`.
//!
//! ```text
//!  mkfs, mount ─► /dev/ublkbN ─► kernel (ublk_drv) ─► queues.rs   the places of requests: a ring
//!                                                        │
//!                                                        ▼
//!                                                     server.rs   one thread: hits of the page
//!                                                        │        cache, jobs for the device
//!                                                        ▼
//!                                                     the device, as for NBD clients
//!                                                        │
//!                                                        ▼
//!                                                     reply.rs    any thread: data, results
//! ```
//! Commands to the driver go through `port.rs`, in the words of `abi.rs`. `making.rs` makes a device
//! and `recovery.rs` takes one over whose daemon was killed; `disk.rs` has it from its beginning to
//! its end, `left.rs` is for what is left of killed daemons.
//!
//! # Properties
//! 1. A daemon that is killed fails no request: the device waits, and what was not answered is given
//!    to the next daemon (`UBLK_F_USER_RECOVERY_REISSUE`).
//! 2. There is no moment at which a kill leaves a device that is not known: the record is written
//!    before the device is made. Its mark, at random, tells it from one of others with that number.
//! 3. There is no moment at which a kill leaves a device that nobody can take over (`queues.rs`,
//!    `recovery.rs`).
//!
//! # Limits
//! Data are copied once between the kernel and the daemon, by system calls. Zero copy
//! (`UBLK_F_SUPPORT_ZERO_COPY`, `UBLK_F_AUTO_BUF_REG`) takes Linux 6.15 and 6.16.

mod abi;
mod disk;
pub mod left;
mod limits;
mod making;
mod port;
mod queues;
mod recovery;
mod reply;
mod server;

pub use disk::{UblkAttached, UblkDisk, UblkWish};
pub use port::UblkError;

use port::ControlPort;
use std::path::PathBuf;

/// Looks whether the kernel has what is needed, before anything is started. Threads that are
/// started from here on may use the kernel's reserves of memory: writing back what is in memory must
/// not need memory that is only there once it is written. That takes CAP_SYS_RESOURCE.
///
/// # Errors
/// There is no such driver, or it is too old.
pub fn prepare() -> Result<(), UblkError> {
    ControlPort::open()?;
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(%error, "without the kernel's reserves of memory");
    }
    Ok(())
}

/// The block device with that number.
fn block_path(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

/// The device by which it is served.
fn char_path(id: u32) -> PathBuf {
    format!("/dev/ublkc{id}").into()
}
