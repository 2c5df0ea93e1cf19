//! Every key of a scenario file with its unit, bounds, default and meaning: what the schema for
//! editors and the table in `docs/simulator.md` are made from. A test holds it to the parser.

use super::database::{COUNT_MAX, PAGES_MAX};
use super::{FILES_MAX, TASK_DEPTH_MAX, TASKS_MAX};
use iopace_core::limits::{NR_REQUESTS_MAX, NR_REQUESTS_MIN, WINDOW_DEPTH_MAX};
use iopace_disk::slowed::FACTOR_MAX;

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Any text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A size in quotes.
    Size,
    /// A time in quotes.
    Time,
    /// A rate of bytes in quotes.
    Rate,
    /// How often requests come, in quotes.
    PerSecond,
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A number.
    Decimal,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A word of a registry.
    Of(Registry),
    /// Parameters of the scheduler that is named beside it.
    Parameters,
    /// Parameters of the disk.
    Model,
    /// Files of a group.
    Files,
    /// Groups by their paths.
    Groups,
    /// A table.
    Table(&'static [Key]),
    /// An array of tables.
    Tables(&'static [Key]),
}

/// A list of words that is kept elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// Disks.
    Presets,
    /// Disk models.
    Models,
    /// Schedulers.
    Schedulers,
    /// Schedulers, or `none`.
    SchedulersOrNone,
    /// Policies of stage window.
    Windows,
    /// Policies of stage pace.
    Paces,
    /// Kinds of task.
    Kinds,
    /// Figures.
    Figures,
}

impl Registry {
    /// Whether the file of a policy may stand where one of its words may.
    pub fn has_files(self) -> bool {
        matches!(self, Registry::Schedulers | Registry::SchedulersOrNone)
    }
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub holds: Type,
    /// What holds without it; `required` if it cannot be left out.
    pub default: &'static str,
    /// What it says.
    pub doc: &'static str,
}

const fn key(name: &'static str, holds: Type, default: &'static str, doc: &'static str) -> Key {
    Key { name, holds, default, doc }
}

const ANY: u64 = i64::MAX as u64;
const REQUIRED: &str = "required";

use Type::{
    Decimal, Files, Flag, Of, PerSecond, Rate, Size, Table, Tables, Text, Time, Whole, Words,
};

/// The file.
pub static FILE: &[Key] = &[
    key("why", Text, REQUIRED, "the question that it answers, in one sentence"),
    key("seed", Whole(0, ANY), "1", "what randomness is drawn from"),
    key("duration", Time, REQUIRED, "length of the run, above 0, at most a day"),
    key("warmup", Time, "0s", "time at the beginning that counts in no figure"),
    key("until_done", Flag, "false", "the run ends when all tasks have ended"),
    key("disk", Table(DISK), REQUIRED, "the disk and its stages"),
    key("memory", Table(MEMORY), "no page cache", "the page cache"),
    key("scheduler", Table(SCHEDULER), "the plain elevator", "the scheduler at the beginning"),
    key("group", Type::Groups, "the root only", "files of groups: see groups.md"),
    key("task", Tables(TASK), "none", "who uses the disk"),
    key("step", Tables(STEP), "none", "what changes while it runs"),
    key("check", Tables(CHECK), "none", "what must hold at the end"),
];

/// `[disk]`
pub static DISK: &[Key] = &[
    key("preset", Of(Registry::Presets), "-", "a disk of `iopace models`"),
    key("kind", Of(Registry::Models), "-", "a model, with all its parameters in `set`"),
    key("model", Text, "-", "a model file, from the scenario's folder"),
    key("set", Type::Model, "none", "parameters that differ from the preset or model file"),
    key("depth", Whole(1, WINDOW_DEPTH_MAX as u64), "the disk's", "most requests at the disk"),
    key(
        "nr_requests",
        Whole(NR_REQUESTS_MIN as u64, NR_REQUESTS_MAX as u64),
        "16384",
        "request slots of the device",
    ),
    key(
        "nr_group_requests",
        Whole(1, NR_REQUESTS_MAX as u64),
        "as many as the device",
        "most slots of each group below the root without a value of its own",
    ),
    key("slots", Words(&["guaranteed", "plain"]), "guaranteed", "how slots are given"),
    key("pace", Of(Registry::Paces), "none", "how fast tasks may dirty memory"),
    key("pause_target", Time, "8ms", "the pause that `rate` aims at, 1ms to 100ms"),
    key("window", Of(Registry::Windows), "fixed", "how many requests the disk holds"),
    key(
        "merge",
        Size,
        "0B",
        "most bytes of a command of several requests that adjoin each other, 0B (no merging) to \
         16MiB",
    ),
    key("faults", Table(FAULTS), "none", "what goes wrong; the rates sum to 1000 at most"),
];

/// `faults` of `[disk]`
pub static FAULTS: &[Key] = &[
    key("error_permille", Whole(0, 1_000), "0", "of 1000 commands, how many fail"),
    key("stall_permille", Whole(0, 1_000), "0", "how many are late by `stall`"),
    key("lost_permille", Whole(0, 1_000), "0", "how many are never heard of again"),
    key("stall", Time, "-", "how late those of `stall_permille` are"),
];

/// `[memory]`
pub static MEMORY: &[Key] = &[
    key("size", Size, "1GiB", "page frames; at least dirty_limit"),
    key("dirty_background", Size, "32MiB", "write-back begins; at most dirty_limit"),
    key("dirty_limit", Size, "100MiB", "writers wait; at most size"),
    key("write_back_len", Size, "128KiB", "longest write-back; 4KiB to dirty_limit"),
    key("drop_behind", Flag, "true", "what was only written leaves memory first"),
];

/// `[scheduler]`
pub static SCHEDULER: &[Key] = &[
    key("name", Of(Registry::SchedulersOrNone), REQUIRED, "the scheduler; none: only the base"),
    key("set", Type::Parameters, "its defaults", "its parameters"),
    key("base", Of(Registry::Schedulers), "elevator", "what runs where none is inserted"),
];

/// `[[task]]`
pub static TASK: &[Key] = &[
    key("name", Text, REQUIRED, "its name, unique"),
    key("kind", Of(Registry::Kinds), REQUIRED, "what it does"),
    key("count", Whole(1, TASKS_MAX as u64), "1", "so many, each with its part of the region"),
    key("start", Time, "0s", "when it begins"),
    key("stop", Time, "the end", "when it submits nothing more"),
    key("offset", Size, "0B", "where its part of the disk begins"),
    key("size", Size, "the rest of the disk", "how long its part is"),
    key("group", Text, "/", "who pays"),
    key("total", Size, "no end", "it ends when it has moved so much, above 0B"),
    key("wave", Whole(0, u32::MAX as u64), "0", "it begins when all waves before have ended"),
    key(
        "dirty_cap",
        Rate,
        "none",
        "most memory that it dirties in a second, from 4096B/s on; buffered, `pace = \"rate\"`",
    ),
    key("depth", Whole(1, TASK_DEPTH_MAX as u64), "1", "requests that it keeps outstanding"),
    key("block", Size, "its kind's", "size of a request, 1B to 32MiB"),
    key("think", Time, "its kind's", "between a completion and the next request"),
    key("think_every", Whole(1, u32::MAX as u64), "1", "it thinks after so many requests"),
    key("flush_every", Whole(1, u32::MAX as u64), "never", "it flushes after so many writes"),
    key("write_percent", Whole(0, 100), "0", "of 100 requests, how many write"),
    key("trim", Flag, "false", "it trims where it would write"),
    key("buffered", Flag, "its kind's", "through the page cache; needs [memory]"),
    key("fua", Flag, "false", "writes are durable before they finish"),
    key("blocking", Flag, "false", "it sleeps until its request has a slot"),
    key("rate", PerSecond, "as others finish", "requests come by the clock"),
    key("arrival", Words(&["constant", "poisson"]), "constant", "how they come, with rate"),
    key("ceiling", Flag, "false", "the rate of a program that waits"),
    key("files", Whole(1, FILES_MAX as u64), "500", "files of the pool"),
    key("file_min", Size, "its kind's", "size of the smallest, at least 1B"),
    key("file_max", Size, "its kind's", "size of the largest"),
    key("link", Rate, "117MB/s", "rate of the link, at least 1B/s"),
    key("reads", Whole(0, COUNT_MAX as u64), "2", "pages read per transaction"),
    key("record", Size, "512B", "of the log per transaction, 1B to 1MiB"),
    key("log", Size, "1GiB", "size of the log, at least two pages and a record"),
    key("sync", Words(&["fua", "flush"]), "fua", "what makes the log durable"),
    key("group_commit", Whole(1, COUNT_MAX as u64), "1", "transactions per write to the log"),
    key("checkpoint", Time, "5min", "from one checkpoint to the next, 1ms to a day"),
    key("checkpoint_pages", Whole(0, PAGES_MAX as u64), "16384", "that each writes; 0: none"),
];

/// `[[step]]`
pub static STEP: &[Key] = &[
    key("at", Time, REQUIRED, "when, before the end"),
    key("insert", Of(Registry::Schedulers), "-", "a scheduler is put in"),
    key("configure", Of(Registry::Schedulers), "-", "it is exchanged, or tuned"),
    key("destroy", Flag, "-", "it is taken out"),
    key("set", Type::Parameters, "the defaults", "parameters of insert and configure"),
    key("start", Text, "-", "the task begins, or goes on"),
    key("stop", Text, "-", "the task submits nothing more"),
    key("group", Text, "-", "files of this group are written"),
    key("write", Files, "-", "which ones, and what"),
    key("move", Text, "-", "another group pays for the task"),
    key("to", Text, "-", "which group"),
    key("pace", Of(Registry::Paces), "-", "the policy of stage pace is exchanged"),
    key("window", Of(Registry::Windows), "-", "the policy of stage window is exchanged"),
    key("depth", Whole(1, WINDOW_DEPTH_MAX as u64), "-", "most requests at the disk"),
    key("memory", Table(THRESHOLDS), "-", "thresholds of dirty memory"),
    key("slow", Whole(1, FACTOR_MAX as u64), "-", "the disk is so many times slower; 1: as before"),
    key("stall", Time, "-", "the disk does nothing for so long, at most the duration"),
];

/// `memory` of `[[step]]`
pub static THRESHOLDS: &[Key] = &[
    key("dirty_background", Size, "as it is", "write-back begins"),
    key("dirty_limit", Size, "as it is", "writers wait"),
];

/// `[[check]]`
pub static CHECK: &[Key] = &[
    key("figure", Of(Registry::Figures), REQUIRED, "which figure"),
    key("task", Text, "-", "of which task"),
    key("group", Text, "-", "of which group; neither: of the whole run"),
    key("at_least", Decimal, "-", "it must not be smaller"),
    key("at_most", Decimal, "-", "it must not be larger"),
];

#[cfg(test)]
mod tests {
    use super::super::shape;
    use super::*;
    use serde::de::DeserializeOwned;
    use std::collections::BTreeSet;

    /// The keys that the parser takes, as it names them itself.
    fn parsed<T: DeserializeOwned>() -> BTreeSet<String> {
        let error = toml::from_str::<T>("no_such_key = 1").err().expect("an unknown key");
        let (_, list) = error.message().split_once("expected").expect("a list of what is known");
        list.split('`').skip(1).step_by(2).map(String::from).collect()
    }

    fn listed(keys: &[Key]) -> BTreeSet<String> {
        assert!(keys.iter().all(|key| !key.doc.is_empty() && !key.default.is_empty()));
        keys.iter().map(|key| key.name.into()).collect()
    }

    #[test]
    fn every_key_of_the_parser_is_listed_and_no_other() {
        assert_eq!(listed(FILE), parsed::<shape::ScenarioFile>());
        assert_eq!(listed(DISK), parsed::<shape::DiskTable>());
        assert_eq!(listed(FAULTS), parsed::<shape::FaultsTable>());
        assert_eq!(listed(MEMORY), parsed::<shape::MemoryTable>());
        assert_eq!(listed(SCHEDULER), parsed::<shape::SchedulerTable>());
        assert_eq!(listed(TASK), parsed::<shape::TaskTable>());
        assert_eq!(listed(STEP), parsed::<shape::StepTable>());
        assert_eq!(listed(THRESHOLDS), parsed::<shape::ThresholdsTable>());
        assert_eq!(listed(CHECK), parsed::<shape::CheckTable>());
    }
}
