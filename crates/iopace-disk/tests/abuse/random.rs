//! Abuses of all kinds in any order, by seed; then everything is well again and has to end.
//!
//! `IOPACE_ABUSE_SEEDS=1000` runs so many seeds.

use crate::checked::checked;
use crate::disk::Skew;
use crate::world::World;
use core::num::NonZeroU64;
use iopace_core::engine::Control;
use iopace_core::group::{Settings, Slots, Weight};
use iopace_core::pace;
use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_core::window;

const MIB: u64 = 1 << 20;

/// Of a run, unless the environment says otherwise: some three seconds.
const SEEDS: u64 = 40;

/// Changes in a run.
const STEPS: u64 = 60;

/// Most tasks, so that a run is short.
const WRITERS_MAX: usize = 600;

/// In this time everything is done once all is well: what is left to do is less than 2 GiB.
const DONE_WITHIN: Nanos = Nanos::from_secs(120);

/// A 64-bit linear congruence with Knuth's MMIX constants; the upper half is used.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        let Random(state) = self;
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (*state >> 33) % bound
    }

    /// Any size of that many bits at most.
    fn size(&mut self, bits: u64) -> u64 {
        let (high, low) = (self.below(bits), self.below(bits));
        1 << high | self.below(1 << low)
    }
}

struct Chaos {
    random: Random,
    world: World,
    /// Groups that there are; a number is used once.
    groups: Vec<GroupId>,
    next_group: u32,
}

impl Chaos {
    fn new(seed: u64) -> Chaos {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let policy = pace::REGISTRY[random.below(pace::REGISTRY.len() as u64) as usize];
        let world = World::new(policy.name, "fixed", 100 * MIB, 64 * MIB);
        Chaos { random, world, groups: vec![GroupId::ROOT], next_group: 1 }
    }

    fn group(&mut self) -> GroupId {
        self.groups[self.random.below(self.groups.len() as u64) as usize]
    }

    fn step(&mut self) {
        match self.random.below(14) {
            0 | 1 => self.start(),
            2 => {
                let some = 1 + self.random.below(4) as usize;
                self.world.writers.iter_mut().step_by(some).for_each(|one| one.is_running = false);
            }
            3 => {
                let rate = self.random.below(100) * self.random.below(100) * (MIB / 100);
                self.world.disk.set_rate(self.world.now, rate);
            }
            4 => self.world.disk.set_rate(self.world.now, 100 * MIB),
            5 => {
                let (limit, elsewhere) = (self.random.size(28), self.random.size(28) - 1);
                self.world.set_limit(limit, elsewhere);
            }
            6 => {
                let policy =
                    pace::REGISTRY[self.random.below(pace::REGISTRY.len() as u64) as usize];
                self.world.control(Control::Pace(checked(policy)));
            }
            7 => {
                let count = window::REGISTRY.len() as u64;
                let policy = window::REGISTRY[self.random.below(count) as usize];
                self.world.control(Control::WindowPolicy(policy));
            }
            8 | 9 => self.change_group(),
            10 => self.jump(),
            11 => {
                let slots = 4 + self.random.below(200) as u32;
                self.world.control(Control::Slots(slots));
                self.world.control(Control::Window(1 + self.random.below(32) as u32));
            }
            12 => self.world.start_reader(),
            _ => self.other(),
        }
    }

    fn start(&mut self) {
        let left = WRITERS_MAX.saturating_sub(self.world.writers.len()) as u64;
        let most = if self.random.below(8) == 0 { 400 } else { 8 };
        for _ in 0..(1 + self.random.below(most)).min(left) {
            let (group, block) = (self.group(), self.random.size(22));
            let (depth, gap) = (1 + self.random.below(3) as u32, self.random.size(24));
            self.world.start(group, block, depth, Nanos(gap + 20_000));
        }
    }

    fn settings(&mut self) -> Settings {
        let mut settings = Settings::default();
        let weight = Weight::new(1 + self.random.below(10_000) as u32);
        settings.weight = weight.expect("a legal weight");
        if self.random.below(2) == 0 {
            settings.max.sustained.wbps = NonZeroU64::new(self.random.size(30));
        }
        if self.random.below(3) == 0 {
            settings.max.sustained.wiops = NonZeroU64::new(self.random.size(14));
        }
        if self.random.below(4) == 0 {
            settings.slots = Slots { max: Some(1 + self.random.below(20) as u32), guaranteed: 0 };
        }
        settings
    }

    fn change_group(&mut self) {
        let is_new = self.groups.len() < 6 && self.random.below(2) == 0;
        let is_gone = self.groups.len() > 1 && self.random.below(4) == 0;
        if is_gone {
            let id = self.groups.pop().expect("more than the root");
            for writer in self.world.writers.iter_mut().filter(|writer| writer.group == id) {
                writer.group = GroupId::ROOT;
            }
            return self.world.control(Control::RemoveGroup(id));
        }
        if is_new {
            self.groups.push(GroupId(self.next_group));
            self.next_group += 1;
        }
        let (id, settings) = (self.groups[self.groups.len() - 1], self.settings());
        self.world.control(Control::SetGroup(id, GroupId::ROOT, settings));
    }

    fn jump(&mut self) {
        let Skew { ahead, behind } = self.world.skew;
        let far = Nanos(self.random.size(44));
        let back = Nanos(self.random.below(1_000_000_000));
        let (ahead, behind) = if self.random.below(2) == 0 {
            (Nanos(ahead.0 + far.0), behind)
        } else {
            (ahead, Nanos(behind.0 + back.0))
        };
        self.world.set_skew(Skew { ahead, behind });
    }

    /// A flush, a discard, or a write past the cache.
    fn other(&mut self) {
        let op = [Op::Flush, Op::Trim, Op::Write][self.random.below(3) as usize];
        let pages = if op == Op::Flush { 0 } else { 1 + self.random.below(64) };
        let offset = self.random.below(1 << 20) * 4096;
        let extent = Extent::new(Bytes(offset), Bytes(pages * 4096)).expect("far below 2^64");
        let (tag, task, group) = (Tag(0), TaskId(u64::MAX), self.group());
        let submit = Submit { tag, task, group, op, extent, fua: true, sync: true };
        self.world.send(submit, true);
        self.world.drain();
    }

    /// Everything is well again.
    fn mend(&mut self) {
        self.world.disk.set_rate(self.world.now, 100 * MIB);
        self.world.set_limit(64 * MIB, 0);
        for id in self.groups.clone() {
            let settings = Settings::default();
            self.world.control(Control::SetGroup(id, GroupId::ROOT, settings));
        }
    }
}

/// Lives through a seed; a number that tells it from others.
fn live(seed: u64) -> u64 {
    let mut chaos = Chaos::new(seed);
    chaos.start();
    for _ in 0..STEPS {
        chaos.step();
        let most = if chaos.random.below(20) == 0 { 36 } else { 28 };
        let time = Nanos(chaos.random.size(most));
        chaos.world.run(chaos.world.now + time);
    }
    chaos.mend();
    let status = chaos.world.machine.engine().status();
    println!(
        "seed {seed}: {} {}, {} paced",
        status.pace.name, status.window.name, status.paced_count
    );
    chaos.world.end(DONE_WITHIN);
    chaos.world.digest
}

#[test]
fn any_abuse_in_any_order_breaks_no_promise_and_ends() {
    let seeds = std::env::var("IOPACE_ABUSE_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in 0..seeds.unwrap_or(SEEDS) {
        live(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_times() {
    assert_eq!(live(3), live(3));
    assert_ne!(live(3), live(4));
}
