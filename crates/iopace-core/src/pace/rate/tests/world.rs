//! Tasks that write in a loop and a device that cleans, in virtual time; dirty memory is counted
//! exactly and the hard limit held, as by the engine.

use super::Random;
use crate::group::table::Groups;
use crate::pace::{Budget, Dirty, Grant, Pace, Thresholds, Write};
use crate::request::{GroupId, TaskId};
use crate::time::Instant;
use crate::units::Bytes;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MIB: u64 = 1 << 20;

/// Time that a system call takes that goes into memory.
const CALL_NS: u64 = 2_000;

/// One write-back request.
const CHUNK: u64 = 128 << 10;

/// How the device completes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Device {
    /// Steadily, bytes per second.
    Steady(u64),
    /// The same, but what was written is told every so often only.
    Bursts(u64, u64),
}

/// What a task does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) group: u32,
    pub(super) size: u64,
    /// So many writes, and then so much time without one.
    pub(super) think: (u64, u64),
}

pub(super) const DD: Plan = Plan { group: 0, size: MIB, think: (0, 0) };

#[derive(Debug)]
struct Task {
    plan: Plan,
    rest: u64,
    /// Bytes of the current page that are written: small writes make a page fresh once.
    in_page: u64,
    asked: Option<u64>,
    writes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Written,
    Told,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Bytes that passed, per task.
    pub(super) passed: Vec<u64>,
    /// Pauses: when they ended, how long they were.
    pub(super) pauses: Vec<(u64, u64)>,
    /// Dirty memory, least and most, since it was reset.
    pub(super) dirty: (u64, u64),
    /// Writes that found no room.
    pub(super) gated_count: u64,
}

pub(super) struct World {
    pub(super) pace: Box<dyn Pace>,
    pub(super) table: Groups,
    pub(super) now: u64,
    pub(super) limits: Thresholds,
    pub(super) device: Device,
    pub(super) seen: Seen,
    /// What the policy is told of each byte that is cleaned, in per cent.
    pub(super) told_percent: u64,
    pub(super) write_back: u64,
    /// Groups are written back in turns, whatever each has dirty; else in the order of dirtying.
    pub(super) is_in_turns: bool,
    last: u32,
    tasks: Vec<Task>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    /// Dirty memory in the order of its coming, by group; and sums by group.
    line: VecDeque<(u32, u64)>,
    groups: Vec<u64>,
    at_disk: Option<(u32, u64)>,
    untold: Vec<(u32, u64)>,
    gate: VecDeque<(usize, u64)>,
    random: Random,
}

impl World {
    pub(super) fn new(pace: Box<dyn Pace>, background: u64, limit: u64, device: Device) -> World {
        let limits = Thresholds { background: Bytes(background), limit: Bytes(limit) };
        let mut world = World {
            pace,
            table: Groups::default(),
            now: 0,
            limits,
            device,
            seen: Seen::default(),
            told_percent: 100,
            write_back: 0,
            is_in_turns: false,
            last: 0,
            tasks: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            line: VecDeque::new(),
            groups: Vec::new(),
            at_disk: None,
            untold: Vec::new(),
            gate: VecDeque::new(),
            random: Random(7),
        };
        world.set_limits(background, limit);
        if let Device::Bursts(_, every) = device {
            world.after(every, Event::Told);
        }
        world
    }

    pub(super) fn set_limits(&mut self, background: u64, limit: u64) {
        self.limits = Thresholds { background: Bytes(background), limit: Bytes(limit) };
        let (device, all) = (self.limits, self.limits);
        let budget = Budget { all, ..Budget::alone(device) };
        self.pace.set_budget(Instant(self.now), &budget);
    }

    pub(super) fn freerun(&self) -> u64 {
        (self.limits.background.0 + self.limits.limit.0) / 2
    }

    fn after(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((self.now + time, self.sequence, event)));
    }

    /// Tasks that begin now.
    pub(super) fn start(&mut self, count: usize, plan: Plan) {
        for _ in 0..count {
            let index = self.tasks.len();
            self.tasks.push(Task { plan, rest: plan.size, in_page: 0, asked: None, writes: 0 });
            self.seen.passed.push(0);
            self.after(0, Event::Ask(index));
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.groups.iter().sum()
    }

    fn dirty(&self, group: u32) -> Dirty {
        let group = self.groups.get(group as usize).copied().unwrap_or(0);
        let write_back = self.write_back;
        Dirty { device: Bytes(self.total()), group: Bytes(group), write_back: Bytes(write_back) }
    }

    /// Begins to look anew.
    pub(super) fn reset(&mut self) {
        let passed = vec![0; self.tasks.len()];
        self.seen = Seen { passed, dirty: (self.total(), self.total()), ..Seen::default() };
    }

    pub(super) fn run(&mut self, time: u64) {
        let end = self.now + time;
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at > end {
                break;
            }
            self.events.pop();
            self.now = at;
            match event {
                Event::Ask(task) => self.ask(task),
                Event::Written => self.written(),
                Event::Told => self.told(),
            }
            let total = self.total();
            let (least, most) = self.seen.dirty;
            self.seen.dirty = (least.min(total), most.max(total));
        }
        self.now = end;
    }

    /// Time passes in which nothing happens, as on a host that sleeps.
    pub(super) fn jump(&mut self, time: u64) {
        self.now += time;
        let events = std::mem::take(&mut self.events);
        let later =
            events.into_iter().map(|Reverse((at, n, event))| Reverse((at + time, n, event)));
        self.events = later.collect();
    }

    fn ask(&mut self, index: usize) {
        let task = &self.tasks[index];
        let fresh = if task.plan.size >= 4096 {
            task.rest
        } else if task.in_page == 0 {
            4096
        } else {
            0
        };
        let group = task.plan.group;
        let write = Write {
            task: TaskId(index as u64),
            group: GroupId(group),
            done: Bytes(task.plan.size - task.rest),
            size: Bytes(task.rest),
            fresh: Bytes(fresh),
        };
        let dirty = self.dirty(group);
        match self.pace.ask(Instant(self.now), &write, &dirty, &self.table) {
            Grant::Wait(at, _) => {
                assert!(at.0 > self.now && !at.is_never(), "a wait that ends, and not yet");
                self.tasks[index].asked.get_or_insert(self.now);
                self.after(at.0 - self.now, Event::Ask(index));
            }
            Grant::Pass(granted) => {
                assert!(granted.0 > 0 && granted.0 <= write.size.0, "a legal grant");
                if self.total() + granted.0 > self.limits.limit.0 || !self.gate.is_empty() {
                    self.tasks[index].asked.get_or_insert(self.now);
                    self.seen.gated_count += 1;
                    self.gate.push_back((index, granted.0));
                    return self.work();
                }
                self.pass(index, granted.0);
            }
        }
    }

    fn pass(&mut self, index: usize, granted: u64) {
        let task = &mut self.tasks[index];
        let group = task.plan.group;
        if let Some(asked) = task.asked.take() {
            self.seen.pauses.push((self.now, self.now - asked));
        }
        self.seen.passed[index] += granted;
        let mut fresh = granted;
        if task.plan.size < 4096 {
            fresh = if task.in_page == 0 { 4096 } else { 0 };
            task.in_page = (task.in_page + granted) % 4096;
        }
        task.rest -= granted;
        let mut pause = CALL_NS + granted / 4 + self.random.below(100);
        if task.rest == 0 {
            task.rest = task.plan.size;
            task.writes += 1;
            let (writes, think) = task.plan.think;
            if writes > 0 && task.writes.is_multiple_of(writes) {
                pause += think;
            }
        }
        if self.groups.len() <= group as usize {
            self.groups.resize(group as usize + 1, 0);
        }
        self.groups[group as usize] += fresh;
        match self.line.back_mut() {
            Some((last, size)) if *last == group => *size += fresh,
            _ => self.line.push_back((group, fresh)),
        }
        if fresh > 0 {
            self.pace.dirtied(Instant(self.now), GroupId(group), Bytes(fresh));
        }
        self.after(pause, Event::Ask(index));
        self.work();
    }

    /// The device takes the next chunk, if there is enough to do or somebody waits for room.
    fn work(&mut self) {
        let idle = self.total() <= self.limits.background.0 && self.gate.is_empty();
        if self.at_disk.is_some() || idle {
            return;
        }
        let other = self.line.iter().position(|(group, _)| *group != self.last);
        let place = if self.is_in_turns { other.unwrap_or(0) } else { 0 };
        let Some((group, size)) = self.line.get_mut(place) else { return };
        let chunk = (*size).min(CHUNK);
        *size -= chunk;
        self.last = *group;
        self.at_disk = Some((*group, chunk));
        if *size == 0 {
            self.line.remove(place);
        }
        self.write_back += chunk;
        let (Device::Steady(rate) | Device::Bursts(rate, _)) = self.device;
        self.after((chunk * SECOND).div_ceil(rate), Event::Written);
    }

    fn written(&mut self) {
        let (group, size) = self.at_disk.take().expect("a chunk");
        if let Device::Bursts(..) = self.device {
            self.untold.push((group, size));
        } else {
            self.clean(group, size);
        }
        self.work();
    }

    fn told(&mut self) {
        for (group, size) in std::mem::take(&mut self.untold) {
            self.clean(group, size);
        }
        if let Device::Bursts(_, every) = self.device {
            self.after(every, Event::Told);
        }
        self.work();
    }

    fn clean(&mut self, group: u32, size: u64) {
        self.groups[group as usize] -= size;
        self.write_back -= size;
        let (told, dirty) = (Bytes(size * self.told_percent / 100), self.dirty(group));
        self.pace.cleaned(Instant(self.now), GroupId(group), told, &dirty, &self.table);
        while let Some(&(index, granted)) = self.gate.front() {
            if self.total() + granted > self.limits.limit.0 {
                break;
            }
            self.gate.pop_front();
            self.pass(index, granted);
        }
    }

    /// Longest pause in ms, and the 99th percentile in us.
    pub(super) fn pauses(&self) -> (u64, u64) {
        let mut all: Vec<u64> = self.seen.pauses.iter().map(|&(_, pause)| pause).collect();
        all.sort_unstable();
        let at = |part: usize| all.get(all.len() * part / 1_000).or(all.last()).copied();
        (at(1_000).unwrap_or(0) / MS, at(990).unwrap_or(0) / 1_000)
    }

    /// Jain's index of what tasks passed, in millionths.
    pub(super) fn jain(&self) -> u64 {
        let sum: u128 = self.seen.passed.iter().map(|&x| u128::from(x)).sum();
        let squares: u128 = self.seen.passed.iter().map(|&x| u128::from(x) * u128::from(x)).sum();
        let n = self.seen.passed.len() as u128;
        (sum * sum / n * 1_000_000 / squares.max(1)) as u64
    }

    /// Bytes per second that a group's tasks passed since the reset.
    pub(super) fn of_group(&self, group: u32) -> u64 {
        let of = self.tasks.iter().zip(&self.seen.passed);
        of.filter(|(task, _)| task.plan.group == group).map(|(_, passed)| passed).sum()
    }
}
