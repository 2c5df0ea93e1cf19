//! What waits, in a queue of its own for each user; users come in turns.

use std::collections::{BTreeMap, VecDeque};

/// Waiting work by user. Each piece costs something, which is added up.
#[derive(Debug)]
pub struct Turns<T> {
    queues: BTreeMap<u32, Queue<T>>,
    /// Users with a queue, in the order of their turns.
    order: VecDeque<u32>,
}

#[derive(Debug)]
struct Queue<T> {
    work: VecDeque<(T, usize)>,
    cost: usize,
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        Turns { queues: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<T> Turns<T> {
    /// Puts it at the end of its user's queue.
    pub fn push(&mut self, uid: u32, work: T, cost: usize) {
        let queue = self.queues.entry(uid).or_insert_with(|| {
            self.order.push_back(uid);
            Queue { work: VecDeque::new(), cost: 0 }
        });
        queue.cost += cost;
        queue.work.push_back((work, cost));
    }

    /// What a user's queue costs; `None` if he has none.
    pub fn cost(&self, uid: u32) -> Option<usize> {
        self.queues.get(&uid).map(|queue| queue.cost)
    }

    /// The first of the user whose turn it is among those of whom `may` says so, and its cost. He
    /// is the last in line then.
    pub fn next(&mut self, mut may: impl FnMut(u32) -> bool) -> Option<(u32, T, usize)> {
        for _ in 0..self.order.len() {
            let uid = self.order.pop_front()?;
            if !may(uid) {
                self.order.push_back(uid);
                continue;
            }
            let queue = self.queues.get_mut(&uid)?;
            let (work, cost) = queue.work.pop_front()?;
            queue.cost -= cost;
            if queue.work.is_empty() {
                self.queues.remove(&uid);
            } else {
                self.order.push_back(uid);
            }
            return Some((uid, work, cost));
        }
        None
    }

    /// Takes out what `picks` says, with its user and its cost.
    pub fn take(&mut self, picks: impl Fn(&T) -> bool) -> Vec<(u32, T, usize)> {
        let mut taken = Vec::new();
        for (uid, queue) in &mut self.queues {
            for (work, cost) in std::mem::take(&mut queue.work) {
                if picks(&work) {
                    queue.cost -= cost;
                    taken.push((*uid, work, cost));
                } else {
                    queue.work.push_back((work, cost));
                }
            }
        }
        self.queues.retain(|_, queue| !queue.work.is_empty());
        let Turns { order, queues } = self;
        order.retain(|uid| queues.contains_key(uid));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_in_turns_and_some_may_not() {
        let mut turns = Turns::default();
        for (uid, work) in [(1, 'a'), (1, 'b'), (1, 'c'), (2, 'd'), (3, 'e'), (3, 'f')] {
            turns.push(uid, work, 10);
        }
        assert_eq!((turns.cost(1), turns.cost(4)), (Some(30), None));
        let mut next = |may: fn(u32) -> bool| turns.next(may).map(|(uid, work, _)| (uid, work));
        assert_eq!(next(|_| true), Some((1, 'a')));
        assert_eq!(next(|uid| uid != 2), Some((3, 'e')));
        assert_eq!(next(|_| true), Some((1, 'b')));
        assert_eq!(next(|_| true), Some((2, 'd')));
        assert_eq!(next(|_| false), None);
        assert_eq!(turns.take(|work| *work == 'f'), [(3, 'f', 10)]);
        assert_eq!(turns.next(|_| true), Some((1, 'c', 10)));
        assert_eq!((turns.next(|_| true), turns.cost(1)), (None, None));
    }
}
