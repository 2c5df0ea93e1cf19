//! The only member of a [`Tree`], or in which set each one is, if there are several.

use super::alone::move_by;
use super::{Entity, EntityPlace, Index, NOBODY, Tree, is_after};
use crate::ordered::Ordered;
use core::cmp;

/// A member by one of its times, and, of equal times, by its index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberKey {
    pub(super) time: u64,
    pub(super) index: Index,
}

impl Ord for MemberKey {
    #[inline]
    fn cmp(&self, other: &MemberKey) -> cmp::Ordering {
        let key = |key: &MemberKey| u128::from(key.time) << 64 | u128::from(key.index);
        key(self).wrapping_sub(key(other)).cast_signed().cmp(&0)
    }
}

impl PartialOrd for MemberKey {
    #[inline]
    fn partial_cmp(&self, other: &MemberKey) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Tree {
    // The only member.

    /// An entity comes into the tree, which has no members.
    #[inline(always)]
    pub(super) fn begin_alone(&mut self, entity: &mut Entity, index: Index, slot: u64) {
        if self.weight != u64::from(entity.weight) {
            self.take_in();
            self.weight = u64::from(entity.weight);
        }
        (self.count, self.only) = (1, index);
        entity.begin_alone(slot);
    }

    /// It has no work any more. Nobody is behind it, so it is no member.
    #[inline(always)]
    pub(super) fn leave_alone(&mut self, entity: &mut Entity) {
        self.unsettled += entity.start.cast_signed();
        (self.count, self.only) = (0, NOBODY);
        entity.standing = EntityPlace::Out;
    }

    /// V takes in the service of those that were alone.
    #[cold]
    #[inline(never)]
    pub(super) fn take_in(&mut self) {
        move_by(&mut self.vtime, &mut self.rest, self.unsettled, self.weight);
        self.unsettled = 0;
    }

    /// The only member competes with others from now on, if it does not yet.
    #[inline]
    pub(super) fn end_alone(&mut self, entity: &mut Entity) {
        if entity.standing == EntityPlace::Alone {
            let had = entity.start.cast_signed();
            self.take_in();
            entity.end_alone(self.vtime);
            self.unsettled = had;
            self.take_in();
        }
    }

    // Several of them.

    /// Of several members the first one in a set.
    #[inline]
    pub(super) fn first(&self, standing: EntityPlace) -> Option<MemberKey> {
        self.members.as_ref()?[standing as usize].first()
    }

    /// Those of several that V has come up to are eligible.
    #[inline(always)]
    pub(super) fn admit(&mut self, entities: &mut [Entity]) {
        let Some([waiting, eligible, _]) = self.members.as_deref_mut() else { return };
        while let Some(MemberKey { index, .. }) = reached(waiting, self.vtime) {
            waiting.pop_first();
            let entity = &mut entities[index as usize];
            entity.standing = EntityPlace::Eligible;
            eligible.insert(MemberKey { time: entity.finish, index });
        }
    }

    /// Forgets the idle ones that V has reached.
    #[inline]
    pub(super) fn drop_idle(&mut self, entities: &mut [Entity]) {
        let idle = self.members.as_deref().map(|[_, _, idle]| idle);
        if self.only != NOBODY || idle.is_some_and(|idle| reached(idle, self.vtime).is_some()) {
            self.drop_reached(entities);
        }
    }

    #[inline(never)]
    fn drop_reached(&mut self, entities: &mut [Entity]) {
        while let Some(index) = self.take_idle(entities) {
            let entity = &mut entities[index as usize];
            entity.standing = EntityPlace::Out;
            self.part(entity.weight);
        }
    }

    /// Takes out an idle member that V has reached.
    #[inline]
    fn take_idle(&mut self, entities: &[Entity]) -> Option<Index> {
        if let Some(only) = entities.get(self.only as usize) {
            let is_idle = only.standing == EntityPlace::Idle && !is_after(only.start, self.vtime);
            return is_idle.then_some(self.only);
        }
        let [_, _, idle] = self.members.as_deref_mut()?;
        let key = reached(idle, self.vtime)?;
        idle.pop_first();
        Some(key.index)
    }

    /// Takes one that has work out of sight of [`Tree::next`], its share untouched.
    pub(in crate::sched::fair) fn hide(&mut self, entity: &mut Entity, index: Index) {
        self.end_alone(entity);
        self.unseat(entity, index);
    }

    /// Puts it back.
    pub(in crate::sched::fair) fn show(&mut self, entity: &Entity, index: Index) {
        let (standing, key) = entity.seat(index);
        self.put(standing, key);
    }

    /// The first of those that are eligible now, and of those that wait.
    pub(super) fn firsts(
        &mut self,
        entities: &mut [Entity],
    ) -> (Option<MemberKey>, Option<MemberKey>) {
        let Some(only) = entities.get_mut(self.only as usize) else {
            self.admit(entities);
            return (self.first(EntityPlace::Eligible), self.first(EntityPlace::Waiting));
        };
        if only.standing == EntityPlace::Waiting && !is_after(only.start, self.vtime) {
            only.standing = EntityPlace::Eligible;
        }
        match only.seat(self.only) {
            (EntityPlace::Eligible, key) => (Some(key), None),
            (EntityPlace::Waiting, key) => (None, Some(key)),
            _ => (None, None),
        }
    }

    /// Makes one that is none a member, at V, beside others.
    #[inline(never)]
    pub(super) fn join(&mut self, entities: &mut [Entity], index: Index) {
        if let Some(only) = entities.get_mut(self.only as usize) {
            self.end_alone(only);
        }
        let entity = &mut entities[index as usize];
        (entity.start, entity.finish, entity.rest) = (self.vtime, self.vtime, 0);
        self.weight += u64::from(entity.weight);
        self.count += 1;
        if let Some(only) = entities.get(self.only as usize) {
            let (standing, key) = only.seat(self.only);
            self.only = NOBODY;
            self.put(standing, key);
        }
    }

    /// A member is none any more, and is in no set.
    #[inline]
    pub(super) fn part(&mut self, weight: u32) {
        self.weight -= u64::from(weight);
        self.count -= 1;
        match self.count {
            0 => self.only = NOBODY,
            1 => self.find_only(),
            _ => {}
        }
    }

    /// One of several members is left.
    #[inline(never)]
    fn find_only(&mut self) {
        let mut sets = self.members.iter_mut().flat_map(|members| members.iter_mut());
        let left = sets.find_map(Ordered::pop_first);
        self.only = left.map_or(NOBODY, |key| key.index);
    }

    /// Takes a member out of its set, if it is in one, before its times change.
    #[inline(always)]
    pub(super) fn unseat(&mut self, entity: &Entity, index: Index) {
        let (standing, key) = entity.seat(index);
        self.take(standing, key);
    }

    /// Puts a member that is in no set where its times and its work say: out, if V has reached it
    /// and it has no work.
    #[inline(always)]
    pub(super) fn settle(&mut self, entity: &mut Entity, index: Index, has_work: bool) {
        entity.standing = match (has_work, is_after(entity.start, self.vtime)) {
            (true, true) => EntityPlace::Waiting,
            (true, false) => EntityPlace::Eligible,
            (false, true) => EntityPlace::Idle,
            (false, false) => EntityPlace::Out,
        };
        if entity.standing == EntityPlace::Out {
            return self.part(entity.weight);
        }
        let (standing, key) = entity.seat(index);
        self.put(standing, key);
    }

    #[inline(always)]
    fn take(&mut self, standing: EntityPlace, key: MemberKey) {
        if self.only == key.index {
            self.only = NOBODY;
        } else if let Some(members) = &mut self.members
            && let Some(set) = members.get_mut(standing as usize)
        {
            set.take(key);
        }
    }

    /// Puts a member into its set.
    #[inline(always)]
    fn put(&mut self, standing: EntityPlace, key: MemberKey) {
        if self.count == 1 {
            self.only = key.index;
        } else if let Some(set) = self.members.get_or_insert_default().get_mut(standing as usize) {
            set.insert(key);
        }
    }
}

/// The first of a set that V has come up to.
#[inline]
pub(super) fn reached(set: &Ordered<MemberKey>, vtime: u64) -> Option<MemberKey> {
    set.first().filter(|first| !is_after(first.time, vtime))
}
