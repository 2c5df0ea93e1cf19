//! Shared mechanism: a set in order, of which mostly the next or the last is asked for.
//!
//! Entries lie upwards in blocks of at most 64, one behind the other in each. The least of all is
//! taken without a move, as a block has room that is not used any more in front of its entries, and
//! one that belongs to the end is added without a search. A look-up is else a binary search among
//! the blocks and one in a block, and a change moves a few cache lines. A set of up to 64 is one
//! block, which stays allocated.

use std::collections::VecDeque;

/// Entries of a block: a change moves 32 of them on average.
const BLOCK: usize = 64;

/// So many of the greatest entries of a block are looked at before a search: most that come in
/// belong there.
const NEAR: usize = 6;

/// A block and a place in it.
pub(crate) type Place = (usize, usize);

/// Some entries in order.
#[derive(Clone, Debug)]
struct Block<T> {
    /// The entries, and before them the places of entries that were taken.
    entries: Vec<T>,
    /// Where the entries begin.
    head: usize,
}

impl<T> Default for Block<T> {
    fn default() -> Block<T> {
        Block { entries: Vec::new(), head: 0 }
    }
}

impl<T: Ord + Copy> Block<T> {
    #[inline]
    fn len(&self) -> usize {
        self.entries.len() - self.head
    }

    #[inline]
    fn first(&self) -> Option<T> {
        self.entries.get(self.head).copied()
    }

    #[inline]
    fn is_below(&self, entry: T) -> bool {
        self.entries.last().is_none_or(|last| *last < entry)
    }

    #[inline]
    fn pop_first(&mut self) -> Option<T> {
        let entry = self.first()?;
        self.head += 1;
        if self.head == self.entries.len() {
            self.entries.clear();
            self.head = 0;
        }
        Some(entry)
    }

    /// Makes room for one more: where entries were taken, if that is more than half of all places.
    #[inline(never)]
    fn make_room(&mut self) {
        if self.head > 0 && 2 * self.head >= self.entries.len() {
            self.entries.drain(..self.head);
            self.head = 0;
        }
        self.entries.reserve(1);
    }

    /// The place of the least entry that is not below that one.
    #[inline]
    fn search(&self, entry: T) -> usize {
        self.head + self.entries[self.head..].partition_point(|other| *other < entry)
    }

    /// Adds one that is there not yet. From the end it moves down to its place, which is mostly
    /// among the [`NEAR`] greatest.
    #[inline(always)]
    fn insert(&mut self, entry: T) {
        // Nothing is called, and so nothing saved, where there is room.
        if self.entries.len() == self.entries.capacity() {
            return self.insert_full(entry);
        }
        self.entries.push(entry);
        let Some((mut place, below)) = self.entries[self.head..].split_last_mut() else { return };
        for (passed_count, before) in below.iter_mut().rev().enumerate() {
            if *before < entry {
                break;
            }
            if passed_count == NEAR {
                *place = entry;
                return sink(&mut self.entries[self.head..], entry, NEAR);
            }
            *place = *before;
            place = before;
        }
        *place = entry;
    }

    #[cold]
    #[inline(never)]
    fn insert_full(&mut self, entry: T) {
        self.make_room();
        self.insert(entry);
    }

    #[inline]
    fn remove(&mut self, at: usize) -> T {
        if at == self.head
            && let Some(first) = self.pop_first()
        {
            return first;
        }
        self.entries.remove(at)
    }
}

/// Moves an entry that so many are above of down to its place, by a search.
#[inline(never)]
fn sink<T: Ord + Copy>(entries: &mut [T], entry: T, above_count: usize) {
    let end = entries.len() - above_count;
    let at = entries[..end].partition_point(|other| *other < entry);
    entries[at..end].rotate_right(1);
}

/// A set in order.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<T> {
    /// The block with the least ones; it is empty only if there are no others.
    first: Block<T>,
    /// The other blocks in order, none of them empty.
    more: VecDeque<Block<T>>,
}

impl<T> Default for Ordered<T> {
    fn default() -> Ordered<T> {
        Ordered { first: Block::default(), more: VecDeque::new() }
    }
}

impl<T: Ord + Copy> Ordered<T> {
    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.entries.is_empty()
    }

    /// The least entry.
    #[inline]
    pub(crate) fn first(&self) -> Option<T> {
        self.first.first()
    }

    /// Takes the least entry out.
    #[inline]
    pub(crate) fn pop_first(&mut self) -> Option<T> {
        let entry = self.first.pop_first();
        if self.is_empty() && !self.more.is_empty() {
            self.drop_block(0);
        }
        entry
    }

    /// Takes an entry out.
    #[inline]
    pub(crate) fn take(&mut self, entry: T) {
        if self.first() == Some(entry) {
            self.pop_first();
        } else {
            self.take_among(entry);
        }
    }

    /// Takes an entry out that may be anywhere.
    #[inline(never)]
    fn take_among(&mut self, entry: T) {
        if let Some(place) = self.find(entry) {
            self.remove(place);
        }
    }

    /// The place of the least entry that is not below that one.
    #[inline(never)]
    pub(crate) fn find(&self, entry: T) -> Option<Place> {
        let block = self.block_of(entry);
        let at = self.block(block).search(entry);
        (at < self.block(block).entries.len()).then_some((block, at))
    }

    /// The place of the least entry.
    pub(crate) fn least(&self) -> Option<Place> {
        (!self.is_empty()).then_some((0, self.first.head))
    }

    /// The entry at a place where there is one.
    #[inline]
    pub(crate) fn get(&self, (block, at): Place) -> T {
        self.block(block).entries[at]
    }

    /// Adds an entry that is not there.
    #[inline(always)]
    pub(crate) fn insert(&mut self, entry: T) {
        match self.more.is_empty() && self.first.len() < BLOCK {
            true => self.first.insert(entry),
            false => self.insert_last(entry),
        }
    }

    /// Adds an entry where it mostly belongs, to the last of several blocks.
    #[inline(never)]
    fn insert_last(&mut self, entry: T) {
        match self.more.back_mut() {
            Some(last) if last.len() < BLOCK && last.first() < Some(entry) => last.insert(entry),
            _ => self.insert_among(entry),
        }
    }

    /// Adds an entry to one of several blocks, or a block for it.
    #[inline(never)]
    fn insert_among(&mut self, entry: T) {
        let block = self.block_of(entry);
        let entries = self.block_mut(block);
        if entries.len() < BLOCK {
            return entries.insert(entry);
        }
        // Entries that always come at the end leave full blocks behind.
        let kept = if entries.is_below(entry) { BLOCK } else { BLOCK / 2 };
        let mut upper = Vec::with_capacity(BLOCK);
        upper.extend(entries.entries.drain(entries.head + kept..));
        let is_upper = entries.is_below(entry);
        self.more.insert(block, Block { entries: upper, head: 0 });
        self.block_mut(block + usize::from(is_upper)).insert(entry);
    }

    /// Takes the entry out that is at a place.
    #[inline]
    pub(crate) fn remove(&mut self, (block, at): Place) -> T {
        let entries = self.block_mut(block);
        let entry = entries.remove(at);
        if entries.entries.is_empty() && !self.more.is_empty() {
            self.drop_block(block);
        }
        entry
    }

    #[cold]
    fn drop_block(&mut self, block: usize) {
        let removed = self.more.remove(block.saturating_sub(1));
        if block == 0 {
            self.first = removed.unwrap_or_default();
        }
    }

    /// The first block whose greatest entry is not below that one, or the last.
    #[inline]
    fn block_of(&self, entry: T) -> usize {
        match self.more.len() {
            0 => 0,
            // Most that come in belong to the end.
            most if self.block(most - 1).is_below(entry) => most,
            _ if !self.first.is_below(entry) => 0,
            _ => 1 + self.more.partition_point(|block| block.is_below(entry)),
        }
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let blocks = core::iter::once(&self.first).chain(&self.more);
        blocks.flat_map(|block| &block.entries[block.head..]).copied()
    }

    #[inline]
    fn block(&self, block: usize) -> &Block<T> {
        if block == 0 { &self.first } else { &self.more[block - 1] }
    }

    #[inline]
    fn block_mut(&mut self, block: usize) -> &mut Block<T> {
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
        let mut state = 1u64;
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
                let place = ours.find(entry);
                let above = theirs.range(entry..).next().copied();
                assert_eq!(place.map(|place| ours.get(place)), above, "step {step}");
                if let (Some(place), Some(above)) = (place, above) {
                    theirs.remove(&above);
                    assert_eq!(ours.remove(place), above);
                }
            }
            assert_eq!(ours.first(), theirs.first().copied());
            assert_eq!(ours.least().map(|place| ours.get(place)), ours.first());
            assert_eq!(ours.is_empty(), theirs.is_empty());
            if step % 997 == 0 {
                assert!(ours.iter().eq(theirs.iter().copied()));
                assert!(ours.more.iter().all(|block| !block.entries.is_empty()));
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
