//! Weights, what is left over, and limits.

use super::world::{DD, Device, MIB, MS, Plan, SECOND, World};
use crate::group::{Limits, Settings, Weight};
use crate::pace::rate::Rate;
use crate::request::GroupId;
use crate::time::Instant;
use core::num::NonZeroU64;

fn weight(weight: u32) -> Settings {
    Settings { weight: Weight::new(weight).expect("legal"), ..Settings::default() }
}

fn cap(wbps: Option<u64>, wiops: Option<u64>) -> Settings {
    let mut max = Limits::default();
    max.sustained.wbps = wbps.and_then(NonZeroU64::new);
    max.sustained.wiops = wiops.and_then(NonZeroU64::new);
    Settings { max, ..Settings::default() }
}

fn world(groups: &[(u32, u32, Settings)]) -> World {
    let rate = Box::new(Rate::default());
    let mut world = World::new(rate, 512 * MIB, 1024 * MIB, Device::Steady(100 * MIB));
    for (id, parent, settings) in groups {
        set(&mut world, *id, *parent, settings);
    }
    world
}

fn set(world: &mut World, id: u32, parent: u32, settings: &Settings) {
    world.table.set(GroupId(id), GroupId(parent), settings);
    world.pace.set_group(Instant(world.now), GroupId(id), &world.table);
}

fn of(group: u32) -> Plan {
    Plan { group, ..DD }
}

/// Thousandths of the whole that each group got in 10 s.
fn parts(world: &mut World, groups: &[u32]) -> Vec<u64> {
    world.run(20 * SECOND);
    world.reset();
    world.run(10 * SECOND);
    let all: u64 = world.seen.passed.iter().sum();
    assert!(all >= 97 * 10 * MIB, "work is conserved: {all}");
    groups.iter().map(|&group| world.of_group(group) * 1_000 / all).collect()
}

#[test]
fn p4_groups_share_by_weight_whatever_the_number_of_tasks() {
    for (first, second) in [(1, 1), (1, 10), (10, 1), (100, 3)] {
        let mut world = world(&[(1, 0, weight(100)), (2, 0, weight(200))]);
        world.start(first, of(1));
        world.start(second, of(2));
        let parts = parts(&mut world, &[1, 2]);
        println!("weights 1:2, {first} against {second} tasks: {parts:?}");
        assert!((327..=340).contains(&parts[0]), "{first} {second}: {parts:?}");
    }
    let mut world = world(&[
        (1, 0, weight(100)),
        (2, 0, weight(300)),
        (3, 2, weight(100)),
        (4, 2, weight(200)),
    ]);
    for group in [1, 3, 4] {
        world.start(group as usize * 2, of(group));
    }
    let parts = parts(&mut world, &[1, 3, 4]);
    println!("a tree of 1 and 3, 3 of 1 and 2: {parts:?}");
    let wanted = [250, 250, 500];
    assert!(parts.iter().zip(wanted).all(|(part, want)| part.abs_diff(want) <= 10), "{parts:?}");
}

/// The flusher gives groups equal turns: the heavier one has most of what is dirty, and is not
/// slowed for that.
#[test]
fn p4_weights_hold_where_groups_are_written_back_in_turns() {
    for (first, second) in [(1, 10), (10, 1)] {
        let mut world = world(&[(1, 0, weight(100)), (2, 0, weight(200))]);
        world.is_in_turns = true;
        world.start(first, of(1));
        world.start(second, of(2));
        // What one group had grabbed at the beginning has to drain first.
        world.run(20 * SECOND);
        for _ in 0..2 {
            let parts = parts(&mut world, &[1, 2]);
            println!("in turns, {first} against {second} tasks: {parts:?}");
            assert!((327..=340).contains(&parts[0]), "{first} {second}: {parts:?}");
        }
    }
}

#[test]
fn p5_what_one_does_not_take_the_others_get() {
    let mut world = world(&[(1, 0, cap(Some(10 * MIB), None)), (2, 0, weight(100))]);
    world.start(2, of(1));
    world.start(3, of(2));
    let parts = parts(&mut world, &[1, 2]);
    println!("one of two capped at a tenth: {parts:?}");
    assert!((95..=105).contains(&parts[0]), "{parts:?}");
}

#[test]
fn p6_a_limit_holds_in_any_second() {
    for (tasks, size) in [(1, 512), (1, 4096), (1, 64 << 10), (1, MIB), (50, 4096), (50, MIB)] {
        for wbps in [MIB, 8 * MIB, 40 * MIB] {
            let mut world = world(&[(1, 0, cap(Some(wbps), None)), (2, 1, weight(100))]);
            world.start(tasks, Plan { size, ..of(2) });
            world.run(2 * SECOND + 123 * MS);
            for _ in 0..5 {
                world.reset();
                world.run(SECOND);
                let got: u64 = world.seen.passed.iter().sum();
                let slack = (wbps / 100).max(8192);
                assert!(got.abs_diff(wbps) <= slack, "{tasks} of {size}: {got} of {wbps}");
            }
        }
    }
}

#[test]
fn p6_a_limit_of_operations_counts_what_the_disk_will() {
    // A write of 256 KiB and a page is written back in three.
    let large = (256 << 10) + 4096;
    for (tasks, size, each) in [(1, 4096, 1), (7, 4096, 1), (4, 128 << 10, 1), (4, large, 3)] {
        let mut world = world(&[(1, 0, cap(None, Some(100)))]);
        world.start(tasks, Plan { size, ..of(1) });
        world.run(SECOND);
        world.reset();
        world.run(5 * SECOND);
        let operations = world.seen.passed.iter().sum::<u64>() / size * each;
        assert!((495..=505).contains(&operations), "{operations} of {size}");
    }
}

#[test]
fn a_limit_that_changes_holds_from_then_on() {
    let mut world = world(&[(1, 0, cap(Some(MIB), None))]);
    world.start(10, of(1));
    world.run(3 * SECOND);
    for wbps in [20 * MIB, 2 * MIB, 10 * MIB] {
        set(&mut world, 1, 0, &cap(Some(wbps), None));
        world.run(SECOND);
        world.reset();
        world.run(SECOND);
        let got: u64 = world.seen.passed.iter().sum();
        assert!(got.abs_diff(wbps) <= wbps / 100 + 8192, "{got} of {wbps}");
    }
}

#[test]
fn groups_come_and_go() {
    let mut world = world(&[(1, 0, weight(100)), (2, 1, weight(100))]);
    world.start(2, of(1));
    world.run(2 * SECOND);
    world.start(2, of(2));
    world.run(2 * SECOND);
    let dirty = crate::pace::Dirty::default();
    assert!(world.pace.group_picture(GroupId(2), &dirty).is_some());
    world.table.forget(GroupId(2));
    world.pace.remove_group(GroupId(2));
    assert!(world.pace.group_picture(GroupId(2), &dirty).is_none());
    world.pace.remove_group(GroupId::ROOT);
    world.run(2 * SECOND);
}
