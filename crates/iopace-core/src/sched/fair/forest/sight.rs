//! Where a task stands among all, and how a choice passes one over.

use super::{Entity, Forest, NONE, ROOT, rank};
use crate::group::{Class, Weight};
use crate::request::GroupId;
use crate::sched::fair::load::{FairLoad, Side};
use crate::sched::fair::tree::Index;

impl Forest {
    /// Takes a task that has work out of sight of [`Forest::next`], with the groups above it that
    /// have no other one; their shares stay as they are.
    pub(in crate::sched::fair) fn hide(&mut self, mut index: Index) {
        while index != ROOT {
            let entity = &mut self.entities[index as usize];
            let (parent, class) = (entity.parent, entity.class);
            let group = &mut self.groups[parent.0 as usize];
            group.trees[rank(class)].hide(entity, index);
            group.note(class, &self.entities);
            if group.busy != 0 {
                return;
            }
            index = group.index;
        }
    }

    /// The highest group of class idle that a task of one is in.
    pub(in crate::sched::fair) fn idle_above(&self, node: Index) -> Index {
        let (mut index, mut found) = (node, node);
        while index != ROOT {
            let Entity { parent, class, .. } = self.entities[index as usize];
            if class == Class::Idle {
                found = index;
            }
            index = self.groups[parent.0 as usize].index;
        }
        found
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

    /// How the tasks of a group stand, which there is.
    #[inline]
    pub(in crate::sched::fair) fn sight(&self, id: GroupId) -> &Sight {
        &self.groups[id.0 as usize].sight
    }

    /// A request of a group comes; how its tasks stand from now on.
    #[inline]
    pub(in crate::sched::fair) fn load(&mut self, id: GroupId, bytes: u64) -> &mut Sight {
        let sight = &mut self.groups[id.0 as usize].sight;
        if id != GroupId::ROOT {
            sight.load.add(bytes);
        }
        sight
    }

    /// A request of a group is done.
    #[inline]
    pub(in crate::sched::fair) fn unload(&mut self, id: GroupId, bytes: u64) {
        if let Some(group) = self.groups.get_mut(id.0 as usize) {
            group.sight.load.remove(bytes);
        }
    }

    /// The settings of a group have changed: finds out anew how its tasks stand, and those below.
    pub(super) fn sight_anew(&mut self, id: GroupId) {
        let has_below = self.group(id).children_count > 0;
        let first = id.0 as usize;
        for at in if has_below { 0..self.groups.len() } else { first..first + 1 } {
            let index = self.groups[at].index;
            if index != ROOT && index != NONE {
                let (rank, is_idle) = self.way_up(index);
                let rank = rank as u8;
                let (load, weight) =
                    (self.groups[at].sight.load, self.entities[index as usize].weight());
                self.groups[at].sight = Sight { load, weight, rank, is_idle };
            }
        }
    }

    /// The rank of the class in which a group, or the one above it, competes below the root, and
    /// whether one of them is of class idle.
    fn way_up(&self, mut index: Index) -> (usize, bool) {
        let mut is_idle = false;
        loop {
            let Entity { parent, class, .. } = self.entities[index as usize];
            is_idle |= class == Class::Idle;
            if parent == GroupId::ROOT {
                return (rank(class), is_idle);
            }
            index = self.groups[parent.0 as usize].index;
        }
    }
}

/// How the tasks of a group stand: kept, as every request asks for it several times.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched::fair) struct Sight {
    /// What they have queued and at the disk; nothing for the root, whose tasks stand for
    /// themselves.
    load: FairLoad,
    /// The weight of the group, or of each task in the root.
    pub(in crate::sched::fair) weight: u32,
    /// The rank of the class in which they, or the group above them, compete below the root.
    pub(in crate::sched::fair) rank: u8,
    /// Whether the group or one above it is of class idle.
    is_idle: bool,
}

impl Default for Sight {
    fn default() -> Sight {
        let (load, weight) = (FairLoad::default(), Weight::DEFAULT.get());
        Sight { load, weight, rank: rank(Class::default()) as u8, is_idle: false }
    }
}

impl Sight {
    /// See [`FairLoad::count`]: of the group, or of a task in the root, whose `own` this is.
    #[inline]
    pub(in crate::sched::fair) fn count(
        &mut self,
        own: &mut FairLoad,
        epoch: u32,
        has_many: bool,
    ) -> (Side, Option<bool>) {
        let (is_of_many, counts) = self.standing(own).count(epoch, has_many);
        (if is_of_many { Side::Many } else { Side::Few }, counts)
    }

    /// See [`FairLoad::uncount`].
    #[inline]
    pub(in crate::sched::fair) fn uncount(&mut self, own: &mut FairLoad) {
        self.standing(own).uncount();
    }

    /// The load that says on which side a task is: the group's, or its own in the root.
    #[inline]
    fn standing<'a>(&'a mut self, own: &'a mut FairLoad) -> &'a mut FairLoad {
        if self.load.requests() == 0 { own } else { &mut self.load }
    }

    /// Whether a task that has so much, and its group, have few requests at present.
    #[inline]
    pub(in crate::sched::fair) fn has_few(&self, own: &FairLoad, piece_max: u64) -> bool {
        own.has_few(piece_max) && self.load.has_few(piece_max)
    }

    /// On which side a task of the group is that has so much.
    #[inline]
    pub(in crate::sched::fair) fn side(&self, own: &FairLoad, piece_max: u64) -> Side {
        if self.is_idle {
            Side::Idle
        } else if own.is_few(piece_max) && self.load.is_few(piece_max) {
            Side::Few
        } else {
            Side::Many
        }
    }
}
