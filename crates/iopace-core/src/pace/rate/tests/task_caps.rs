//! Caps of single tasks.

use super::world::{DD, Device, MIB, MS, Plan, SECOND, World};
use crate::pace::rate::Rate;
use crate::request::TaskId;
use crate::time::Instant;
use core::num::NonZeroU64;

/// A device of 100 MiB/s, with so much as the limit of dirty memory.
fn world(limit: u64) -> World {
    World::new(Box::new(Rate::default()), limit / 2, limit, Device::Steady(100 * MIB))
}

fn cap(world: &mut World, task: u64, rate: u64) {
    world.pace.set_cap(Instant(world.now), TaskId(task), NonZeroU64::new(rate));
}

/// A capped task, alone below the free-run mark and beside others that are paced, by size of write.
#[test]
fn p11_a_cap_holds_in_any_second() {
    for size in [512, 4096, 64 << 10, MIB] {
        for rate in [64 << 10, MIB, 8 * MIB] {
            for others in [0, 3] {
                let mut world = world(1024 * MIB);
                world.start(1, Plan { size, ..DD });
                world.start(others, DD);
                cap(&mut world, 0, rate);
                world.run(5 * SECOND + 123 * MS);
                for _ in 0..5 {
                    world.reset();
                    world.run(SECOND);
                    let got = world.seen.passed[0];
                    let slack = (rate / 100).max(8192);
                    assert!(got.abs_diff(rate) <= slack, "{others}, {size}: {got} of {rate}");
                }
            }
        }
    }
}

/// The others have the device's bandwidth less the cap, in equal parts.
#[test]
fn p11_the_others_get_what_a_capped_task_leaves() {
    let mut world = world(1024 * MIB);
    world.start(4, DD);
    cap(&mut world, 0, 10 * MIB);
    world.run(20 * SECOND);
    world.reset();
    world.run(10 * SECOND);
    let passed = world.seen.passed.clone();
    assert!(passed[0].abs_diff(100 * MIB) <= MIB, "the cap: {passed:?}");
    assert!(passed.iter().sum::<u64>() >= 970 * MIB, "nothing is left over: {passed:?}");
    for others in &passed[1..] {
        assert!(others.abs_diff(300 * MIB) <= 15 * MIB, "equal parts: {passed:?}");
    }
}

/// The rate of the task without the cap is lower than the cap: it changes nothing.
#[test]
fn a_cap_above_the_rate_changes_nothing() {
    let passed = |rate| {
        let mut world = world(256 * MIB);
        world.start(10, DD);
        cap(&mut world, 3, rate);
        world.run(20 * SECOND);
        world.reset();
        world.run(10 * SECOND);
        (world.seen.passed[3], world.jain())
    };
    let ((with, jain), (without, _)) = (passed(100 * MIB), passed(0));
    assert!(with.abs_diff(without) <= without / 100, "{with} and {without}");
    assert!(jain >= 999_000, "{jain}");
}

/// Pages that are dirty already cost the disk nothing more.
#[test]
fn a_rewrite_of_what_is_dirty_passes() {
    let mut world = world(1024 * MIB);
    // Of eight writes of 512 bytes, seven go into a page that is dirty.
    world.start(1, Plan { size: 512, ..DD });
    cap(&mut world, 0, 64 << 10);
    world.run(2 * SECOND);
    let dirty = world.total();
    assert!(dirty.abs_diff(128 << 10) <= 8192, "a page counts once: {dirty} in two seconds");
}

#[test]
fn a_cap_that_is_lifted_or_raised_holds_no_longer() {
    let mut world = world(1024 * MIB);
    world.start(1, DD);
    cap(&mut world, 0, MIB);
    world.run(2 * SECOND);
    cap(&mut world, 0, 20 * MIB);
    world.run(SECOND);
    world.reset();
    world.run(SECOND);
    assert!(world.seen.passed[0].abs_diff(20 * MIB) <= MIB / 4, "{:?}", world.seen.passed);
    cap(&mut world, 0, 0);
    world.reset();
    world.run(SECOND);
    assert!(world.seen.passed[0] >= 90 * MIB, "{:?}", world.seen.passed);
}
