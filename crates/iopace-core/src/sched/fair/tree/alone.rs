//! A member without siblings: it has all the service of its tree, so it is never ahead of V.
//!
//! Most tasks are alone in their groups. What one is charged is summed up in nanoseconds, for it
//! and for V, and becomes virtual time when a sibling comes: the same time to the last bit, as
//! what a division leaves over is carried on anyway.

use super::{Entity, EntityPlace, SHIFT, later};

impl Entity {
    /// It comes into a tree without members, with work.
    #[inline(always)]
    pub(super) fn begin_alone(&mut self, slot: u64) {
        self.standing = EntityPlace::Alone;
        (self.start, self.finish, self.rest) = (0, 0, slot.cast_signed());
    }

    /// It has had service. Costs are whole nanoseconds, and one is more in virtual time than a
    /// division can leave over at any weight: so its slot ends when the sum says so.
    #[inline(always)]
    pub(super) fn serve_alone(&mut self, cost: i64, slot: u64) {
        self.start = self.start.wrapping_add_signed(cost);
        if self.start.wrapping_sub(self.finish).cast_signed() >= self.rest {
            (self.finish, self.rest) = (self.start, slot.cast_signed());
        }
    }

    /// What it has is told in virtual time from now on; it came at `vtime`.
    pub(super) fn end_alone(&mut self, vtime: u64) {
        let Entity { start: had, finish: slot_began, rest: slot, weight, .. } = *self;
        self.standing = EntityPlace::Eligible;
        (self.start, self.rest) = (vtime, 0);
        move_by(&mut self.start, &mut self.rest, had.cast_signed(), u64::from(weight));
        self.finish = vtime;
        move_by(&mut self.finish, &mut 0, slot_began.cast_signed(), u64::from(weight));
        self.finish = later(self.finish, slot.unsigned_abs(), u64::from(weight));
    }
}

/// Moves `time` by any sum of costs in nanoseconds, as [`super::advance`] by each of them.
pub(super) fn move_by(time: &mut u64, rest: &mut i64, cost: i64, weight: u64) {
    if cost != 0 {
        let amount = (i128::from(cost) << SHIFT) + i128::from(*rest);
        let weight = i128::from(weight.max(1));
        *time = time.wrapping_add(amount.div_euclid(weight) as u64);
        *rest = amount.rem_euclid(weight) as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Charge, EntityKind, Index, Tree};
    use super::*;
    use crate::request::GroupId;

    /// Two trees of the same siblings, one of which sums nothing up.
    #[test]
    fn sums_are_the_same_virtual_times_to_the_last_bit() {
        let weights = [100, 37, 10_000];
        let mut entities = [0, 1, 2].map(|task| Entity::new(EntityKind::Task(task), GroupId::ROOT));
        let mut trees = [Tree::default(), Tree::default()];
        for (entity, weight) in entities.iter_mut().zip(weights) {
            trees[0].reweigh(entity, 0, weight);
        }
        let mut sets = [entities, entities];
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut alone_count, mut steps) = (0, 0);
        while steps < 200_000 {
            let index = if random(100) > 0 { 0 } else { random(3) } as Index;
            let (what, cost, slot) = (random(8), random(200_000) + 1, random(100_000) + 1);
            for (tree, entities) in trees.iter_mut().zip(&mut sets) {
                let is_active = entities[index as usize].is_active();
                let cost = if what == 0 { -cost.cast_signed() / 4 } else { cost.cast_signed() };
                let ahead = (what == 1).then_some(300_000);
                match is_active {
                    false if what > 5 => _ = tree.enter(entities, index, slot),
                    _ => tree.serve(entities, index, &Charge { cost, slot, ahead }, what == 2),
                }
            }
            let [left, right] = &mut sets;
            alone_count += u32::from(left[index as usize].standing == EntityPlace::Alone);
            _ = trees[1].would_lead(right, index, slot);
            if random(4) == 0 {
                assert_eq!(trees[0].next(left), trees[1].next(right), "after {steps}");
            }
            if random(100) == 0 {
                for at in 0..3 {
                    let lead = trees[0].would_lead(left, at, slot);
                    assert_eq!(lead, trees[1].would_lead(right, at, slot), "after {steps}");
                    let times = |of: &Entity| (of.standing, of.start, of.finish, of.rest);
                    let (ours, theirs) = (left[at as usize], right[at as usize]);
                    if ours.standing != EntityPlace::Out || theirs.standing != EntityPlace::Out {
                        assert_eq!(times(&ours), times(&theirs), "{at} after {steps}");
                    }
                }
                trees.iter_mut().for_each(Tree::take_in);
                assert_eq!(trees[0].vtime, trees[1].vtime, "after {steps}");
                assert_eq!(trees[0].rest, trees[1].rest, "after {steps}");
            }
            steps += 1;
        }
        assert!(alone_count > 10_000, "alone in {alone_count} of {steps} steps");
    }
}
