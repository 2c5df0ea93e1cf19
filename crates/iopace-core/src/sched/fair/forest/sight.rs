//! Where a task stands among all, and how a choice passes one over.

use super::{Entity, Forest, ROOT, rank};
use crate::group::Class;
use crate::request::GroupId;
use crate::sched::fair::tree::Index;

impl Forest {
    /// Takes a task that has work out of sight of [`Forest::next`], with the groups above it that
    /// have no other one; their shares stay as they are.
    pub(in crate::sched::fair) fn hide(&mut self, mut index: Index) {
        while index != ROOT {
            let entity = &self.entities[index as usize];
            let (parent, class) = (entity.parent, entity.class);
            let group = &mut self.groups[parent.0 as usize];
            group.trees[rank(class)].hide(entity, index);
            group.note(class);
            if group.busy != 0 {
                return;
            }
            index = group.index;
        }
    }

    /// Puts it back; of several the last one that was hidden first.
    pub(in crate::sched::fair) fn show(&mut self, mut index: Index) {
        while index != ROOT {
            let entity = &self.entities[index as usize];
            let (parent, class) = (entity.parent, entity.class);
            let group = &mut self.groups[parent.0 as usize];
            group.trees[rank(class)].show(entity, index);
            let had_others = group.busy != 0;
            group.busy |= 1 << rank(class);
            if had_others {
                return;
            }
            index = group.index;
        }
    }

    /// The weight of the group of a task, or of the task if that is in the root.
    pub(in crate::sched::fair) fn weight_above(&self, index: Index) -> u32 {
        let group = self.group_of(index);
        let above = if group == GroupId::ROOT { None } else { self.index_of(group) };
        self.entities[above.unwrap_or(index) as usize].weight()
    }

    /// The rank of the class in which a task, or the group above it, competes below the root.
    pub(in crate::sched::fair) fn top_rank(&self, mut index: Index) -> usize {
        loop {
            let Entity { parent, class, .. } = self.entities[index as usize];
            if parent == GroupId::ROOT {
                return rank(class);
            }
            index = self.groups[parent.0 as usize].index;
        }
    }

    /// Whether the task or a group above it is of class idle.
    pub(in crate::sched::fair) fn is_idle(&self, mut index: Index) -> bool {
        while index != ROOT {
            let Entity { parent, class, .. } = self.entities[index as usize];
            if class == Class::Idle {
                return true;
            }
            index = self.groups[parent.0 as usize].index;
        }
        false
    }
}
