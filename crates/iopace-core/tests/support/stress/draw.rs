//! Requests and settings by chance: all that is legal, the extremes often.

use iopace_core::group::{Class, Limits, Rates, Settings, Slots, Weight};
use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_suites::random::Random;
use std::num::NonZeroU64;

/// The largest request of the protocol.
const REQUEST_MAX: u64 = 32 << 20;

fn one_of<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

pub fn nr_requests(random: &mut Random) -> u32 {
    one_of(random, &[4, 5, 8, 32, 128, 1_024])
}

pub fn depth(random: &mut Random) -> u32 {
    one_of(random, &[1, 2, 4, 32, 256])
}

pub fn submit(random: &mut Random, tag: u64, task: TaskId, group: GroupId) -> Submit {
    let op = match random.below(24) {
        0 => Op::Flush,
        1 => Op::Trim,
        2 => Op::WriteZeroes,
        3 => Op::Cache,
        4..13 => Op::Write,
        _ => Op::Read,
    };
    let len = match random.below(20) {
        0 => 0,
        1 => REQUEST_MAX,
        2..5 => 512 * (1 + random.below(REQUEST_MAX / 512)),
        5..8 => 512,
        _ => 512 << random.below(11),
    };
    let extent = match op {
        Op::Flush => Extent::EMPTY,
        // In sequence at times, so that somebody is waited for.
        _ if random.below(3) == 0 => Extent::new(Bytes(tag << 25), Bytes(len)).expect("small"),
        _ => Extent::new(Bytes(random.below(1 << 30) * 512), Bytes(len)).expect("small"),
    };
    let fua = op == Op::Write && random.below(6) == 0;
    Submit { tag: Tag(tag), task, group, op, extent, fua, sync: random.below(4) > 0 }
}

/// Changes one thing, or everything back. What limits the root is never long.
pub fn settings(random: &mut Random, old: Settings, is_root: bool) -> Settings {
    let mut new = old;
    match random.below(8) {
        0 => new = Settings::default(),
        1 => {
            let weight = one_of(random, &[1, 3, 100, 777, 10_000]);
            new.weight = Weight::new(weight).expect("legal");
        }
        2 => new.class = one_of(random, &[Class::RealTime, Class::BestEffort, Class::Idle]),
        3 => {
            let max = one_of(random, &[None, Some(1), Some(2), Some(7), Some(100)]);
            let guaranteed = one_of(random, &[0, 0, 1, 4, 60]);
            new.slots = Slots { max, guaranteed };
        }
        4 | 5 => new.max = limits(random),
        6 => new.min = rates(random, 1 << 20, 100),
        _ => {
            let target = one_of(random, &[None, Some(1), Some(20), Some(3_000)]);
            new.latency = target.map(Nanos::from_millis);
        }
    }
    if is_root {
        // Whoever is limited for hours would hold up all others in all that follows.
        new.max = Limits::default();
    }
    new
}

fn rate(random: &mut Random, least: u64) -> Option<NonZeroU64> {
    match random.below(3) {
        0 => NonZeroU64::new(least * (1 + random.below(3)) + random.below(7)),
        1 => NonZeroU64::new((least << random.below(16)) + 1),
        _ => None,
    }
}

fn rates(random: &mut Random, bytes: u64, operations: u64) -> Rates {
    let mut rates = Rates::default();
    for _ in 0..=random.below(2) {
        match random.below(6) {
            0 => rates.rbps = rate(random, bytes),
            1 => rates.wbps = rate(random, bytes),
            2 => rates.bps = rate(random, bytes),
            3 => rates.riops = rate(random, operations),
            4 => rates.wiops = rate(random, operations),
            _ => rates.iops = rate(random, operations),
        }
    }
    rates
}

fn limits(random: &mut Random) -> Limits {
    let sustained = rates(random, 256 << 10, 10);
    let mut limits = Limits { sustained, ..Limits::default() };
    if random.below(2) == 0 {
        let times = 2 + random.below(30);
        let more = |rate: Option<NonZeroU64>| rate.and_then(|r| NonZeroU64::new(r.get() * times));
        limits.burst.rbps = more(sustained.rbps);
        limits.burst.wbps = more(sustained.wbps);
        limits.burst.bps = more(sustained.bps);
        limits.burst.riops = more(sustained.riops);
        limits.burst.wiops = more(sustained.wiops);
        limits.burst.iops = more(sustained.iops);
        limits.burst_length = Nanos::from_millis(one_of(random, &[1, 500, 1_000, 60_000]));
    }
    limits.iops_size = NonZeroU64::new(one_of(random, &[0, 0, 512, 4_096, 1 << 20]));
    limits
}
