//! Groups over the control socket. A group goes by its path, `/vms/web`.

use super::{PictureReport, StageReport, TimesReport, WaitsReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupReport {
    /// Its path.
    pub group: String,
    /// The exports that pay as it.
    pub exports: Vec<String>,
    /// The numbers of the connections that pay as it.
    pub connections: Vec<u64>,
    /// How many processes that use a mount pay as it, of those that were seen lately or moved.
    #[serde(default)]
    pub processes_count: usize,
    /// Whether it was made for callers of a mount, and goes when nobody pays as it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub made: bool,
    /// What is set for it: the files that say something else than those of a new group.
    pub files: BTreeMap<String, String>,
    /// Settings that the kernel has for the cgroup that it stands for: they hold where `files` says
    /// nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cgroup_files: BTreeMap<String, String>,
    /// What is set for it on all hosts of a volume, in lines that begin with the volume.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cluster_files: BTreeMap<String, String>,
}

/// A group to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateGroup {
    /// Its path.
    pub group: String,
    /// Make what is missing above it too; a group that is there already is no error then.
    #[serde(default)]
    pub parents: bool,
    /// Remove it when nobody has paid as it for ten seconds, as when who made it was killed; it is
    /// an error if it is there already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub temporary: bool,
}

/// A group that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Removed {
    /// The path that it had.
    pub group: String,
}

/// A file of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileReport {
    /// The group.
    pub group: String,
    /// The file's name.
    pub file: String,
    /// What it is for.
    pub summary: String,
    /// Whether it may be written.
    pub writable: bool,
    /// Its lines.
    pub text: String,
    /// What holds on each device; empty for a file that may not be written.
    pub effective: Vec<EffectiveReport>,
}

/// What holds for a group on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EffectiveReport {
    /// The device.
    pub device: String,
    /// The value as it stands behind the device in the file.
    pub value: String,
    /// `device` (a line for it), `group` (the group's default), `cgroup` (what the kernel has set
    /// for its cgroup), `device default` (what the device gives every group), `built in`, or
    /// `cluster` (what is set for all hosts of its volume). Where there is one of the cluster, it
    /// comes first; what is set on this host stands beside it.
    pub source: String,
}

/// The source of a value that is set for all hosts of a volume.
pub const SOURCE_CLUSTER: &str = "cluster";

/// Lines to be written to a file of a group: all of them, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// The group.
    pub group: String,
    /// The file's name.
    pub file: String,
    /// The lines.
    pub text: String,
    /// Make the group, and those above it, if it is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub parents: bool,
}

/// Lines to be written to files of the group that stands for the cgroup of a process, wherever a
/// mount maps cgroups: all of them, or none. The group is made if it is missing, and goes when its
/// cgroup has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteCgroup {
    /// The process, by its number in the daemon's eyes.
    pub pid: u32,
    /// How many cgroups above that of the process: 0 is its own.
    #[serde(default)]
    pub above: usize,
    /// The lines, by the names of the files.
    pub files: BTreeMap<String, String>,
}

/// The groups that were written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CgroupWritten {
    /// Their paths; none if no mount maps cgroups.
    pub groups: Vec<String>,
    /// Settings of the files that will not do what they say.
    pub warnings: Vec<SettingWarning>,
}

/// What a write did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Written {
    /// The group.
    pub group: String,
    /// The file's name.
    pub file: String,
    /// Its lines now.
    pub text: String,
    /// The devices on which something else holds now.
    pub changed_devices: Vec<String>,
    /// What of that file will not do what it says.
    #[serde(default)]
    pub warnings: Vec<SettingWarning>,
}

/// A setting that is legal and will not do what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingWarning {
    /// The device.
    pub device: String,
    /// What does not hold.
    pub text: String,
    /// The command line that changes that, without `--control`; empty if there is none.
    pub command: String,
}

/// Settings that are legal and that the scheduler of a device does not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchedulerWarning {
    /// The groups that have them, by path, the first few.
    pub groups: Vec<String>,
    /// So many have them.
    pub groups_count: usize,
    /// What does not hold.
    pub text: String,
    /// The command line that changes that, without `--control`.
    pub command: String,
}

/// An export, a connection or a process, one of them, that another group is to pay for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The export; its connections follow, except those that were moved by themselves or have named
    /// a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
    /// The connection's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// The number of a process that uses a mount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The group.
    pub group: String,
}

/// A connection with an export open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionReport {
    /// Its number.
    pub connection: u64,
    /// Its export.
    pub export: String,
    /// The group that it pays as.
    pub group: String,
    /// It was moved by itself, has named its group or has one by its certificate, and does not
    /// follow its export.
    pub moved: bool,
    /// The common name in the certificate of the client, if it had to show one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

/// Processes that use a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessesReport {
    /// By number; one whose threads are of different classes is there once for each.
    pub processes: Vec<ProcessReport>,
    /// So many more are not listed.
    pub left_out_count: usize,
}

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProcessReport {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// The group that it pays as.
    pub group: String,
    /// It was moved, or is a child of one that was; rules do not count for it.
    pub moved: bool,
}

/// What groups did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StatReport {
    /// Depth first, by name.
    pub groups: Vec<GroupStat>,
    /// So many more are not listed: ask for a group further down.
    pub left_out_count: usize,
}

/// What a group and those below it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupStat {
    /// Its path.
    pub group: String,
    /// On each device.
    pub devices: Vec<GroupDeviceStat>,
}

/// What a group and those below it did on a device, under the names of `io.stat`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupDeviceStat {
    /// The device.
    pub device: String,
    /// Bytes read.
    pub rbytes: u64,
    /// Bytes written.
    pub wbytes: u64,
    /// Reads finished.
    pub rios: u64,
    /// Writes finished.
    pub wios: u64,
    /// Bytes discarded.
    pub dbytes: u64,
    /// Discards finished.
    pub dios: u64,
    /// Flushes finished.
    pub fios: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Bytes of buffered writes that went into the page cache; what of them is written back counts
    /// in `wbytes` then.
    pub buffered_bytes: u64,
    /// Buffered writes that are over.
    pub buffered_ios: u64,
    /// Where the time of finished requests went, summed.
    pub stages: StageReport,
    /// The same by reason.
    pub waits: WaitsReport,
    /// From arrival to finish.
    pub latency: TimesReport,
    /// Slots that it has now.
    pub slots_taken_count: u32,
    /// Requests of its own, not of groups below it, that wait for a slot or a limit now.
    pub waiting_count: u32,
    /// Dirty memory of its own, not of groups below it.
    pub dirty_bytes: u64,
    /// How stage pace sees it; none if its policy has no view of groups, or nothing of the group.
    pub pace: Option<PictureReport>,
    /// The two lines of `io.pressure`.
    pub pressure: String,
}
