//! One suite for every pacing policy: legal answers, waits that end, and every write as a whole.

use super::*;
use crate::group::table::Groups;
use crate::pace::{Budget, Dirty, Grant, Thresholds, Write};
use crate::request::{GroupId, TaskId};
use crate::time::{Instant, Nanos};
use crate::units::Bytes;
use std::collections::BTreeMap;

/// The longest wait for which a policy may send a task away.
const WAIT_MAX: Nanos = Nanos::from_millis(200);

/// Steps in a row in which nobody comes further.
const STEPS_MAX: u32 = 100_000;

struct Loop {
    pace: Box<dyn Pace>,
    now: u64,
    dirty: u64,
    random: u64,
    /// When each task is to ask again, and what is left of its write.
    tasks: BTreeMap<u64, (u64, u64)>,
}

impl Loop {
    fn new(policy: &PacePolicy, seed: u64, tasks: u64) -> Loop {
        let mut pace = (policy.build)();
        let device = Thresholds { background: Bytes(32 << 20), limit: Bytes(64 << 20) };
        let budget = Budget::alone(device);
        pace.set_budget(Instant::ZERO, &budget);
        for id in 0..3 {
            pace.set_group(Instant::ZERO, GroupId(id), &Groups::default());
        }
        let mut new = Loop { pace, now: 1, dirty: 0, random: seed, tasks: BTreeMap::new() };
        for task in 0..tasks {
            let size = new.below(8 << 20) + 1;
            new.tasks.insert(task, (1, size));
        }
        new
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % n
    }

    /// The task asks; what passes is dirty.
    fn ask(&mut self, name: &str, task: u64, rest: u64) {
        let group = GroupId((task % 3) as u32);
        let dirty = Bytes(self.dirty);
        let state = Dirty { device: dirty, group: Bytes(dirty.0 / 3), write_back: Bytes(4096) };
        let (id, size) = (TaskId(task), Bytes(rest));
        let write = Write { task: id, group, done: Bytes(0), size, fresh: size };
        match self.pace.ask(Instant(self.now), &write, &state, &Groups::default()) {
            Grant::Pass(granted) => {
                assert!(granted.0 > 0 && granted <= size, "{name}: {granted:?} of {size:?}");
                self.dirty += granted.0;
                self.pace.dirtied(Instant(self.now), group, granted);
                let rest = rest - granted.0;
                self.tasks.insert(task, (self.now + 1_000, rest));
                if rest == 0 {
                    self.tasks.remove(&task);
                }
            }
            Grant::Wait(at, _) => {
                assert!(at.0 > self.now, "{name}: a wait into the past");
                assert!(at.0 <= self.now + WAIT_MAX.0, "{name}: waits for {}", at.0 - self.now);
                self.tasks.insert(task, (at.0, rest));
            }
        }
    }

    /// The device cleans what it can in the time.
    fn clean(&mut self, time: u64) {
        let size = self.dirty.min(time / 20);
        self.dirty -= size;
        let (dirty, write_back) = (Bytes(self.dirty), Bytes(4096));
        let state = Dirty { device: dirty, group: Bytes(dirty.0 / 3), write_back };
        let group = GroupId((self.now % 3) as u32);
        self.pace.cleaned(Instant(self.now), group, Bytes(size), &state, &Groups::default());
    }
}

#[test]
fn every_policy_lets_every_write_through_in_the_end() {
    for policy in REGISTRY {
        for (seed, tasks) in [(1, 1), (2, 7), (3, 60), (4, 300)] {
            let mut world = Loop::new(policy, seed, tasks);
            let mut stuck = 0;
            while let Some((&task, &(at, rest))) =
                world.tasks.iter().min_by_key(|(task, (at, _))| (*at, **task))
            {
                let before = (world.tasks.len(), world.dirty);
                let time = at.saturating_sub(world.now);
                world.now = world.now.max(at);
                world.clean(time);
                match world.below(50) {
                    // It gives up now and then, and begins anew.
                    0 => world.pace.gave_up(TaskId(task)),
                    _ => world.ask(policy.name, task, rest),
                }
                stuck = if world.dirty > before.1 { 0 } else { stuck + 1 };
                assert!(stuck < STEPS_MAX, "{}: nobody comes further", policy.name);
            }
        }
    }
}

#[test]
fn every_policy_has_its_own_name() {
    for policy in REGISTRY {
        assert!(std::ptr::eq(find(policy.name).expect("it is found"), *policy));
    }
    assert!(find("").is_none());
}
