//! Who pays for what is done with the file of an export.
//!
//! The group is that of the export, wherever the export is moved to, unless the process itself was
//! moved or has a class by `ionice`. The task is the process, but for the kernel's own threads: a
//! loop device works with as many as it likes, and who is behind them cannot be seen. All of them
//! are one task for each export.

use crate::fuse::caller::Caller;
use crate::fuse::who::{Pays, Who};
use crate::groups::Groups;
use crate::rules::Rules;
use crate::start_error::StartError;
use iopace_core::request::TaskId;
use std::sync::{Arc, PoisonError, RwLock};

/// Those who use the file of one export.
pub(super) struct Payers {
    groups: Arc<Groups>,
    /// The place of the export.
    export: usize,
    /// The kernel's threads.
    kernel: TaskId,
    now: RwLock<Now>,
}

/// As of a number of moves of exports.
#[derive(Clone)]
struct Now {
    moves: u64,
    group: String,
    who: Arc<Who>,
}

impl Payers {
    /// Those of the export with that number; `kernel` is the task of the kernel's threads.
    ///
    /// # Errors
    /// The group of the export is gone: a bug.
    pub(super) fn new(
        groups: &Arc<Groups>,
        export: usize,
        kernel: TaskId,
    ) -> Result<Payers, StartError> {
        let moves = groups.exports_moved();
        let group = group_of(groups, export)?;
        let who = make(groups, &group)?;
        let now = RwLock::new(Now { moves, group, who });
        Ok(Payers { groups: Arc::clone(groups), export, kernel, now })
    }

    /// Who pays for a request. What is given back is kept until the request is submitted.
    pub(super) fn of(&self, caller: Caller) -> (TaskId, Pays) {
        let pays = self.who().of(caller);
        let task = if caller.pid == 0 || pays.is_kernel() { self.kernel } else { pays.task() };
        (task, pays)
    }

    /// Forgets callers that are gone.
    pub(super) fn sweep(&self) {
        self.who().sweep();
    }

    fn who(&self) -> Arc<Who> {
        let moves = self.groups.exports_moved();
        let now = self.now.read().unwrap_or_else(PoisonError::into_inner);
        if now.moves == moves {
            return Arc::clone(&now.who);
        }
        let before = now.clone();
        drop(now);
        let group = group_of(&self.groups, self.export).unwrap_or(before.group.clone());
        let who = if group == before.group { Ok(before.who) } else { make(&self.groups, &group) };
        let mut now = self.now.write().unwrap_or_else(PoisonError::into_inner);
        match who {
            // Another may have been here with a later move.
            Ok(who) if now.moves <= moves => *now = Now { moves, group, who },
            Ok(_) => {}
            Err(error) => tracing::error!(%error, "the group of an export is not followed"),
        }
        Arc::clone(&now.who)
    }
}

fn group_of(groups: &Groups, export: usize) -> Result<String, StartError> {
    let gone = || StartError::Group("of an export that is gone".into());
    groups.export_groups().remove(&export).ok_or_else(gone)
}

fn make(groups: &Arc<Groups>, group: &str) -> Result<Arc<Who>, StartError> {
    let rules = Rules::new(Vec::new(), group);
    let rules = rules.map_err(|error| StartError::Setting(error.to_string()))?;
    Who::new(groups, rules).map_err(|error| StartError::Group(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ExportConfig, GroupConfig};
    use crate::process::Proc;
    use crate::process::fake::Fake;

    fn bench() -> (Arc<Fake>, Arc<Groups>, Payers) {
        let group = |path: &str| GroupConfig { path: path.into(), files: Vec::new() };
        let mut export = ExportConfig::new("disk", "disk");
        export.group = "/a".into();
        let groups = Groups::start(&[group("/a"), group("/b")], &[export], Vec::new());
        let proc = Arc::new(Fake::default());
        let groups = groups.expect("made").with_proc(Arc::clone(&proc) as Arc<dyn Proc>);
        let groups = Arc::new(groups);
        let payers = Payers::new(&groups, 0, TaskId(7)).expect("made");
        (proc, groups, payers)
    }

    fn caller(pid: u32) -> Caller {
        Caller { pid, uid: 0, gid: 0 }
    }

    #[test]
    fn the_group_of_the_export_is_followed() {
        let (proc, groups, payers) = bench();
        proc.start(20, "dd");
        let path = |pid| groups.path(payers.of(caller(pid)).1.group());
        assert_eq!((path(20), path(0)), ("/a".into(), "/a".into()));
        groups.move_export("disk", "/b").expect("moved");
        assert_eq!((path(20), path(0)), ("/b".into(), "/b".into()));
        // By itself it goes elsewhere, and then the export is no matter.
        groups.move_process(20, "/a").expect("moved");
        assert_eq!((path(20), path(0)), ("/a".into(), "/b".into()));
    }

    #[test]
    fn threads_of_the_kernel_are_one_task() {
        let (proc, _, payers) = bench();
        for pid in [30, 31] {
            proc.start(pid, "kworker/u8:1");
            proc.set(pid, |made| made.parent = 2);
        }
        proc.start(32, "dd");
        let task = |pid| payers.of(caller(pid)).0;
        assert_eq!([task(30), task(31), task(0)], [TaskId(7); 3]);
        assert_ne!(task(32), TaskId(7));
        // Also when it is known already.
        assert_eq!(task(30), TaskId(7));
    }
}
