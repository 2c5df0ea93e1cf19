//! Exports over the control socket: those there are, and those that come and go.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An export as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportState {
    /// The name that clients ask for.
    pub name: String,
    /// The device behind it.
    pub device: String,
    /// The file, block device or export of another server behind that; none of a disk in memory.
    pub path: Option<String>,
    /// Its size in bytes, as clients see it that connect now.
    pub size_bytes: u64,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether it is shown on encrypted connections only.
    #[serde(default)]
    pub require_tls: bool,
    /// The path of the group that its connections pay as.
    pub group: String,
    /// How many connections have it open.
    pub connections_count: usize,
    /// Whether its device was opened since the start of the daemon: such a one is closed with its
    /// last export.
    pub opened: bool,
}

/// An export to be added: of a device that is open, or of one that is opened for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddExport {
    /// Its name.
    pub name: String,
    /// A device that is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// An image file or block device to be opened, as an absolute path; the device has the name of
    /// the export. Only root and the daemon's own user may say so, over the control socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The group that its connections pay as; the root without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Refuse writes; a path is opened to be read only.
    #[serde(default)]
    pub read_only: bool,
    /// Show it on encrypted connections only.
    #[serde(default)]
    pub require_tls: bool,
    /// Serve an image of a format of its own (qcow2) as the bytes that it is.
    #[serde(default)]
    pub raw: bool,
    /// Bypass the page cache.
    #[serde(default)]
    pub direct: bool,
}

/// An export that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RemovedExportReport {
    /// Its name.
    pub name: String,
    /// The device that was behind it.
    pub device: String,
    /// How many connections were ended.
    pub ended_count: usize,
    /// Whether the device is closed: all that was written is durable.
    pub device_closed: bool,
    /// Whether its file stays open until somebody who looks at the device lets go, a recording for
    /// one.
    pub file_open: bool,
    /// Whether the disk refused before what had been written by then: some of that may be lost.
    pub may_be_lost: bool,
}

/// An export whose device is to have another size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeExport {
    /// The export.
    pub export: String,
    /// The length that its file gets, in bytes, which is more than it has; without it the size of
    /// the file or disk is taken as it is by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// The size of an export before and now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportSize {
    /// The export.
    pub export: String,
    /// Its device, which has this size for all its exports.
    pub device: String,
    /// The size before, in bytes.
    pub before_bytes: u64,
    /// The size now, in bytes.
    pub size_bytes: u64,
    /// How many connections still have the size that they were told when they connected.
    pub connections_count: usize,
}
