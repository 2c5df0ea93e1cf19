//! Why requests wait, in words and numbers, and what would change it.

use super::{
    BelowReport, Change, DiskReport, PaceChange, WaitCounts, WindowChange, WindowReport, WriteFile,
};
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
    /// Whether it was inserted.
    #[serde(default)]
    pub inserted: bool,
    /// Whether it is the recommended one that a device has for which none is named (`auto`).
    #[serde(default)]
    pub auto: bool,
    /// The failure of the scheduler before, where fifo stands in for one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Its present opinion about the disk; none if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<DiskReport>,
    /// Stage window at the end of the time looked at, if the disk may hold fewer requests than was
    /// set: how many, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowReport>,
    /// The group that was asked about; the root if the question was about the device.
    pub explained: Explained,
    /// The worst-off group, if the question was about the device and iopace holds up a group: of
    /// those that wait for others, the one whose requests wait longest each. The device's own
    /// causes have no remedies then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Explained>,
    /// Where time goes, the disk included, and what would change it: of a look that was asked for
    /// (`look_ms`) at a device with something to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<BelowReport>,
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
    /// Requests and buffered writes apart, where it has both, those that wait longer each first:
    /// they have other ways and so other waits. Else empty.
    #[serde(default)]
    pub kinds: Vec<ExplainedKind>,
    /// Where that time went, the largest part first.
    pub causes: Vec<Cause>,
    /// What stands where now.
    pub now: WaitCounts,
}

/// The requests, or the buffered writes, of a group that has both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedKind {
    /// `buffered writes`, and beside them `reads`, or `requests` where others than reads are
    /// waited for too.
    pub kind: String,
    /// So many finished.
    pub finished_count: u64,
    /// What each took from arrival to finish, on average; a buffered write until it is in memory.
    pub each_ns: u64,
    /// The part of it that was not the disk's.
    pub each_waits_ns: u64,
    /// Where most of it went, as in [`Cause::reason`]; empty if it took no time.
    pub reason: String,
    /// The same in the word that people read, as in [`Cause::word`].
    pub word: String,
    /// The part of it that this takes, in thousandths.
    pub share_permille: u32,
    /// What that means here.
    pub text: String,
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
    /// Of each request that was waited for and finished, on average; buffered writes are none.
    pub per_request_ns: u64,
    /// Of each buffered write that went into memory, on average.
    #[serde(default)]
    pub per_buffered_write_ns: u64,
    /// Requests that stand there now.
    pub now_count: u32,
    /// The bound that requests have come up against; none for `dirty`, `turn`, `anticipation` and
    /// `disk`, and for a limit that is not set any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<CauseBound>,
    /// Who has most of what is short; none for `budget` and `anticipation`, and where nobody has
    /// any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<CauseHolder>,
    /// What it means here: both in words.
    pub text: String,
    /// What would change it.
    pub remedies: Vec<Remedy>,
}

/// A bound that holds requests up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CauseBound {
    /// `slots` or `window` (requests), `dirty memory` (bytes), `io.nr_group_requests` (slots),
    /// `io.latency` (nanoseconds), or `io.max` with its key (bytes or requests per second), as
    /// `io.max rbps`.
    pub what: String,
    /// The group for which it is set; `/` for the device's own.
    pub group: String,
    /// The bound.
    pub set: u64,
    /// What there is of it: at the end, and for a limit over the time that was looked at. For
    /// `io.latency` it is the p99 of the last second.
    pub used: u64,
}

/// Who has most of what is short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CauseHolder {
    /// `slots`, `disk time` or `dirty memory`, as in [`Holding::what`].
    pub what: String,
    /// The largest holder, other than the group asked about and those below it; `/` is what pays
    /// as the root. Empty if nobody else has any.
    pub group: String,
    /// Its part, in thousandths.
    pub share_permille: u32,
    /// The part of the group asked about, with those below it.
    pub own_permille: u32,
    /// The part that is due to it: by weight where that divides, else as much as to each other.
    pub due_permille: u32,
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
    /// The same as a request to this API; none if it cannot be set while the daemon runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<RemedyChange>,
}

/// The request that sets a remedy; those about a device are of the device that is explained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum RemedyChange {
    /// For `POST /v1/groups/files`.
    GroupFile(WriteFile),
    /// For `POST /v1/devices/{name}/scheduler`.
    Scheduler(Change),
    /// For `POST /v1/devices/{name}/pace`.
    Pace(PaceChange),
    /// For `POST /v1/devices/{name}/window`.
    Window(WindowChange),
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
    /// What of it is told of, as in [`ExplainedKind::kind`], where it has both: what is worse off.
    #[serde(default)]
    pub kind: String,
    /// Why, most of all.
    pub reason: String,
    /// The same in the word that people read, as in [`Cause::word`].
    #[serde(default)]
    pub word: String,
    /// The part of the time of its requests that this takes, in thousandths.
    pub share_permille: u32,
    /// What that reason takes of each request, or buffered write, that finished, on average.
    #[serde(default)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// As daemons before `kinds` and `bound` say it.
    fn older() -> Value {
        let cause = json!({"reason": "budget", "word": "limit", "share_permille": 900,
            "wait_ns": 5, "per_request_ns": 4, "now_count": 1, "text": "x", "remedies": []});
        let now = serde_json::to_value(WaitCounts::default()).expect("a value");
        let explained = json!({"group": "/", "summary": "x", "held_up": true,
            "basis": "finished", "finished_count": 7, "total_ns": 9, "causes": [cause],
            "now": now});
        let waiting = json!({"group": "/a", "reason": "budget", "share_permille": 900,
            "per_request_ns": 4, "waiting_count": 1, "text": "x"});
        json!({"over_ns": 1, "devices": [{"device": "d", "scheduler": "rr",
            "explained": explained, "holdings": [], "groups": [waiting],
            "groups_left_out_count": 0}]})
    }

    /// Whether `newer` has everything that is in `older`.
    fn has_all(newer: &Value, older: &Value) -> bool {
        match (newer, older) {
            (Value::Object(newer), Value::Object(older)) => older
                .iter()
                .all(|(key, value)| newer.get(key).is_some_and(|newer| has_all(newer, value))),
            (Value::Array(newer), Value::Array(older)) => {
                newer.len() == older.len()
                    && newer.iter().zip(older).all(|(newer, older)| has_all(newer, older))
            }
            _ => newer == older,
        }
    }

    #[test]
    fn clients_and_daemons_of_either_age_understand_each_other() {
        let older = older();
        let report: ExplainReport = serde_json::from_value(older.clone()).expect("understood");
        let newer = serde_json::to_value(&report).expect("a value");
        assert!(has_all(&newer, &older), "{newer:#}");
    }
}
