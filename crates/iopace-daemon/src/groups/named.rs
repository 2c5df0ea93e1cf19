//! All groups by name, for whoever looks at all of them from time to time.

use super::Groups;
use iopace_core::request::GroupId;

/// A group that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its number.
    pub(crate) id: GroupId,
    /// The place of its parent in the list; `None` for the root.
    pub(crate) parent: Option<usize>,
    /// Its path.
    pub(crate) path: String,
}

impl Groups {
    /// All groups, depth first, by name: the root first, parents before children.
    pub(crate) fn named(&self) -> Vec<Named> {
        let mut all = self.with_names_alone();
        if let Some(root) = all.first_mut() {
            root.path = "/".into();
        }
        for place in 1..all.len() {
            let above = all[place].parent.map_or("", |parent| all[parent].path.as_str());
            let above = above.strip_suffix('/').unwrap_or(above);
            all[place].path = format!("{above}/{}", all[place].path);
        }
        all
    }

    /// The same with the last part of each path: as little as can be under the lock.
    fn with_names_alone(&self) -> Vec<Named> {
        let state = self.lock();
        let (tree, mut above) = (&state.tree, Vec::<(GroupId, usize)>::new());
        let mut all = Vec::with_capacity(tree.count());
        for id in tree.iter() {
            let parent = tree.parent(id);
            while above.pop_if(|(last, _)| Some(*last) != parent).is_some() {}
            let parent = above.last().map(|(_, place)| *place);
            above.push((id, all.len()));
            all.push(Named { id, parent, path: tree.name(id).into() });
        }
        all
    }
}
