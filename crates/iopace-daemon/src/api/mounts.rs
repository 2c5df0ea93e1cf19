//! What the control socket says of mounts.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use utoipa::ToSchema;

/// A directory that is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MountReport {
    /// Where it is mounted.
    #[schema(value_type = String)]
    pub mountpoint: PathBuf,
    /// Its device.
    pub device: String,
    /// The rules that say who pays, in their order, as `program=rsync:/backup`.
    #[serde(default)]
    pub rules: Vec<String>,
    /// The group that pays where none fits.
    #[serde(default)]
    pub group: String,
    /// Whether groups that `map=cgroup` makes have the limits of their cgroups in the kernel:
    /// `follow` or `ignore`.
    #[serde(default)]
    pub cgroup_limits: String,
    /// Files and directories that the kernel knows; each holds a descriptor of the daemon.
    pub known_count: usize,
    /// Files that are open.
    pub open_count: usize,
    /// Files that are kept open until what was written to them is on the disk.
    pub kept_count: usize,
    /// Reads, writes and syncs that wait for their answer.
    pub waiting_count: usize,
    /// Requests that went straight to the directory: names, attributes, locks, space.
    pub passed_through_count: u64,
}
