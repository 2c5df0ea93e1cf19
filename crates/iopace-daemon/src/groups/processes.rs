//! Processes that use a mount: who was moved by hand, and who is known at all.
//!
//! Which group the rules of a mount give is up to the mount. Here is what all mounts share: a
//! process that was moved pays as that group until it ends, and so do the children that it has from
//! then on. Tables of mounts are changed under the one lock of the groups, so nobody is put into a
//! group that is removed meanwhile.

use super::made::{Claim, Wanted};
use super::{GroupError, Groups, State};
use crate::limits::{MOVED_MAX, MOVED_SWEPT, PARENTS_MAX};
use crate::process::{Proc, Process};
use iopace_core::request::GroupId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Weak};

/// A caller that is known to a mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) process: Process,
    pub(crate) program: &'a str,
    pub(crate) group: GroupId,
}

/// The groups that stand for a cgroup: names below a base.
#[derive(Clone, Debug)]
pub(crate) struct MappedCgroup {
    pub(crate) base: GroupId,
    pub(crate) below: Vec<String>,
}

/// The table of callers of a mount. It is asked under the lock of the groups and must not ask back.
pub(crate) trait Callers: Send + Sync {
    /// Shows all of them; a process with several threads several times.
    fn each(&self, visit: &mut dyn FnMut(Seen<'_>));

    /// Forgets some: they are looked at again at their next request.
    fn forget(&self, gone: &dyn Fn(Seen<'_>) -> bool);

    /// The rule that names this group.
    fn rule_of(&self, group: GroupId) -> Option<String>;

    /// The groups for a cgroup at this path; `None` where no rule maps cgroups.
    fn mapped(&self, cgroup: &str) -> Option<MappedCgroup>;
}

/// One that has just been looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer<'a> {
    pub(crate) process: Process,
    pub(crate) parent: u32,
    pub(crate) program: &'a str,
}

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its number.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// The path of the group that it pays as.
    pub group: String,
    /// It was moved, or is a child of one that was; rules do not count for it.
    pub is_moved: bool,
}

/// A process that was moved, or a child of one.
struct Moved {
    /// When the process that it is was started.
    start: u64,
    /// Children that were started since then, in clock ticks, are moved too.
    since: u64,
    claim: Claim,
    program: String,
}

#[derive(Default)]
pub(super) struct Processes {
    mounts: Vec<Weak<dyn Callers>>,
    moved: BTreeMap<u32, Moved>,
    /// Up to here the moved ones were swept.
    swept: u32,
}

impl Processes {
    pub(super) fn mounts(&self) -> impl Iterator<Item = Arc<dyn Callers>> + '_ {
        self.mounts.iter().filter_map(Weak::upgrade)
    }

    fn each(&self, visit: &mut dyn FnMut(Seen<'_>)) {
        self.mounts().for_each(|mount| mount.each(visit));
    }

    /// All are looked at anew at their next request.
    pub(super) fn forget_all(&self) {
        self.forget(&|_| true);
    }

    fn forget(&self, gone: &dyn Fn(Seen<'_>) -> bool) {
        self.mounts().for_each(|mount| mount.forget(gone));
    }

    /// The processes that pay as each group, as mounts have seen them.
    fn seen(&self) -> BTreeSet<(GroupId, Process)> {
        let mut all = BTreeSet::new();
        self.each(&mut |seen| {
            all.insert((seen.group, seen.process));
        });
        all
    }

    /// How many processes pay as which group, and those that were moved and have asked no mount for
    /// anything since: whether these are still there is to be looked at.
    pub(super) fn counts(&self) -> (BTreeMap<GroupId, usize>, Vec<(GroupId, Process)>) {
        let seen = self.seen();
        let known: BTreeSet<Process> = seen.iter().map(|(_, process)| *process).collect();
        let moved = self.moved.iter().map(|(pid, moved)| {
            let process = Process { pid: *pid, start: moved.start };
            (moved.claim.group(), process)
        });
        let unseen = moved.filter(|(_, process)| !known.contains(process)).collect();
        let mut counts = BTreeMap::new();
        for (group, _) in seen {
            *counts.entry(group).or_default() += 1;
        }
        (counts, unseen)
    }

    /// The group that a process was moved to, by itself or with a parent.
    fn moved(&mut self, proc: &dyn Proc, who: &Newcomer<'_>) -> Option<Claim> {
        let Process { pid, start } = who.process;
        if let Some(moved) = self.moved.get(&pid).filter(|moved| moved.start == start) {
            return Some(moved.claim.clone());
        }
        if self.moved.is_empty() {
            return None;
        }
        let claim = self.of_parent(proc, who)?;
        // When its parent ends it has another one: so it is noted.
        if self.moved.len() < MOVED_MAX || self.moved.contains_key(&pid) {
            let (claim, program) = (claim.clone(), who.program.to_owned());
            self.moved.insert(pid, Moved { start, since: start, claim, program });
        }
        Some(claim)
    }

    fn of_parent(&self, proc: &dyn Proc, who: &Newcomer<'_>) -> Option<Claim> {
        let (mut born, mut at) = (who.process.start, who.parent);
        for _ in 0..PARENTS_MAX {
            let parent = proc.stat(at).filter(|_| at > 0)?;
            let known = self.moved.get(&at).filter(|moved| moved.start == parent.start);
            if let Some(moved) = known.filter(|moved| born >= moved.since) {
                return Some(moved.claim.clone());
            }
            (born, at) = (parent.start, parent.parent);
        }
        None
    }
}

pub(super) fn is_there(proc: &dyn Proc, process: Process) -> bool {
    proc.stat(process.pid).is_some_and(|stat| stat.start == process.start)
}

impl Groups {
    /// What the groups know of processes.
    pub(crate) fn proc(&self) -> Arc<dyn Proc> {
        Arc::clone(&self.proc)
    }

    /// A mount begins; it ends when its table of callers is dropped.
    pub(crate) fn attach(&self, callers: Weak<dyn Callers>) {
        let mounts = &mut self.lock().processes.mounts;
        mounts.retain(|mount| mount.strong_count() > 0);
        mounts.push(callers);
    }

    /// Finds or makes the group that pays for a process; `keep` notes it before anything else about
    /// groups can change.
    pub(crate) fn settle<T>(
        &self,
        who: &Newcomer<'_>,
        wanted: &Wanted<'_>,
        keep: impl FnOnce(Claim) -> T,
    ) -> T {
        let cgroups = self.look_at_cgroups((wanted.base, wanted.below), wanted.limiting);
        let mut state = self.lock();
        let group = match state.processes.moved(&*self.proc, who) {
            Some(claim) => {
                let wanted = Wanted { below: &[], ..wanted.clone() };
                self.make(&mut state, claim.group(), &wanted, Vec::new())
            }
            None => self.make(&mut state, wanted.base, wanted, cgroups),
        };
        keep(state.made.claim(group))
    }

    /// Another group pays for a process from its next request on, and for children that it has from
    /// now on; rules do not count for them any more.
    ///
    /// # Errors
    /// No such process or group, nothing is mounted, or too many were moved.
    pub fn move_process(&self, pid: u32, path: &str) -> Result<ProcessInfo, GroupError> {
        let mut state = self.lock();
        let group = state.tree.find(path)?;
        if state.processes.mounts().next().is_none() {
            return Err(GroupError::NoMount);
        }
        let pid = self.proc.process(pid).ok_or(GroupError::NoProcess(pid))?;
        let stat = self.proc.stat(pid).ok_or(GroupError::NoProcess(pid))?;
        if state.processes.moved.len() >= MOVED_MAX && !state.processes.moved.contains_key(&pid) {
            return Err(GroupError::TooManyMoved);
        }
        let process = Process { pid, start: stat.start };
        let claim = state.made.claim(group);
        state.made.keep(group);
        let (since, program) = (self.proc.ticks(), stat.comm.clone());
        let moved = Moved { start: stat.start, since, claim, program };
        state.processes.moved.insert(pid, moved);
        state.processes.forget(&|seen| seen.process == process);
        let (program, group) = (stat.comm, state.tree.path(group));
        Ok(ProcessInfo { pid, program, group, is_moved: true })
    }

    /// Processes that use a mount or were moved, by number; of the first `most`, with the number of
    /// those left out. One whose threads are of different classes is there once for each.
    pub fn processes(&self, most: usize) -> (Vec<ProcessInfo>, usize) {
        let state = self.lock();
        let mut all: BTreeMap<(Process, GroupId), String> = BTreeMap::new();
        state.processes.each(&mut |seen| {
            all.entry((seen.process, seen.group)).or_insert_with(|| seen.program.to_owned());
        });
        let known: BTreeSet<Process> = all.keys().map(|(process, _)| *process).collect();
        for (pid, moved) in &state.processes.moved {
            let process = Process { pid: *pid, start: moved.start };
            if !known.contains(&process) {
                all.insert((process, moved.claim.group()), moved.program.clone());
            }
        }
        let left_out = all.len().saturating_sub(most);
        let shown = all.into_iter().take(most).map(|((process, group), program)| {
            let moved = state.processes.moved.get(&process.pid);
            let is_moved = moved.is_some_and(|moved| moved.start == process.start);
            let info =
                ProcessInfo { pid: process.pid, program, group: state.tree.path(group), is_moved };
            (process, info)
        });
        let shown: Vec<(Process, ProcessInfo)> = shown.collect();
        drop(state);
        let there = shown.into_iter().filter(|(process, _)| is_there(&*self.proc, *process));
        (there.map(|(_, info)| info).collect(), left_out)
    }

    /// Whether nobody that is there pays as a group; those that have ended are forgotten, and so
    /// are groups below that were made for them.
    pub(super) fn check_payers(&self, state: &mut State, id: GroupId) -> Result<(), GroupError> {
        for mount in state.processes.mounts() {
            if let Some(rule) = mount.rule_of(id) {
                return Err(GroupError::Rule { path: state.tree.path(id), rule });
            }
        }
        let within: BTreeSet<GroupId> = state.tree.subtree(id).collect();
        let mut all: BTreeMap<(Process, GroupId), String> = BTreeMap::new();
        state.processes.each(&mut |seen| {
            if within.contains(&seen.group) {
                all.entry((seen.process, seen.group)).or_insert_with(|| seen.program.to_owned());
            }
        });
        for (pid, moved) in &state.processes.moved {
            if within.contains(&moved.claim.group()) {
                let process = Process { pid: *pid, start: moved.start };
                all.insert((process, moved.claim.group()), moved.program.clone());
            }
        }
        let processes: BTreeSet<Process> = all.keys().map(|(process, _)| *process).collect();
        let gone: BTreeSet<Process> =
            processes.into_iter().filter(|process| !is_there(&*self.proc, *process)).collect();
        state.processes.forget(&|seen| gone.contains(&seen.process));
        let is_gone = |pid, start| gone.contains(&Process { pid, start });
        state.processes.moved.retain(|pid, moved| !is_gone(*pid, moved.start));
        self.unmake(state, id, true);
        let is_own =
            |(process, group): &(Process, GroupId)| *group == id && !gone.contains(process);
        let mut own = all.into_iter().filter(|(who, _)| is_own(who));
        let Some(((Process { pid, .. }, _), program)) = own.next() else { return Ok(()) };
        let count = 1 + own.count();
        Err(GroupError::Processes { path: state.tree.path(id), count, pid, program })
    }

    /// Forgets moved processes that have ended, a part of them at each call, removes groups that
    /// were made for callers and are unused, and looks at the limits of cgroups.
    pub(crate) fn sweep(&self) {
        let mut state = self.lock();
        let Processes { moved, swept, .. } = &mut state.processes;
        let next = moved.range((Excluded(*swept), Unbounded)).take(MOVED_SWEPT);
        let next: Vec<Process> =
            next.map(|(pid, moved)| Process { pid: *pid, start: moved.start }).collect();
        *swept = if next.len() < MOVED_SWEPT { 0 } else { next[next.len() - 1].pid };
        for process in next.into_iter().filter(|process| !is_there(&*self.proc, *process)) {
            moved.remove(&process.pid);
        }
        self.unmake(&mut state, GroupId::ROOT, false);
        drop(state);
        self.sweep_containers();
        self.sweep_cgroups();
    }
}
