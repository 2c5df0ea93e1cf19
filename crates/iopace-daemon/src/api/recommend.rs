//! Recommend mode over the control socket: settings that are tried beside those that hold.

use super::{StageReport, TimesReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What clients do while they wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientsWord {
    /// They ask for more when they have their answers: what comes while the shadow still has their
    /// earlier requests is not followed.
    #[default]
    Closed,
    /// They ask whatever they wait for.
    Open,
}

/// Settings of a device to be tried, all of them; what is left out is as the live one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecommendChange {
    /// A scheduler; `auto` is the default, the one that a device has for which none is named. What
    /// is told of a plan has its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// Its parameters; the others have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, u64>,
    /// A policy of stage pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<String>,
    /// A policy of stage window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// Most requests at the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Slots of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nr_requests: Option<u32>,
    /// What clients do while they wait.
    #[serde(default)]
    pub clients: ClientsWord,
}

/// Lines of a file of a group to be tried, all or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RecommendFile {
    /// The group.
    pub group: String,
    /// The file's name; without it, nothing is tried for the group any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The lines; without them, nothing is tried for the file any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What is tried for a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TriedGroup {
    /// Its path.
    pub group: String,
    /// The files, each with its lines.
    pub files: BTreeMap<String, String>,
}

/// What is tried beside a device, and what it would have done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecommendReport {
    /// The device.
    pub device: String,
    /// Whether anything is tried; otherwise all that follows is empty.
    pub active: bool,
    /// Since when, before now.
    pub age_ns: u64,
    /// What is tried for the device.
    pub plan: RecommendChange,
    /// Whether the scheduler that is tried is the default, with its default parameters.
    #[serde(default)]
    pub default_scheduler: bool,
    /// Groups for which the scheduler that was set explicitly is worse than the default, which is
    /// tried: it would serve nine tenths of their requests or more, in three quarters of the time
    /// or less.
    #[serde(default)]
    pub worse_than_default: Vec<String>,
    /// What is tried for groups here.
    pub tried: Vec<TriedGroup>,
    /// Why it has ended, if a policy that is tried has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Requests that wait there at present, and are in no figure yet.
    pub waiting_count: usize,
    /// Requests that were left out: the live one did not end, or there was no room.
    pub missed_count: u64,
    /// The device as a whole.
    pub all: RecommendedReport,
    /// By group, without the groups below it; those with a request.
    pub groups: Vec<RecommendedReport>,
}

/// What would have become of requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecommendedReport {
    /// The group's path; empty for the device as a whole.
    pub group: String,
    /// Live requests and buffered writes that have ended.
    pub live_count: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Those of them that would have been served in the same time. Clients that wait for answers
    /// would have asked for the others later.
    pub served_count: u64,
    /// Their bytes.
    pub served_bytes: u64,
    /// By how much those served would have been later, where it is more than an eighth of the live
    /// latency. Quantiles are exact to 1/4.
    pub delays: TimesReport,
    /// How many would have been sooner by more than an eighth.
    pub hastened_count: u64,
    /// By how much on average.
    pub hastened_mean_ns: u64,
    /// Live latency of those served. Quantiles are exact to 1/4.
    pub live: TimesReport,
    /// Their latency with what is tried. Quantiles are exact to 1/4.
    pub recommended: TimesReport,
    /// Where their time went, live, added up.
    pub live_stages: StageReport,
    /// Where their time would have gone, added up.
    pub recommended_stages: StageReport,
}
