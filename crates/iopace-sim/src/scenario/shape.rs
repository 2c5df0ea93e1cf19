//! The tables and keys of a scenario file, as the parser sees them: nothing is looked up yet.

use crate::milli::Milli;
use crate::units::{PerSecond, Rate, Size, Time};
use iopace_disk::model_file::Given;
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Parameters by name, each with its place in the file.
pub(super) type Settings = BTreeMap<Spanned<String>, Spanned<u64>>;

/// The `[group]` tables: files by the group's path.
pub(super) type GroupTables =
    BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<GroupLines>>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScenarioFile {
    pub(super) why: Spanned<String>,
    #[serde(default = "one")]
    pub(super) seed: u64,
    pub(super) duration: Spanned<Time>,
    pub(super) warmup: Option<Spanned<Time>>,
    #[serde(default)]
    pub(super) until_done: bool,
    pub(super) disk: Spanned<DiskTable>,
    pub(super) memory: Option<Spanned<MemoryTable>>,
    pub(super) scheduler: Option<SchedulerTable>,
    #[serde(default)]
    pub(super) group: GroupTables,
    #[serde(default)]
    pub(super) task: Vec<Spanned<TaskTable>>,
    #[serde(default)]
    pub(super) step: Vec<Spanned<StepTable>>,
    #[serde(default)]
    pub(super) check: Vec<Spanned<CheckTable>>,
}

pub(super) fn one() -> u64 {
    1
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiskTable {
    pub(super) preset: Option<Spanned<String>>,
    pub(super) kind: Option<Spanned<String>>,
    pub(super) model: Option<Spanned<String>>,
    pub(super) set: Option<Given>,
    pub(super) depth: Option<Spanned<u32>>,
    pub(super) nr_requests: Option<Spanned<u32>>,
    pub(super) nr_group_requests: Option<Spanned<u32>>,
    pub(super) slots: Option<Spanned<String>>,
    pub(super) pace: Option<Spanned<String>>,
    pub(super) pause_target: Option<Spanned<Time>>,
    pub(super) window: Option<Spanned<String>>,
    pub(super) merge: Option<Spanned<Size>>,
    pub(super) faults: Option<Spanned<FaultsTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultsTable {
    #[serde(default)]
    pub(super) error_permille: u32,
    #[serde(default)]
    pub(super) stall_permille: u32,
    #[serde(default)]
    pub(super) lost_permille: u32,
    pub(super) stall: Option<Time>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryTable {
    pub(super) size: Option<Size>,
    pub(super) dirty_background: Option<Size>,
    pub(super) dirty_limit: Option<Size>,
    pub(super) write_back_len: Option<Size>,
    pub(super) drop_behind: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SchedulerTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) set: Settings,
    pub(super) base: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskTable {
    pub(super) name: Spanned<String>,
    pub(super) kind: Spanned<String>,
    pub(super) count: Option<Spanned<usize>>,
    pub(super) start: Option<Time>,
    pub(super) stop: Option<Time>,
    pub(super) offset: Option<Size>,
    pub(super) size: Option<Size>,
    pub(super) depth: Option<Spanned<u32>>,
    pub(super) block: Option<Spanned<Size>>,
    pub(super) think: Option<Spanned<Time>>,
    pub(super) files: Option<Spanned<u32>>,
    pub(super) file_min: Option<Spanned<Size>>,
    pub(super) file_max: Option<Spanned<Size>>,
    pub(super) link: Option<Spanned<Rate>>,
    pub(super) write_percent: Option<Spanned<u32>>,
    pub(super) buffered: Option<Spanned<bool>>,
    pub(super) fua: Option<Spanned<bool>>,
    pub(super) blocking: Option<Spanned<bool>>,
    pub(super) group: Option<Spanned<String>>,
    pub(super) think_every: Option<Spanned<u32>>,
    pub(super) flush_every: Option<Spanned<u32>>,
    pub(super) trim: Option<Spanned<bool>>,
    pub(super) rate: Option<Spanned<PerSecond>>,
    pub(super) arrival: Option<Spanned<String>>,
    pub(super) ceiling: Option<Spanned<bool>>,
    pub(super) total: Option<Spanned<Size>>,
    pub(super) wave: Option<u32>,
    pub(super) dirty_cap: Option<Spanned<Rate>>,
    pub(super) reads: Option<Spanned<u32>>,
    pub(super) record: Option<Spanned<Size>>,
    pub(super) log: Option<Spanned<Size>>,
    pub(super) sync: Option<Spanned<String>>,
    pub(super) group_commit: Option<Spanned<u32>>,
    pub(super) checkpoint: Option<Spanned<Time>>,
    pub(super) checkpoint_pages: Option<Spanned<u32>>,
}

/// One line, or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum GroupLines {
    One(String),
    Many(Vec<String>),
}

impl GroupLines {
    pub(super) fn text(&self) -> String {
        match self {
            GroupLines::One(line) => line.clone(),
            GroupLines::Many(lines) => lines.join("\n"),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StepTable {
    pub(super) at: Spanned<Time>,
    pub(super) insert: Option<Spanned<String>>,
    pub(super) configure: Option<Spanned<String>>,
    pub(super) destroy: Option<Spanned<bool>>,
    #[serde(default)]
    pub(super) set: Settings,
    pub(super) start: Option<Spanned<String>>,
    pub(super) stop: Option<Spanned<String>>,
    pub(super) group: Option<Spanned<String>>,
    pub(super) write: Option<BTreeMap<Spanned<String>, Spanned<GroupLines>>>,
    #[serde(rename = "move")]
    pub(super) moved: Option<Spanned<String>>,
    pub(super) to: Option<Spanned<String>>,
    pub(super) pace: Option<Spanned<String>>,
    pub(super) window: Option<Spanned<String>>,
    pub(super) depth: Option<Spanned<u32>>,
    pub(super) memory: Option<Spanned<ThresholdsTable>>,
    pub(super) slow: Option<Spanned<u32>>,
    pub(super) stall: Option<Spanned<Time>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThresholdsTable {
    pub(super) dirty_background: Option<Size>,
    pub(super) dirty_limit: Option<Size>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckTable {
    pub(super) figure: Spanned<String>,
    pub(super) task: Option<Spanned<String>>,
    pub(super) group: Option<Spanned<String>>,
    pub(super) at_least: Option<Milli>,
    pub(super) at_most: Option<Milli>,
}
