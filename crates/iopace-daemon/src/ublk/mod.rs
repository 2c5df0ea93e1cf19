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
//! Commands to the driver go through `port.rs`, in the words of `abi.rs`. `making.rs` makes a
//! device and `recovery.rs` takes one over whose daemon was killed; `disk.rs` has it from its
//! beginning to its end, `left.rs` is for what is left of killed daemons.
//!
//! # Properties
//! 1. A daemon that is killed fails no request: the device waits, and what was not answered is
//!    given to the next daemon (`UBLK_F_USER_RECOVERY_REISSUE`).
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
use std::fs;
use std::path::PathBuf;

/// Looks whether the kernel has what is needed, before anything is started. Threads that are
/// started from here on may use the kernel's reserves of memory: writing back what is in memory
/// must not need memory that is only there once it is written. That takes CAP_SYS_RESOURCE.
///
/// # Errors
/// There is no such driver, or it is too old.
pub fn prepare() -> Result<(), UblkError> {
    if fs::read_to_string(RELEASE).ok().and_then(|text| version(&text)) < Some(LINUX_MIN) {
        return Err(UblkError::Old);
    }
    ControlPort::open()?;
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(%error, "without the kernel's reserves of memory");
    }
    Ok(())
}

/// Where the kernel says which one it is.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// The first Linux whose driver survives two takeovers in a row of which the first was killed
/// ("ublk_drv: fix NULL pointer dereference in ublk_ctrl_start_recovery").
const LINUX_MIN: (u32, u32) = (6, 10);

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The block device with that number.
fn block_path(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

/// The device by which it is served.
fn char_path(id: u32) -> PathBuf {
    format!("/dev/ublkc{id}").into()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version("6.12.94+deb12-cloud-amd64\n"), Some((6, 12)));
        assert!(version("6.9.0") < version("6.10.0-rc1") && version("7.1") > version("6.99"));
        assert_eq!(version("unknown"), None);
    }
}
