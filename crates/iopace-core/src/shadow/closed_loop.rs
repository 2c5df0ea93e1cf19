//! Clients that wait for their answers: when each request of a recording comes again.
//!
//! ```text
//!   live:    request ├────────────┤ k-th end   think   ├─ next request of the task ─┤
//!   again:   request ├─────┤ k-th end   think   ├─ next request ──┤       sooner
//! ```
//! A request that came after `k` requests of its task had ended comes after the `k`-th end of its
//! task, by as much later as it was recorded: the think time of the task. A request that came
//! before any end comes when it was recorded, or at once if it came before the recording.

use crate::request::TaskId;
use crate::time::{Instant, Nanos};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// A request as it was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Its number, by which it is told that it comes.
    pub place: usize,
    /// The task that asked.
    pub task: TaskId,
    /// When.
    pub arrived: Instant,
    /// When the task had its answer.
    pub ended: Instant,
}

/// The requests of a task, in order of arrival.
#[derive(Debug, Default)]
struct Client {
    /// Its requests that have not come: after so many ends of the task, how long, and the place.
    line: VecDeque<(usize, Nanos, usize)>,
    /// Requests that have ended in the replay.
    ended_count: usize,
}

/// When each request comes.
#[derive(Debug, Default)]
pub struct ClosedLoop {
    all: BTreeMap<TaskId, Client>,
    /// Requests whose instant is known, the earliest first; of one instant in order of place.
    due: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl ClosedLoop {
    /// Of requests that were recorded from that instant on.
    pub fn new(began: Instant, recorded: impl Iterator<Item = Asked>) -> ClosedLoop {
        let mut clients = ClosedLoop::default();
        let mut arrivals: Vec<Asked> = recorded.collect();
        // By task, in order of their ends.
        let mut ends: BTreeMap<TaskId, Vec<(Instant, usize)>> = BTreeMap::new();
        for one in &arrivals {
            ends.entry(one.task).or_default().push((one.ended, one.place));
        }
        ends.values_mut().for_each(|ends| ends.sort_unstable());
        arrivals.sort_unstable_by_key(|one| (one.arrived, one.place));
        for Asked { place, task, arrived, .. } in arrivals {
            let ends = &ends[&task];
            let ended_count = ends.partition_point(|end| *end < (arrived, place));
            match ended_count.checked_sub(1).map(|last| ends[last].0) {
                Some(last) => {
                    let line = &mut clients.all.entry(task).or_default().line;
                    line.push_back((ended_count, arrived.since(last), place));
                }
                None => clients.due.push(Reverse((arrived.max(began), place))),
            }
        }
        clients
    }

    /// All come so much later.
    pub fn come_later(&mut self, by: Nanos) {
        let due = std::mem::take(&mut self.due).into_iter();
        self.due = due.map(|Reverse((at, place))| Reverse((at + by, place))).collect();
    }

    /// When the next one comes.
    pub fn next(&self) -> Instant {
        self.due.peek().map_or(Instant::NEVER, |Reverse((at, _))| *at)
    }

    /// The next one, if it has come by then.
    pub fn pop(&mut self, by: Instant) -> Option<usize> {
        self.due.peek().filter(|Reverse((at, _))| *at <= by)?;
        self.due.pop().map(|Reverse((_, place))| place)
    }

    /// A request of the task has ended.
    pub fn ended(&mut self, now: Instant, task: TaskId) {
        let Some(client) = self.all.get_mut(&task) else { return };
        client.ended_count += 1;
        while let Some(&(after, think, place)) = client.line.front()
            && after <= client.ended_count
        {
            client.line.pop_front();
            self.due.push(Reverse((now + think, place)));
        }
    }
}
