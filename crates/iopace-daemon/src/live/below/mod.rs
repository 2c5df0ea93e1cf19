//! Where the time of tasks goes on a device, the disk included: a look of some seconds that is
//! taken while somebody asks.
//!
//! ```text
//!   watch.rs   the engine records what ends; the kernel's counters of the disk below, twice
//!      │
//!      ├─► split.rs   each task's time: held by iopace, the disk's own for it, behind others
//!      ├─► serial.rs  whether the disk was seen to work on one after the other
//!      └─► trials.rs  the same requests replayed under other settings ─► what would help
//!                                                                          │
//!                                                words.rs  in sentences ◄──┘
//! ```
//! # What is exact and what is an estimate
//! The time that iopace held a request, by reason, and the time that it was at the disk are exact.
//! How the time at the disk divides is an estimate: the disk's own time for a request is the median
//! of those of its kind and size that had nothing of iopace beside them, and what a request took
//! longer is given to those that were at the disk beside it, by how long they were. What others do
//! past iopace is all that the kernel counted for the disk less what iopace asked for, so the
//! journal of the file system is among it.

mod alone;
mod kernel;
mod serial;
mod split;
#[cfg(test)]
mod tests;
mod trials;
mod watch;
mod words;

use crate::api::{BelowReport, KernelReport, LiveReport, TaskTime, TimePart};
use crate::clock;
use crate::device::Device;
use crate::figures::permille;
use crate::groups::Groups;
use crate::live::explain::chain;
use crate::live::span::{REASONS, Span, is_within, place};
use crate::live::tasks::name_of;
use iopace_core::request::{GroupId, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::verdict::Reason;
use split::Split;
use std::collections::BTreeMap;
use trials::Trials;
pub(crate) use watch::{Seen, watch};

/// So many tasks are told of.
const TASKS_MAX: usize = 8;

/// A device is looked at if there is so much to look at: requests around in this part of the time,
/// in thousandths.
const WORTH_PERMILLE: u128 = 200;

/// A task that loses less than this part of its time to others, in thousandths, loses nothing that
/// is felt.
const LOST_PERMILLE: u32 = 100;

/// Names and settings that belong to the numbers in a recording.
pub(crate) struct Names {
    tasks: BTreeMap<TaskId, String>,
    groups: BTreeMap<GroupId, String>,
}

impl Names {
    fn of(seen: &Seen, groups: &Groups) -> Names {
        let proc = groups.proc();
        let mut tasks = BTreeMap::new();
        for one in &seen.ended {
            let task = one.submit.task;
            tasks.entry(task).or_insert_with(|| name_of(&*proc, Some(task)));
        }
        let named = groups.named().into_iter();
        Names { tasks, groups: named.map(|named| (named.id, named.path)).collect() }
    }

    fn task(&self, task: Option<TaskId>) -> String {
        let name = task.and_then(|task| self.tasks.get(&task)).cloned();
        name.unwrap_or_else(|| "others".into())
    }

    fn group(&self, group: GroupId) -> &str {
        self.groups.get(&group).map_or("", |path| path)
    }
}

/// Whether there is so much to do on a device that a look is worth its time.
pub(crate) fn is_worth_it(reports: &[&LiveReport], device: &str) -> bool {
    let Some(span) = Span::new(reports, device) else { return false };
    let times = span.all.of_tasks();
    let around = [Reason::Slot, Reason::Turn, Reason::Anticipation, Reason::Window, Reason::Disk];
    let around: u128 = around.into_iter().map(|reason| times[place(reason)]).sum();
    around * 1_000 >= u128::from(span.over_ns) * WORTH_PERMILLE
}

/// What is to be said of what was seen; of a group, if one was asked about. None if nothing ended.
/// Takes some time: what was recorded is replayed a few times, until `patience` is over.
pub(crate) fn report(
    seen: &Seen,
    device: &dyn Device,
    groups: &Groups,
    (group, patience): (Option<&str>, Instant),
) -> Option<BelowReport> {
    let names = Names::of(seen, groups);
    let is_asked = |id: GroupId| group.is_none_or(|group| is_within(names.group(id), group));
    let kernel = seen.kernel.as_ref().map(|kernel| kernel.report(&seen.ended, seen.over));
    let past = kernel.as_ref().map_or(0, KernelReport::past_queue_ns);
    let mut splits = split::of(&seen.ended, (past, seen.over));
    splits.retain(|split| is_asked(split.group));
    let first = splits.first()?;
    let mut tried = Vec::new();
    if first.loses() {
        let trials = Trials { seen, device, groups, names: &names, split: first };
        tried = trials.run(&|| clock::now() < patience);
    }
    Some(told(seen, &names, &splits, (kernel, tried)))
}

/// All of it in figures and words.
fn told(
    seen: &Seen,
    names: &Names,
    splits: &[Split],
    (kernel, tried): (Option<KernelReport>, Vec<crate::api::TriedSetting>),
) -> BelowReport {
    let mut report = BelowReport {
        over_ns: seen.over.as_nanos(),
        recorded_count: seen.ended.len() as u64,
        left_out_count: seen.left_out_count,
        kernel,
        tasks: splits.iter().take(TASKS_MAX).map(|split| task_time(split, names)).collect(),
        loses_to_others: splits.first().is_some_and(Split::loses),
        worse_than_default: tried.iter().any(|one| one.default && one.helps),
        tried,
        text: String::new(),
    };
    report.text = words::text(&report);
    report
}

fn task_time(split: &Split, names: &Names) -> TaskTime {
    let count = u128::from(split.count.max(1));
    let number = |time: u128| u64::try_from(time / count).unwrap_or(u64::MAX);
    let part = |part: &str, of: String, time: u128| TimePart {
        part: part.into(),
        of,
        each_ns: number(time),
        share_permille: permille(time, split.total),
    };
    let held = REASONS.into_iter().zip(split.held);
    let held = held.map(|(reason, time)| part("held", reason.name().into(), time));
    let behind = split.behind.iter().map(|(task, time)| {
        let is_own = *task == Some(split.task);
        part("behind", if is_own { "own".into() } else { names.task(*task) }, *time)
    });
    let service = part("service", String::new(), split.service);
    let past = part("past", String::new(), split.past);
    let mut parts: Vec<TimePart> = held.chain(behind).chain([service, past]).collect();
    parts.retain(|part| part.share_permille > 0);
    parts.sort_by_key(|part| std::cmp::Reverse(part.each_ns));
    TaskTime {
        task: names.task(Some(split.task)),
        group: names.group(split.group).into(),
        kind: split.kind.into(),
        count: split.count,
        each_ns: number(split.total),
        alone_ns: split.alone.as_nanos(),
        alone_seen: split.alone_seen,
        parts,
    }
}

impl KernelReport {
    /// The time of requests that others have had past iopace, added up; none where it is so little
    /// that it may be an error of the arithmetic.
    fn past_queue_ns(&self) -> u64 {
        let past = self.queue_ns.saturating_sub(self.own_queue_ns);
        if past > self.queue_ns / 20 { past } else { 0 }
    }
}

/// Whether two groups are apart: neither is the other or above it.
fn are_apart(one: &str, other: &str) -> bool {
    !chain(one).any(|path| path == other) && !chain(other).any(|path| path == one)
}

/// Nanoseconds of a sum.
fn nanos(time: u128) -> Nanos {
    Nanos(u64::try_from(time).unwrap_or(u64::MAX))
}
