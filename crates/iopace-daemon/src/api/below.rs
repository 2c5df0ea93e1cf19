//! Where time goes below iopace, of a look that is taken while somebody asks, and which settings
//! would change it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Where the time of tasks goes on a device, the disk included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BelowReport {
    /// For how long it was looked.
    pub over_ns: u64,
    /// Requests, buffered writes and write-back that ended meanwhile and were looked at.
    pub recorded_count: u64,
    /// So many more ended, for which there was no room.
    pub left_out_count: u64,
    /// The disk below, as the kernel counts it; none where it does not tell (network file systems,
    /// file systems of several disks, disks that iopace emulates).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelReport>,
    /// The tasks, the one that loses most to others first.
    pub tasks: Vec<TaskTime>,
    /// Whether the first of them has less than its equal part of the disk and loses a tenth of its
    /// time or more to others.
    pub loses_to_others: bool,
    /// What was replayed under other settings for the first of them, the best first.
    pub tried: Vec<TriedSetting>,
    /// Whether the default scheduler helps, and another one was set explicitly: that is worse than
    /// to name none.
    #[serde(default)]
    pub worse_than_default: bool,
    /// The answer in some sentences.
    pub text: String,
}

/// What the kernel says of the disk below.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelReport {
    /// Its name, as `vda`.
    pub disk: String,
    /// The kernel's scheduler for it, as `mq-deadline`.
    pub scheduler: String,
    /// Requests that it finished.
    pub ops_count: u64,
    /// Requests that were merged into others before they came to the disk.
    pub merged_count: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// The bytes of them that iopace asked for; the rest is of others who use the disk past iopace,
    /// and of the file system.
    pub own_bytes: u64,
    /// The time of all its requests from their arrival in the kernel to their end, added up.
    pub queue_ns: u64,
    /// The part of it that requests of iopace had.
    pub own_queue_ns: u64,
    /// Requests that it had at the end.
    pub in_flight_count: u64,
    /// The part of the time in which it had any, in thousandths.
    pub busy_permille: u32,
}

/// Where the time of a task went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TaskTime {
    /// What it is called: `connection 3`, or the program and number of a process.
    pub task: String,
    /// The group that pays for it.
    pub group: String,
    /// What it waits for most: `reads`, `requests`, `syncs` (flushes) or `buffered writes`. The
    /// figures are those of these.
    pub kind: String,
    /// So many ended.
    pub count: u64,
    /// What each took from arrival to end, on average.
    pub each_ns: u64,
    /// What such a request takes with nothing of iopace beside it at the disk.
    pub alone_ns: u64,
    /// Whether `alone_ns` was seen so; else it is the shortest that was seen, which had others
    /// beside it: an upper bound.
    pub alone_seen: bool,
    /// Where it went, the largest part first.
    pub parts: Vec<TimePart>,
}

/// A part of the time of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimePart {
    /// `held` by iopace, `service` (the disk's own for the request), `behind` other requests of
    /// iopace at the disk, or `past`: behind others who use the disk past iopace.
    pub part: String,
    /// Of `held` the reason, as in [`super::Cause::reason`]; of `behind` the task that the requests
    /// are of, `own` if they are its own.
    pub of: String,
    /// The part of each, on average.
    pub each_ns: u64,
    /// Its part of all, in thousandths.
    pub share_permille: u32,
}

/// A setting under which what was recorded was replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriedSetting {
    /// In a few words, as `window 2`.
    pub setting: String,
    /// Whether it is the default scheduler, which a device has for which none is named.
    #[serde(default)]
    pub default: bool,
    /// The command line that sets it, without `--control`.
    pub command: String,
    /// What each request of the task takes under it, on average, as replayed.
    pub each_ns: u64,
    /// The same if a disk that always had many requests takes for one what the shortest took beside
    /// the others: a bound from above.
    pub each_most_ns: u64,
    /// What it took.
    pub measured_ns: u64,
    /// What a replay under the present settings says; the nearer to `measured_ns`, the better the
    /// replay knows the disk.
    pub present_ns: u64,
    /// The part of its requests that would have been served in the same time, in thousandths.
    pub served_permille: u32,
    /// Who pays most for it: of all other tasks the one with the smallest such part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payer: Option<Payer>,
    /// Whether it helps: a quarter less than `measured_ns` and `present_ns`, or better, by
    /// `each_most_ns`; or by `each_ns`, where `serial` says so.
    pub helps: bool,
    /// Whether the disk was seen to work on the task's requests after those that it had before
    /// them: nine of ten of these had ended by then, and few others.
    pub serial: bool,
    /// The same in a sentence.
    pub text: String,
}

/// Who pays for a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Payer {
    /// The task.
    pub task: String,
    /// The part of its requests that would have been served in the same time, in thousandths.
    pub served_permille: u32,
    /// What each takes under the setting, on average, as replayed.
    pub each_ns: u64,
    /// What a replay under the present settings says.
    pub present_ns: u64,
}
