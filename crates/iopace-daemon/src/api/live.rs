//! What everything does at this moment, second by second: for `iopace top`, `iopace explain`, the
//! dashboard and scripts.
//!
//! The daemon looks at its devices once a second whoever listens, and keeps the last minutes. All
//! rates and times here are those of one such interval.

use super::{DiskReport, PaceReport, PictureReport, QueueReport, TimesReport, WindowReport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What everything did in one interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveReport {
    /// Counts the intervals since the daemon was started.
    pub sequence: u64,
    /// When it ended, since the daemon was started.
    pub uptime_ns: u64,
    /// Its length.
    pub interval_ns: u64,
    /// The devices.
    pub devices: Vec<LiveDevice>,
}

/// What a device did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveDevice {
    /// Its name.
    pub device: String,
    /// `file`, `block device` or `emulated`.
    pub kind: String,
    /// The scheduler at work.
    pub scheduler: String,
    /// Whether it was inserted.
    pub inserted: bool,
    /// Whether it is the recommended one that a device has for which none is named (`auto`).
    #[serde(default)]
    pub auto: bool,
    /// Its present opinion about the disk; none if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskReport>,
    /// What finished, and why it had waited.
    #[serde(flatten)]
    pub activity: Activity,
    /// Where its requests are.
    pub queue: QueueReport,
    /// How many requests its disk may hold.
    pub window: WindowReport,
    /// Dirty memory, and how its writers are paced; none if the device bypasses the page cache.
    pub pace: Option<PaceReport>,
    /// The groups, the root first, parents before children: those that did something or have
    /// something here, up to a bound.
    pub groups: Vec<LiveGroup>,
    /// So many more groups are not listed.
    pub groups_left_out_count: usize,
    /// The tasks that moved most or waited longest.
    pub tasks: Vec<LiveTask>,
}

/// What a group and those below it did on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveGroup {
    /// Its path; `/` is the root.
    pub group: String,
    /// What finished, and why it had waited.
    #[serde(flatten)]
    pub activity: Activity,
    /// Its weight here.
    pub weight: u32,
    /// Its class here, `rt`, `be` or `idle`.
    pub class: String,
    /// Whether a limit (`io.max`) holds for it itself here.
    pub limited: bool,
    /// Slots that it has now.
    pub slots_taken_count: u32,
    /// Dirty memory of its own.
    pub dirty_bytes: u64,
    /// How stage pace sees it, if its policy has a view of groups.
    pub pace: Option<PictureReport>,
    /// What it was promised beside what it got; none if nothing is promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<PromiseReport>,
}

/// What a group was promised on a device beside what it got, over the last ten intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromiseReport {
    /// The part of the limit that it used, of the one that it used most of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_used_permille: Option<u32>,
    /// The part of the guarantee that it got, of the one of which it got least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guarantee_permille: Option<u32>,
    /// Its part against its siblings; none unless several of them waited all the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_share: Option<WeightShare>,
    /// What is wrong at this moment: kinds of events.
    pub broken: Vec<String>,
}

/// A part of what siblings share, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WeightShare {
    /// By weight.
    pub due_permille: u32,
    /// Of the disk's time, as it was.
    pub got_permille: u32,
}

/// What a task did on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LiveTask {
    /// What it is called: `connection 3`, or the program and number of a process, `rsync 4711`;
    /// `others` are all together for which there was no room.
    pub task: String,
    /// The group that pays for it.
    pub group: String,
    /// What finished, and why it had waited.
    #[serde(flatten)]
    pub activity: Activity,
    /// Requests and buffered writes of it that have not ended. Where they stand is told of groups.
    pub live_count: u32,
}

/// What finished in the interval, and why it had waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Activity {
    /// Reads.
    pub read: FlowReport,
    /// Writes that reached the disk, zeroes included: those that wait for it, and write-back.
    pub write: FlowReport,
    /// Buffered writes that went into the page cache, rewrites of what is dirty included: what
    /// programs write at this moment. They reach the disk later, with the write-back, if they are
    /// not written again or removed before that.
    pub buffered: FlowReport,
    /// From arrival to finish, of what tasks waited for.
    pub latency: TimesReport,
    /// Where the time of what finished went, summed over the requests.
    pub waits: WaitsReport,
    /// The part of `waits` of requests that nobody waited for: write-back, but for what a sync
    /// waits for. Left out if there is none. The rest is the time of the requests that `latency` is
    /// about and of buffered writes.
    #[serde(default, skip_serializing_if = "WaitsReport::is_none")]
    pub unawaited: WaitsReport,
    /// How many requests stand where at the end of the interval.
    pub now: WaitCounts,
}

/// Requests and bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlowReport {
    /// Bytes per second.
    pub bytes_s: u64,
    /// Requests per second, in thousandths.
    pub ops_milli_s: u64,
}

/// Time by reason; the parts sum to the time from arrival to finish exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitsReport {
    /// Stage pace: memory is dirtied faster than the device cleans it; the task has its rate.
    pub dirty_ns: u64,
    /// Stage pace: as much is dirty as may be.
    pub memory_ns: u64,
    /// Stage admit: no request slot was free for it.
    pub slot_ns: u64,
    /// A limit of the group or of one above it was used up: stage admit for requests, stage pace
    /// for buffered writes.
    pub budget_ns: u64,
    /// The part of `budget_ns` in stage pace: it is no time of its own in the sum.
    pub budget_pace_ns: u64,
    /// Stage sched: others had their turn.
    pub turn_ns: u64,
    /// Stage sched: the disk was kept idle for the next request of the task in service.
    pub anticipation_ns: u64,
    /// Stage window: the device held as many requests as it may.
    pub window_ns: u64,
    /// At the device.
    pub disk_ns: u64,
}

impl WaitsReport {
    /// Whether there is no time in it.
    pub fn is_none(&self) -> bool {
        *self == WaitsReport::default()
    }
}

/// Requests by the reason why they are not further yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitCounts {
    /// As [`WaitsReport::dirty_ns`].
    pub dirty_count: u32,
    /// As [`WaitsReport::memory_ns`].
    pub memory_count: u32,
    /// As [`WaitsReport::slot_ns`].
    pub slot_count: u32,
    /// As [`WaitsReport::budget_ns`].
    pub budget_count: u32,
    /// As [`WaitsReport::turn_ns`].
    pub turn_count: u32,
    /// As [`WaitsReport::anticipation_ns`].
    pub anticipation_count: u32,
    /// As [`WaitsReport::window_ns`].
    pub window_count: u32,
    /// At the device.
    pub disk_count: u32,
    /// How long the oldest of them all has been here.
    pub oldest_ns: u64,
}
