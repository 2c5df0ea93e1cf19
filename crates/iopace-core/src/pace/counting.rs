//! Puts a task to sleep that writes too often in a short interval: the control of 2006, as a
//! baseline.
//!
//! # Model
//! ```text
//!   writes of a task   | 1 2 3 ... X |  X + 1: sleep, 10 ms longer for each interval
//!                      |<- 100 ms -->|  in a row in which this happens, 100 ms at most
//! ```
//! Nothing but the count decides. What is dirty, how fast the disk writes and who reads do not
//! enter into it, which is why it failed: a fixed count is too small for a fast disk and too large
//! for a slow one, and memory stays at its dirty limit unless it happens to stop a writer enough.
//!
//! # Properties
//! 1. A task may write `X` times in an interval without waiting.
//! 2. One write more waits for 10 to 100 ms, whatever the device does.
//! 3. A task that stops for an interval is new: there is no history.
//!
//! # When it does not know
//! There is nothing to learn.
//!
//! # Limits
//! It counts writes and not bytes, so that large writes are not slowed; [`Counting::new`] can count
//! pieces of a size instead. Interval, X and the sleep were never published, nor what was counted:
//! ours are plausible ones, and their reasons stand with them.
//!
//! # Sources
//! S. K. Kundu, congestion control of writers for NetBSD (tech-kern, 21 August 2006): counts per
//! process in a short interval, an unnamed threshold X, a sleep of variable length.

use super::tasks::{PacedTasks, Record};
use super::{Dirty, Grant, Pace, PacePolicy, Write};
use crate::group::table::Groups;
use crate::request::TaskId;
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;

/// The registry's line.
pub static POLICY: PacePolicy = PacePolicy {
    name: "counting",
    summary: "a task that writes too often in 100 ms sleeps, whatever the device does (2006)",
    build: || Box::new(Counting::default()),
};

/// The short interval: ten ticks of a NetBSD of that time.
const INTERVAL: Nanos = Nanos::from_millis(100);

/// X. Fewer would hit an editor that saves a file; dd with blocks of 1 MiB at 100 MB/s makes ten.
const WRITES_MAX: u32 = 8;

/// The sleep grows by this for each interval in a row, up to the most. One tick and ten.
const SLEEP: Nanos = Nanos::from_millis(10);
const SLEEPS_MAX: u32 = 10;

/// A task, as it is counted.
#[derive(Clone, Copy, Debug, Default)]
struct CountedTask {
    began: Instant,
    writes_count: u32,
    /// Intervals in a row that ended in sleep.
    sleeps_count: u32,
    until: Option<Instant>,
}

impl Record for CountedTask {
    fn new(now: Instant) -> CountedTask {
        CountedTask { began: now, ..CountedTask::default() }
    }

    fn is_void(&self, now: Instant) -> bool {
        self.until.is_none() && now.since(self.began) >= INTERVAL.times(2)
    }

    fn waits(&self) -> bool {
        self.until.is_some()
    }
}

/// The policy.
#[derive(Debug)]
pub struct Counting {
    tasks: PacedTasks<CountedTask>,
    writes_max: u32,
    /// The bytes that count as one write.
    unit: Bytes,
}

impl Default for Counting {
    fn default() -> Counting {
        Counting::new(WRITES_MAX, Bytes(u64::MAX))
    }
}

impl Counting {
    /// One with an X of its own, that counts every `unit` of a write for itself.
    pub fn new(writes_max: u32, unit: Bytes) -> Counting {
        assert!(writes_max > 0 && unit > Bytes::ZERO, "something passes");
        Counting { tasks: PacedTasks::default(), writes_max, unit }
    }
}

impl Pace for Counting {
    fn ask(&mut self, now: Instant, write: &Write, _: &Dirty, _: &Groups) -> Grant {
        let Some(task) = self.tasks.enter(now, write.task) else {
            return Grant::Wait(now + SLEEP, Reason::Dirty);
        };
        if let Some(until) = task.until {
            if now < until {
                return Grant::Wait(until, Reason::Dirty);
            }
            (task.until, task.began, task.writes_count) = (None, now, 0);
        }
        let since = now.since(task.began);
        if since >= INTERVAL {
            (task.began, task.writes_count, task.sleeps_count) = (now, 0, 0);
        }
        if task.writes_count == self.writes_max {
            task.sleeps_count = (task.sleeps_count + 1).min(SLEEPS_MAX);
            let until = now + SLEEP.times(u64::from(task.sleeps_count));
            task.until = Some(until);
            return Grant::Wait(until, Reason::Dirty);
        }
        task.writes_count += 1;
        Grant::Pass(write.size.min(self.unit))
    }

    fn gave_up(&mut self, task: TaskId) {
        if let Some(task) = self.tasks.get_mut(task) {
            task.until = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::GroupId;

    const MS: u64 = 1_000_000;

    fn ask(pace: &mut Counting, now: u64) -> Grant {
        let (task, group, size) = (TaskId(1), GroupId::ROOT, Bytes(4096));
        pace.ask(
            Instant(now),
            &Write { task, group, done: Bytes(0), size, fresh: size },
            &Dirty::default(),
            &Groups::default(),
        )
    }

    fn wait_ms(grant: Grant, now: u64) -> u64 {
        match grant {
            Grant::Wait(at, Reason::Dirty) => (at.0 - now) / MS,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn p1_so_many_writes_pass() {
        let mut pace = Counting::default();
        for round in 0..10 {
            for _ in 0..WRITES_MAX {
                assert_eq!(ask(&mut pace, round * 100 * MS), Grant::Pass(Bytes(4096)));
            }
        }
    }

    #[test]
    fn p2_one_more_sleeps_longer_and_longer() {
        let (mut pace, mut now, mut sleeps) = (Counting::default(), 0, Vec::new());
        for _ in 0..12 {
            for _ in 0..WRITES_MAX {
                assert_eq!(ask(&mut pace, now), Grant::Pass(Bytes(4096)));
            }
            let sleep = wait_ms(ask(&mut pace, now), now);
            assert_eq!(wait_ms(ask(&mut pace, now + MS), now + MS), sleep - 1, "asked early");
            sleeps.push(sleep);
            now += sleep * MS;
        }
        assert_eq!(sleeps, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 100, 100]);
    }

    #[test]
    fn p3_there_is_no_history() {
        let mut pace = Counting::default();
        let mut now = 0;
        for _ in 0..5 {
            for _ in 0..WRITES_MAX {
                ask(&mut pace, now);
            }
            assert_eq!(wait_ms(ask(&mut pace, now), now), 10);
            now += 10 * MS;
            assert_eq!(ask(&mut pace, now), Grant::Pass(Bytes(4096)));
            now += 100 * MS;
        }
    }
}
