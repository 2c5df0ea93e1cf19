//! Limits of reads and writes together (`bps`, `iops`): buffered writes meet them at the door to
//! memory, and requests in stage admit.

mod world;

use super::*;
use crate::group::{Rates, Settings};
use crate::pace;
use core::num::NonZeroU64;
use world::{MIB, MS, SEC, World, bps, iops};

fn is_within(value: u64, wanted: u64) -> bool {
    value.abs_diff(wanted) <= wanted / 100
}

#[test]
fn reads_and_buffered_writes_have_a_limit_of_bytes_together() {
    let (rate, free) = (8 * MIB, Settings::default());
    for [above, own] in [[free, bps(rate)], [bps(rate), free], [bps(rate); 2]] {
        for (readers, writers) in [(1, 1), (32, 32), (1, 64), (64, 1)] {
            let mut world = World::new(&above, &own);
            world.start(readers, 16 << 10, false);
            world.start(writers, 16 << 10, true);
            let rates = world.rates(0);
            let told = format!("{readers} readers, {writers} writers: {rates:?}");
            assert!(is_within(rates[0] + rates[1], rate), "{told}");
            // One writer is one of those who wait; requests have their half whoever writes.
            assert!(rates[0] >= rate * 48 / 100, "{told}");
            assert!(rates[1] >= rate / 70, "{told}");
        }
    }
}

#[test]
fn they_have_a_limit_of_operations_together() {
    for (readers, writers) in [(1, 1), (32, 32), (1, 64)] {
        let mut world = World::new(&Settings::default(), &iops(1000));
        world.start(readers, 4096, false);
        world.start(writers, 4096, true);
        let rates = world.rates(1);
        let told = format!("{readers} readers, {writers} writers: {rates:?}");
        assert!(is_within(rates[0] + rates[1], 1000) && rates[0] >= 480, "{told}");
    }
    // Of a write of 1 MiB write-back makes eight.
    let mut world = World::new(&Settings::default(), &iops(1000));
    world.start(4, 4096, false);
    world.start(4, MIB, true);
    let rates = world.rates(1);
    assert!((985..=1015).contains(&(rates[0] + 8 * rates[1])) && rates[1] > 10, "{rates:?}");
}

#[test]
fn each_has_all_that_the_other_leaves() {
    let rate = 8 * MIB;
    for writes in [false, true] {
        let mut world = World::new(&Settings::default(), &bps(rate));
        world.start(8, 16 << 10, writes);
        let rates = world.rates(0);
        assert!(is_within(rates[usize::from(writes)], rate), "alone: {rates:?}");
        world.start(8, 16 << 10, !writes);
        let rates = world.rates(0);
        assert!(is_within(rates[0] + rates[1], rate), "together: {rates:?}");
        world.is_over[usize::from(!writes)] = true;
        let rates = world.rates(0);
        assert!(is_within(rates[usize::from(writes)], rate), "alone again: {rates:?}");
    }
}

/// The disk is no busier than the programs: write-back was paid for, and does not lie.
#[test]
fn write_back_keeps_up_with_the_door() {
    let rate = 8 * MIB;
    let mut world = World::new(&Settings::default(), &bps(rate));
    world.start(8, 16 << 10, false);
    world.start(8, 16 << 10, true);
    world.run_for(10 * SEC);
    let [_, [buffered, _]] = world.seen;
    let left = buffered - world.written;
    // A quarter of a second of the limit, and what is on its way.
    assert!(left <= rate / 4 + MIB, "{left} of {buffered}");
    let dirty = world.engine.dirty(GroupId(2)).group.get();
    assert!(dirty <= rate / 4 + MIB, "{dirty}");
}

/// What was dirty before there was a limit is not paid for.
#[test]
fn what_nobody_has_paid_for_is_charged_when_it_is_written_back() {
    let mut world = World::new(&Settings::default(), &Settings::default());
    world.start(1, MIB, true);
    while world.seen[1][0] < 64 * MIB {
        world.run_for(MS);
    }
    world.is_over[1] = true;
    world.run_for(SEC);
    let rate = 4 * MIB;
    let (before, control) = (world.written, Control::SetGroup(GroupId(2), GroupId(1), bps(rate)));
    world.engine.control(Instant(world.now), control).expect("a group");
    world.run_for(40 * SEC);
    let begin = world.written;
    world.run_for(2 * SEC);
    assert!(begin > before, "it is old by now");
    assert!(world.written - begin <= 2 * rate + MIB, "{}", world.written - begin);
}

/// With a policy that holds no limits at the door they hold at the disk.
#[test]
fn a_policy_without_limits_takes_no_credit_over() {
    let rate = 4 * MIB;
    let mut world = World::new(&Settings::default(), &bps(rate));
    // Paid for each time, written back once.
    world.is_in_place = true;
    world.start(4, 16 << 10, true);
    world.run_for(10 * SEC);
    world.is_over[1] = true;
    let none = pace::find("none").expect("in the registry");
    world.engine.control(Instant(world.now), Control::Pace(none)).expect("a policy");
    let (begin, written) = (world.now, world.written);
    (world.is_over[1], world.is_in_place) = (false, false);
    world.ask(0);
    while world.seen[1][0] < 256 * MIB {
        world.run_for(MS);
    }
    world.is_over[1] = true;
    world.run_for(5 * SEC);
    let (time, written) = (world.now - begin, world.written - written);
    assert!(written <= rate * time / SEC + 2 * MIB, "{written} in {time} ns");
}

/// Pages of which little was written: the disk has more to do than the programs have written, and
/// no more than the limit, as before there was anybody else.
#[test]
fn small_writes_pass_the_limit_nowhere_and_leave_no_debt() {
    for size in [100, 512, 3000] {
        let rate = MIB;
        let mut world = World::new(&Settings::default(), &bps(rate));
        world.start(8, size, true);
        world.start(1, 4096, false);
        world.run_for(10 * SEC);
        let (before, reads) = (world.written, world.seen[0][0]);
        world.run_for(10 * SEC);
        let disk = world.written - before + world.seen[0][0] - reads;
        assert!(disk <= 15 * rate, "{size}: {disk} in 10 s");
        world.is_over[1] = true;
        (world.read_at, world.gap) = (world.now, 0);
        world.run_for(30 * SEC);
        assert!(world.gap <= SEC / 10, "{size}: nothing for {} ns", world.gap);
    }
}

#[test]
fn a_limit_that_comes_upon_a_busy_writer_leaves_no_debt() {
    let mut world = World::new(&Settings::default(), &Settings::default());
    world.start(1, MIB, true);
    while world.seen[1][0] < 200 * MIB {
        world.run_for(MS);
    }
    let rate = 4 * MIB;
    let control = Control::SetGroup(GroupId(2), GroupId(1), bps(rate));
    world.engine.control(Instant(world.now), control).expect("a group");
    let written = world.written;
    world.start(4, 4096, true);
    world.start(1, 4096, false);
    world.run_for(20 * SEC);
    assert!(world.written - written <= 20 * rate * 3 / 2 + 2 * MIB, "{}", world.written - written);
    world.is_over[1] = true;
    (world.read_at, world.gap) = (world.now, 0);
    world.run_for(60 * SEC);
    assert!(world.gap <= SEC / 10, "nothing for {} ns", world.gap);
}

#[test]
fn flushes_take_nothing_of_it() {
    let mut world = World::new(&Settings::default(), &iops(100));
    world.start(4, 4096, true);
    (1_000..1_010).for_each(|tag| world.flush(tag));
    let rates = world.rates(1);
    assert!(is_within(rates[1], 100), "{rates:?}");
}

/// All operations of a large write are taken at once; who reads meanwhile has half.
#[test]
fn a_large_write_keeps_nobody_from_reading() {
    let mut world = World::new(&Settings::default(), &iops(10));
    world.start(1, 4096, false);
    world.run_for(5 * SEC);
    world.start(1, 32 * MIB, true);
    world.is_over[1] = true;
    world.run_for(60 * SEC);
    // Every fifth of a second, or a piece of write-back more than was counted.
    assert!(world.gap <= SEC, "nothing for {} ns", world.gap);
    let small = [1, 2, 3, 5].map(|limit| {
        let mut world = World::new(&Settings::default(), &iops(limit));
        world.start(1, 4096, false);
        world.start(1, 4096, true);
        world.run_for(100 * SEC);
        let sum = world.seen[0][1] + world.seen[1][1];
        (sum <= 100 * limit + 3 && world.seen[1][1] >= 25 * limit, limit, world.seen)
    });
    assert!(small.iter().all(|(holds, ..)| *holds), "{small:?}");
}

#[test]
fn a_burst_is_there_once_for_both() {
    let burst = Rates { iops: NonZeroU64::new(1_000), ..Rates::default() };
    let mut settings = iops(100);
    (settings.max.burst, settings.max.burst_length) = (burst, Nanos::from_secs(10));
    let mut world = World::new(&Settings::default(), &settings);
    world.start(8, 4096, false);
    world.run_for(12 * SEC);
    assert!((9_900..=10_400).contains(&world.seen[0][1]), "{:?}", world.seen);
    world.start(1, 4096, true);
    (world.read_at, world.gap) = (world.now, 0);
    let rates = world.rates(1);
    assert!(rates[0] + rates[1] <= 103 && rates[0] >= 48 && rates[1] >= 10, "{rates:?}");
    assert!(world.gap <= SEC / 4, "nothing for {} ns", world.gap);
}

/// 500 that wait for an operation each, and then no more writes: what they were charged beyond the
/// limit beside somebody who reads is paid in the end, and he has his half until then.
#[test]
fn those_who_read_have_half_until_the_last_has_paid() {
    for (count, size, limit) in [(500, 4096, 10), (64, MIB, 100)] {
        let mut world = World::new(&Settings::default(), &iops(limit));
        world.start(count, size, true);
        world.is_over[1] = true;
        world.start(4, 4096, false);
        world.run_for(150 * SEC);
        assert!(world.gap <= SEC, "{count} of {size}: nothing for {} ns", world.gap);
    }
}

/// The door and the disk count the same operations of a write that passes in portions.
#[test]
fn portions_of_large_writes_are_counted_alike_at_both_places() {
    for (bps, size) in [(100 * MIB, 32 * MIB), (200 * MIB, MIB + MIB / 4), (MIB, MIB)] {
        let mut settings = iops(500);
        settings.max.sustained.bps = NonZeroU64::new(bps);
        let mut world = World::new(&Settings::default(), &settings);
        world.start(2, size, true);
        world.start(2, 4096, false);
        world.run_for(20 * SEC);
        let (seen, written) = (world.seen, world.written);
        world.run_for(20 * SEC);
        let reads = world.seen[0][1] - seen[0][1];
        let operations = (world.seen[1][0] - seen[1][0]) / (128 << 10) + reads;
        assert!(operations <= 20 * 505 + 256, "{bps}, {size}: {operations} in 20 s");
        let disk = (world.written - written) / (128 << 10) + reads;
        assert!(disk <= 20 * 505 + 256, "{bps}, {size}: {disk} in 20 s at the disk");
        world.is_over[1] = true;
        (world.read_at, world.gap) = (world.now, 0);
        world.run_for(60 * SEC);
        assert!(world.gap <= SEC, "{bps}, {size}: nothing for {} ns", world.gap);
    }
}

/// Each group's door is charged what that group's limit counts.
#[test]
fn limits_above_with_another_size_of_operations_are_charged_by_their_own() {
    let sized = |limit: u64, size: u64| {
        let mut settings = iops(limit);
        settings.max.iops_size = NonZeroU64::new(size);
        settings
    };
    for (above, own, wanted) in
        [(sized(100_000, 4096), iops(1000), 1000), (iops(1000), sized(2000, 16 << 10), 250)]
    {
        let mut world = World::new(&above, &own);
        world.start(8, 128 << 10, false);
        world.run_for(20 * SEC);
        world.is_over[0] = true;
        let reads = world.seen[0][1];
        assert!(is_within(reads, 20 * wanted), "{reads}");
        world.start(1, 4096, true);
        world.run_for(SEC);
        assert!(world.seen[1][1] > 100, "{:?}", world.seen);
    }
}
