//! Other groups of a configuration, while requests come: all of them, or nothing is changed.

use super::listed::files;
use super::{GroupError, Groups};
use crate::config::GroupConfig;
use crate::device_table::names;
use iopace_core::request::GroupId;
use iopace_groups::tree::Tree;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Groups that are configured otherwise than before.
pub(crate) struct OtherGroups<'a> {
    /// The groups that were configured.
    pub(crate) old: &'a [GroupConfig],
    /// Those that are now.
    pub(crate) new: &'a [GroupConfig],
    /// Exports that move, each to a group.
    pub(crate) exports: Vec<(&'a str, &'a str)>,
    /// Groups of rules that are to hold.
    pub(crate) ruled: Vec<&'a str>,
}

impl Groups {
    /// Has what is configured hold. Of a group in `old` or `new`, the files that one of them names
    /// say what `new` says, or nothing; what was set by hand for other groups and files stays. The
    /// groups of exports and of rules are made where they are missing.
    ///
    /// # Errors
    /// A setting that cannot be, beside what was set by hand; nothing is changed then.
    pub(crate) fn reload(&self, other: &OtherGroups<'_>) -> Result<(), GroupError> {
        let mut state = self.lock();
        self.reap(&mut state);
        let mut tree = state.tree.clone();
        let mut changed = self.configure(&mut tree, other)?;
        let mut named = Vec::new();
        for path in other.ruled.iter().chain(other.exports.iter().map(|(_, path)| path)) {
            let id = tree.create_all(path)?;
            named.extend(tree.ancestors(id).chain([id]));
        }
        changed.extend(named.iter().copied());
        let exports = other.exports.iter();
        let exports = exports.map(|(name, path)| Ok((state.export(name)?, tree.find(path)?)));
        let exports: Vec<(usize, GroupId)> = exports.collect::<Result<_, GroupError>>()?;
        // Nothing is refused any more.
        for group in other.new {
            state.made.for_good(tree.find(&group.path)?);
        }
        named.into_iter().for_each(|id| state.made.keep(id));
        state.tree = tree;
        for id in changed {
            state.told.insert(id);
            for device in self.devices().iter() {
                Groups::tell(&state, &**device, id);
            }
            self.retry(&mut state, id);
        }
        for (place, group) in exports {
            self.move_export_in(&mut state, place, group);
        }
        Ok(())
    }

    /// The configured groups in a tree; those of which something may be other.
    fn configure(
        &self,
        tree: &mut Tree,
        other: &OtherGroups<'_>,
    ) -> Result<BTreeSet<GroupId>, GroupError> {
        let devices = self.devices();
        let names = names(&devices);
        let mut changed: BTreeSet<GroupId> = BTreeSet::new();
        // Children first: a guarantee goes before the one that it is part of.
        let mut former: Vec<&GroupConfig> = other.old.iter().chain(other.new).collect();
        former.sort_by_key(|group| Reverse(group.path.matches('/').count()));
        for GroupConfig { path, files } in former {
            let Ok(id) = tree.find(path) else { continue };
            changed.insert(id);
            for (file, _) in files {
                clear(tree, id, file, &names)?;
            }
        }
        let mut wanted: Vec<&GroupConfig> = other.new.iter().collect();
        wanted.sort_by_key(|group| group.path.matches('/').count());
        for GroupConfig { path, files } in wanted {
            let id = tree.create_all(path)?;
            changed.extend(tree.ancestors(id).chain([id]));
            for (file, text) in files {
                tree.write(id, file, text, &names)?;
            }
        }
        Ok(changed)
    }

    /// Removes groups that are configured no more. One stays as long as somebody pays as it, or
    /// something was set for it by hand.
    pub(crate) fn remove_gone(&self, old: &[GroupConfig], new: &[GroupConfig]) {
        let mut state = self.lock();
        let mut gone: Vec<&GroupConfig> =
            old.iter().filter(|group| new.iter().all(|one| one.path != group.path)).collect();
        gone.sort_by_key(|group| Reverse(group.path.matches('/').count()));
        for GroupConfig { path, .. } in gone {
            let Ok(id) = state.tree.find(path) else { continue };
            let is_blank = files(&state.tree, id).is_empty();
            if is_blank
                && self.check_payers(&mut state, id).is_ok()
                && state.tree.remove(id).is_ok()
            {
                state.tried.retain(|(tried, _), _| *tried != id);
                state.made.for_good(id);
            }
        }
        self.reap(&mut state);
    }
}

/// Takes all lines of a file away.
fn clear(tree: &mut Tree, id: GroupId, file: &str, devices: &[&str]) -> Result<(), GroupError> {
    let lines = tree.read(id, file)?;
    let whose = lines.lines().filter_map(|line| line.split_whitespace().next());
    let text: String = whose.map(|whose| format!("{whose} default\n")).collect();
    tree.write(id, file, &text, devices)?;
    Ok(())
}
