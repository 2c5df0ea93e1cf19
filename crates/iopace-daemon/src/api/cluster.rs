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
    /// Why the store did not answer the last time; none if it did.
    pub dark: Option<String>,
    /// For so long, in milliseconds.
    pub dark_for_ms: u64,
    /// Whether the host has a static part of each limit.
    pub has_slot: bool,
    /// So many hosts may have one.
    pub hosts_max: u32,
    /// The hosts that have a session, or a slot.
    pub hosts: Vec<HostState>,
    /// The limits of the sum.
    pub limits: Vec<SharedLimit>,
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
    /// What each host has that cannot reach the store.
    pub in_the_dark: u64,
    /// The part of each host, by its name.
    pub parts: Vec<HostPart>,
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
