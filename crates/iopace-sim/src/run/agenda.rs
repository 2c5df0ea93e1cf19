//! Everything that is due, in order of time, and at one instant in the order in which it was added.
//!
//! Tasks that think equally long, and sources, add what is due in that very order: it goes to the
//! end of a run, in no time. What comes before the end of the run is kept in a heap.

use super::Due;
use iopace_core::time::Instant;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Something that is due; the number tells the order at one instant.
type Entry = (Instant, u64, Due);

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// In order.
    run: VecDeque<Entry>,
    others: BinaryHeap<Reverse<Entry>>,
    last_number: u64,
}

impl Agenda {
    /// Adds what is due at an instant.
    #[inline]
    pub(super) fn add(&mut self, at: Instant, due: Due) {
        if self.run.back().is_none_or(|&(last, ..)| last <= at) {
            self.last_number += 1;
            self.run.push_back((at, self.last_number, due));
        } else {
            self.plan(at, due);
        }
    }

    /// The same of what is known long before, which would end the run.
    pub(super) fn plan(&mut self, at: Instant, due: Due) {
        self.last_number += 1;
        self.others.push(Reverse((at, self.last_number, due)));
    }

    /// When something is due next; [`Instant::NEVER`] if nothing is.
    #[inline]
    pub(super) fn next(&self) -> Instant {
        let run = self.run.front().map_or(Instant::NEVER, |&(at, ..)| at);
        self.others.peek().map_or(run, |Reverse((at, ..))| run.min(*at))
    }

    /// Takes the first one that is due by now.
    #[inline]
    pub(super) fn pop(&mut self, now: Instant) -> Option<Due> {
        let first = self.run.front().filter(|(at, ..)| *at <= now);
        if let Some(Reverse(other)) = self.others.peek().filter(|Reverse((at, ..))| *at <= now)
            && first.is_none_or(|first| (other.0, other.1) < (first.0, first.1))
        {
            return self.others.pop().map(|Reverse((.., due))| due);
        }
        let &(.., due) = first?;
        self.run.pop_front();
        Some(due)
    }

    /// Forgets all of it.
    pub(super) fn clear(&mut self) {
        self.run.clear();
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_comes_in_order_of_time_and_of_coming() {
        let (mut agenda, mut random) = (Agenda::default(), 1u64);
        let (mut left, mut now) = (Vec::new(), Instant::ZERO);
        for number in 0..5_000usize {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99_991);
            let at = now + iopace_core::time::Nanos((random >> 33) % 50);
            match number % 7 {
                0 => agenda.plan(at, Due::Step(number)),
                _ => agenda.add(at, Due::Lane(number)),
            }
            left.push((at, number));
            if number % 3 == 0 {
                now = now + iopace_core::time::Nanos((random >> 20) % 20);
            }
            left.sort_unstable();
            while let Some(due) = agenda.pop(now) {
                let (at, first) = left.remove(0);
                assert!(at <= now, "{at:?} is not due at {now:?}");
                assert!(matches!(due, Due::Lane(n) | Due::Step(n) if n == first), "{due:?}");
            }
            assert_eq!(agenda.next(), left.first().map_or(Instant::NEVER, |(at, _)| *at));
        }
    }
}
