//! A heap of entities by a virtual time, with four children per node: half as many levels as with
//! two, and the children share a cache line. Each entity knows its place, so that it can be taken
//! out from wherever it is.

use super::tree::{Entity, Index};

/// Children of a node.
const ARITY: usize = 4;

/// A node of a heap: virtual time and, below it, the index, so that equal times go by index. The
/// sign of a difference tells which of two goes before, as with the times alone.
#[derive(Clone, Copy, Debug)]
struct Key(u128);

impl Key {
    fn new(time: u64, index: Index) -> Key {
        Key(u128::from(time) << 64 | u128::from(index))
    }

    fn time(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn index(self) -> Index {
        self.0 as Index
    }

    fn is_before(self, other: Key) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }
}

/// Entities by a virtual time, least first; equal ones by index.
#[derive(Debug, Default)]
pub(super) struct Heap(Vec<Key>);

impl Heap {
    pub(super) fn first(&self) -> Option<(u64, Index)> {
        self.0.first().map(|key| (key.time(), key.index()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, entities: &mut [Entity], time: u64, index: Index) {
        let key = Key::new(time, index);
        self.0.push(key);
        self.up(entities, self.0.len() - 1, key);
    }

    pub(super) fn remove(&mut self, entities: &mut [Entity], at: u32) {
        let Some(last) = self.0.pop() else { return };
        if (at as usize) < self.0.len() {
            self.settle(entities, at as usize, last);
        }
    }

    pub(super) fn rekey(&mut self, entities: &mut [Entity], at: u32, time: u64) {
        let at = at as usize;
        let key = Key::new(time, self.0[at].index());
        self.settle(entities, at, key);
    }

    /// Fills the place `at` with a key, which goes up or down from there to where it belongs.
    fn settle(&mut self, entities: &mut [Entity], at: usize, key: Key) {
        if self.up(entities, at, key) == at {
            self.down(entities, at, key);
        }
    }

    fn up(&mut self, entities: &mut [Entity], mut at: usize, key: Key) -> usize {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            let above = self.0[parent];
            if !key.is_before(above) {
                break;
            }
            self.set(entities, at, above);
            at = parent;
        }
        self.set(entities, at, key);
        at
    }

    fn down(&mut self, entities: &mut [Entity], from: usize, key: Key) {
        let mut at = from;
        while let Some((&child, others)) = self.0.get(at * ARITY + 1..).and_then(<[_]>::split_first)
        {
            let (mut least, mut place) = (child, at * ARITY + 1);
            for (number, &other) in (place + 1..).zip(others.iter().take(ARITY - 1)) {
                if other.is_before(least) {
                    (least, place) = (other, number);
                }
            }
            if !least.is_before(key) {
                break;
            }
            self.set(entities, at, least);
            at = place;
        }
        if at != from {
            self.set(entities, at, key);
        }
    }

    /// Puts a key in its place and tells its entity.
    fn set(&mut self, entities: &mut [Entity], at: usize, key: Key) {
        self.0[at] = key;
        entities[key.index() as usize].at = at as u32;
    }
}
