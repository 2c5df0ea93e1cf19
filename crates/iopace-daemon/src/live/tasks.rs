//! The tasks of a device that moved most or waited longest since the last look.

use super::activity::activity_of;
use crate::api::{LiveTask, WaitCounts};
use crate::device::Device;
use crate::limits::LIVE_TASKS_MAX;
use crate::process::Proc;
use crate::process::process_of_task;
use crate::report;
use iopace_core::request::{GroupId, TaskId};
use iopace_core::stats::{OpCounts, SmallHistogram, TaskAccount};
use iopace_core::time::{Instant, Nanos};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A task as it was at the last look.
struct Before {
    look: u64,
    /// Since when the device counted it: another one if it was forgotten meanwhile.
    since: Instant,
    counts: OpCounts,
    latency: SmallHistogram,
    name: String,
}

/// What the tasks of a device had counted at the last look.
#[derive(Default)]
pub(super) struct FormerTasks {
    look: u64,
    tasks: BTreeMap<Option<TaskId>, Before>,
    buffer: Vec<TaskAccount>,
}

/// A task in this interval.
struct Seen {
    place: usize,
    counts: OpCounts,
    latency: SmallHistogram,
}

impl FormerTasks {
    /// The tasks that did or have something, at most [`LIVE_TASKS_MAX`]: half of them those that
    /// moved most, the others those that waited longest.
    pub(super) fn look(
        &mut self,
        device: &dyn Device,
        proc: &dyn Proc,
        (last, interval): (Instant, Nanos),
        paths: &BTreeMap<GroupId, &str>,
    ) -> Vec<LiveTask> {
        let mut accounts = std::mem::take(&mut self.buffer);
        device.tasks(last, &mut accounts);
        let mut all: Vec<Seen> = accounts
            .iter()
            .enumerate()
            .map(|(place, account)| self.since(proc, place, account))
            .filter(|seen| is_shown(seen, &accounts[seen.place]))
            .collect();
        let moved = |counts: &OpCounts| counts.read + counts.written.max(counts.buffered);
        all.sort_by_key(|seen| Reverse(moved(&seen.counts)));
        let most = all.len().min(LIVE_TASKS_MAX / 2);
        all[most..].sort_by_key(|seen| Reverse(seen.counts.stages.total()));
        all.truncate(LIVE_TASKS_MAX);
        let shown = all.iter().map(|seen| {
            let account = &accounts[seen.place];
            let times = report::times(&seen.latency);
            let name = self.tasks.get(&account.task).map(|before| before.name.clone());
            LiveTask {
                task: name.unwrap_or_default(),
                group: paths.get(&account.group).map_or("", |path| *path).into(),
                activity: activity_of(&seen.counts, times, interval, WaitCounts::default()),
                live_count: account.live_count,
            }
        });
        let shown = shown.collect();
        let present = self.look;
        self.tasks.retain(|_, before| before.look == present);
        self.look += 1;
        self.buffer = accounts;
        shown
    }

    /// What a task has counted since the last look.
    fn since(&mut self, proc: &dyn Proc, place: usize, account: &TaskAccount) -> Seen {
        let TaskAccount { task, since, counts, latency, .. } = account;
        let before = self.tasks.entry(*task).or_insert_with(|| Before {
            look: 0,
            since: *since,
            counts: OpCounts::default(),
            latency: SmallHistogram::default(),
            name: name_of(proc, *task),
        });
        if before.since != *since {
            (before.since, before.counts) = (*since, OpCounts::default());
            before.latency = SmallHistogram::default();
        }
        before.look = self.look;
        let seen = Seen {
            place,
            counts: counts.since(&before.counts),
            latency: latency.since(&before.latency),
        };
        before.counts.clone_from(counts);
        before.latency.clone_from(latency);
        seen
    }
}

fn is_shown(seen: &Seen, account: &TaskAccount) -> bool {
    seen.counts.is_any() || account.live_count > 0
}

/// What a task is called.
pub(crate) fn name_of(proc: &dyn Proc, task: Option<TaskId>) -> String {
    let Some(task) = task else { return "others".into() };
    let Some((pid, start)) = process_of_task(task) else { return format!("connection {}", task.0) };
    let stat = proc.stat(pid).filter(|stat| stat.start & 0x7fff_ffff == start);
    let program = stat.and_then(|stat| proc.program(pid).or(Some(stat.comm)));
    format!("{} {pid}", program.as_deref().unwrap_or("process"))
}
