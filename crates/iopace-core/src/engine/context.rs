//! Shared by both machines: the time, the accounts of who did what, the observers, and what comes
//! out of the engine.

use super::Finish;
use super::observers::Observers;
use super::outputs::Outputs;
use crate::group::accounts::Accounts;
use crate::group::latency::Targets;
use crate::request::{GroupId, Outcome, StageTimes, Submit, TaskId};
use crate::stats::{DeviceCounts, Finished, TaskPlace, Tasks};
use crate::table::Entry;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;

/// See the module.
#[derive(Debug)]
pub(super) struct Context {
    /// Latest time the engine was told; never goes back.
    pub(super) now: Instant,
    /// When pace, write-back, targets or admission have to look again: by time alone, or at once
    /// ([`Instant::ZERO`]) as something has happened.
    pub(super) look_at: Instant,
    pub(super) outputs: Outputs,
    pub(super) groups: Accounts,
    pub(super) targets: Targets,
    /// Removed groups of which something has ended: nothing of them may be left.
    pub(super) ended_groups: Vec<GroupId>,
    pub(super) stats: DeviceCounts,
    pub(super) tasks: Tasks,
    /// As [`super::Config::accounting`]: else there are no tasks and no histograms by stage.
    pub(super) is_accounting: bool,
    pub(super) observers: Observers,
}

impl Context {
    pub(super) fn new(is_accounting: bool) -> Context {
        Context {
            now: Instant::ZERO,
            look_at: Instant::ZERO,
            outputs: Outputs::default(),
            groups: Accounts::default(),
            targets: Targets::default(),
            ended_groups: Vec::new(),
            stats: DeviceCounts::default(),
            tasks: Tasks::default(),
            is_accounting,
            observers: Observers::default(),
        }
    }

    /// Something has happened that stages in front of the scheduler have to look at.
    #[inline(always)]
    pub(super) fn look(&mut self) {
        self.look_at = Instant::ZERO;
    }

    /// A request or a buffered write comes; `sync`: a task waits for it. Where its task is counted,
    /// and that task's clock.
    #[inline(always)]
    pub(super) fn arrived(
        &mut self,
        task: TaskId,
        group: GroupId,
        sync: bool,
    ) -> (TaskPlace, Nanos) {
        self.groups.arrived(self.now, group, sync);
        match self.is_accounting {
            true => self.tasks.arrived(self.now, task, group),
            false => (TaskPlace::NONE, Nanos::ZERO),
        }
    }

    /// The clock of a task: see [`Tasks::own`].
    pub(super) fn own(&self, place: TaskPlace) -> Nanos {
        if self.is_accounting { self.tasks.own(place) } else { Nanos::ZERO }
    }

    /// A request has ended after so much time: counts it for its group, its task and the device.
    #[inline(always)]
    pub(super) fn finished(&mut self, entry: &Entry, outcome: Outcome, total: Nanos) {
        let Submit { group, .. } = entry.request.submit;
        if self.is_accounting {
            let finished = Finished::new(&entry.request.submit, &entry.times, outcome, total);
            finished.each_stage(|stage, spent| self.stats.add(stage, spent));
            self.stats.finish(&finished);
            self.tasks.finished(self.now, entry.account, &finished);
            self.groups.finished(self.now, group, &finished, true);
        } else {
            self.finished_uncounted(entry, outcome, total);
        }
        self.left(group);
    }

    /// The same without accounts of tasks and histograms by stage.
    #[inline(never)]
    fn finished_uncounted(&mut self, entry: &Entry, outcome: Outcome, total: Nanos) {
        let finished = Finished::new(&entry.request.submit, &entry.times, outcome, total);
        self.stats.finish(&finished);
        self.tasks.forgotten.finish(&finished);
        self.groups.finished(self.now, entry.request.group(), &finished, false);
    }

    /// A portion of a buffered write is in memory.
    pub(super) fn buffered(&mut self, group: GroupId, place: TaskPlace, size: Bytes) {
        if self.is_accounting {
            self.tasks.buffered(self.now, place, size);
        } else {
            self.tasks.forgotten.buffered(size);
        }
        self.groups.buffered(group, size);
    }

    /// A buffered write is over.
    pub(super) fn paced(&mut self, group: GroupId, place: TaskPlace, waited: &StageTimes) {
        self.groups.wrote(self.now, group, waited, self.is_accounting);
        if self.is_accounting {
            self.stats.paced(waited);
            self.tasks.paced(self.now, place, waited);
        } else {
            self.tasks.forgotten.paced(waited);
        }
        self.left(group);
    }

    /// Something of a group is gone, which may have been the last of a group that was removed.
    #[inline]
    pub(super) fn left(&mut self, group: GroupId) {
        if self.groups.is_dead(group) {
            self.ended_groups.push(group);
            self.look();
        }
    }

    /// There are too many requests already: this one, a buffered write perhaps, is refused.
    #[cold]
    pub(super) fn refuse(&mut self, submit: &Submit) {
        self.stats.told.refused_count += 1;
        let Submit { tag, task, op, extent, .. } = *submit;
        let (outcome, times) = (Outcome::Refused, StageTimes::default());
        self.outputs.finish(Finish { tag, task, op, extent, outcome, times });
    }
}
