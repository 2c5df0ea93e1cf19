//! The siblings of one class under one parent: virtual time, who may be served, who is next.
//!
//! Three sets hold the members, each by the time that it is asked for, so that every step is
//! O(log n):
//! ```text
//!            S > V              S <= V
//!   waiting (by start S) ──▶ eligible (by finish F) ──▶ served: S += cost/w, V += cost/W
//!                                                        └─ back to one of the two, or, with
//!   idle (by S): no work, but ahead of V: still a member   nothing left to do, to idle or out
//! ```
//! V only has to be compared with the least start (who becomes eligible) and the least idle S (who
//! is forgotten).
//!
//! A member that has no siblings is in none of the sets, as nobody goes before it, and its service
//! is only summed up (see `alone`): that is how most tasks are in their groups.
//!
//! Virtual times are nanoseconds of device time times 2^16 over weight, modulo 2^64, compared by
//! the sign of their difference. A second is 2^46 at weight one, and no two members are minutes
//! apart, so the sign is right although V itself wraps around after days. What a division leaves
//! over is kept and added to the next.

mod alone;
mod members;

use crate::group::{Class, Weight};
use crate::ordered::Ordered;
use crate::request::GroupId;
use crate::time::Nanos;
use members::{MemberKey, reached};

/// The place of an entity in the arena.
pub(super) type Index = u32;

/// Bits of a virtual time below one nanosecond at weight one.
const SHIFT: u32 = 16;

/// Whether virtual time `a` is later than `b`.
#[inline]
pub(super) fn is_after(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

/// How far ahead of its siblings a guarantee may put a group, in service of all of them: one larger
/// than the share would otherwise leave a debt without end. Four quanta of the largest size.
pub(super) const AHEAD_MAX: Nanos = Nanos::from_secs(2);

/// A charge for service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    /// Nanoseconds of device time; negative gives back.
    pub(super) cost: i64,
    /// The slot with which those who are charged compete, in nanoseconds.
    pub(super) slot: u64,
    /// Who is further ahead than this is not charged: nanoseconds of service of all siblings.
    pub(super) ahead: Option<u64>,
}

/// Where an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntityPlace {
    Waiting,
    Eligible,
    Idle,
    /// With work, and without siblings since it came.
    Alone,
    /// Not a member: no work and nothing to make up for. Its times mean nothing.
    Out,
}

/// What an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntityKind {
    Group(GroupId),
    /// The caller's number for it.
    Task(u32),
}

/// A group or task among its siblings: all that a choice reads and writes of it. While it is alone
/// its three times are nanoseconds: what it has been charged since it came, what of it before its
/// present slot, and the length of that.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Entity {
    pub(super) kind: EntityKind,
    pub(super) parent: GroupId,
    pub(super) class: Class,
    /// S: the service it has had, in virtual time.
    start: u64,
    /// F: S at the end of its present slot.
    finish: u64,
    /// What the last division by the weight left over.
    rest: i64,
    weight: u32,
    standing: EntityPlace,
}

impl Entity {
    /// One with default settings that is not a member of its tree.
    pub(super) fn new(kind: EntityKind, parent: GroupId) -> Entity {
        Entity {
            kind,
            parent,
            class: Class::default(),
            start: 0,
            finish: 0,
            rest: 0,
            weight: Weight::DEFAULT.get(),
            standing: EntityPlace::Out,
        }
    }

    /// Whether it has work.
    pub(super) fn is_active(&self) -> bool {
        !matches!(self.standing, EntityPlace::Idle | EntityPlace::Out)
    }

    /// Where its tree has it, and by what.
    #[inline]
    fn seat(&self, index: Index) -> (EntityPlace, MemberKey) {
        let is_eligible = self.standing == EntityPlace::Eligible;
        let time = if is_eligible { self.finish } else { self.start };
        (self.standing, MemberKey { time, index })
    }

    /// Its present weight.
    pub(super) fn weight(&self) -> u32 {
        self.weight
    }
}

/// No entity.
const NOBODY: Index = Index::MAX;

/// Several members, by [`EntityPlace`], in the order of S, if they are eligible of F.
type Members = [Ordered<MemberKey>; 3];

/// The siblings of one class.
#[derive(Debug)]
pub(super) struct Tree {
    /// V: the service that each member ought to have had, in virtual time.
    vtime: u64,
    /// What the last division by the sum of weights left over.
    rest: i64,
    /// W: the weights of all members, the idle ones included; of the last one if there is none.
    weight: u64,
    /// Service in ns at this weight that V knows nothing of: of members that were alone.
    unsettled: i64,
    /// How many members there are.
    count: u32,
    /// The only member; [`NOBODY`] if there is none, there are several, or it is hidden.
    only: Index,
    /// All members, if there are several.
    members: Option<Box<Members>>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { vtime: 0, rest: 0, weight: 0, unsettled: 0, count: 0, only: NOBODY, members: None }
    }
}

impl Tree {
    /// Whether one of the siblings has work.
    #[inline]
    pub(super) fn is_active(&self, entities: &[Entity]) -> bool {
        if let Some(only) = entities.get(self.only as usize) {
            return only.is_active();
        }
        self.first(EntityPlace::Waiting).is_some() || self.first(EntityPlace::Eligible).is_some()
    }

    /// The entity has work from now on. It starts at V, or where it left off if that is later; so
    /// it neither gains by a pause nor is it charged for one. `slot`: see [`Charge`]. Whether it
    /// has had no more than is due to it.
    pub(super) fn enter(&mut self, entities: &mut [Entity], index: Index, slot: u64) -> bool {
        let entity = &mut entities[index as usize];
        let is_behind = entity.standing == EntityPlace::Out;
        debug_assert!(!entity.is_active(), "entered twice");
        if self.count == 0 {
            self.begin_alone(entity, index, slot);
            return is_behind;
        }
        match is_behind {
            true => self.join(entities, index),
            false => self.unseat(entity, index),
        }
        let entity = &mut entities[index as usize];
        entity.finish = later(entity.start, slot, u64::from(entity.weight));
        self.settle(entity, index, true);
        is_behind
    }

    /// The entity has no work any more. It stays a member until V has reached its S.
    pub(super) fn leave(&mut self, entities: &mut [Entity], index: Index) {
        let entity = &mut entities[index as usize];
        if entity.standing == EntityPlace::Alone {
            return self.leave_alone(entity);
        }
        self.unseat(entity, index);
        self.settle(entity, index, false);
    }

    /// The entity is no member any more, whatever it had.
    pub(super) fn forget(&mut self, entity: &mut Entity, index: Index) {
        self.end_alone(entity);
        if entity.standing != EntityPlace::Out {
            self.unseat(entity, index);
            entity.standing = EntityPlace::Out;
            self.part(entity.weight);
        }
    }

    /// The entity has had service, or less of it than was thought. It competes with the finish of
    /// its slot, and begins a new slot after that. `leaves`: it has no more work, as in
    /// [`Tree::leave`].
    #[inline(always)]
    pub(super) fn serve(
        &mut self,
        entities: &mut [Entity],
        index: Index,
        charge: &Charge,
        leaves: bool,
    ) {
        let entity = &mut entities[index as usize];
        if entity.standing == EntityPlace::Alone {
            entity.serve_alone(charge.cost, charge.slot);
            if leaves {
                self.leave_alone(entity);
            }
        } else if entity.standing == EntityPlace::Out {
            self.serve_late(entities, index, *charge);
        } else {
            let has_work = entity.is_active() && !leaves;
            self.unseat(entity, index);
            self.charge(entity, index, charge, has_work);
            self.drop_idle(entities);
        }
    }

    /// [`Tree::serve`] for one that had work until a moment ago: a late charge must not get lost.
    #[inline(never)]
    fn serve_late(&mut self, entities: &mut [Entity], index: Index, charge: Charge) {
        if charge.cost <= 0 {
            return;
        }
        let entity = &mut entities[index as usize];
        if self.count == 0 {
            self.begin_alone(entity, index, charge.slot);
            entity.serve_alone(charge.cost, charge.slot);
            return self.leave_alone(entity);
        }
        self.join(entities, index);
        self.charge(&mut entities[index as usize], index, &charge, false);
        self.drop_idle(entities);
    }

    /// Charges a member that is in no set, and puts it into one.
    #[inline(always)]
    fn charge(
        &mut self,
        entity: &mut Entity,
        index: Index,
        &Charge { cost, slot, ahead }: &Charge,
        has_work: bool,
    ) {
        let is_far = |ahead| is_after(entity.start, later(self.vtime, ahead, self.weight));
        if !ahead.is_some_and(is_far) {
            advance(&mut entity.start, &mut entity.rest, cost, u64::from(entity.weight));
            advance(&mut self.vtime, &mut self.rest, cost, self.weight);
        }
        if !is_after(entity.finish, entity.start) {
            entity.finish = later(entity.start, slot, u64::from(entity.weight));
        }
        self.settle(entity, index, has_work);
    }

    /// Gives the entity another weight at once. What it is ahead of or behind V, in service, stays
    /// the same (as EEVDF's reweight): neither a burst nor a debt comes of any number of changes.
    pub(super) fn reweigh(&mut self, entity: &mut Entity, index: Index, weight: u32) {
        self.end_alone(entity);
        let old = std::mem::replace(&mut entity.weight, weight);
        if entity.standing == EntityPlace::Out {
            return;
        }
        self.unseat(entity, index);
        self.weight = self.weight + u64::from(weight) - u64::from(old);
        let vtime = self.vtime;
        let scale = |time: u64| {
            let lag = i128::from(time.wrapping_sub(vtime).cast_signed());
            let lag = lag * i128::from(old) / i128::from(weight);
            vtime.wrapping_add_signed(i64::try_from(lag).unwrap_or(i64::MAX / 4))
        };
        entity.start = scale(entity.start);
        entity.finish = scale(entity.finish);
        self.settle(entity, index, entity.is_active());
    }

    /// Who is to be served: of those that have had no more than is due to them (S <= V) the one
    /// whose slot ends first.
    #[inline(always)]
    pub(super) fn next(&mut self, entities: &mut [Entity]) -> Option<EntityKind> {
        match entities.get_mut(self.only as usize) {
            Some(only) if only.standing == EntityPlace::Alone => Some(only.kind),
            Some(only) => self.next_only(only),
            None => self.next_among(entities),
        }
    }

    /// The only member, if it has work.
    #[inline(never)]
    fn next_only(&mut self, only: &mut Entity) -> Option<EntityKind> {
        if only.standing == EntityPlace::Waiting {
            if is_after(only.start, self.vtime) {
                self.vtime = only.start;
            }
            only.standing = EntityPlace::Eligible;
        }
        (only.standing == EntityPlace::Eligible).then_some(only.kind)
    }

    /// One of several: the first that is eligible, if V has come up to no other one.
    #[inline(always)]
    fn next_among(&mut self, entities: &mut [Entity]) -> Option<EntityKind> {
        let [waiting, eligible, _] = self.members.as_deref()?;
        match eligible.first() {
            Some(first) if reached(waiting, self.vtime).is_none() => {
                entities.get(first.index as usize).map(|entity| entity.kind)
            }
            _ => self.next_of_more(entities),
        }
    }

    /// The same where others may be eligible by now.
    #[inline(never)]
    fn next_of_more(&mut self, entities: &mut [Entity]) -> Option<EntityKind> {
        self.admit(entities);
        match self.first(EntityPlace::Eligible) {
            Some(first) => Some(entities[first.index as usize].kind),
            None => self.catch_up(entities),
        }
    }

    /// Moves V, which all of several members are ahead of, to the least one with work: it is next.
    #[inline(never)]
    fn catch_up(&mut self, entities: &mut [Entity]) -> Option<EntityKind> {
        self.vtime = self.first(EntityPlace::Waiting)?.time;
        self.drop_idle(entities);
        // That may have left only one.
        if let Some(only) = entities.get_mut(self.only as usize) {
            return self.next_only(only);
        }
        self.admit(entities);
        self.first(EntityPlace::Eligible).map(|key| entities[key.index as usize].kind)
    }

    /// Whether the entity would be served next if it had work now.
    pub(super) fn would_lead(&mut self, entities: &mut [Entity], index: Index, slot: u64) -> bool {
        if let Some(only) = entities.get_mut(self.only as usize) {
            self.end_alone(only);
        }
        let (eligible, waiting) = self.firsts(entities);
        let entity = &entities[index as usize];
        let start = if entity.standing == EntityPlace::Out { self.vtime } else { entity.start };
        let is_due = !is_after(start, self.vtime);
        match (eligible, waiting) {
            (Some(first), _) | (None, Some(first)) if first.index == index => true,
            (Some(least), _) => {
                is_due && is_after(least.time, later(start, slot, u64::from(entity.weight)))
            }
            (None, Some(least)) => is_due || is_after(least.time, start),
            (None, None) => true,
        }
    }
}

/// `time` plus `length` nanoseconds of service at `weight`.
fn later(time: u64, length: u64, weight: u64) -> u64 {
    time.wrapping_add((length << SHIFT) / weight.max(1))
}

/// Moves `time` by `cost` nanoseconds of service at `weight`, with the rest of the last division.
#[inline]
fn advance(time: &mut u64, rest: &mut i64, cost: i64, weight: u64) {
    let weight = weight.max(1);
    let amount = (cost << SHIFT) + *rest;
    let (whole, part) = match u64::try_from(amount) {
        Ok(amount) => (amount / weight, amount % weight),
        Err(_) => {
            let weight = weight.cast_signed();
            let (whole, part) = (amount.div_euclid(weight), amount.rem_euclid(weight));
            (whole.cast_unsigned(), part.cast_unsigned())
        }
    };
    *time = time.wrapping_add(whole);
    *rest = part.cast_signed();
}
