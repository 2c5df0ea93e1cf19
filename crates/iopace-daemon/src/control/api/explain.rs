//! Why requests wait, in words and numbers, and what would change it.

use super::WaitCounts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why the requests of a group or device waited in the last seconds, and wait now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainReport {
    /// The time that was looked at.
    pub over_ns: u64,
    /// One for each device that was asked about.
    pub devices: Vec<ExplainedDevice>,
}

/// What is to be said about one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedDevice {
    /// Its name.
    pub device: String,
    /// The scheduler at work.
    pub scheduler: String,
    /// The group that was asked about; the root if the question was about the device.
    pub explained: Explained,
    /// The worst-off group, if the question was about the device and iopace holds up a group: of
    /// those that wait for others, the one whose requests wait longest each. The device's own
    /// causes have no remedies then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Explained>,
    /// Who holds what.
    pub holdings: Vec<Holding>,
    /// The groups that wait here, the worst off first; empty if one was asked about.
    pub groups: Vec<WaitingGroup>,
    /// So many more groups wait.
    pub groups_left_out_count: usize,
}

/// Why the requests of a group and of those below it wait on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explained {
    /// Its path.
    pub group: String,
    /// The answer in a sentence or two.
    pub summary: String,
    /// Whether something of iopace is what holds it up.
    pub held_up: bool,
    /// What the shares are taken from.
    pub basis: Basis,
    /// Requests that finished.
    pub finished_count: u64,
    /// Their time from arrival to finish, all together, as far as tasks waited for it; of what
    /// stands here, the time that it stood here.
    pub total_ns: u64,
    /// Where that time went, the largest part first.
    pub causes: Vec<Cause>,
    /// What stands where now.
    pub now: WaitCounts,
}

/// What shares of time are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Nothing finished, and nothing stands here.
    Nothing,
    /// The requests that finished.
    Finished,
    /// Too little finished to tell: what was seen standing, once a second.
    Standing,
}

/// One reason, and its part of the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Cause {
    /// `dirty`, `memory`, `slot`, `budget`, `turn`, `anticipation`, `window` or `disk`.
    pub reason: String,
    /// The same in the word that people read: `dirty rate`, `dirty limit` and `limit` for the first
    /// two and `budget`.
    #[serde(default)]
    pub word: String,
    /// Its part of the time, in thousandths.
    pub share_permille: u32,
    /// The time.
    pub wait_ns: u64,
    /// Of each request that finished, on average.
    pub per_request_ns: u64,
    /// Requests that stand there now.
    pub now_count: u32,
    /// What it means here.
    pub text: String,
    /// What would change it.
    pub remedies: Vec<Remedy>,
}

/// A setting that would change something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Remedy {
    /// The command line, without `--control`.
    pub command: String,
    /// What it does.
    pub effect: String,
    /// What others pay for it.
    pub price: String,
}

/// Who holds something that there is only so much of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Holding {
    /// `slots`, `disk time` or `dirty memory`.
    pub what: String,
    /// What is held by all: slots, nanoseconds or bytes.
    pub held: u64,
    /// What there is of it; 0 if that is not known.
    pub of: u64,
    /// By whom, the largest part first; each group without those below it.
    pub parts: Vec<HoldingPart>,
}

/// What one group holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldingPart {
    /// Its path.
    pub group: String,
    /// How much.
    pub held: u64,
    /// Its part of what is held, in thousandths.
    pub share_permille: u32,
}

/// A group that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingGroup {
    /// Its path.
    pub group: String,
    /// Why, most of all.
    pub reason: String,
    /// The same in the word that people read, as in [`Cause::word`].
    #[serde(default)]
    pub word: String,
    /// The part of the time of its requests that this takes, in thousandths.
    pub share_permille: u32,
    /// Of each request that finished, on average.
    pub per_request_ns: u64,
    /// What all reasons but the disk take of each request that finished, on average; if too little
    /// finished to tell, the age of the oldest request that is here.
    #[serde(default)]
    pub each_waits_ns: u64,
    /// Requests that wait now, not counting those at the disk.
    pub waiting_count: u32,
    /// What it means.
    pub text: String,
}
