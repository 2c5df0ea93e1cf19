//! Stages pace and window over the control socket.

use super::{LoadedPolicy, TimesReport};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Dirty memory of a device, and how its writers are paced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PaceReport {
    /// The policy at work.
    pub policy: String,
    /// The pause that it aims at with few writers, if it aims at one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_target_ns: Option<u64>,
    /// The part of the dirty memory that is on its way to the disk.
    pub write_back_bytes: u64,
    /// Write-back begins above it.
    pub background_bytes: u64,
    /// How the policy sees the device.
    #[serde(flatten)]
    pub picture: PictureReport,
    /// The pauses of buffered writes, from the first question for a portion until it went on.
    pub pauses: TimesReport,
    /// Buffered writes that wait now, for their turn, their rate or for memory.
    pub waiting_count: usize,
    /// Processes that have a cap.
    #[serde(default)]
    pub caps_count: usize,
}

/// How stage pace sees a device, or a group on it. What a policy does not know is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PictureReport {
    /// Dirty memory.
    pub dirty_bytes: u64,
    /// Below it nobody is paced.
    pub freerun_bytes: u64,
    /// Where dirty memory is to settle.
    pub setpoint_bytes: u64,
    /// Where it ends.
    pub limit_bytes: u64,
    /// Bandwidth of write-back, averaged.
    pub write_bandwidth_bytes_s: u64,
    /// Rate at which memory was dirtied in the last interval.
    pub dirty_rate_bytes_s: u64,
    /// Base rate of one task.
    pub base_rate_bytes_s: u64,
    /// Where the base rate is heading.
    pub balanced_rate_bytes_s: u64,
    /// Base rate times position: what one task gets now.
    pub task_rate_bytes_s: u64,
    /// Position ratio in thousandths: 1000 at the setpoint, more below it, less above.
    pub position_permille: u32,
    /// The last pause that was given.
    pub last_pause_ns: u64,
}

/// How many requests the disk of a device may hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WindowReport {
    /// The policy at work.
    pub policy: String,
    /// Requests that the disk may hold.
    pub depth: u32,
    /// The depth that was set.
    #[serde(default)]
    pub depth_set: u32,
    /// Why the depth is less than was set, if it is: `latency` (more at once would only take longer
    /// each), `hosts` (it is this host's share of the queue of a volume of several hosts) or
    /// `write_back` (a batch of write-back is at the disk).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed: Option<String>,
    /// Write-back requests that may be in line or at the disk.
    pub write_back_depth: u32,
    /// Time between two batches of write-back; 0 when it may go on without a break.
    pub write_back_gap_ns: u64,
    /// Latency of what tasks wait for when no write-back is in the way, as learned.
    pub quiet_latency_ns: u64,
    /// The same latency as it is now.
    pub latency_ns: u64,
}

/// Why the window of a device is narrower than was set that other hosts use too: its depth is this
/// host's share of the volume's queue.
pub const NARROWED_BY_HOSTS: &str = "hosts";

impl WindowReport {
    /// The reason in words why the depth is less than was set, if it is.
    pub fn narrowed_words(&self) -> Option<&str> {
        Some(match self.narrowed.as_deref()? {
            NARROWED_BY_HOSTS => {
                "it is this host's share of the volume's queue, which several hosts have"
            }
            "latency" => "more at once would only take longer each",
            "write_back" => "a batch of write-back is at the disk",
            other => other,
        })
    }
}

/// The policies that there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyList {
    /// Of stage pace.
    pub pace: Vec<PolicySpec>,
    /// Of stage window.
    pub window: Vec<PolicySpec>,
    /// Those that were loaded as modules: schedulers.
    #[serde(default)]
    pub loaded: Vec<LoadedPolicy>,
}

/// A policy of stage pace or window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicySpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// Whether devices have it that name none.
    pub default: bool,
}

/// Another policy of stage pace for a device, another pause target, or both. Applied whole or not
/// at all; writes that wait are asked for anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PaceChange {
    /// Which policy; without it, the one at work stays. The one that is at work already goes on
    /// with what it has learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The pause that writers are to have at a time, where few write; without it, it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_target_ns: Option<u64>,
}

/// The processes that have a cap on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapsReport {
    /// The device.
    pub device: String,
    /// Its policy of stage pace.
    pub policy: String,
    /// Whether that policy holds caps: under another one they wait for one that does.
    pub held: bool,
    /// The caps, by the number of the process.
    pub caps: Vec<CapReport>,
}

/// A process that may dirty no more than so much memory in a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CapReport {
    /// Its number.
    pub pid: u32,
    /// Its user, by number.
    pub user: u32,
    /// Its program.
    pub program: String,
    /// Its cap.
    pub bytes_s: u64,
}

/// A cap for a process, or none any more. It holds for all its threads, not for its children, and
/// until it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CapChange {
    /// Which process.
    pub pid: u32,
    /// Most bytes that it may dirty in a second, at least 4096; without it, its cap is lifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_s: Option<u64>,
}

/// Another policy of stage window for a device, another depth, or both. Applied whole or not at
/// all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowChange {
    /// Which policy; without it, the one at work stays. The one that is at work already goes on
    /// with what it has learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Most requests that it may ever let the disk hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::window::Narrowed;

    #[test]
    fn each_reason_of_a_narrowed_window_has_words() {
        let report = |narrowed: Option<&str>| WindowReport {
            policy: "latency".into(),
            depth: 4,
            depth_set: 16,
            narrowed: narrowed.map(Into::into),
            write_back_depth: 8,
            write_back_gap_ns: 0,
            quiet_latency_ns: 0,
            latency_ns: 0,
        };
        assert_eq!(report(None).narrowed_words(), None);
        for reason in [Narrowed::Latency, Narrowed::WriteBack] {
            let report = report(Some(reason.name()));
            assert!(report.narrowed_words().is_some_and(|words| words.contains(' ')), "{reason:?}");
        }
        assert!(report(Some(NARROWED_BY_HOSTS)).narrowed_words().is_some_and(|of| of.len() > 9));
        // A newer daemon may have more reasons.
        assert_eq!(report(Some("moon")).narrowed_words(), Some("moon"));
    }
}
