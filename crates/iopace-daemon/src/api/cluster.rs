//! What is said of volumes that several hosts share.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A host's part in its cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterState {
    /// The host's own name.
    pub host: String,
    /// The members of etcd that it asks.
    pub etcd: Vec<String>,
    /// The volumes of its devices.
    pub volumes: Vec<VolumeState>,
    /// What has happened, the latest last.
    pub events: Vec<ClusterEvent>,
}

/// A volume that several hosts share, as one of them sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeState {
    /// Its name, which is the same on all hosts.
    pub volume: String,
    /// The device of this host that is a part of it.
    pub device: String,
    /// Why the last turn of the host with the store did not go through; none if it did.
    pub dark: Option<String>,
    /// Whether the store has answered, and does not let the host in.
    #[serde(default)]
    pub is_refused: bool,
    /// For so long, in milliseconds.
    pub dark_for_ms: u64,
    /// So long the host's session lasts if it is not renewed, in milliseconds; zero: it has none,
    /// and has the static part of each limit.
    #[serde(default)]
    pub session_left_ms: u64,
    /// So long ago all was read that is said here of other hosts, in milliseconds; none: not since
    /// the daemon was started.
    #[serde(default)]
    pub seen_ago_ms: Option<u64>,
    /// Whether the host has a static part of each limit.
    pub has_slot: bool,
    /// So many hosts may have one; zero: it is not known.
    pub hosts_max: u32,
    /// The same as this host's configuration has it, if that is not the default; it holds if the
    /// host is the first one.
    #[serde(default)]
    pub hosts_max_configured: Option<u32>,
    /// The latency at which the volume's queue is long enough, in nanoseconds; none: it is learnt.
    #[serde(default)]
    pub target_ns: Option<u64>,
    /// The same as this host's configuration has it, which holds if the host is the first one.
    #[serde(default)]
    pub target_ns_configured: Option<u64>,
    /// The hosts that have a session, or a slot.
    pub hosts: Vec<HostState>,
    /// The limits of the sum, by group.
    pub limits: Vec<SharedLimit>,
    /// The weights that are set for all hosts.
    #[serde(default)]
    pub weights: Vec<SharedWeight>,
    /// The guarantees that are set for all hosts.
    #[serde(default)]
    pub guarantees: Vec<SharedGuarantee>,
    /// What is set for groups on all hosts.
    pub settings: Vec<SharedSetting>,
}

/// A host of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostState {
    /// Its name.
    pub host: String,
    /// Whether it has a session now.
    pub is_there: bool,
    /// Whether it has a static part of each limit.
    pub has_slot: bool,
}

/// A limit of the sum over all hosts. Bytes or requests per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedLimit {
    /// The group.
    pub group: String,
    /// `rbps`, `wbps`, `bps`, `riops`, `wiops` or `iops`.
    pub rate: String,
    /// The limit.
    pub limit: u64,
    /// What this host may have of it now.
    pub allowed: u64,
    /// What this host has if it cannot reach the store; nothing without a place.
    pub in_the_dark: u64,
    /// The part of each host, by its name.
    pub parts: Vec<HostPart>,
}

/// A weight that is set for a group on all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedWeight {
    /// The group.
    pub group: String,
    /// As it is set.
    pub weight: u32,
    /// As this host's scheduler has it, for what the group is due here.
    pub here: u32,
}

/// A guarantee to a group over all hosts. Bytes or requests per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedGuarantee {
    /// The group.
    pub group: String,
    /// `rbps`, `wbps`, `bps`, `riops`, `wiops` or `iops`.
    pub rate: String,
    /// The guarantee.
    pub guarantee: u64,
    /// This host's part of it.
    pub here: u64,
}

/// What a host has of a limit. Bytes or requests per second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostPart {
    /// Its name.
    pub host: String,
    /// Its grant, beside the static part.
    pub granted: u64,
    /// What it would use.
    pub wanted: u64,
    /// What it uses.
    pub used: u64,
}

/// Lines that are set for a group on all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SharedSetting {
    /// The group.
    pub group: String,
    /// `io.weight`, `io.max` or `io.min`.
    pub file: String,
    /// The lines.
    pub lines: String,
}

/// Something that has happened between the host and the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClusterEvent {
    /// So long ago, in milliseconds.
    pub ago_ms: u64,
    /// The volume.
    pub volume: String,
    /// In words.
    pub text: String,
}

/// Lines to be set for a group on all hosts of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetShared {
    /// The volume; may be left out if the daemon has one only.
    #[serde(default)]
    pub volume: Option<String>,
    /// The group, which is made on every host.
    pub group: String,
    /// `io.weight`, `io.max` or `io.min`.
    pub file: String,
    /// The lines, in which the volume stands for the device.
    pub lines: String,
}

/// A host that is not to have a static part any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetHost {
    /// The volume; may be left out if the daemon has one only.
    #[serde(default)]
    pub volume: Option<String>,
    /// The host.
    pub host: String,
}
