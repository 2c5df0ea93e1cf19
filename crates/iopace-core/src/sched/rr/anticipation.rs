//! Keeping the disk for the task in service while its next request is about to come.

use super::{Pop, RoundRobin, RrConfig, RrQueue, ScheduledTask};
use crate::request::Op;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;

/// A mean distance up to which a task counts as sequential (gsched_rr).
const SEQUENTIAL_MAX: Bytes = Bytes::from_kib(8);

/// Mean think times to wait for a seeking task: an exponential one is longer in 2 % of cases.
const THINK_TIMES: u64 = 4;

/// Shortest wait: a program that asks for the next at once still needs a switch to it and back, and
/// more on a host with other work. A tenth of what a lost turn costs on a disk with a head.
const PATIENCE_MIN: Nanos = Nanos::from_millis(1);

impl RoundRobin {
    /// How long the task's next request is worth waiting for, from now.
    fn patience(&self, task: &ScheduledTask<RrQueue>, done: Op) -> Option<Nanos> {
        let RrConfig { wait, w_anticipate, bypass, .. } = self.config;
        if bypass || (done.is_write() && !w_anticipate) {
            return None;
        }
        let Some(think) = task.stats.think() else { return Some(wait) };
        if think > wait {
            return None;
        }
        let is_sequential = task.stats.seek().is_none_or(|seek| seek <= SEQUENTIAL_MAX);
        let patience = think.times(THINK_TIMES).max(PATIENCE_MIN);
        Some(if is_sequential { wait } else { wait.min(patience) })
    }

    /// The task in service has nothing queued and nothing in flight: wait for it, or not. `done`:
    /// its last operation.
    pub(super) fn anticipate(&mut self, now: Instant, task: u32, done: Op) {
        let patience = self.patience(&self.tasks[task], done);
        let Some(slice) = &mut self.active else { return };
        let until = patience.map(|patience| {
            let until = now + patience;
            slice.end.map_or(until, |end| until.min(end))
        });
        match until.filter(|&until| until > now) {
            Some(until) => slice.waiting_until = Some(until),
            None => self.active = None,
        }
    }

    /// Why the task in service keeps the disk although it has nothing queued.
    pub(super) fn hold(&mut self, now: Instant) -> Option<Pop> {
        let slice = self.active.as_mut()?;
        if let Some(until) = slice.waiting_until {
            if now < until {
                return Some(Pop::At(until, Reason::Anticipation));
            }
            self.wait_miss_count += 1;
            return None;
        }
        let is_busy = self.tasks[slice.task].in_flight > 0;
        is_busy.then_some(Pop::At(Instant::NEVER, Reason::Turn))
    }
}
