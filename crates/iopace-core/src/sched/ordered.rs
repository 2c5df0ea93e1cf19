//! Shared mechanism: a map in the order of its keys, for queues that are mostly short.
//!
//! Entries lie in blocks of at most 64, one behind the other in each; a look-up is a binary search
//! among the blocks and one in a block, and a change moves a few cache lines. A queue of up to 64
//! requests is one block, which stays allocated. Longer ones cost O(log n) comparisons, and one
//! change in some thirty moves the list of blocks.

/// Entries of a block: what is moved for a change is 32 of them on average.
const BLOCK: usize = 64;

/// A map in the order of its keys.
#[derive(Clone, Debug)]
pub(super) struct Ordered<K, V> {
    /// None of them is empty, but for the only one.
    blocks: Vec<Vec<(K, V)>>,
    len: usize,
}

impl<K, V> Default for Ordered<K, V> {
    fn default() -> Ordered<K, V> {
        Ordered { blocks: vec![Vec::new()], len: 0 }
    }
}

impl<K: Ord + Copy, V: Copy> Ordered<K, V> {
    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block for a key, and the place in it of the first entry that is not below the key.
    #[inline]
    fn find(&self, key: &K) -> (usize, usize) {
        let is_below = |block: &Vec<(K, V)>| block.last().is_some_and(|(last, _)| last < key);
        let block = match self.blocks.as_slice() {
            [_] => 0,
            blocks => blocks.partition_point(is_below).min(blocks.len() - 1),
        };
        (block, self.blocks[block].partition_point(|(other, _)| other < key))
    }

    /// Adds an entry; false if the key is there already, and nothing is changed.
    pub(super) fn insert(&mut self, key: K, value: V) -> bool {
        let (mut block, mut at) = self.find(&key);
        if self.blocks[block].get(at).is_some_and(|(other, _)| *other == key) {
            return false;
        }
        if self.blocks[block].len() == BLOCK {
            // What always comes at the end leaves full blocks behind.
            let half = if at == BLOCK { BLOCK } else { BLOCK / 2 };
            let upper = self.blocks[block].split_off(half);
            self.blocks.insert(block + 1, upper);
            if at >= half {
                (block, at) = (block + 1, at - half);
            }
        }
        self.blocks[block].insert(at, (key, value));
        self.len += 1;
        true
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let (block, at) = self.find(key);
        let found = self.blocks[block].get(at).is_some_and(|(other, _)| other == key);
        found.then(|| self.remove_at(block, at)).map(|(_, value)| value)
    }

    fn remove_at(&mut self, block: usize, at: usize) -> (K, V) {
        let entries = &mut self.blocks[block];
        let entry = entries.remove(at);
        self.len -= 1;
        if entries.is_empty() && self.blocks.len() > 1 {
            self.blocks.remove(block);
        }
        entry
    }

    /// Takes out the first entry whose key is not below that one; the least of all if there is
    /// none.
    pub(super) fn take_around(&mut self, key: &K) -> Option<(K, V)> {
        if self.len == 0 {
            return None;
        }
        let (block, at) = self.find(key);
        let (block, at) = if at < self.blocks[block].len() { (block, at) } else { (0, 0) };
        Some(self.remove_at(block, at))
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &K) -> Option<V> {
        self.from(key).filter(|(other, _)| other == key).map(|(_, value)| value)
    }

    /// The first entry whose key is not below that one.
    pub(super) fn from(&self, key: &K) -> Option<(K, V)> {
        let (block, at) = self.find(key);
        self.blocks[block].get(at).copied()
    }

    /// The entry with the least key.
    pub(super) fn first(&self) -> Option<(K, V)> {
        self.blocks[0].first().copied()
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (K, V)> + '_ {
        self.blocks.iter().flatten().copied()
    }

    /// Forgets all entries.
    pub(super) fn clear(&mut self) {
        *self = Ordered::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Random changes beside a map that is known to be right; `most` entries at a time.
    fn check(most: usize, steps: u64) {
        let (mut ours, mut theirs) = (Ordered::default(), BTreeMap::new());
        let mut state = 1u64;
        for step in 0..steps {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = (state >> 33) % (2 * most as u64);
            if theirs.len() < most && state >> 63 == 0 {
                let is_new = !theirs.contains_key(&key);
                assert_eq!(ours.insert(key, step), is_new);
                theirs.entry(key).or_insert(step);
            } else if step % 3 > 0 {
                assert_eq!(ours.remove(&key), theirs.remove(&key));
            } else {
                let around = theirs.range(key..).next().or_else(|| theirs.iter().next());
                let around = around.map(|(key, value)| (*key, *value));
                around.iter().for_each(|(key, _)| _ = theirs.remove(key));
                assert_eq!(ours.take_around(&key), around);
            }
            assert_eq!(ours.len(), theirs.len());
            let first = theirs.first_key_value().map(|(key, value)| (*key, *value));
            assert_eq!(ours.first(), first);
            let above = theirs.range(key..).next().map(|(key, value)| (*key, *value));
            assert_eq!(ours.from(&key), above, "step {step}");
            if step % 997 == 0 {
                let all = theirs.iter().map(|(key, value)| (*key, *value));
                assert!(ours.iter().eq(all));
                assert!(ours.blocks.len() == 1 || ours.blocks.iter().all(|b| !b.is_empty()));
            }
        }
    }

    #[test]
    fn it_is_a_map_in_order() {
        check(8, 5_000);
        check(BLOCK, 20_000);
        check(4_000, 100_000);
    }

    #[test]
    fn what_comes_in_order_leaves_full_blocks() {
        let mut ordered = Ordered::default();
        (0..10 * BLOCK).for_each(|key| assert!(ordered.insert(key, ())));
        assert_eq!(ordered.blocks.len(), 10);
        (0..10 * BLOCK).for_each(|key| assert_eq!(ordered.remove(&key), Some(())));
        assert!(ordered.is_empty() && ordered.blocks.len() == 1);
    }
}
