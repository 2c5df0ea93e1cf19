//! The hierarchy: groups below the root, tasks as leaves, each parent with one [`Tree`] per class.
//!
//! A node has work while one below it has. Service is charged to the task and to every group above
//! it, so a choice at each level, from the root down, is all that it takes to share by weight in
//! nested groups.

use super::tree::{Charge, Entity, Index, Tree};
use crate::group::{Class, Settings, Weight};
use crate::request::GroupId;
use crate::time::{Instant, Nanos};
use std::collections::BTreeMap;

/// The root's place; it is nobody's child.
const ROOT: Index = 0;

/// The trees of a group's children, one for each class in order of precedence.
#[derive(Debug)]
struct Group {
    id: GroupId,
    /// Whether settings were told; otherwise it goes with its last child.
    is_told: bool,
    trees: [Tree; 3],
    children_count: u32,
    /// When a child of class idle was last served, or began to wait.
    idle_since: Instant,
}

/// A group or a task.
#[derive(Debug)]
struct Node {
    parent: Index,
    class: Class,
    /// `None` for a task.
    group: Option<Box<Group>>,
    /// The caller's number for a task.
    task: u32,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// The task, by the caller's number.
    pub(super) task: u32,
    /// Whether it goes before a busier class because it has waited for so long.
    pub(super) is_starved: bool,
}

/// All groups and tasks.
#[derive(Debug)]
pub(super) struct Forest {
    /// Beside `nodes`: what a choice reads and writes, packed.
    entities: Vec<Entity>,
    nodes: Vec<Node>,
    free: Vec<Index>,
    groups: BTreeMap<GroupId, Index>,
}

impl Forest {
    /// The root alone.
    pub(super) fn new() -> Forest {
        let (entities, nodes) = (Vec::new(), Vec::new());
        let (free, groups) = (Vec::new(), BTreeMap::new());
        let mut forest = Forest { entities, nodes, free, groups };
        let root = forest.insert(ROOT, Some(GroupId::ROOT), 0);
        forest.groups.insert(GroupId::ROOT, root);
        forest.group(root).is_told = true;
        forest
    }

    /// How many nodes there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// A task of a group; one never told of is a child of the root with default settings.
    /// `task` is the caller's number for it.
    pub(super) fn insert_task(&mut self, id: GroupId, task: u32) -> Index {
        let parent = self.group_node(id);
        self.insert(parent, None, task)
    }

    /// What holds for a group from now on; at once, whatever it has to do.
    pub(super) fn set_group(
        &mut self,
        now: Instant,
        id: GroupId,
        parent: GroupId,
        settings: &Settings,
    ) {
        if id == GroupId::ROOT {
            return;
        }
        let index = self.group_node(id);
        self.group(index).is_told = true;
        let parent = self.group_node(parent);
        self.reweigh(index, settings.weight);
        let (old_parent, old_class) = self.place_of(index);
        if (parent, settings.class) == (old_parent, old_class) || self.is_below(parent, index) {
            return;
        }
        // Among other siblings or in another class it begins anew.
        let is_active = self.entities[index as usize].is_active();
        if is_active {
            self.deactivate(index);
        }
        self.forget(index);
        self.nodes[index as usize].parent = parent;
        self.nodes[index as usize].class = settings.class;
        self.group(parent).children_count += 1;
        self.group(old_parent).children_count -= 1;
        if is_active {
            self.activate(now, index, 0);
        }
        self.prune(old_parent);
    }

    /// The group has no settings any more; it goes with its last child.
    pub(super) fn remove_group(&mut self, id: GroupId) {
        if let Some(&index) = self.groups.get(&id).filter(|&&index| index != ROOT) {
            self.group(index).is_told = false;
            self.prune(index);
        }
    }

    /// A task that has nothing to do is forgotten, with its debt if it has any.
    pub(super) fn remove_task(&mut self, index: Index) {
        debug_assert!(!self.entities[index as usize].is_active(), "it has work");
        self.remove(index);
    }

    /// The task has work from now on.
    pub(super) fn activate(&mut self, now: Instant, mut index: Index, slot: u64) {
        while index != ROOT && !self.entities[index as usize].is_active() {
            let (parent, class) = self.place_of(index);
            let (tree, entities) = self.siblings(index);
            let is_first = !tree.is_active();
            tree.enter(entities, index, slot);
            if is_first && class == Class::Idle {
                self.group(parent).idle_since = now;
            }
            index = parent;
        }
    }

    /// The task has nothing to do any more.
    fn deactivate(&mut self, mut index: Index) {
        while index != ROOT && self.entities[index as usize].is_active() {
            let (tree, entities) = self.siblings(index);
            tree.leave(entities, index);
            index = self.place_of(index).0;
            if self.group(index).trees.iter().any(Tree::is_active) {
                return;
            }
        }
    }

    /// Charges the task and every group above it for a request that starts. `leaves`: the task has
    /// no more.
    pub(super) fn start(
        &mut self,
        now: Instant,
        mut index: Index,
        charge: Charge,
        mut leaves: bool,
    ) {
        while index != ROOT {
            let (tree, entities) = self.siblings(index);
            leaves = leaves && entities[index as usize].is_active();
            tree.serve(entities, index, charge, leaves);
            let (parent, class) = self.place_of(index);
            let group = self.group(parent);
            leaves = leaves && !group.trees.iter().any(Tree::is_active);
            if class == Class::Idle {
                group.idle_since = now;
            }
            index = parent;
        }
    }

    /// Charges the task and every group above it for what was not known at the start.
    pub(super) fn correct(&mut self, mut index: Index, charge: Charge) {
        while index != ROOT {
            let (tree, entities) = self.siblings(index);
            tree.serve(entities, index, charge, false);
            index = self.place_of(index).0;
        }
    }

    /// Who is to be served. `starve`: how long class idle waits at most.
    pub(super) fn next(&mut self, now: Instant, starve: Nanos) -> Option<Choice> {
        self.next_from(ROOT, now, starve)
    }

    /// Who is to be served of a group.
    pub(super) fn next_below(
        &mut self,
        id: GroupId,
        now: Instant,
        starve: Nanos,
    ) -> Option<Choice> {
        let index = *self.groups.get(&id)?;
        self.next_from(index, now, starve)
    }

    /// The group above a group.
    pub(super) fn parent_of(&self, id: GroupId) -> GroupId {
        let above = self.groups.get(&id).map(|&index| self.nodes[index as usize].parent);
        let group = above.and_then(|parent| self.nodes[parent as usize].group.as_deref());
        group.map_or(GroupId::ROOT, |group| group.id)
    }

    fn next_from(&mut self, mut index: Index, now: Instant, starve: Nanos) -> Option<Choice> {
        let mut is_starved = false;
        while let Some(group) = self.nodes[index as usize].group.as_deref_mut() {
            let first = group.trees.iter().position(Tree::is_active)?;
            let last = rank(Class::Idle);
            let is_due = group.is_idle_due(now, starve);
            is_starved |= is_due && first < last;
            let class = if is_due { last } else { first };
            index = group.trees[class].next(&mut self.entities)?;
        }
        Some(Choice { task: self.nodes[index as usize].task, is_starved })
    }

    /// Whether somebody of a higher class, or of class idle that has waited for `starve`, goes
    /// before the task, at whatever level.
    pub(super) fn is_overruled(&self, now: Instant, mut index: Index, starve: Nanos) -> bool {
        while index != ROOT {
            let (parent, class) = self.place_of(index);
            let group = self.nodes[parent as usize].group.as_deref();
            let is_before = |group: &Group| {
                group.trees[..rank(class)].iter().any(Tree::is_active)
                    || (class != Class::Idle && group.is_idle_due(now, starve))
            };
            if group.is_some_and(is_before) {
                return true;
            }
            index = parent;
        }
        false
    }

    /// Whether the task would be served next if it had work now, at every level.
    pub(super) fn would_lead(&mut self, mut index: Index, slot: u64) -> bool {
        while index != ROOT {
            let (tree, entities) = self.siblings(index);
            if !tree.would_lead(entities, index, slot) {
                return false;
            }
            index = self.place_of(index).0;
        }
        true
    }

    // Nodes.

    /// The node of a group, made if there is none.
    fn group_node(&mut self, id: GroupId) -> Index {
        if let Some(&index) = self.groups.get(&id) {
            return index;
        }
        let index = self.insert(ROOT, Some(id), 0);
        self.groups.insert(id, index);
        index
    }

    /// A node with default settings: a group's, or a task's if there is no group.
    fn insert(&mut self, parent: Index, group: Option<GroupId>, task: u32) -> Index {
        let group = group.map(|id| {
            let (trees, idle_since) = (Default::default(), Instant::ZERO);
            Box::new(Group { id, is_told: false, trees, children_count: 0, idle_since })
        });
        let node = Node { parent, class: Class::BestEffort, group, task };
        let entity = Entity::new(Weight::DEFAULT.get());
        let index = self.free.pop().unwrap_or(self.nodes.len() as Index);
        if index as usize == self.nodes.len() {
            self.nodes.push(node);
            self.entities.push(entity);
        } else {
            self.nodes[index as usize] = node;
            self.entities[index as usize] = entity;
        }
        if index != ROOT {
            self.group(parent).children_count += 1;
        }
        index
    }

    /// Takes a node out of the hierarchy, and parents that go with their last child.
    fn remove(&mut self, index: Index) {
        self.forget(index);
        let parent = self.place_of(index).0;
        if let Some(group) = self.nodes[index as usize].group.take() {
            self.groups.remove(&group.id);
        }
        self.free.push(index);
        self.group(parent).children_count -= 1;
        self.prune(parent);
    }

    /// Removes a group that nobody told of and that has no children.
    fn prune(&mut self, index: Index) {
        let group = self.group(index);
        if index != ROOT && !group.is_told && group.children_count == 0 {
            self.remove(index);
        }
    }

    fn forget(&mut self, index: Index) {
        let (tree, entities) = self.siblings(index);
        tree.forget(entities, index);
    }

    fn reweigh(&mut self, index: Index, weight: Weight) {
        if self.entities[index as usize].weight() != weight.get() {
            let (tree, entities) = self.siblings(index);
            tree.reweigh(entities, index, weight.get());
        }
    }

    /// Whether `index` is `above` or below it.
    fn is_below(&self, mut index: Index, above: Index) -> bool {
        while index != ROOT && index != above {
            index = self.place_of(index).0;
        }
        index == above
    }

    /// Parent and class.
    fn place_of(&self, index: Index) -> (Index, Class) {
        let Node { parent, class, .. } = self.nodes[index as usize];
        (parent, class)
    }

    fn group(&mut self, index: Index) -> &mut Group {
        self.nodes[index as usize].group.as_deref_mut().expect("a parent is a group")
    }

    /// The tree that the node is in.
    fn siblings(&mut self, index: Index) -> (&mut Tree, &mut [Entity]) {
        let Node { parent, class, .. } = self.nodes[index as usize];
        let group = self.nodes[parent as usize].group.as_deref_mut();
        (&mut group.expect("a parent is a group").trees[rank(class)], &mut self.entities)
    }
}

impl Group {
    /// Whether a child of class idle has waited for `starve`.
    fn is_idle_due(&self, now: Instant, starve: Nanos) -> bool {
        self.trees[rank(Class::Idle)].is_active() && now >= self.idle_since + starve
    }
}

/// The place of a class in the order of precedence.
fn rank(class: Class) -> usize {
    match class {
        Class::RealTime => 0,
        Class::BestEffort => 1,
        Class::Idle => 2,
    }
}
