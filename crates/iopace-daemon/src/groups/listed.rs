//! Groups as they are listed: the text of all that is set, made without a lock.

use super::processes::is_there;
use super::{GroupInfo, State};
use crate::process::{Proc, Process};
use iopace_core::request::GroupId;
use iopace_groups::files::FILES;
use iopace_groups::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Who pays as which group, itself.
#[derive(Default)]
pub(super) struct Payers {
    pub(super) exports: BTreeMap<GroupId, Vec<String>>,
    pub(super) connections: BTreeMap<GroupId, Vec<u64>>,
    pub(super) processes: BTreeMap<GroupId, usize>,
    /// Processes that were moved and have asked no mount for anything since.
    pub(super) moved: Vec<(GroupId, Process)>,
    /// Groups that were made for callers.
    pub(super) made: BTreeSet<GroupId>,
}

impl State {
    /// One look at exports, connections and processes.
    pub(super) fn payers(&self) -> Payers {
        let (processes, moved) = self.processes.counts();
        let made = self.made.made();
        let mut payers = Payers { processes, moved, made, ..Payers::default() };
        for export in self.exports.values() {
            payers.exports.entry(export.group).or_default().push(export.name.clone());
        }
        for (number, member) in &self.members {
            let group = member.payer.group();
            payers.connections.entry(group).or_default().push(*number);
        }
        payers
    }
}

impl Payers {
    /// Counts the moved ones of some groups that are still there.
    pub(super) fn count_moved(&mut self, proc: &dyn Proc, counts: impl Fn(GroupId) -> bool) {
        for (group, process) in std::mem::take(&mut self.moved) {
            if counts(group) && is_there(proc, process) {
                *self.processes.entry(group).or_default() += 1;
            }
        }
    }

    /// A group and all below it.
    pub(super) fn infos(mut self, tree: &Tree, top: GroupId) -> Vec<GroupInfo> {
        tree.subtree(top).map(|id| self.info(tree, id)).collect()
    }

    /// A group that was not asked for before.
    pub(super) fn info(&mut self, tree: &Tree, id: GroupId) -> GroupInfo {
        GroupInfo {
            path: tree.path(id),
            exports: self.exports.remove(&id).unwrap_or_default(),
            connections: self.connections.remove(&id).unwrap_or_default(),
            processes_count: self.processes.remove(&id).unwrap_or_default(),
            is_made: self.made.contains(&id),
            files: files(tree, id),
            cgroup_files: tree.cgroup_files(id).into_iter().collect(),
        }
    }
}

/// What is set for a group: the files that say something else than those of a new one.
pub(super) fn files(tree: &Tree, id: GroupId) -> BTreeMap<&'static str, String> {
    // Over a cgroup with a weight, that of a new one is not said.
    let all = settings(tree, id).filter(|(_, text)| !text.is_empty());
    all.filter(|(file, text)| BLANK.get(file) != Some(text)).collect()
}

/// The files of a group for which nothing is set: some say what is built in.
static BLANK: LazyLock<BTreeMap<&'static str, String>> =
    LazyLock::new(|| settings(&Tree::new(), GroupId::ROOT).collect());

fn settings(tree: &Tree, id: GroupId) -> impl Iterator<Item = (&'static str, String)> {
    let files = FILES.iter().filter(|spec| spec.writable).map(|spec| spec.name);
    files.map(move |file| (file, tree.read(id, file).expect("a file that may be written")))
}
