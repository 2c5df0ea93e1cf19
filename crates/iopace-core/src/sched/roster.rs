//! Shared mechanism: the tasks that a scheduler knows, each with a small number.
//!
//! A task is looked up by its key once per request, and the task that came last from the place of
//! the same account is tried first: mostly it is the same again. Without accounts all tasks have
//! one place.

use core::ops::{Index, IndexMut};
use std::collections::BTreeMap;

/// What is known of each task, by number.
#[derive(Debug, Default)]
pub(super) struct Roster<K, T> {
    /// Without a key: the number is free.
    tasks: Vec<(Option<K>, T)>,
    free: Vec<u32>,
    by_key: BTreeMap<K, u32>,
    /// The task that a request came from last, by place of its account.
    latest: Vec<u32>,
}

impl<K: Ord + Copy, T> Roster<K, T> {
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
        self.tasks.get(task as usize).map(|(_, known)| known)
    }

    /// The number of a task whose account is at `place`.
    #[inline]
    pub(super) fn find(&mut self, key: K, place: usize) -> Option<u32> {
        let latest = self.latest.get(place).copied().unwrap_or(u32::MAX);
        if self.tasks.get(latest as usize).is_some_and(|(other, _)| *other == Some(key)) {
            return Some(latest);
        }
        let task = self.number(key)?;
        if place >= self.latest.len() {
            self.latest.resize(place + 1, u32::MAX);
        }
        self.latest[place] = task;
        Some(task)
    }

    /// The number of a task.
    pub(super) fn number(&self, key: K) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// Takes in a task that is not known; it is told its number.
    #[inline(never)]
    pub(super) fn insert(&mut self, key: K, make: impl FnOnce(u32) -> T) -> u32 {
        let task = self.free.pop().unwrap_or(self.tasks.len() as u32);
        let entry = (Some(key), make(task));
        match self.tasks.get_mut(task as usize) {
            Some(place) => *place = entry,
            None => self.tasks.push(entry),
        }
        self.by_key.insert(key, task);
        task
    }

    /// Forgets a task; false if it was forgotten already.
    pub(super) fn remove(&mut self, task: u32) -> bool {
        let key = self.tasks[task as usize].0.take();
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
        self.tasks.iter_mut().map(|(_, known)| known)
    }

    /// Forgets those that are not to be kept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(u32, &T) -> bool) {
        let Roster { tasks, free, by_key, .. } = self;
        by_key.retain(|_, &mut task| {
            let (key, known) = &mut tasks[task as usize];
            let is_kept = is_kept(task, known);
            if !is_kept {
                *key = None;
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
        &self.tasks[task as usize].1
    }
}

impl<K, T> IndexMut<u32> for Roster<K, T> {
    #[inline]
    fn index_mut(&mut self, task: u32) -> &mut T {
        &mut self.tasks[task as usize].1
    }
}
