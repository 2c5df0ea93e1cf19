//! The siblings of one class under one parent: virtual time, who may be served, who is next.
//!
//! Three heaps hold the members, each with the key that it is asked for, so that every step is
//! O(log n) without an allocation in steady state:
//! ```text
//!            S > V              S <= V
//!   waiting (by start S) ──▶ eligible (by finish F) ──▶ served: S += cost/w, V += cost/W
//!                                                        └─ back to one of the two, or, with
//!   idle (by S): no work, but ahead of V: still a member   nothing left to do, to idle or out
//! ```
//! V only has to be compared with the least start (who becomes eligible) and the least idle S (who
//! is forgotten).
//!
//! Virtual times are nanoseconds of device time times 2^16 over weight, modulo 2^64, compared by
//! the sign of their difference. A second is 2^46 at weight one, and no two members are minutes
//! apart, so the sign is right although V itself wraps around after days. What a division leaves
//! over is kept and added to the next.

use super::heap::Heap;

/// The place of an entity in the arena.
pub(super) type Index = u32;

/// Bits of a virtual time below one nanosecond at weight one.
const SHIFT: u32 = 16;

/// Whether virtual time `a` is later than `b`.
fn is_after(a: u64, b: u64) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

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
enum Place {
    /// Not a member: no work and nothing to make up for. Its times mean nothing.
    Out,
    Waiting,
    Eligible,
    Idle,
}

/// The virtual times of a group or task among its siblings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entity {
    /// S: the service it has had, in virtual time.
    start: u64,
    /// F: S at the end of its present slot.
    finish: u64,
    /// What the last division by the weight left over.
    rest: i64,
    weight: u32,
    place: Place,
    /// Its place in the heap.
    pub(super) at: u32,
}

impl Entity {
    /// One that is not a member of its tree.
    pub(super) fn new(weight: u32) -> Entity {
        Entity { start: 0, finish: 0, rest: 0, weight, place: Place::Out, at: 0 }
    }

    /// Whether it has work.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.place, Place::Waiting | Place::Eligible)
    }

    /// Its present weight.
    pub(super) fn weight(&self) -> u32 {
        self.weight
    }
}

/// The siblings of one class.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// V: the service that each member ought to have had, in virtual time.
    vtime: u64,
    /// What the last division by the sum of weights left over.
    rest: i64,
    /// W: the weights of all members, the idle ones included.
    weight: u64,
    waiting: Heap,
    eligible: Heap,
    idle: Heap,
}

impl Tree {
    /// Whether one of the siblings has work.
    pub(super) fn is_active(&self) -> bool {
        !(self.waiting.is_empty() && self.eligible.is_empty())
    }

    /// The entity has work from now on. It starts at V, or where it left off if that is later; so
    /// it neither gains by a pause nor is it charged for one. `slot`: see
    /// [`Charge`].
    pub(super) fn enter(&mut self, entities: &mut [Entity], index: Index, slot: u64) {
        self.join(entities, index);
        let entity = &mut entities[index as usize];
        debug_assert!(!entity.is_active(), "entered twice");
        entity.finish = later(entity.start, slot, u64::from(entity.weight));
        self.lift(entities, index);
        self.place(entities, index);
    }

    /// The entity has no work any more. It stays a member until V has reached its S.
    pub(super) fn leave(&mut self, entities: &mut [Entity], index: Index) {
        self.lift(entities, index);
        self.rest_or_forget(entities, index);
    }

    /// The entity is no member any more, whatever it had.
    pub(super) fn forget(&mut self, entities: &mut [Entity], index: Index) {
        if entities[index as usize].place != Place::Out {
            self.lift(entities, index);
            self.weight -= u64::from(entities[index as usize].weight);
        }
    }

    /// The entity has had service, or less of it than was thought. It competes with the finish of
    /// its slot, and begins a new slot after that. `leaves`: it has no more work, as in
    /// [`Tree::leave`].
    pub(super) fn serve(
        &mut self,
        entities: &mut [Entity],
        index: Index,
        Charge { cost, slot, ahead }: Charge,
        leaves: bool,
    ) {
        if entities[index as usize].place == Place::Out {
            if cost <= 0 {
                return;
            }
            // It had work until a moment ago; a late charge must not get lost.
            self.join(entities, index);
        }
        let entity = &mut entities[index as usize];
        let is_far = |ahead| is_after(entity.start, later(self.vtime, ahead, self.weight));
        if !ahead.is_some_and(is_far) {
            advance(&mut entity.start, &mut entity.rest, cost, u64::from(entity.weight));
            advance(&mut self.vtime, &mut self.rest, cost, self.weight);
        }
        if !is_after(entity.finish, entity.start) {
            entity.finish = later(entity.start, slot, u64::from(entity.weight));
        }
        match entity.place {
            _ if leaves => self.leave(entities, index),
            Place::Eligible if !is_after(entity.start, self.vtime) => {
                let (at, key) = (entity.at, entity.finish);
                self.eligible.rekey(entities, at, key);
            }
            Place::Waiting | Place::Eligible => {
                self.lift(entities, index);
                self.place(entities, index);
            }
            Place::Idle | Place::Out => self.leave(entities, index),
        }
        self.drop_idle(entities);
    }

    /// Gives the entity another weight at once. What it is ahead of or behind V, in service, stays
    /// the same (as EEVDF's reweight): neither a burst nor a debt comes of any number of changes.
    pub(super) fn reweigh(&mut self, entities: &mut [Entity], index: Index, weight: u32) {
        let entity = &mut entities[index as usize];
        let old = entity.weight;
        entity.weight = weight;
        if entity.place == Place::Out {
            return;
        }
        self.weight = self.weight + u64::from(weight) - u64::from(old);
        let vtime = self.vtime;
        let scale = |time: u64| {
            let lag = i128::from(time.wrapping_sub(vtime).cast_signed());
            let lag = lag * i128::from(old) / i128::from(weight);
            vtime.wrapping_add_signed(i64::try_from(lag).unwrap_or(i64::MAX / 4))
        };
        entity.start = scale(entity.start);
        entity.finish = scale(entity.finish);
        let is_active = entity.is_active();
        self.lift(entities, index);
        if is_active {
            self.place(entities, index);
        } else {
            self.rest_or_forget(entities, index);
        }
    }

    /// Who is to be served: of those that have had no more than is due to them (S <= V) the one
    /// whose slot ends first.
    pub(super) fn next(&mut self, entities: &mut [Entity]) -> Option<Index> {
        if self.eligible.is_empty() {
            let (least, _) = self.waiting.first()?;
            if is_after(least, self.vtime) {
                self.vtime = least;
                self.drop_idle(entities);
            }
        }
        self.admit(entities);
        self.eligible.first().map(|(_, index)| index)
    }

    /// Those that V has come up to are eligible.
    fn admit(&mut self, entities: &mut [Entity]) {
        while let Some((start, index)) = self.waiting.first()
            && !is_after(start, self.vtime)
        {
            self.lift(entities, index);
            self.place(entities, index);
        }
    }

    /// Whether the entity would be served next if it had work now.
    pub(super) fn would_lead(&mut self, entities: &mut [Entity], index: Index, slot: u64) -> bool {
        self.admit(entities);
        let entity = &entities[index as usize];
        let start = if entity.place == Place::Out { self.vtime } else { entity.start };
        let is_due = !is_after(start, self.vtime);
        match (self.eligible.first(), self.waiting.first()) {
            (Some((_, first)), _) | (None, Some((_, first))) if first == index => true,
            (Some((least, _)), _) => {
                is_due && is_after(least, later(start, slot, u64::from(entity.weight)))
            }
            (None, Some((least, _))) => is_due || is_after(least, start),
            (None, None) => true,
        }
    }

    /// Makes it a member, at V if it was none.
    fn join(&mut self, entities: &mut [Entity], index: Index) {
        let entity = &mut entities[index as usize];
        if entity.place != Place::Out {
            return;
        }
        self.weight += u64::from(entity.weight);
        entity.start = self.vtime;
        entity.finish = self.vtime;
        entity.rest = 0;
        entity.place = Place::Idle;
        let key = entity.start;
        self.idle.push(entities, key, index);
    }

    /// Takes it out of its heap.
    fn lift(&mut self, entities: &mut [Entity], index: Index) {
        let Entity { place, at, .. } = entities[index as usize];
        match place {
            Place::Out => return,
            Place::Waiting => self.waiting.remove(entities, at),
            Place::Eligible => self.eligible.remove(entities, at),
            Place::Idle => self.idle.remove(entities, at),
        }
        entities[index as usize].place = Place::Out;
    }

    /// Puts one that has work into its heap.
    fn place(&mut self, entities: &mut [Entity], index: Index) {
        let entity = &mut entities[index as usize];
        let Entity { start, finish, .. } = *entity;
        if is_after(start, self.vtime) {
            entity.place = Place::Waiting;
            self.waiting.push(entities, start, index);
        } else {
            entity.place = Place::Eligible;
            self.eligible.push(entities, finish, index);
        }
    }

    /// Puts one that has no work among the idle if it is ahead of V, else out.
    fn rest_or_forget(&mut self, entities: &mut [Entity], index: Index) {
        let entity = &mut entities[index as usize];
        if is_after(entity.start, self.vtime) {
            entity.place = Place::Idle;
            let key = entity.start;
            self.idle.push(entities, key, index);
        } else {
            entity.place = Place::Out;
            self.weight -= u64::from(entity.weight);
        }
    }

    /// Forgets the idle ones that V has reached.
    fn drop_idle(&mut self, entities: &mut [Entity]) {
        while let Some((start, index)) = self.idle.first()
            && !is_after(start, self.vtime)
        {
            self.forget(entities, index);
        }
    }
}

/// `time` plus `length` nanoseconds of service at `weight`.
fn later(time: u64, length: u64, weight: u64) -> u64 {
    time.wrapping_add((length << SHIFT) / weight.max(1))
}

/// Moves `time` by `cost` nanoseconds of service at `weight`, with the rest of the last division.
fn advance(time: &mut u64, rest: &mut i64, cost: i64, weight: u64) {
    let weight = weight.max(1).cast_signed();
    let amount = (cost << SHIFT) + *rest;
    *time = time.wrapping_add_signed(amount.div_euclid(weight));
    *rest = amount.rem_euclid(weight);
}
