//! Shared mechanism: a set in order, of which mostly the next or the last is asked for.
//!
//! Entries lie in blocks of at most 64, one behind the other in each, the greatest first: the least
//! of all is taken without a move, and one that belongs to the end is found without a search. A
//! look-up is else a binary search among the blocks and one in a block, and a change moves a few
//! cache lines. A set of up to 64 is one block, which stays allocated; in longer ones one change in
//! some thirty moves the list of blocks.

/// Entries of a block: a change moves 32 of them on average.
const BLOCK: usize = 64;

/// So many of the greatest entries of a block are looked at before a search: most that come in
/// belong there.
const NEAR: usize = 6;

/// A block and a place in it.
pub(super) type Place = (usize, usize);

/// A set in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Ordered<T> {
    /// The block with the least ones; it is empty only if there are no others.
    first: Vec<T>,
    /// The other blocks in order, none of them empty.
    more: Vec<Vec<T>>,
}

impl<T: Ord + Copy> Ordered<T> {
    /// Whether there are none.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The least entry.
    #[inline]
    pub(super) fn first(&self) -> Option<T> {
        self.first.last().copied()
    }

    /// Takes the least entry out.
    #[inline]
    pub(super) fn pop_first(&mut self) -> Option<T> {
        let entry = self.first.pop()?;
        if self.first.is_empty() && !self.more.is_empty() {
            self.drop_block(0);
        }
        Some(entry)
    }

    /// Takes an entry out.
    #[inline]
    pub(super) fn take(&mut self, entry: T) {
        if self.first() == Some(entry) {
            self.pop_first();
        } else if let Some(place) = self.find(entry, 0) {
            self.remove(place);
        }
    }

    /// Puts an entry in the place of the only one; false if there are others.
    #[inline]
    pub(super) fn replace_only(&mut self, entry: T) -> bool {
        let [only] = self.first.as_mut_slice() else { return false };
        if !self.more.is_empty() {
            return false;
        }
        *only = entry;
        true
    }

    /// The place of the least entry that is not below that one; a guess for the first block is
    /// tried first.
    #[inline]
    pub(super) fn find(&self, entry: T, guess: usize) -> Option<Place> {
        let is_above = self.first.get(guess).is_some_and(|next| *next >= entry);
        if is_above && self.first.get(guess + 1).is_none_or(|below| *below < entry) {
            return Some((0, guess));
        }
        self.search(entry)
    }

    #[inline(never)]
    fn search(&self, entry: T) -> Option<Place> {
        let block = self.block_of(entry);
        let above = self.block(block).partition_point(|other| *other >= entry);
        above.checked_sub(1).map(|at| (block, at))
    }

    /// The place of the least entry.
    pub(super) fn least(&self) -> Option<Place> {
        self.first.len().checked_sub(1).map(|at| (0, at))
    }

    /// The entry at a place where there is one.
    #[inline]
    pub(super) fn get(&self, (block, at): Place) -> T {
        self.block(block)[at]
    }

    /// Adds an entry that is not there.
    #[inline]
    pub(super) fn insert(&mut self, entry: T) {
        let is_short = self.more.is_empty() && self.first.len() < BLOCK;
        let block = if is_short { 0 } else { self.make_room(entry) };
        let entries = self.block_mut(block);
        let near = entries.iter().take(NEAR).position(|other| *other < entry);
        let at = near.unwrap_or_else(|| entries.partition_point(|other| *other > entry));
        entries.insert(at, entry);
    }

    /// The block where an entry belongs, with room for it.
    #[inline(never)]
    fn make_room(&mut self, entry: T) -> usize {
        let block = self.block_of(entry);
        let entries = self.block_mut(block);
        if entries.len() < BLOCK {
            return block;
        }
        // Entries that always come at the end leave full blocks behind.
        let kept = if entries[0] < entry { 0 } else { BLOCK / 2 };
        let mut upper = Vec::with_capacity(BLOCK);
        upper.extend(entries.drain(..kept));
        self.more.insert(block, upper);
        block + usize::from(kept == 0 || self.block(block)[0] < entry)
    }

    /// Takes the entry out that is at a place.
    #[inline]
    pub(super) fn remove(&mut self, (block, at): Place) -> T {
        let entries = self.block_mut(block);
        let entry = entries.remove(at);
        if entries.is_empty() && !self.more.is_empty() {
            self.drop_block(block);
        }
        entry
    }

    #[cold]
    fn drop_block(&mut self, block: usize) {
        let removed = self.more.remove(block.saturating_sub(1));
        if block == 0 {
            self.first = removed;
        }
    }

    /// The first block whose greatest entry is not below that one, or the last.
    #[inline]
    fn block_of(&self, entry: T) -> usize {
        let is_below = |block: usize| self.block(block).first().is_some_and(|last| *last < entry);
        match self.more.len() {
            0 => 0,
            // Most that come in belong to the end.
            most if is_below(most - 1) => most,
            _ if !is_below(0) => 0,
            _ => 1 + self.more.partition_point(|block| block[0] < entry),
        }
    }

    /// All entries in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let blocks = core::iter::once(&self.first).chain(&self.more);
        blocks.flat_map(|block| block.iter().rev()).copied()
    }

    #[inline]
    fn block(&self, block: usize) -> &Vec<T> {
        if block == 0 { &self.first } else { &self.more[block - 1] }
    }

    #[inline]
    fn block_mut(&mut self, block: usize) -> &mut Vec<T> {
        if block == 0 { &mut self.first } else { &mut self.more[block - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Random changes beside a set that is known to be right; `most` entries at a time.
    fn check(most: usize, steps: u64) {
        let (mut ours, mut theirs) = (Ordered::default(), BTreeSet::new());
        let (mut state, mut guess) = (1u64, 0);
        for step in 0..steps {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let entry = (state >> 33) % (2 * most as u64);
            if theirs.len() < most && state >> 63 == 0 {
                if theirs.insert(entry) {
                    ours.insert(entry);
                }
            } else if step % 3 == 0 {
                assert_eq!(ours.pop_first(), theirs.pop_first());
            } else {
                let place = ours.find(entry, guess);
                let above = theirs.range(entry..).next().copied();
                assert_eq!(place.map(|place| ours.get(place)), above, "step {step}");
                if let (Some(place), Some(above)) = (place, above) {
                    theirs.remove(&above);
                    assert_eq!(ours.remove(place), above);
                    guess = place.1.wrapping_sub(1);
                }
            }
            assert_eq!(ours.first(), theirs.first().copied());
            assert_eq!(ours.least().map(|place| ours.get(place)), ours.first());
            assert_eq!(ours.is_empty(), theirs.is_empty());
            if step % 997 == 0 {
                assert!(ours.iter().eq(theirs.iter().copied()));
                assert!(ours.more.iter().all(|block| !block.is_empty()));
            }
        }
    }

    #[test]
    fn it_is_a_set_in_order() {
        check(8, 5_000);
        check(BLOCK, 20_000);
        check(4_000, 100_000);
    }

    #[test]
    fn entries_in_order_leave_full_blocks() {
        let mut ordered = Ordered::default();
        (0..10 * BLOCK).for_each(|entry| ordered.insert(entry));
        assert_eq!(ordered.more.len(), 9);
        (0..10 * BLOCK).for_each(|entry| assert_eq!(ordered.pop_first(), Some(entry)));
        assert!(ordered.is_empty() && ordered.more.is_empty());
    }
}
