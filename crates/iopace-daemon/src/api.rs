//! What goes over the control socket, as both ends see it: JSON objects, names with their units.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | [`DaemonReport`] |
//! | `GET /v1/devices` | a list of [`DeviceReport`] |
//! | `GET /v1/devices/{name}` | [`DeviceReport`] |
//! | `GET /v1/schedulers` | a list of [`SchedulerSpec`] |
//! | `POST /v1/devices/{name}/scheduler` with a [`Change`] | [`DeviceReport`] after the change |
//! | `GET /v1/policies` | [`PolicyList`]: of stages pace and window, and those that were loaded |
//! | `POST /v1/policies[?path=FILE][&replace=true]` with a WebAssembly module | [`LoadedPolicy`] |
//! | `DELETE /v1/policies/{name}` | [`LoadedPolicy`] as it was |
//! | `POST /v1/devices/{name}/pace` with a [`PaceChange`] | [`DeviceReport`] after the change |
//! | `GET /v1/devices/{name}/pace/caps` | [`CapsReport`]: processes that have a cap |
//! | `POST /v1/devices/{name}/pace/caps` with a [`CapChange`] | [`CapsReport`] after the change |
//! | `POST /v1/devices/{name}/window` with a [`WindowChange`] | [`DeviceReport`] after the change |
//! | `GET /v1/events` | a list of [`EventReport`], oldest first |
//! | `GET /v1/groups[?group=PATH]` | a list of [`GroupReport`], the group and all below it |
//! | `POST /v1/groups` with a [`CreateGroup`] | its [`GroupReport`] |
//! | `DELETE /v1/groups?group=PATH` | [`Removed`] |
//! | `GET /v1/groups/files?group=PATH[&file=FILE][&device=DEVICE]` | a list of [`FileReport`] |
//! | `POST /v1/groups/files` with a [`WriteFile`] | [`Written`] |
//! | `POST /v1/groups/cgroup` with a [`WriteCgroup`] | [`CgroupWritten`] |
//! | `POST /v1/groups/move` with a [`Move`] | [`GroupReport`] of the group as it is then |
//! | `GET /v1/groups/stat[?group=PATH]` | [`StatReport`] |
//! | `GET /v1/live[?history=N]` | [`LiveReport`], or a list of them, oldest first |
//! | `GET /v1/live/stream` | Server-Sent Events: [`LiveReport`], [`EventReport`] |
//! | `GET /v1/explain[?group=PATH][&device=DEVICE][&over_ms=N]` | [`ExplainReport`] |
//! | `GET /v1/devices/{name}/record[?for_ms=N]` | lines, each a [`RecordPiece`] |
//! | `GET /v1/cluster` | [`ClusterState`] |
//! | `POST /v1/cluster/set` with a [`SetShared`] | [`ClusterState`] after the change |
//! | `POST /v1/cluster/forget` with a [`ForgetHost`] | [`ClusterState`] after the change |
//! | `GET /v1/openapi.json` | all of this for machines |
//! | `GET /v1/connections` | a list of [`ConnectionReport`] |
//!
//! What stands in a query is percent-encoded; slashes may stay as they are.
//!
//! Whatever is refused is answered with a [`Problem`] and changes nothing.

mod below;
mod cluster;
mod explain;
mod exports;
mod groups;
mod live;
mod mounts;
mod policies;
mod ports;
mod recommend;
mod record;
mod remote;
mod schedulers;

use iopace_core::sched::AUTO;

pub use below::*;
pub use cluster::*;
pub use explain::*;
pub use exports::{AddExport, ExportSize, ExportState, RemovedExportReport, ResizeExport};
pub use groups::*;
pub use live::*;
pub use mounts::MountReport;
pub use policies::*;
pub use ports::HttpReport;
pub use recommend::*;
pub use record::*;
pub use remote::RemoteReport;
pub use schedulers::*;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The daemon as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DaemonReport {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has run.
    pub uptime_ns: u64,
    /// Clients connected at this moment.
    pub connections_count: usize,
    /// Bytes of requests and replies held for clients beyond what each may hold by itself.
    pub memory_used_bytes: u64,
    /// What clients see.
    pub exports: Vec<ExportReport>,
    /// Where they find it, ready to be pasted.
    pub uris: Vec<String>,
    /// The configuration file that it was started with, if it was.
    #[serde(default)]
    pub config: Option<String>,
    /// The control socket, an absolute path, if there is one: for `--control`.
    #[serde(default)]
    pub control: Option<String>,
    /// The loopback port, if there is one: this API and the dashboard for browsers.
    #[serde(default)]
    pub http: Option<HttpReport>,
    /// The port of the metrics alone, if there is one.
    #[serde(default)]
    pub metrics: Option<HttpReport>,
}

/// What clients see of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExportReport {
    /// The name that clients ask for.
    pub name: String,
    /// The device behind it.
    pub device: String,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// The path of the group that its connections pay as.
    pub group: String,
}

/// A device as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceReport {
    /// Its name.
    pub name: String,
    /// After a change of the scheduler: settings of groups that will not do what they say with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<SchedulerWarning>,
    /// `file`, `block device`, `emulated` or `remote`.
    pub kind: String,
    /// The file behind it, if there is one.
    pub path: Option<String>,
    /// The model of an emulated disk.
    pub model: Option<String>,
    /// Its size; none of a directory, whose files have a size each.
    pub size_bytes: Option<u64>,
    /// Whether it refuses writes.
    pub read_only: bool,
    /// Whether it bypasses the page cache.
    pub direct: bool,
    /// Whether it has a head that seeks.
    pub rotational: bool,
    /// How its disk is read and written.
    pub io_engine: String,
    /// The disk of the kernel that it is on; none if there is none, or it is emulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<DiskBelowReport>,
    /// The connection to its disk, if another server has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteReport>,
    /// The scheduler at work.
    pub scheduler: SchedulerReport,
    /// Dirty memory, and how its writers are paced; none if the device bypasses the page cache.
    pub pace: Option<PaceReport>,
    /// How many requests its disk may hold.
    pub window: WindowReport,
    /// Where its requests are.
    pub queue: QueueReport,
    /// Reads and cache hints that went through the scheduler.
    pub read: DirectionReport,
    /// Writes, trims and write-zeroes that went through the scheduler.
    pub write: DirectionReport,
    /// Flushes.
    pub flush: DirectionReport,
    /// Where the time of finished requests went, summed.
    pub stages: StageReport,
    /// The same by reason.
    pub waits: WaitsReport,
    /// Reads answered from the page cache without a disk request.
    pub cached_reads_count: u64,
    /// Writes taken by the page cache without a disk request.
    pub buffered_writes_count: u64,
    /// Schedulers exchanged on purpose.
    pub exchanged_count: u64,
    /// Schedulers that failed and were replaced by fifo.
    pub failed_over_count: u64,
    /// How long exchanges of schedulers held up dispatch.
    pub hold_up: TimesReport,
    /// The latest events, oldest first.
    pub events: Vec<EventReport>,
}

/// A disk of the kernel below a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskBelowReport {
    /// Its name, as in `/dev`.
    pub disk: String,
    /// The kernel's scheduler of it; none if the kernel does not say.
    pub scheduler: Option<String>,
    /// Whether that scheduler goes by the class of a request, which is passed on to it.
    pub classes: bool,
}

/// A scheduler at work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchedulerReport {
    /// Its name.
    pub algorithm: String,
    /// Whether it was inserted; otherwise the device's base scheduler is at work, or fifo in the
    /// place of one that failed.
    pub inserted: bool,
    /// Whether it is the recommended one that a device has for which none is named (`auto`).
    #[serde(default)]
    pub auto: bool,
    /// The one that failed, if this is fifo in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedReport>,
    /// The scheduler of the device when none is inserted.
    pub base: String,
    /// Its present opinion about the disk; none if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskReport>,
    /// All its parameters as they are in force.
    pub params: BTreeMap<String, u64>,
    /// Its counters.
    pub counters: BTreeMap<String, u64>,
}

/// The opinion of a scheduler about the disk, which changes with what it finds out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskReport {
    /// Whether the disk has a head that must not be sent around without need; none while too few
    /// requests are done to say so.
    pub has_head: Option<bool>,
    /// Whether the scheduler found that out; else the system says so.
    pub learned: bool,
    /// The cost of a seek, as far as it is known.
    pub seek_ns: u64,
}

impl DiskReport {
    /// The same in words.
    pub fn words(&self) -> &'static str {
        match (self.has_head, self.learned) {
            (None, _) => "disk not known yet",
            (Some(true), true) => "has a head, learned",
            (Some(true), false) => "has a head",
            (Some(false), true) => "no head, learned",
            (Some(false), false) => "no head",
        }
    }
}

/// How a scheduler came to be at work, and its opinion about the disk, in words; empty for one that
/// stands in for another that failed.
pub fn scheduler_words(inserted: bool, auto: bool, disk: Option<&DiskReport>) -> String {
    let how = match (inserted, auto) {
        (true, _) => "inserted",
        (false, true) => AUTO,
        (false, false) => return String::new(),
    };
    match disk {
        Some(disk) => format!("{how}: {}", disk.words()),
        None => how.into(),
    }
}

/// Where the requests of a device are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QueueReport {
    /// Waiting for a slot.
    pub waiting_count: usize,
    /// In the scheduler.
    pub queued_count: usize,
    /// At the disk.
    pub in_flight_count: usize,
    /// Slots of the device.
    pub nr_requests: u32,
    /// Most requests at the disk.
    pub window_depth: u32,
    /// Why nothing more starts at this moment.
    pub reason: String,
    /// Requests submitted since the start.
    pub submitted_count: u64,
    /// Requests finished since the start.
    pub finished_count: u64,
    /// Requests refused at the door because the table was full.
    pub refused_count: u64,
}

/// What a device did in one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DirectionReport {
    /// Requests finished, failed ones included.
    pub finished_count: u64,
    /// Requests that ended with an error.
    pub failed_count: u64,
    /// Bytes of those that were carried out.
    pub bytes: u64,
    /// From arrival to completion.
    pub latency: TimesReport,
}

/// A distribution of times; quantiles are exact to 1/16.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimesReport {
    /// How many.
    pub count: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Time spent per stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StageReport {
    /// Waiting for dirty memory.
    pub pace_ns: u64,
    /// Waiting for a slot.
    pub admit_ns: u64,
    /// In the scheduler.
    pub sched_ns: u64,
    /// In the scheduler while the window was full.
    pub window_ns: u64,
    /// At the disk.
    pub disk_ns: u64,
}

/// Something an operator should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventReport {
    /// The device.
    pub device: String,
    /// How long ago.
    pub age_ns: u64,
    /// `exchanged`, `failed`, `disk_judged`, `recommend_ended`, `limit_inert`, `limit_unreachable`,
    /// `guarantee_missed`, `latency_missed`, `promise_broken`, `device_slow` or `drift`; `over`
    /// when what one of the last seven was about is over. `exchanged` and `over` are no reason to
    /// worry.
    pub kind: String,
    /// What happened.
    pub text: String,
}

/// What to do with the scheduler of a device. Applied whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// What to do.
    pub action: Action,
    /// Which scheduler. Insert needs it; configure takes the inserted one without it; destroy has
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Parameters to set. The others keep their values if the scheduler stays the same, and take
    /// their defaults if it is another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, u64>,
}

/// What to do with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Put one in where none was inserted.
    Insert,
    /// Exchange it for another, or set its parameters.
    Configure,
    /// Take it out; the base scheduler goes on.
    Destroy,
}

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What was asked and what is wrong.
    pub error: String,
    /// What would be right; empty where `error` says it.
    pub hint: String,
}
