//! Lets tasks write as they like up to a threshold of dirty memory; above it whoever is caught
//! writes back himself: what Linux did before 2011, as a baseline.
//!
//! # Model
//! ```text
//!   dirty ▲  limit ────────────────────────────
//!         │  task's threshold ─ ─ ─ ─ ─ ─ ─ ─ ─   a task that is looked at above it writes back
//!         │       /\    /\        /\    /\        1.5 looks' worth, or naps 10, 20, 40, 80, 100 ms
//!         │      /  \  /  \      /  \  /  \       ... until it is below
//!         │  free-run mark ─ ─ ─ ─ ─ ─ ─ ─ ─ ─    below it nobody is held, whatever its threshold
//!         └────────────────────────────────►
//! ```
//! Each processor counts what is dirtied on it, by whichever task. After a *look* (4 MiB on all but
//! the smallest machines; 32 KiB once a task was found above its threshold) the task that happens
//! to dirty is looked at, and pays for all: below its threshold it goes on at memory speed, above
//! it has the *duty* to write back 1.5 looks, at the disk's speed and in turns with all others that
//! do the same. Then it goes on, even if it is still above. All or nothing, and who is lucky takes
//! what has become free: that is where empty seconds come from.
//!
//! *The device's part* of the limit is learned from what it completes, against what all devices
//! complete: alone, a half after it has written about a limit, three quarters after two. *A task's
//! threshold* is that, less an eighth times its part of what all dirtied lately.
//!
//! # Properties
//! 1. Below the free-run mark, or its threshold, a task never waits.
//! 2. Above it, it naps until it is below or its duty is done, 100 ms at a time at most.
//! 3. Its threshold is lower by an eighth of the device's for a task that dirties all, less in
//!    proportion for one that dirties a part.
//! 4. The more tasks wait, the shorter is a turn of write-back and the longer a duty takes.
//! 5. The device's part of the limit grows with what it has written, and not with time.
//!
//! # When it does not know
//! A new task has dirtied nothing lately: its threshold is the device's. A new device has written
//! nothing: its part is nothing, and only the free-run mark lets tasks on.
//!
//! # Limits
//! The write-back of a duty is the flusher's here, and what it cost is kept: N tasks and the kernel
//! thread shared the disk, so that each had a part of what was written, and sought after each one's
//! part of the request slots. The engine's hard limit stands above this policy as above all others;
//! the kernel of then had none, and went over the limit by what its duties let pass. Memory is
//! taken for five times the limit, and the machine for one of [`PROCESSORS`]. Tasks do not move
//! from one processor to another.
//!
//! # Sources
//! Linux 2.6.38, mm/page-writeback.c: ratelimit_pages, sync_writeback_pages, task_dirty_limit,
//! calc_period_shift, growing naps; lib/proportions.c; MAX_WRITEBACK_PAGES of fs-writeback.c;
//! nr_requests and max_sectors_kb of the block layer. The change logs of the series of 2011.

use super::tasks::{PacedTasks, Record};
use super::{Budget, Dirty, Grant, Pace, PacePicture, PacePolicy, Thresholds, Write};
use crate::group::table::Groups;
use crate::request::{GroupId, TaskId};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use crate::verdict::Reason;
use proportion::{Part, Whole};

mod proportion;

/// The registry's line.
pub static POLICY: PacePolicy = PacePolicy {
    name: "threshold",
    summary: "writes run freely up to a threshold, and above it nap until below (before 2011)",
    build: || Box::new(Threshold::default()),
};

/// Processors of the machine: a usual one of 2011.
pub const PROCESSORS: usize = 4;

/// Memory is so many times the dirty limit: vm.dirty_ratio of 20 percent.
const MEMORY_OF_LIMIT: u64 = 5;

/// A processor looks after this part of memory over the number of processors (ratelimit_pages) ...
const LOOK_PART: u64 = 32;

/// ... but not after less than 16 pages, nor more than 4 MiB.
const LOOK_MIN: u64 = 64 << 10;
const LOOK_MAX: u64 = 4 << 20;

/// The same once a task was above its threshold (dirty_exceeded): 8 pages.
const LOOK_ABOVE: u64 = 32 << 10;

/// A duty is this many looks (sync_writeback_pages).
const DUTY: (u64, u64) = (3, 2);

/// A task's progress through its duty is kept in this part of a byte.
const FINE: u64 = 1 << 10;

/// The first nap: one tick at 100 a second.
const NAP_MIN: Nanos = Nanos::from_millis(10);

/// The longest nap.
const NAP_MAX: Nanos = Nanos::from_millis(100);

/// The part of the device's threshold that a task's own part of dirtying moves its threshold by.
const TASK_PART: u64 = 8;

/// The turn of one file in write-back: MAX_WRITEBACK_PAGES, 1024 of them.
const TURN: Bytes = Bytes::from_mib(4);

/// The shortest turn: what a request of a stream had at least.
const TURN_MIN: Bytes = Bytes::from_kib(128);

/// Write requests that the block layer held (nr_requests) and their size (max_sectors_kb): what
/// tasks that write back themselves share.
const SLOTS: u64 = 128;
const SLOT_SIZE: Bytes = Bytes::from_kib(512);

/// A task that asked for nothing for so long is forgotten.
const FORGET: Nanos = Nanos::from_secs(30);

/// A task that was looked at above its threshold.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The present nap and its end.
    nap: Nanos,
    until: Instant,
    /// Its duty is done when every held task has written so much since the beginning.
    done_at: u64,
}

/// A task.
#[derive(Clone, Copy, Debug, Default)]
struct ThresholdTask {
    seen: Instant,
    /// Its part of what was dirtied lately.
    dirtied: Part,
    held: Option<Held>,
}

impl Record for ThresholdTask {
    fn new(now: Instant) -> ThresholdTask {
        ThresholdTask { seen: now, ..ThresholdTask::default() }
    }

    fn is_void(&self, now: Instant) -> bool {
        self.held.is_none() && now.since(self.seen) > FORGET
    }

    fn waits(&self) -> bool {
        self.held.is_some()
    }
}

/// The policy.
#[derive(Debug)]
pub struct Threshold {
    tasks: PacedTasks<ThresholdTask>,
    budget: Budget,
    /// Bytes between two looks at a processor.
    look: u64,
    /// Bytes dirtied on each processor since its last look.
    unseen: [u64; PROCESSORS],
    /// A task was above its threshold when it was looked at last (dirty_exceeded).
    is_exceeded: bool,
    /// Bytes that all tasks dirtied, and bytes that the device completed.
    dirtied: Whole,
    completed: (Whole, Part),
    /// Tasks that are held.
    held_count: u64,
    /// Bytes that each of them has written back since the beginning, times [`FINE`].
    written_each: u64,
}

impl Default for Threshold {
    fn default() -> Threshold {
        let all = Thresholds { background: Bytes(u64::MAX), limit: Bytes(u64::MAX) };
        Threshold {
            tasks: PacedTasks::default(),
            budget: Budget::alone(all),
            look: LOOK_MAX,
            unseen: [0; PROCESSORS],
            is_exceeded: false,
            dirtied: Whole::new(u64::MAX),
            completed: (Whole::new(u64::MAX), Part::default()),
            held_count: 0,
            written_each: 0,
        }
    }
}

impl Threshold {
    /// The device's part of the limit.
    fn device_limit(&self) -> u64 {
        let (whole, part) = &self.completed;
        whole.share(part, self.budget.all.limit.0)
    }

    /// Below it nobody is held.
    fn freerun(&self) -> u64 {
        let all = self.budget.all;
        all.background.0 / 2 + all.limit.0 / 2
    }

    /// Whether a task is above its threshold.
    fn is_above(&self, task: &ThresholdTask, dirty: &Dirty) -> bool {
        let Budget { all, dirty_elsewhere, .. } = self.budget;
        let sum = dirty.device.0.saturating_add(dirty_elsewhere.0);
        sum > self.freerun()
            && (sum > all.limit.0
                || dirty.device.0
                    > task_limit(self.device_limit(), |eighth| {
                        self.dirtied.share(&task.dirtied, eighth)
                    }))
    }

    /// The reading that a task's duty of so many bytes is done at.
    fn done_at(&self, duty: u64) -> u64 {
        self.written_each.saturating_add(duty.saturating_mul(FINE))
    }
}

/// The threshold of a task whose part of an amount is `share_of`.
fn task_limit(device: u64, share_of: impl Fn(u64) -> u64) -> u64 {
    device - share_of(device / TASK_PART)
}

/// Bytes between two looks at a processor of a machine with that dirty limit.
fn look(limit: u64) -> u64 {
    let memory = limit.saturating_mul(MEMORY_OF_LIMIT);
    (memory / LOOK_PART / PROCESSORS as u64).clamp(LOOK_MIN, LOOK_MAX)
}

impl Pace for Threshold {
    fn turn(&self, waiting_count: usize) -> Option<Bytes> {
        let parts = u64::try_from(waiting_count).unwrap_or(u64::MAX).max(1);
        Some(Bytes(SLOTS * SLOT_SIZE.0 / parts).clamp(TURN_MIN, TURN))
    }

    fn ask(&mut self, now: Instant, write: &Write, dirty: &Dirty, _: &Groups) -> Grant {
        let Some(mut task) = self.tasks.enter(now, write.task).copied() else {
            return Grant::Wait(now + NAP_MAX, Reason::Dirty);
        };
        task.seen = now;
        let processor = (write.task.0 % PROCESSORS as u64) as usize;
        let look = if self.is_exceeded { LOOK_ABOVE.min(self.look) } else { self.look };
        let unseen = self.unseen[processor];
        let was_held = task.held;
        if was_held.is_some() || unseen >= look {
            let is_above = self.is_above(&task, dirty);
            task.held = match was_held {
                Some(held) if now < held.until => Some(held),
                Some(held) if is_above && self.written_each < held.done_at => {
                    let nap = Nanos(held.nap.times(2).0.min(NAP_MAX.0));
                    Some(Held { nap, until: now + nap, ..held })
                }
                None if is_above => {
                    let duty = unseen.max(self.look) / DUTY.1 * DUTY.0;
                    let done_at = self.done_at(duty);
                    Some(Held { nap: NAP_MIN, until: now + NAP_MIN, done_at })
                }
                _ => None,
            };
            self.is_exceeded = is_above;
        }
        if was_held.is_none() && unseen >= look {
            self.unseen[processor] = 0;
        }
        self.held_count += u64::from(task.held.is_some());
        self.held_count -= u64::from(was_held.is_some());
        let mut grant = task.held.map(|held| Grant::Wait(held.until, Reason::Dirty));
        if grant.is_none() {
            let room = look.saturating_sub(self.unseen[processor]);
            let granted = write.size.0.min(room.max(1));
            if write.fresh > Bytes::ZERO {
                self.unseen[processor] += granted;
                self.dirtied.count(&mut task.dirtied, granted);
            }
            grant = Some(Grant::Pass(Bytes(granted)));
        }
        if let Some(record) = self.tasks.get_mut(write.task) {
            *record = task;
        }
        grant.expect("it waits or passes")
    }

    fn gave_up(&mut self, task: TaskId) {
        if let Some(task) = self.tasks.get_mut(task)
            && task.held.take().is_some()
        {
            self.held_count -= 1;
        }
    }

    fn cleaned(&mut self, _: Instant, _: GroupId, size: Bytes, _: &Dirty, _: &Groups) {
        let (whole, part) = &mut self.completed;
        whole.count(part, size.0);
        // The kernel thread writes back beside those that are held.
        let each = size.0.saturating_mul(FINE) / (self.held_count + 1);
        self.written_each = self.written_each.saturating_add(each);
    }

    /// The set point is the device's part.
    fn picture(&self, _: &Dirty) -> PacePicture {
        let (freerun, setpoint) = (Bytes(self.freerun()), Bytes(self.device_limit()));
        PacePicture { freerun, setpoint, ..PacePicture::default() }
    }

    fn set_budget(&mut self, _: Instant, budget: &Budget) {
        let elsewhere = budget.written_elsewhere.0.saturating_sub(self.budget.written_elsewhere.0);
        self.completed.0.count(&mut Part::default(), elsewhere);
        self.budget = *budget;
        self.look = look(budget.all.limit.0);
        // calc_period_shift: the power of two above the limit.
        let period = budget.all.limit.0.checked_next_power_of_two().unwrap_or(u64::MAX);
        self.dirtied.set_length(period);
        self.completed.0.set_length(period);
    }
}

#[cfg(test)]
mod tests;
