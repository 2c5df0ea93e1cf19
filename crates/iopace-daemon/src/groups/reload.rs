//! Other groups of a configuration, while requests come: all of them, or nothing is changed.

use super::listed::files;
use super::{GroupError, Groups};
use crate::config::GroupConfig;
use iopace_core::request::GroupId;
use iopace_groups::tree::Tree;
use std::collections::BTreeSet;

impl Groups {
    /// Has what `new` says hold, where `old` was configured before. Of a group in one of them, the
    /// files that one of them names say what `new` says, or nothing; what was set by hand for other
    /// groups and files stays. A group that is configured no more goes, if nobody pays as it.
    ///
    /// # Errors
    /// A setting that cannot be, beside what was set by hand; nothing is changed then.
    pub fn reload(&self, old: &[GroupConfig], new: &[GroupConfig]) -> Result<(), GroupError> {
        let mut state = self.lock();
        self.reap(&mut state);
        let names = self.names();
        let mut tree = state.tree.clone();
        let mut changed: BTreeSet<GroupId> = BTreeSet::new();
        // Children first: a guarantee goes before the one that it is part of.
        let mut former: Vec<&GroupConfig> = old.iter().chain(new).collect();
        former.sort_by_key(|group| std::cmp::Reverse(group.path.matches('/').count()));
        for GroupConfig { path, files } in former {
            let Ok(id) = tree.find(path) else { continue };
            changed.insert(id);
            for (file, _) in files {
                clear(&mut tree, id, file, &names)?;
            }
        }
        let mut wanted: Vec<&GroupConfig> = new.iter().collect();
        wanted.sort_by_key(|group| group.path.matches('/').count());
        for GroupConfig { path, files } in wanted {
            let id = tree.create_all(path)?;
            changed.extend(tree.ancestors(id).chain([id]));
            for (file, text) in files {
                tree.write(id, file, text, &names)?;
            }
        }
        state.tree = tree;
        for group in new {
            let id = state.tree.find(&group.path)?;
            state.made.for_good(id);
        }
        for id in changed {
            state.told.insert(id);
            for device in &self.devices {
                Groups::tell(&state, &**device, id);
            }
            self.retry(&mut state, id);
        }
        let mut gone: Vec<&GroupConfig> =
            old.iter().filter(|group| new.iter().all(|one| one.path != group.path)).collect();
        gone.sort_by_key(|group| std::cmp::Reverse(group.path.matches('/').count()));
        for GroupConfig { path, .. } in gone {
            let Ok(id) = state.tree.find(path) else { continue };
            // It stays as long as somebody pays as it, or something was set for it by hand.
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
        Ok(())
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
