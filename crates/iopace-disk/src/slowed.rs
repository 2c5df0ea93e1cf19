//! A wrapper that makes any disk slow, or stop for a while, and fast again.
//!
//! # Model
//! The disk inside lives in a time of its own. Slowed by a factor its clock runs at that part of
//! ours; while it stalls its clock stands still. So everything that it does takes as many times
//! longer: seeks, transfers, and what it does when it is idle.
//!
//! # Properties
//! 1. At factor 1 it is the disk inside, nanosecond by nanosecond.
//! 2. A command that is under way when the speed changes is done with its first part at the old
//!    speed and with its second at the new one.
//! 3. Nothing is done while it stalls; what was under way goes on afterwards.
//!
//! # Limits
//! Link, controller and medium are all slowed alike. A stall does not count as busy time.

use crate::disk::{Command, Completion, Disk, DiskStats};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest factor: a disk a thousand times slower than it should be has failed.
pub const FACTOR_MAX: u32 = 1_000;

/// Where the two clocks were the same, and how they have run since.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    /// Our time at which the disk's time was `inner`; ahead of our time while it stalls.
    outer: Instant,
    inner: Instant,
    factor: u64,
    /// Busy time until then in our time, and in the disk's.
    busy: Nanos,
    busy_inner: Nanos,
    /// The disk's busy time as last seen.
    busy_seen: Nanos,
}

impl Clocks {
    fn inner(&self, now: Instant) -> Instant {
        self.inner + Nanos(now.since(self.outer).0 / self.factor)
    }

    fn outer(&self, inner: Instant) -> Instant {
        if inner.is_never() {
            return inner;
        }
        self.outer + inner.since(self.inner).times(self.factor)
    }

    /// The busy time in our time.
    fn busy(&self, inner: Nanos) -> Nanos {
        self.busy + inner.saturating_sub(self.busy_inner).times(self.factor)
    }

    /// Lets the clocks run differently from `now` on, or from the end of a stall.
    fn turn(&mut self, now: Instant, factor: u64, stall: Nanos) {
        let inner = self.inner(now);
        self.busy = self.busy(self.busy_seen);
        self.busy_inner = self.busy_seen;
        self.outer = now.max(self.outer) + stall;
        self.inner = inner;
        self.factor = factor;
    }
}

/// Sets the speed of one disk, also when the disk is inside something else.
#[derive(Clone, Debug)]
pub struct Brake(Arc<Mutex<Clocks>>);

impl Brake {
    /// Makes the disk `factor` times slower than it is, from `now` on; 1: as it is.
    ///
    /// # Panics
    /// If the factor is not 1 to [`FACTOR_MAX`].
    pub fn slow(&self, now: Instant, factor: u32) {
        assert!((1..=FACTOR_MAX).contains(&factor), "factor {factor}");
        self.clocks(|clocks| clocks.turn(now, u64::from(factor), Nanos::ZERO));
    }

    /// Stops the disk for so long; a stall within a stall prolongs it.
    pub fn stall(&self, now: Instant, time: Nanos) {
        self.clocks(|clocks| clocks.turn(now, clocks.factor, time));
    }

    fn clocks<T>(&self, act: impl FnOnce(&mut Clocks) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The disk with a brake.
#[derive(Debug)]
pub struct Slowed {
    inner: Box<dyn Disk>,
    brake: Brake,
}

impl Slowed {
    /// `inner` at its own speed, with its brake.
    pub fn new(inner: Box<dyn Disk>) -> (Slowed, Brake) {
        let clocks = Clocks {
            outer: Instant::ZERO,
            inner: Instant::ZERO,
            factor: 1,
            busy: Nanos::ZERO,
            busy_inner: Nanos::ZERO,
            busy_seen: Nanos::ZERO,
        };
        let brake = Brake(Arc::new(Mutex::new(clocks)));
        (Slowed { inner, brake: brake.clone() }, brake)
    }

    fn inner_time(&self, now: Instant) -> Instant {
        let busy = self.inner.stats().busy;
        self.brake.clocks(|clocks| {
            clocks.busy_seen = busy;
            clocks.inner(now)
        })
    }
}

impl Disk for Slowed {
    fn capacity(&self) -> Bytes {
        self.inner.capacity()
    }

    fn depth(&self) -> u32 {
        self.inner.depth()
    }

    fn is_rotational(&self) -> bool {
        self.inner.is_rotational()
    }

    fn submit(&mut self, now: Instant, command: Command) {
        let now = self.inner_time(now);
        self.inner.submit(now, command);
    }

    fn next(&self) -> Instant {
        self.brake.clocks(|clocks| clocks.outer(self.inner.next()))
    }

    fn poll(&mut self, now: Instant) -> Option<Completion> {
        let now = self.inner_time(now);
        self.inner.poll(now)
    }

    fn stats(&self) -> DiskStats {
        let stats = self.inner.stats();
        DiskStats { busy: self.brake.clocks(|clocks| clocks.busy(stats.busy)), ..stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::find;
    use crate::scripted::{Scripted, ScriptedStep};
    use crate::testing::{closed_loop, scattered};
    use iopace_core::request::{Extent, Op};

    const MS: u64 = 1_000_000;

    /// A disk that takes 10 ms for each command.
    fn slowed() -> (Slowed, Brake) {
        let step = ScriptedStep::ok(Nanos::from_millis(10));
        Slowed::new(Box::new(Scripted::new(Bytes(1 << 20), 1, vec![step])))
    }

    fn submit(disk: &mut Slowed, at_ms: u64) {
        let command = Command { id: at_ms, op: Op::Read, extent: Extent::EMPTY, fua: false };
        disk.submit(Instant(at_ms * MS), command);
    }

    fn done_ms(disk: &mut Slowed) -> u64 {
        let at = disk.next();
        assert!(disk.poll(Instant(at.0 - 1)).is_none(), "not before");
        assert!(disk.poll(at).is_some(), "and then");
        at.0 / MS
    }

    #[test]
    fn p1_at_its_own_speed_it_is_the_disk_inside() {
        let disk = || (find("hdd-sata-250g").expect("a preset").build)();
        let run = |disk: &mut dyn Disk| {
            let reached = closed_loop(disk, Op::Read, 4096, 1, 500, scattered);
            (reached.per_second, disk.stats())
        };
        assert_eq!(run(&mut Slowed::new(disk()).0), run(&mut *disk()));
        let (mut slow, brake) = Slowed::new(disk());
        brake.slow(Instant::ZERO, 4);
        let (plain, slow) = (run(&mut *disk()), run(&mut slow));
        assert!((plain.0 / 4).abs_diff(slow.0) <= 3, "{} and {}", plain.0, slow.0);
    }

    #[test]
    fn p2_what_is_under_way_goes_on_at_the_new_speed() {
        let (mut disk, brake) = slowed();
        submit(&mut disk, 100);
        brake.slow(Instant(104 * MS), 10);
        assert_eq!(done_ms(&mut disk), 164);
        submit(&mut disk, 200);
        brake.slow(Instant(250 * MS), 1);
        assert_eq!(done_ms(&mut disk), 255);
        submit(&mut disk, 300);
        assert_eq!(done_ms(&mut disk), 310);
    }

    #[test]
    fn p3_nothing_is_done_while_it_stalls() {
        let (mut disk, brake) = slowed();
        submit(&mut disk, 100);
        brake.stall(Instant(104 * MS), Nanos(1_000 * MS));
        brake.stall(Instant(500 * MS), Nanos(1_000 * MS));
        assert_eq!(done_ms(&mut disk), 2_110);
        brake.slow(Instant(2_110 * MS), 2);
        brake.stall(Instant(2_110 * MS), Nanos(5 * MS));
        submit(&mut disk, 2_111);
        assert_eq!(done_ms(&mut disk), 2_135);
    }
}
