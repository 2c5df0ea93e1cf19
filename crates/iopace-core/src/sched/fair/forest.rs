//! The hierarchy: groups below the root, tasks as leaves, each parent with one [`Tree`] per class.
//!
//! A node has work while one below it has. Service is charged to the task and to every group above
//! it, so a choice at each level, from the root down, is all that it takes to share by weight in
//! nested groups.

mod sight;

pub(super) use sight::Sight;

use super::tree::{Charge, Entity, EntityKind, Index, Tree};
use crate::group::Class;
use crate::group::table::Groups;
use crate::request::GroupId;
use crate::time::{Instant, Nanos};

/// The root's place; it is nobody's child.
const ROOT: Index = 0;

/// The place of a group that there is not.
const NONE: Index = Index::MAX;

/// A group as its children see it: lines of the processor's cache with what is rare, with the
/// children of class best-effort, and with those of class idle and what all requests need.
#[derive(Debug)]
#[repr(C, align(64))]
struct FairGroup {
    /// When a child of class idle was last served, or began to wait.
    idle_since: Instant,
    children_count: u32,
    /// Whether settings were told; otherwise it goes with its last child.
    is_told: bool,
    /// Its children, by [`rank`] of their class.
    trees: [Tree; 3],
    /// How its tasks stand.
    sight: Sight,
    /// Its place among the entities.
    index: Index,
    /// The classes of which a child has work, a bit for each, by [`rank`].
    busy: u32,
}

const _: () =
    assert!(size_of::<FairGroup>() == 192 && std::mem::offset_of!(FairGroup, trees) == 16);

/// All groups and tasks.
#[derive(Debug, Default)]
pub(super) struct Forest {
    entities: Vec<Entity>,
    free: Vec<Index>,
    /// By number of the group.
    groups: Vec<FairGroup>,
}

impl Forest {
    /// The root alone.
    pub(super) fn new() -> Forest {
        let mut forest = Forest::default();
        forest.insert(EntityKind::Group(GroupId::ROOT), GroupId::ROOT);
        forest.group(GroupId::ROOT).is_told = true;
        forest
    }

    /// How many nodes there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entities.len() - self.free.len()
    }

    /// A task of a group; one never told of is a child of the root with default settings.
    /// `task` is the caller's number for it.
    pub(super) fn insert_task(&mut self, id: GroupId, task: u32) -> Index {
        self.enter_group(id);
        self.insert(EntityKind::Task(task), id)
    }

    /// What holds for a group from now on; at once, whatever it has to do.
    pub(super) fn set_group(&mut self, now: Instant, id: GroupId, groups: &Groups) {
        if id == GroupId::ROOT {
            return;
        }
        let (parent, settings) = (groups.parent(id), groups.settings(id));
        let index = self.enter_group(id);
        self.group(id).is_told = true;
        self.enter_group(parent);
        let (tree, entity) = self.place_of(index);
        if entity.weight() != settings.weight.get() {
            tree.reweigh(entity, index, settings.weight.get());
            self.group(id).sight.weight = settings.weight.get();
        }
        let entity = &self.entities[index as usize];
        let Entity { parent: old_parent, class: old_class, .. } = *entity;
        if (parent, settings.class) == (old_parent, old_class) || self.is_below(parent, id) {
            return;
        }
        // Among other siblings or in another class it begins anew.
        let is_active = self.entities[index as usize].is_active();
        if is_active {
            self.deactivate(index);
        }
        let (tree, entity) = self.place_of(index);
        tree.forget(entity, index);
        (entity.parent, entity.class) = (parent, settings.class);
        self.group(parent).children_count += 1;
        self.group(old_parent).children_count -= 1;
        self.sight_anew(id);
        if is_active {
            self.activate(now, index, 0);
        }
        self.prune(old_parent);
    }

    /// The group has no settings any more; it goes with its last child.
    pub(super) fn remove_group(&mut self, id: GroupId) {
        if id != GroupId::ROOT && self.index_of(id).is_some() {
            self.group(id).is_told = false;
            self.prune(id);
        }
    }

    /// A task that has nothing to do is forgotten, with its debt if it has any.
    pub(super) fn remove_task(&mut self, index: Index) {
        debug_assert!(!self.entities[index as usize].is_active(), "it has work");
        self.remove(index);
    }

    /// The task has work from now on. The first above it that had work already, if neither the
    /// task nor a group on the way there has had more than is due, or is of class idle.
    pub(super) fn activate(&mut self, now: Instant, mut index: Index, slot: u64) -> Option<Index> {
        let mut is_behind = true;
        while index != ROOT && !self.entities[index as usize].is_active() {
            let Entity { parent, class, .. } = self.entities[index as usize];
            let group = &mut self.groups[parent.0 as usize];
            is_behind &= group.trees[rank(class)].enter(&mut self.entities, index, slot);
            is_behind &= class != Class::Idle;
            if class == Class::Idle && !group.is_busy(class) {
                group.idle_since = now;
            }
            group.busy |= 1 << rank(class);
            index = group.index;
        }
        is_behind.then_some(index)
    }

    /// The rank of the class in which an entity competes right below `above`, the highest class
    /// first; `None` if it is not below it.
    pub(super) fn rank_below(&self, above: Index, mut index: Index) -> Option<usize> {
        while index != ROOT {
            let Entity { parent, class, .. } = self.entities[index as usize];
            index = self.groups[parent.0 as usize].index;
            if index == above {
                return Some(rank(class));
            }
        }
        None
    }

    /// The task has nothing to do any more.
    fn deactivate(&mut self, mut index: Index) {
        while index != ROOT && self.entities[index as usize].is_active() {
            let Entity { parent, class, .. } = self.entities[index as usize];
            let group = &mut self.groups[parent.0 as usize];
            group.trees[rank(class)].leave(&mut self.entities, index);
            group.note(class, &self.entities);
            if group.busy != 0 {
                return;
            }
            index = group.index;
        }
    }

    /// Charges the task and every group above it for a request that starts. `leaves`: the task has
    /// no more.
    #[inline(always)]
    pub(super) fn start(
        &mut self,
        now: Instant,
        mut index: Index,
        charge: &Charge,
        mut leaves: bool,
    ) {
        leaves = leaves && self.entities[index as usize].is_active();
        while index != ROOT {
            let Entity { parent, class, .. } = self.entities[index as usize];
            let group = &mut self.groups[parent.0 as usize];
            group.trees[rank(class)].serve(&mut self.entities, index, charge, leaves);
            if leaves {
                group.note(class, &self.entities);
                leaves = group.busy == 0;
            }
            if class == Class::Idle {
                group.idle_since = now;
            }
            index = group.index;
        }
    }

    /// Charges the task and every group above it for what was not known at the start.
    #[inline(never)]
    pub(super) fn correct(&mut self, mut index: Index, charge: &Charge) {
        while index != ROOT {
            let Entity { parent, class, .. } = self.entities[index as usize];
            let group = &mut self.groups[parent.0 as usize];
            group.trees[rank(class)].serve(&mut self.entities, index, charge, false);
            index = group.index;
        }
    }

    /// The task of a group that is to be served, by the caller's number, and whether it goes before
    /// a busier class because it has waited for so long. `starve`: how long class idle waits at
    /// most.
    #[inline(never)]
    pub(super) fn next(&mut self, id: GroupId, now: Instant, starve: Nanos) -> Option<(u32, bool)> {
        self.descend(id, now, starve)
    }

    /// [`Forest::next`] where every request passes.
    #[inline(always)]
    pub(super) fn descend(
        &mut self,
        id: GroupId,
        now: Instant,
        starve: Nanos,
    ) -> Option<(u32, bool)> {
        let mut is_starved = false;
        let mut group = self.groups.get_mut(id.0 as usize)?;
        loop {
            let (first, last) = (group.busy.trailing_zeros() as usize, rank(Class::Idle));
            let is_due = group.is_idle_due(now, starve);
            is_starved |= is_due && first < last;
            let tree = group.trees.get_mut(if is_due { last } else { first })?;
            match tree.next(&mut self.entities)? {
                EntityKind::Group(id) => group = &mut self.groups[id.0 as usize],
                EntityKind::Task(task) => return Some((task, is_starved)),
            }
        }
    }

    /// The group above a group.
    pub(super) fn parent_of(&self, id: GroupId) -> GroupId {
        let index = self.index_of(id).unwrap_or(ROOT);
        self.entities[index as usize].parent
    }

    /// Whether somebody of a higher class, or of class idle that has waited for `starve`, goes
    /// before the task, at whatever level.
    pub(super) fn is_overruled(&self, now: Instant, mut index: Index, starve: Nanos) -> bool {
        while index != ROOT {
            let Entity { parent, class, .. } = self.entities[index as usize];
            let group = &self.groups[parent.0 as usize];
            let is_lower = (group.busy.trailing_zeros() as usize) < rank(class);
            if is_lower || (class != Class::Idle && group.is_idle_due(now, starve)) {
                return true;
            }
            index = group.index;
        }
        false
    }

    /// Whether the task would be served next if it had work now, at every level.
    pub(super) fn would_lead(&mut self, mut index: Index, slot: u64) -> bool {
        while index != ROOT {
            let Entity { parent, class, .. } = self.entities[index as usize];
            let group = &mut self.groups[parent.0 as usize];
            if !group.trees[rank(class)].would_lead(&mut self.entities, index, slot) {
                return false;
            }
            index = group.index;
        }
        true
    }

    // Nodes.

    /// The place of a group, if there is such a group.
    fn index_of(&self, id: GroupId) -> Option<Index> {
        let group = self.groups.get(id.0 as usize).filter(|group| group.index != NONE);
        group.map(|group| group.index)
    }

    /// The place of a group, made if there is none.
    fn enter_group(&mut self, id: GroupId) -> Index {
        let index = self.index_of(id);
        index.unwrap_or_else(|| self.insert(EntityKind::Group(id), GroupId::ROOT))
    }

    /// An entity with default settings.
    fn insert(&mut self, kind: EntityKind, parent: GroupId) -> Index {
        let entity = Entity::new(kind, parent);
        let index = self.free.pop().unwrap_or(self.entities.len() as Index);
        match self.entities.get_mut(index as usize) {
            Some(place) => *place = entity,
            None => self.entities.push(entity),
        }
        if let EntityKind::Group(id) = kind {
            if id.0 as usize >= self.groups.len() {
                self.groups.resize_with(id.0 as usize + 1, || FairGroup::new(NONE));
            }
            self.groups[id.0 as usize] = FairGroup::new(index);
        }
        if index != ROOT {
            self.group(parent).children_count += 1;
        }
        index
    }

    /// Takes an entity out of the hierarchy, and parents that go with their last child.
    fn remove(&mut self, index: Index) {
        let (tree, entity) = self.place_of(index);
        tree.forget(entity, index);
        let Entity { kind, parent, .. } = *entity;
        if let EntityKind::Group(id) = kind {
            *self.group(id) = FairGroup::new(NONE);
        }
        self.free.push(index);
        self.group(parent).children_count -= 1;
        self.prune(parent);
    }

    /// Removes a group that nobody told of and that has no children.
    fn prune(&mut self, id: GroupId) {
        let group = self.group(id);
        if id != GroupId::ROOT && !group.is_told && group.children_count == 0 {
            let index = group.index;
            self.remove(index);
        }
    }

    /// Whether a group is `above` or below it.
    fn is_below(&self, mut id: GroupId, above: GroupId) -> bool {
        while id != GroupId::ROOT && id != above {
            id = self.parent_of(id);
        }
        id == above
    }

    fn group(&mut self, id: GroupId) -> &mut FairGroup {
        &mut self.groups[id.0 as usize]
    }

    /// An entity and the tree that it is in.
    fn place_of(&mut self, index: Index) -> (&mut Tree, &mut Entity) {
        let entity = &mut self.entities[index as usize];
        let group = &mut self.groups[entity.parent.0 as usize];
        (&mut group.trees[rank(entity.class)], entity)
    }
}

impl FairGroup {
    fn new(index: Index) -> FairGroup {
        FairGroup {
            index,
            busy: 0,
            is_told: false,
            children_count: 0,
            idle_since: Instant::ZERO,
            sight: Sight::default(),
            trees: Default::default(),
        }
    }

    fn is_busy(&self, class: Class) -> bool {
        self.busy & 1 << rank(class) != 0
    }

    /// A child of this class has no work any more; maybe others have.
    fn note(&mut self, class: Class, entities: &[Entity]) {
        let has_work = self.trees[rank(class)].is_active(entities);
        self.busy &= !(u32::from(!has_work) << rank(class));
    }

    /// Whether a child of class idle has waited for `starve`.
    fn is_idle_due(&self, now: Instant, starve: Nanos) -> bool {
        self.is_busy(Class::Idle) && now >= self.idle_since + starve
    }
}

/// The place of a class in the order of precedence.
fn rank(class: Class) -> usize {
    class as usize - Class::RealTime as usize
}
