//! All groups by name, for whoever looks at all of them from time to time.

use super::Groups;
use iopace_core::request::GroupId;
use std::collections::BTreeMap;

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
        let state = self.lock();
        let tree = &state.tree;
        let mut places = BTreeMap::new();
        let named = tree.iter().enumerate().map(|(place, id)| {
            places.insert(id, place);
            let parent = tree.parent(id).and_then(|parent| places.get(&parent).copied());
            Named { id, parent, path: tree.path(id) }
        });
        named.collect()
    }
}
