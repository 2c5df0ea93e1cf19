//! Groups as they are listed: the text of all that is set, made without a lock.

use super::GroupInfo;
use iopace_core::group::files::FILES;
use iopace_core::group::tree::Tree;
use iopace_core::request::GroupId;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Who pays as which group, itself.
#[derive(Default)]
pub(super) struct Payers {
    pub(super) exports: BTreeMap<GroupId, Vec<String>>,
    pub(super) connections: BTreeMap<GroupId, Vec<u64>>,
    pub(super) processes: BTreeMap<GroupId, usize>,
}

impl Payers {
    /// A group and all below it.
    pub(super) fn infos(mut self, tree: &Tree, top: GroupId) -> Vec<GroupInfo> {
        let infos = tree.subtree(top).map(|id| GroupInfo {
            path: tree.path(id),
            exports: self.exports.remove(&id).unwrap_or_default(),
            connections: self.connections.remove(&id).unwrap_or_default(),
            processes_count: self.processes.remove(&id).unwrap_or_default(),
            files: files(tree, id),
        });
        infos.collect()
    }
}

/// What is set for a group: the files that say something else than those of a new one.
pub(super) fn files(tree: &Tree, id: GroupId) -> BTreeMap<&'static str, String> {
    settings(tree, id).filter(|(file, text)| BLANK.get(file) != Some(text)).collect()
}

/// The files of a group for which nothing is set: some say what is built in.
static BLANK: LazyLock<BTreeMap<&'static str, String>> =
    LazyLock::new(|| settings(&Tree::new(), GroupId::ROOT).collect());

fn settings(tree: &Tree, id: GroupId) -> impl Iterator<Item = (&'static str, String)> {
    let files = FILES.iter().filter(|spec| spec.writable).map(|spec| spec.name);
    files.map(move |file| (file, tree.read(id, file).expect("a file that may be written")))
}
