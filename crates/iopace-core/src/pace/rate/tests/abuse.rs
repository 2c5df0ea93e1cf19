//! Devices that stop, budgets that shrink, clocks that jump: nobody waits for ever.

use super::Random;
use super::world::{DD, Device, MIB, MS, Plan, SECOND, World};
use crate::group::table::Groups;
use crate::pace::rate::Rate;
use crate::pace::{Budget, Dirty, Grant, Pace, Thresholds, Write};
use crate::request::{GroupId, TaskId};
use crate::time::Instant;
use crate::units::Bytes;

fn world(rate: u64) -> World {
    World::new(Box::new(Rate::default()), 512 * MIB, 1024 * MIB, Device::Steady(rate))
}

/// Everybody writes something in the time.
fn all_write(world: &mut World, time: u64) {
    world.reset();
    world.run(time);
    let idle = world.seen.passed.iter().filter(|&&passed| passed == 0).count();
    assert_eq!(idle, 0, "tasks that wrote nothing in {time} ns");
}

#[test]
fn p8_after_a_stall_of_30_s_everybody_goes_on() {
    let mut world = world(100 * MIB);
    world.start(20, DD);
    world.run(5 * SECOND);
    // A request takes 30 s.
    world.device = Device::Steady((128 << 10) / 30);
    world.run(30 * SECOND);
    world.device = Device::Steady(100 * MIB);
    world.run(5 * SECOND);
    all_write(&mut world, SECOND);
    world.run(10 * SECOND);
    world.reset();
    world.run(5 * SECOND);
    let percent = world.seen.passed.iter().sum::<u64>() / (5 * MIB);
    assert!((90..=110).contains(&percent), "{percent} %");
}

#[test]
fn p8_bandwidth_drops_a_hundred_times_and_comes_back() {
    let mut world = world(100 * MIB);
    world.start(10, DD);
    world.run(5 * SECOND);
    world.device = Device::Steady(MIB);
    world.reset();
    world.run(20 * SECOND);
    all_write(&mut world, 5 * SECOND);
    world.device = Device::Steady(100 * MIB);
    world.run(15 * SECOND);
    world.reset();
    world.run(5 * SECOND);
    let percent = world.seen.passed.iter().sum::<u64>() / (5 * MIB);
    assert!((90..=110).contains(&percent), "{percent} %");
}

#[test]
fn p8_a_budget_below_what_is_dirty() {
    let mut world = world(100 * MIB);
    world.start(10, DD);
    world.run(5 * SECOND);
    world.set_limits(50 * MIB, 100 * MIB);
    world.run(15 * SECOND);
    assert!(world.total() < 100 * MIB, "{}", world.total());
    all_write(&mut world, SECOND);
}

#[test]
fn p8_ten_thousand_tasks_in_one_instant() {
    let mut world = world(800 * MIB);
    world.start(1, DD);
    world.run(5 * SECOND);
    world.start(10_000, DD);
    world.run(5 * SECOND);
    all_write(&mut world, 2 * SECOND);
    assert!(world.pauses().0 <= 200, "{:?}", world.pauses());
}

#[test]
fn p8_a_clock_that_jumps_by_hours() {
    let mut world = world(100 * MIB);
    world.start(5, DD);
    for _ in 0..5 {
        world.run(2 * SECOND);
        world.jump(7 * 3_600 * SECOND);
        world.run(2 * SECOND);
        all_write(&mut world, SECOND);
    }
}

#[test]
fn p8_huge_writes_go_in_portions() {
    let mut world = world(100 * MIB);
    world.start(3, Plan { size: 1024 * MIB, ..DD });
    world.run(5 * SECOND);
    all_write(&mut world, SECOND);
    assert!(world.seen.pauses.iter().all(|&(_, pause)| pause <= 200 * MS));
}

#[test]
fn p8_no_input_is_out_of_range() {
    let mut random = Random(11);
    let any = |random: &mut Random| match random.below(6) {
        0 => 0,
        1 => u64::MAX,
        2 => random.below(4_096),
        _ => random.next() >> random.below(64),
    };
    let (mut rate, groups) = (Rate::default(), Groups::default());
    let mut now = 0u64;
    for _ in 0..100_000 {
        now = now.saturating_add(any(&mut random) >> 14).min(1 << 62);
        let (device, group) = (Bytes(any(&mut random)), Bytes(any(&mut random)));
        let dirty = Dirty { device, group, write_back: Bytes(any(&mut random)) };
        let (task, id) = (TaskId(random.below(100)), GroupId(random.below(5) as u32));
        match random.below(5) {
            0 => rate.dirtied(Instant(now), id, Bytes(any(&mut random))),
            1 => rate.cleaned(Instant(now), id, Bytes(any(&mut random)), &dirty, &groups),
            2 if random.below(20) == 0 => {
                let mut any = || Bytes(any(&mut random));
                let device = Thresholds { background: any(), limit: any() };
                let all = Thresholds { background: any(), limit: any() };
                let budget = Budget { all, dirty_elsewhere: any(), ..Budget::alone(device) };
                rate.set_budget(Instant(now), &budget);
            }
            _ => {
                let size = Bytes(any(&mut random).max(1));
                let (done, fresh) = (Bytes(any(&mut random)), Bytes(any(&mut random)));
                let write = Write { task, group: id, done, size, fresh };
                match rate.ask(Instant(now), &write, &dirty, &groups) {
                    Grant::Pass(granted) => assert!(granted.0 > 0 && granted <= size),
                    Grant::Wait(at, _) => {
                        assert!(at.0 > now && at.0 <= now + 200 * MS, "{at:?} at {now}");
                    }
                }
            }
        }
        rate.picture(&dirty);
    }
}
