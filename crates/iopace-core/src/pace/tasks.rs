//! A table of tasks for pacing policies: one look-up per write, whatever the number of tasks.
//!
//! Open addressing with a multiplicative hash and linear probing, at most four fifths full: what a
//! look-up costs with many tasks is the way to memory, and a table half as large that is looked at
//! in one or two lines is nearer than a large one that is looked at in one. Nothing is ever listed
//! in the order of its places, so that the hash can reach no output. A hand goes round one place
//! per look-up and forgets tasks whose record says nothing any more.

use crate::request::TaskId;
use crate::time::Instant;

/// Most tasks that a policy keeps a record of. Twice what can wait at a device at once
/// (`DEVICE_REQUESTS_MAX`), so that a full table has always somebody who can be forgotten; a full
/// table of the rate policy is 8 MiB.
pub const DIRTIERS_MAX: usize = 131_072;

/// Places of an empty table.
const PLACES_MIN: usize = 64;

/// The table grows when so many of its places are taken: linear probing looks at 3 places then to
/// find a task and at 13 to find that there is none (Knuth, 6.4).
const FULL: (usize, usize) = (4, 5);

/// Places that the hand looks at in a full table, to make room.
const LOOKS_MAX: usize = 64;

/// 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// What a policy knows of one task.
pub(super) trait Record: Copy {
    /// Of a task that is seen for the first time.
    fn new(now: Instant) -> Self;
    /// Whether a new record would say the same.
    fn is_void(&self, now: Instant) -> bool;
    /// Whether its task waits: then it is not forgotten even if the table is full.
    fn waits(&self) -> bool;
}

/// The table.
#[derive(Debug)]
pub(super) struct PacedTasks<R> {
    places: Vec<(TaskId, Option<R>)>,
    /// 64 less the binary logarithm of the number of places.
    shift: u32,
    used_count: usize,
    hand: usize,
}

impl<R: Record> Default for PacedTasks<R> {
    fn default() -> PacedTasks<R> {
        PacedTasks::with_places(PLACES_MIN)
    }
}

impl<R: Record> PacedTasks<R> {
    fn with_places(places: usize) -> PacedTasks<R> {
        let shift = u64::BITS - places.trailing_zeros();
        PacedTasks { places: vec![(TaskId(0), None); places], shift, used_count: 0, hand: 0 }
    }

    fn home(&self, task: TaskId) -> usize {
        (task.0.wrapping_mul(GOLDEN) >> self.shift) as usize
    }

    /// The place of the task's record, or the free one where it would be.
    fn find(&self, task: TaskId) -> usize {
        let mask = self.places.len() - 1;
        let mut at = self.home(task);
        while let (other, Some(_)) = self.places[at]
            && other != task
        {
            at = (at + 1) & mask;
        }
        at
    }

    /// The record of a task, a new one if there is none; `None` if the table is full of tasks that
    /// wait.
    pub(super) fn enter(&mut self, now: Instant, task: TaskId) -> Option<&mut R> {
        self.sweep(now);
        let mut at = self.find(task);
        if self.places[at].1.is_none() {
            if self.used_count == DIRTIERS_MAX && !self.make_room() {
                return None;
            }
            if self.used_count * FULL.1 >= self.places.len() * FULL.0 {
                self.grow();
            }
            at = self.find(task);
            self.places[at].0 = task;
            self.used_count += 1;
        }
        Some(self.places[at].1.get_or_insert_with(|| R::new(now)))
    }

    /// The record of a task, if there is one.
    pub(super) fn get_mut(&mut self, task: TaskId) -> Option<&mut R> {
        let at = self.find(task);
        self.places[at].1.as_mut()
    }

    /// Looks at the place under the hand.
    fn sweep(&mut self, now: Instant) {
        if self.places[self.hand].1.is_some_and(|record| record.is_void(now)) {
            self.remove(self.hand);
        } else {
            self.hand = (self.hand + 1) & (self.places.len() - 1);
        }
    }

    /// Forgets the next task that may be.
    fn make_room(&mut self) -> bool {
        for _ in 0..LOOKS_MAX {
            if self.places[self.hand].1.is_some_and(|record| !record.waits()) {
                self.remove(self.hand);
                return true;
            }
            self.hand = (self.hand + 1) & (self.places.len() - 1);
        }
        false
    }

    /// Frees a place; records that had to go past it move up.
    fn remove(&mut self, mut free: usize) {
        let mask = self.places.len() - 1;
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let (task, Some(_)) = self.places[at] else { break };
            let way = at.wrapping_sub(self.home(task)) & mask;
            if way >= at.wrapping_sub(free) & mask {
                self.places[free] = self.places[at];
                free = at;
            }
        }
        self.places[free].1 = None;
        self.used_count -= 1;
    }

    fn grow(&mut self) {
        let mut larger = PacedTasks::with_places(self.places.len() * 2);
        for place in self.places.iter().filter(|(_, record)| record.is_some()) {
            let at = larger.find(place.0);
            larger.places[at] = *place;
        }
        larger.used_count = self.used_count;
        *self = larger;
    }

    #[cfg(test)]
    pub(super) fn used_count(&self) -> usize {
        self.used_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy)]
    struct Note {
        till: u64,
        value: u64,
    }

    impl Record for Note {
        fn new(_: Instant) -> Note {
            Note { till: u64::MAX, value: 0 }
        }
        fn is_void(&self, now: Instant) -> bool {
            self.till < now.0
        }
        fn waits(&self) -> bool {
            self.value == u64::MAX
        }
    }

    #[test]
    fn it_holds_what_a_map_holds() {
        let (mut tasks, mut map) = (PacedTasks::<Note>::default(), BTreeMap::new());
        let mut random = 1u64;
        for step in 0..200_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step | 1);
            let task = (random >> 33) % 3_000 * 4096;
            let note = tasks.enter(Instant(step), TaskId(task)).expect("room");
            let expected = map.get(&task).filter(|&&(till, _)| till >= step);
            match expected {
                Some(&(_, value)) => assert_eq!(note.value, value, "step {step}"),
                // Forgotten or not yet: the hand comes by in its time.
                None => note.value = 0,
            }
            let till = step + random % 5_000;
            (note.value, note.till) = (step, till);
            map.insert(task, (till, step));
        }
        assert!(tasks.used_count() <= 3_000);
    }

    #[test]
    fn void_records_go_with_the_hand() {
        let mut tasks = PacedTasks::<Note>::default();
        for task in 0..1_000 {
            tasks.enter(Instant(0), TaskId(task)).expect("room").till = 10;
        }
        assert_eq!(tasks.used_count(), 1_000);
        for _ in 0..5_000 {
            tasks.enter(Instant(11), TaskId(5_000));
        }
        assert_eq!(tasks.used_count(), 1);
    }

    #[test]
    fn a_full_table_forgets_who_does_not_wait_and_refuses_if_all_do() {
        let mut tasks = PacedTasks::<Note>::default();
        for task in 0..DIRTIERS_MAX as u64 {
            tasks.enter(Instant(0), TaskId(task)).expect("room").value = u64::MAX;
        }
        assert!(tasks.enter(Instant(0), TaskId(1 << 40)).is_none());
        for task in 0..DIRTIERS_MAX as u64 / 2 {
            tasks.get_mut(TaskId(task * 2)).expect("there").value = 0;
        }
        for task in 0..1_000 {
            assert!(tasks.enter(Instant(0), TaskId(1 << 40 | task)).is_some());
            assert_eq!(tasks.used_count(), DIRTIERS_MAX);
        }
        for task in 0..DIRTIERS_MAX as u64 / 2 {
            assert!(tasks.get_mut(TaskId(task * 2 + 1)).is_some(), "one that waits is kept");
        }
    }
}
