//! Lets tasks write as they like up to a threshold of dirty memory and naps above it: what Linux
//! did before 2011, as a baseline.
//!
//! # Model
//! ```text
//!   dirty ▲  limit ────────────────────────────
//!         │  7/8   ─ ─ ─ ─ naps ─ ─ ─ ─ ─ ─ ─ ─   a task that dirties everything stops here,
//!         │       /\    /\        /\    /\        one of many a little later
//!         │      /  \  /  \      /  \  /  \       naps of 10, 20, 40, 80, 100 ms ... until it is
//!         └────────────────────────────────►      below
//! ```
//! A task is looked at once per 128 KiB that it dirties, and per 32 KiB above the threshold. All or
//! nothing: a task runs at memory speed or not at all, and who is lucky after a nap takes what has
//! become free.
//!
//! # Properties
//! 1. Below its threshold a task never waits.
//! 2. Above it, it naps until it is below, 100 ms at a time at most.
//! 3. The threshold is `limit` less an eighth of it for a task that dirties all, less in proportion
//!    for one that dirties a part.
//! 4. The more tasks wait, the shorter is a turn of write-back.
//!
//! # When it does not know
//! A new task has dirtied nothing lately: its threshold is the limit.
//!
//! # Limits
//! In the kernel a task over the threshold also wrote pages back itself. Here the flusher does, and
//! what it cost is kept: N tasks shared the request slots of the disk, so that it sought after each
//! one's part of them. That they did so in the order in which they came by slots is not modelled.
//!
//! # Sources
//! Linux 2.6.20 (mm/page-writeback.c: ratelimit_pages, congestion_wait of 100 ms) and 2.6.3x
//! (task_dirty_limit, growing naps; MAX_WRITEBACK_PAGES of fs-writeback.c; nr_requests and
//! max_sectors_kb of the block layer); the change log of the series that replaced it.

use super::tasks::{Record, Tasks};
use super::{Budget, Dirty, Grant, Pace, Policy, Write};
use crate::group::table::Groups;
use crate::request::TaskId;
use crate::time::{Instant, Nanos};
use crate::units::{Bytes, scaled};
use crate::verdict::Reason;

/// The registry's line.
pub static POLICY: Policy = Policy {
    name: "threshold",
    summary: "writes run freely up to a threshold, and above it nap until below (before 2011)",
    build: || Box::new(Threshold::default()),
};

/// A task is looked at when it has dirtied so much: 32 pages (ratelimit_pages).
const LOOK: u64 = 128 << 10;

/// The same above the threshold: 8 pages.
const LOOK_ABOVE: u64 = 32 << 10;

/// The first nap: one tick at 100 a second.
const NAP_MIN: Nanos = Nanos::from_millis(10);

/// The longest nap.
const NAP_MAX: Nanos = Nanos::from_millis(100);

/// The part of the limit that a task's own part of dirtying moves its threshold by.
const TASK_PART: u64 = 8;

/// What was dirtied lately is halved each time that a quarter of the limit was dirtied.
const PERIOD_PARTS: u64 = 4;

/// The turn of one file in write-back: MAX_WRITEBACK_PAGES, 1024 of them.
const TURN: Bytes = Bytes::from_mib(4);

/// Write requests that the block layer held (nr_requests) and their size (max_sectors_kb): what
/// tasks that write back themselves share.
const SLOTS: u64 = 128;
const SLOT_SIZE: Bytes = Bytes::from_kib(512);

/// A task that asked for nothing for so long is forgotten.
const FORGET: Nanos = Nanos::from_secs(30);

/// A task.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    seen: Instant,
    /// What it may still dirty until it is looked at.
    credit: u64,
    /// What it dirtied lately, as of a period.
    recent: u64,
    period: u64,
    nap: Nanos,
    until: Option<Instant>,
}

impl Record for Task {
    fn new(now: Instant) -> Task {
        Task { seen: now, ..Task::default() }
    }

    fn is_void(&self, now: Instant) -> bool {
        self.until.is_none() && now.since(self.seen) > FORGET
    }

    fn waits(&self) -> bool {
        self.until.is_some()
    }
}

/// The policy.
#[derive(Debug)]
pub struct Threshold {
    tasks: Tasks<Task>,
    limit: u64,
    /// What all dirtied lately, and in the present period.
    recent: u64,
    in_period: u64,
    period: u64,
}

impl Default for Threshold {
    fn default() -> Threshold {
        let limit = u64::MAX;
        Threshold { tasks: Tasks::default(), limit, recent: 0, in_period: 0, period: 0 }
    }
}

impl Threshold {
    /// Counts what is dirtied.
    fn count(&mut self, size: u64) {
        self.recent = self.recent.saturating_add(size);
        self.in_period = self.in_period.saturating_add(size);
        if self.in_period > self.limit / PERIOD_PARTS {
            self.in_period = 0;
            self.recent /= 2;
            self.period += 1;
        }
    }
}

/// The threshold of a task that dirtied `part` of `whole`.
fn task_limit(limit: u64, part: u64, whole: u64) -> u64 {
    limit - scaled(limit / TASK_PART, part.min(whole), whole)
}

impl Pace for Threshold {
    fn turn(&self, waiting_count: usize) -> Option<Bytes> {
        let parts = u64::try_from(waiting_count).unwrap_or(u64::MAX).max(1);
        Some(Bytes(SLOTS * SLOT_SIZE.0 / parts).clamp(Bytes(LOOK), TURN))
    }

    fn ask(&mut self, now: Instant, write: &Write, dirty: &Dirty, _: &Groups) -> Grant {
        let (limit, recent, period) = (self.limit, self.recent, self.period);
        let Some(task) = self.tasks.enter(now, write.task) else {
            return Grant::Wait(now + NAP_MAX, Reason::Dirty);
        };
        task.seen = now;
        if let Some(until) = task.until.filter(|until| now < *until) {
            return Grant::Wait(until, Reason::Dirty);
        }
        let periods = u32::try_from(period - task.period).unwrap_or(u32::MAX);
        task.recent = task.recent.checked_shr(periods).unwrap_or(0);
        task.period = period;
        let is_above = dirty.device.0 > task_limit(limit, task.recent, recent);
        if is_above {
            task.credit = task.credit.min(LOOK_ABOVE);
        }
        if task.credit == 0 && is_above {
            let nap = Nanos(task.nap.0.max(NAP_MIN.0));
            task.nap = Nanos(nap.times(2).0.min(NAP_MAX.0));
            task.until = Some(now + nap);
            return Grant::Wait(now + nap, Reason::Dirty);
        }
        task.until = None;
        if task.credit == 0 {
            (task.credit, task.nap) = (LOOK, Nanos::ZERO);
        }
        let granted = write.size.0.min(task.credit).max(1);
        if write.fresh > Bytes::ZERO {
            task.credit -= granted;
            task.recent = task.recent.saturating_add(granted);
            self.count(granted);
        }
        Grant::Pass(Bytes(granted))
    }

    fn gave_up(&mut self, task: TaskId) {
        if let Some(task) = self.tasks.get_mut(task) {
            task.until = None;
        }
    }

    fn set_budget(&mut self, _: Instant, budget: &Budget) {
        self.limit = budget.device.limit.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Thresholds;
    use crate::request::GroupId;

    const MIB: u64 = 1 << 20;

    fn with_limit(limit: u64) -> Threshold {
        let device = Thresholds { background: Bytes(limit / 2), limit: Bytes(limit) };
        let mut pace = Threshold::default();
        let budget = Budget { device, all: device, dirty_elsewhere: Bytes::ZERO };
        pace.set_budget(Instant::ZERO, &budget);
        pace
    }

    fn ask(pace: &mut Threshold, task: u64, now: u64, dirty: u64) -> Grant {
        let (task, group, size) = (TaskId(task), GroupId::ROOT, Bytes(MIB));
        let dirty = Dirty { device: Bytes(dirty), ..Dirty::default() };
        let write = Write { task, group, done: Bytes(0), size, fresh: size };
        pace.ask(Instant(now), &write, &dirty, &Groups::default())
    }

    #[test]
    fn p1_below_the_threshold_nobody_waits() {
        let mut pace = with_limit(800 * MIB);
        for step in 0..100_000 {
            let grant = ask(&mut pace, step % 3, step, 700 * MIB);
            assert_eq!(grant, Grant::Pass(Bytes(LOOK)));
        }
    }

    #[test]
    fn p2_above_it_a_task_naps_until_it_is_below() {
        let mut pace = with_limit(800 * MIB);
        assert_eq!(ask(&mut pace, 1, 0, 0), Grant::Pass(Bytes(LOOK)));
        let (mut now, mut naps) = (0, Vec::new());
        for _ in 0..6 {
            let Grant::Wait(at, Reason::Dirty) = ask(&mut pace, 1, now, 750 * MIB) else {
                panic!("it passed")
            };
            naps.push((at.0 - now) / 1_000_000);
            now = at.0;
        }
        assert_eq!(naps, [10, 20, 40, 80, 100, 100]);
        assert_eq!(ask(&mut pace, 1, now, 690 * MIB), Grant::Pass(Bytes(LOOK)));
    }

    #[test]
    fn p3_the_threshold_is_lower_for_who_dirties_more() {
        assert_eq!(task_limit(800, 1, 1), 700);
        assert_eq!(task_limit(800, 1, 4), 775);
        assert_eq!(task_limit(800, 0, 4), 800);
        assert_eq!(task_limit(800, 0, 0), 800);
        let mut pace = with_limit(800 * MIB);
        for step in 0..4_000 {
            ask(&mut pace, 1, step, 0);
        }
        assert!(matches!(ask(&mut pace, 1, 5_000, 710 * MIB), Grant::Wait(..)));
        assert!(matches!(ask(&mut pace, 2, 5_000, 710 * MIB), Grant::Pass(_)));
    }

    #[test]
    fn p4_the_more_tasks_wait_the_shorter_is_a_turn() {
        let policy = Threshold::default();
        assert_eq!(policy.turn(0), Some(TURN));
        assert_eq!(policy.turn(16), Some(TURN));
        assert_eq!(policy.turn(64), Some(Bytes::from_mib(1)));
        assert_eq!(policy.turn(usize::MAX), Some(Bytes(LOOK)));
    }
}
