//! The bounds of the tree and of what users write, each with its reason.

use iopace_core::time::Nanos;

/// Most groups of a daemon, the root included. A group costs about 1 KiB in the tree and 1 to 2 KiB
/// on each device: a full tree is some 75 MB, and as much again for each device.
pub const GROUPS_MAX: usize = 65_536;

/// Deepest group below the root. Every request walks its ancestors once per stage; cgroup trees
/// of container hosts are 4 to 8 deep.
pub const GROUP_DEPTH_MAX: usize = 16;

/// Longest name of a group, in bytes: a file name's.
pub const GROUP_NAME_BYTES_MAX: usize = 255;

/// Most bytes of one write to a file of a group: a line for each of some hundred devices, and as
/// much as a control request of the daemon holds.
pub const GROUP_FILE_BYTES_MAX: usize = 64 * 1024;

/// Longest `burst-length` of `io.max`. A bucket holds what the burst rate moves in this time; with
/// more than a minute a limit is one that holds in the mean only.
pub const BURST_LENGTH_MAX: Nanos = Nanos::from_secs(60);

/// Loosest `target` of `io.latency`: after 30 s Linux calls a request lost (SD_TIMEOUT).
pub const LATENCY_TARGET_MAX: Nanos = Nanos::from_secs(30);
