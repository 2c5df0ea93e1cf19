//! Why an export was not added, removed or resized.

use crate::device::ResizeError;
use crate::groups::GroupError;
use crate::start_error::StartError;
use std::io;

/// Why an export was not added, removed or resized; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A name that cannot be.
    #[error("a name has 1 to 255 bytes, no '/' and no control characters")]
    Name,
    /// The name is taken.
    #[error("there is an export '{0}' already: choose another name, or remove that one")]
    Exists(String),
    /// The name of the device is taken.
    #[error(
        "there is a device '{0}' already: choose another name for the export, which its device \
         gets as well, or export that device (--device {0})"
    )]
    DeviceExists(String),
    /// No such export.
    #[error("there is no export '{name}'; there are: {}", .known.join(", "))]
    NoExport {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No such device.
    #[error("there is no device '{name}'; there are: {}", .known.join(", "))]
    NoDevice {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// As many as may be.
    #[error("there are {} exports already, which is the most", super::EXPORTS_MAX)]
    TooMany,
    /// Nobody could reach it.
    #[error("the daemon was started without a socket for NBD clients (--socket, --listen)")]
    NoSocket,
    /// It is for encrypted connections, and there are none.
    #[error(
        "export '{0}' would be shown on encrypted connections only, and the daemon was started \
         without TLS (--tls-certificates): nobody could open it"
    )]
    NoTls(String),
    /// The files of a mount.
    #[error("device '{0}' is of the files of a directory, and has no bytes to be exported")]
    Directory(String),
    /// Clients have it open.
    #[error(
        "export '{name}' is in use: {count} connected to it; end them first, or say --disconnect, \
         which answers what they have asked for and ends them"
    )]
    InUse {
        /// The export.
        name: String,
        /// How many connections.
        count: usize,
    },
    /// Requests of clients do not come to an end.
    #[error(
        "export '{name}' stays: its clients are ended, but requests of {count} of them wait for a \
         limit or are stuck at the disk (see 'iopace explain'); raise the limit of their group, or \
         try again later"
    )]
    Stuck {
        /// The export.
        name: String,
        /// How many connections.
        count: usize,
    },
    /// Something else than NBD clients has it, for as long as the daemon runs.
    #[error("export '{name}' is {why}: that ends with the daemon only")]
    Pinned {
        /// The export.
        name: String,
        /// What has it.
        why: &'static str,
    },
    /// The device cannot be opened.
    #[error(transparent)]
    Open(#[from] StartError),
    /// No such group.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// The device cannot be closed.
    #[error(
        "device '{name}' cannot be made durable ({error}), so its export stays, and what was \
         written last may be lost; the same command closes it all the same if the disk takes it \
         then"
    )]
    Unflushed {
        /// The device.
        name: String,
        /// What the disk said.
        error: io::Error,
    },
    /// Another size cannot be.
    #[error("device '{name}' keeps its size: {error}")]
    Size {
        /// The device.
        name: String,
        /// Why.
        error: ResizeError,
    },
    /// The system gives no threads.
    #[error("the system gives no threads: {0}")]
    Threads(io::Error),
}
