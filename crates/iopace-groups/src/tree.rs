//! The group tree of one daemon: names, parents, members, and ids that devices use as an index.
//!
//! A group is named by its path, `/vms/web`; the root `/` is [`GroupId::ROOT`] and always there.
//! Ids are small and dense. A removed group keeps its id while a device still has requests of it:
//! [`Tree::remove`] takes the name away, [`Tree::reap`] gives the id free. What is set for a group
//! is kept here too; it is read and written by the methods in [`crate::files`].

use crate::limits::{GROUP_DEPTH_MAX, GROUPS_MAX};
use crate::own::Own;
use iopace_core::request::GroupId;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) mod error;
mod path;
#[cfg(test)]
mod tests;

pub use error::{Nearby, TreeError};
use path::components;

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A group with a path.
    Live,
    /// Removed, but a device may still have requests of it, or of a removed group below it.
    Dying,
    /// Nothing: the id may be taken.
    Free,
}

/// One place of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    /// The last component of its path; empty for the root.
    name: String,
    /// The group above; the root for the root.
    parent: GroupId,
    /// Live groups directly below, by name.
    children: BTreeMap<String, GroupId>,
    /// Exports and connections that pay as this group.
    members: usize,
    /// Removed groups directly below whose ids are not free yet.
    dying_children: usize,
    /// What the id stands for.
    state: State,
    /// What users set.
    own: Own,
    /// The settings of the cgroup that it stands for, if that has any.
    followed: Option<Box<Own>>,
}

impl Node {
    fn new(name: String, parent: GroupId) -> Node {
        Node {
            name,
            parent,
            children: BTreeMap::new(),
            members: 0,
            dying_children: 0,
            state: State::Live,
            own: Own::default(),
            followed: None,
        }
    }
}

/// The groups of a daemon.
///
/// # Panics
/// Methods that take an id assert that it is one: of a group that is there or, where nothing is
/// changed, of a removed one that [`Tree::reap`] has not given free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Indexed by id; the root first.
    nodes: Vec<Node>,
    /// Ids to take, the smallest first, so that tables stay short.
    free: BTreeSet<u32>,
    /// Removed groups in the order of their removal: children before parents.
    dying: Vec<GroupId>,
    /// By device: most slots of each group below the root that has no value of its own there.
    group_requests: BTreeMap<String, u32>,
    /// Paths of groups below which groups stand for cgroups.
    pub(crate) mapped: BTreeSet<String>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

impl Tree {
    /// The root and nothing else.
    pub fn new() -> Tree {
        let nodes = vec![Node::new(String::new(), GroupId::ROOT)];
        let group_requests = BTreeMap::new();
        let (free, mapped) = (BTreeSet::new(), BTreeSet::new());
        Tree { nodes, free, dying: Vec::new(), group_requests, mapped }
    }

    /// The root, and what devices give each group below it that has no value of its own: most slots
    /// (`nr_group_requests` of a device), by name.
    pub fn with_group_requests(devices: impl IntoIterator<Item = (String, u32)>) -> Tree {
        Tree { group_requests: devices.into_iter().collect(), ..Tree::new() }
    }

    /// A device gives so many slots to each group that has no value of its own; none: it says
    /// nothing of that, or is gone.
    pub fn set_group_requests(&mut self, device: &str, most: Option<u32>) {
        match most {
            Some(most) => _ = self.group_requests.insert(device.into(), most),
            None => _ = self.group_requests.remove(device),
        }
    }

    /// The most slots that a device gives a group that has no value of its own.
    pub(crate) fn group_requests(&self, id: GroupId, device: Option<&str>) -> Option<u32> {
        let device = device.filter(|_| id != GroupId::ROOT)?;
        self.group_requests.get(device).copied()
    }

    /// The group of this path.
    ///
    /// # Errors
    /// [`TreeError::BadPath`], or [`TreeError::NotFound`] with the groups that there are where the
    /// path leaves the tree.
    pub fn find(&self, path: &str) -> Result<GroupId, TreeError> {
        let parts = components(path)?;
        let (at, found) = self.locate(&parts);
        if found == parts.len() { Ok(at) } else { Err(self.not_found(path, at)) }
    }

    /// Makes a group in one that is there.
    ///
    /// # Errors
    /// [`TreeError::BadPath`], [`TreeError::Exists`], [`TreeError::NotFound`] (the parent),
    /// [`TreeError::TooDeep`] or [`TreeError::TooMany`]; nothing is changed then.
    pub fn create(&mut self, path: &str) -> Result<GroupId, TreeError> {
        let parts = components(path)?;
        let (at, found) = self.locate(&parts);
        if found == parts.len() {
            return Err(TreeError::Exists { path: path.into() });
        }
        if found + 1 < parts.len() {
            return Err(self.not_found(&format!("/{}", parts[..parts.len() - 1].join("/")), at));
        }
        self.make(path, at, &parts[found..], found)
    }

    /// Makes a group and what is missing above it. A group that is there already is no error.
    ///
    /// # Errors
    /// [`TreeError::BadPath`], [`TreeError::TooDeep`] or [`TreeError::TooMany`]; nothing is changed
    /// then.
    pub fn create_all(&mut self, path: &str) -> Result<GroupId, TreeError> {
        let parts = components(path)?;
        let (at, found) = self.locate(&parts);
        self.make(path, at, &parts[found..], found)
    }

    /// Takes a group out of the tree. Its id stays taken until [`Tree::reap`] gives it free.
    ///
    /// # Errors
    /// [`TreeError::Root`], [`TreeError::HasChildren`] or [`TreeError::HasMembers`].
    pub fn remove(&mut self, id: GroupId) -> Result<(), TreeError> {
        let node = self.live(id);
        if id == GroupId::ROOT {
            return Err(TreeError::Root);
        }
        if !node.children.is_empty() {
            let children = self.nearby(id);
            return Err(TreeError::HasChildren { path: self.path(id), children });
        }
        if node.members > 0 {
            return Err(TreeError::HasMembers { path: self.path(id), members: node.members });
        }
        let parent = node.parent;
        let name = node.name.clone();
        let removed = self.nodes[index(parent)].children.remove(&name);
        assert_eq!(removed, Some(id), "a group is among its parent's children");
        self.nodes[index(parent)].dying_children += 1;
        self.nodes[index(id)].state = State::Dying;
        self.dying.push(id);
        Ok(())
    }

    /// Gives the ids of removed groups free that no device needs any more and says which.
    ///
    /// `is_idle` says whether no device has a request of this group. An id is kept while a removed
    /// group below it is kept: devices look at the ancestors of a request.
    pub fn reap(&mut self, mut is_idle: impl FnMut(GroupId) -> bool) -> Vec<GroupId> {
        let mut reaped = Vec::new();
        for id in std::mem::take(&mut self.dying) {
            let node = &mut self.nodes[index(id)];
            if node.dying_children > 0 || !is_idle(id) {
                self.dying.push(id);
                continue;
            }
            let parent = node.parent;
            *node = Node::new(String::new(), GroupId::ROOT);
            node.state = State::Free;
            self.nodes[index(parent)].dying_children -= 1;
            self.free.insert(id.0);
            reaped.push(id);
        }
        reaped
    }

    /// The path, as `/vms/web`; a removed group's is the one it had.
    pub fn path(&self, id: GroupId) -> String {
        let mut names = vec![self.node(id).name.as_str()];
        names.extend(self.ancestors(id).map(|ancestor| self.node(ancestor).name.as_str()));
        names.reverse();
        if names.len() == 1 { "/".into() } else { names.join("/") }
    }

    /// The last part of the path, as `web`; empty for the root.
    pub fn name(&self, id: GroupId) -> &str {
        &self.node(id).name
    }

    /// The group above; `None` for the root.
    pub fn parent(&self, id: GroupId) -> Option<GroupId> {
        let parent = self.node(id).parent;
        (id != GroupId::ROOT).then_some(parent)
    }

    /// Whether a number is that of a group that is there, not of one that was removed.
    pub fn is_live(&self, id: GroupId) -> bool {
        self.nodes.get(index(id)).is_some_and(|node| node.state == State::Live)
    }

    /// The groups above, the nearest first, the root last.
    pub fn ancestors(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        core::iter::successors(self.parent(id), |&id| self.parent(id))
    }

    /// The groups directly below, by name.
    pub fn children(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        self.node(id).children.values().copied()
    }

    /// All groups, depth first, by name: a parent comes before its children. The root is first.
    pub fn iter(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.subtree(GroupId::ROOT)
    }

    /// A group and all below it, in the order of [`Tree::iter`].
    pub fn subtree(&self, id: GroupId) -> impl Iterator<Item = GroupId> + '_ {
        let mut waiting = vec![id];
        core::iter::from_fn(move || {
            let id = waiting.pop()?;
            waiting.extend(self.node(id).children.values().rev());
            Some(id)
        })
    }

    /// How many groups there are, the root included and removed ones not.
    pub fn count(&self) -> usize {
        self.nodes.len() - self.free.len() - self.dying.len()
    }

    /// Removed groups whose ids are not free yet.
    pub fn dying(&self) -> &[GroupId] {
        &self.dying
    }

    /// One more export or connection pays as this group.
    pub fn add_member(&mut self, id: GroupId) {
        self.live(id);
        self.nodes[index(id)].members += 1;
    }

    /// One less.
    pub fn remove_member(&mut self, id: GroupId) {
        assert!(self.live(id).members > 0, "group {} has no members", id.0);
        self.nodes[index(id)].members -= 1;
    }

    /// How many exports and connections pay as this group itself.
    pub fn members(&self, id: GroupId) -> usize {
        self.node(id).members
    }

    /// What users set for a group.
    pub(crate) fn own(&self, id: GroupId) -> &Own {
        &self.node(id).own
    }

    /// The same, to change it.
    pub(crate) fn own_mut(&mut self, id: GroupId) -> &mut Own {
        self.live(id);
        &mut self.nodes[index(id)].own
    }

    /// The settings of the cgroup that a group stands for, if that has any.
    pub(crate) fn followed(&self, id: GroupId) -> Option<&Own> {
        self.node(id).followed.as_deref()
    }

    /// The same, to change it.
    pub(crate) fn followed_mut(&mut self, id: GroupId) -> &mut Option<Box<Own>> {
        self.live(id);
        &mut self.nodes[index(id)].followed
    }

    /// A group that is there, or a removed one.
    fn node(&self, id: GroupId) -> &Node {
        let node = self.nodes.get(index(id)).filter(|node| node.state != State::Free);
        node.unwrap_or_else(|| panic!("no group has the id {}", id.0))
    }

    /// A group that is there.
    fn live(&self, id: GroupId) -> &Node {
        let node = self.node(id);
        assert!(node.state == State::Live, "group {} ({}) was removed", id.0, node.name);
        node
    }

    /// How far the tree follows the path: the last group there is, and how many parts led to it.
    fn locate(&self, parts: &[&str]) -> (GroupId, usize) {
        let mut at = GroupId::ROOT;
        for (found, part) in parts.iter().enumerate() {
            match self.node(at).children.get(*part) {
                Some(&child) => at = child,
                None => return (at, found),
            }
        }
        (at, parts.len())
    }

    /// Makes `missing` one in the other in `at`, which is `depth` below the root; all or nothing.
    fn make(
        &mut self,
        path: &str,
        mut at: GroupId,
        missing: &[&str],
        depth: usize,
    ) -> Result<GroupId, TreeError> {
        if depth + missing.len() > GROUP_DEPTH_MAX {
            return Err(TreeError::TooDeep { path: path.into() });
        }
        if self.nodes.len() - self.free.len() + missing.len() > GROUPS_MAX {
            return Err(TreeError::TooMany { path: path.into(), dying: self.dying.len() });
        }
        for name in missing {
            let node = Node::new((*name).into(), at);
            let id = match self.free.pop_first() {
                Some(free) => {
                    self.nodes[free as usize] = node;
                    GroupId(free)
                }
                None => {
                    self.nodes.push(node);
                    GroupId(u32::try_from(self.nodes.len() - 1).expect("below GROUPS_MAX"))
                }
            };
            self.nodes[index(at)].children.insert((*name).into(), id);
            at = id;
        }
        Ok(at)
    }

    fn not_found(&self, path: &str, at: GroupId) -> TreeError {
        TreeError::NotFound { path: path.into(), nearest: self.path(at), nearby: self.nearby(at) }
    }

    fn nearby(&self, id: GroupId) -> Nearby {
        Nearby::new(self.node(id).children.keys().map(String::as_str))
    }
}

/// The place of an id in the table.
fn index(id: GroupId) -> usize {
    id.0 as usize
}
