//! Shared mechanism: the tasks that a scheduler knows, each with a small number.
//!
//! A task is looked up by its key once per request. The one that was found last at the place of its
//! hash is tried first, and is mostly the one: there are at least four places for each task.
//! Nothing is listed in the order of hashes, so they can reach no output.

use crate::request::{GroupId, TaskId};
use core::ops::{Index, IndexMut};
use std::collections::BTreeMap;

/// Least number of places.
const PLACES_MIN: usize = 64;

/// 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A name of a task.
pub(super) trait TaskKey: Ord + Copy {
    /// A number whose upper half differs between most names.
    fn hash(self) -> u64;
}

impl TaskKey for TaskId {
    #[inline]
    fn hash(self) -> u64 {
        self.0.wrapping_mul(GOLDEN)
    }
}

impl TaskKey for (GroupId, TaskId) {
    #[inline]
    fn hash(self) -> u64 {
        let group = u64::from(self.0.0).wrapping_mul(GOLDEN);
        self.1.0.wrapping_add(group).wrapping_mul(GOLDEN)
    }
}

/// A task by its number, from the beginning of a line of the processor's cache on.
#[derive(Debug)]
#[repr(C, align(64))]
struct Known<K, T> {
    task: T,
    /// `None`: the number is free.
    key: Option<K>,
}

/// What is known of each task, by number.
#[derive(Debug, Default)]
pub(super) struct Roster<K, T> {
    tasks: Vec<Known<K, T>>,
    free: Vec<u32>,
    by_key: BTreeMap<K, u32>,
    /// The task that was found last, by the upper half of its hash.
    latest: Vec<u32>,
}

impl<K: TaskKey, T> Roster<K, T> {
    /// How many tasks there are.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// One more than the highest number that was given.
    pub(super) fn numbers_count(&self) -> usize {
        self.tasks.len()
    }

    /// What is, or was, known of the task with this number.
    #[inline]
    pub(super) fn get(&self, task: u32) -> Option<&T> {
        self.tasks.get(task as usize).map(|known| &known.task)
    }

    /// Whether a task has this number now.
    pub(super) fn is_known(&self, task: u32) -> bool {
        self.tasks.get(task as usize).is_some_and(|known| known.key.is_some())
    }

    /// The number of a task, as [`Roster::number`], for one that may be asked for again.
    #[inline]
    pub(super) fn find(&mut self, key: K) -> Option<u32> {
        let place = self.place(key);
        let latest = self.latest.get(place).copied().unwrap_or(u32::MAX);
        if self.tasks.get(latest as usize).is_some_and(|known| known.key == Some(key)) {
            return Some(latest);
        }
        let task = self.number(key)?;
        self.latest[place] = task;
        Some(task)
    }

    /// The place of a key; there are places once there is a task.
    #[inline]
    fn place(&self, key: K) -> usize {
        (key.hash() >> 32) as usize & self.latest.len().wrapping_sub(1)
    }

    /// The number of a task.
    pub(super) fn number(&self, key: K) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// Takes in a task that is not known; it is told its number.
    #[inline(never)]
    pub(super) fn insert(&mut self, key: K, make: impl FnOnce(u32) -> T) -> u32 {
        let task = self.free.pop().unwrap_or(self.tasks.len() as u32);
        let entry = Known { key: Some(key), task: make(task) };
        match self.tasks.get_mut(task as usize) {
            Some(place) => *place = entry,
            None => self.tasks.push(entry),
        }
        self.by_key.insert(key, task);
        if self.latest.len() < 4 * self.tasks.len() {
            let places = (8 * self.tasks.len()).next_power_of_two().max(PLACES_MIN);
            self.latest = vec![u32::MAX; places];
        }
        task
    }

    /// Forgets a task; false if it was forgotten already.
    pub(super) fn remove(&mut self, task: u32) -> bool {
        let key = self.tasks[task as usize].key.take();
        if let Some(key) = key {
            self.by_key.remove(&key);
            self.free.push(task);
        }
        key.is_some()
    }

    /// The tasks from this key on, in the order of keys.
    pub(super) fn from(&self, key: K) -> impl Iterator<Item = (K, u32)> + '_ {
        self.by_key.range(key..).map(|(key, task)| (*key, *task))
    }

    /// What is, or was, known of the task with each number.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.tasks.iter_mut().map(|known| &mut known.task)
    }

    /// Forgets those that are not to be kept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(u32, &T) -> bool) {
        let Roster { tasks, free, by_key, .. } = self;
        by_key.retain(|_, &mut task| {
            let known = &mut tasks[task as usize];
            let is_kept = is_kept(task, &known.task);
            if !is_kept {
                known.key = None;
                free.push(task);
            }
            is_kept
        });
    }
}

impl<K, T> Index<u32> for Roster<K, T> {
    type Output = T;

    #[inline]
    fn index(&self, task: u32) -> &T {
        &self.tasks[task as usize].task
    }
}

impl<K, T> IndexMut<u32> for Roster<K, T> {
    #[inline]
    fn index_mut(&mut self, task: u32) -> &mut T {
        &mut self.tasks[task as usize].task
    }
}
