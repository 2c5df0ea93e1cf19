//! The numbered properties, and the awkward cases.

use super::*;
use crate::request::GroupId;

const MIB: u64 = 1 << 20;

/// A policy on a device that has all of memory and has written for long.
fn with_limit(limit: u64) -> Threshold {
    let mut pace = fresh(limit);
    for _ in 0..40 * 64 {
        written(&mut pace, limit / 64);
    }
    pace
}

/// One on a device that has written nothing.
fn fresh(limit: u64) -> Threshold {
    let device = Thresholds { background: Bytes(limit / 2), limit: Bytes(limit) };
    let mut pace = Threshold::default();
    let budget = Budget::alone(device);
    pace.set_budget(Instant::ZERO, &budget);
    pace
}

fn ask(pace: &mut Threshold, task: u64, now: u64, dirty: u64) -> Grant {
    let (task, group, size) = (TaskId(task), GroupId::ROOT, Bytes(MIB));
    let dirty = Dirty { device: Bytes(dirty), ..Dirty::default() };
    let write = Write { task, group, done: Bytes(0), size, fresh: size };
    pace.ask(Instant(now), &write, &dirty, &Groups::default())
}

fn written(pace: &mut Threshold, size: u64) {
    let dirty = Dirty::default();
    pace.cleaned(Instant::ZERO, GroupId::ROOT, Bytes(size), &dirty, &Groups::default());
}

/// Lets a task dirty until it is looked at.
fn until_looked_at(pace: &mut Threshold, task: u64, now: u64, dirty: u64) {
    for _ in 0..8 {
        if let Grant::Wait(..) = ask(pace, task, now, dirty) {
            return;
        }
    }
    panic!("nobody looks at it");
}

#[test]
fn p1_below_its_threshold_or_the_free_run_mark_nobody_waits() {
    let mut pace = with_limit(1_024 * MIB);
    for step in 0..10_000 {
        assert_eq!(ask(&mut pace, step % 3, step, 890 * MIB), Grant::Pass(Bytes(MIB)));
    }
    let mut pace = fresh(800 * MIB);
    for step in 0..10_000 {
        assert_eq!(ask(&mut pace, step % 3, step, 600 * MIB), Grant::Pass(Bytes(MIB)));
    }
    assert_eq!(ask(&mut pace, 5, 20_000, 0), Grant::Pass(Bytes(MIB)));
}

#[test]
fn p2_above_it_a_task_naps_until_it_is_below() {
    let mut pace = with_limit(1_024 * MIB);
    until_looked_at(&mut pace, 1, 0, 1_030 * MIB);
    let (mut now, mut naps) = (10_000_000, Vec::new());
    for _ in 0..6 {
        let Grant::Wait(at, Reason::Dirty) = ask(&mut pace, 1, now, 1_030 * MIB) else {
            panic!("it passed")
        };
        naps.push((at.0 - now) / 1_000_000);
        now = at.0;
    }
    assert_eq!(naps, [20, 40, 80, 100, 100, 100]);
    assert_eq!(ask(&mut pace, 1, now, 890 * MIB), Grant::Pass(Bytes(LOOK_ABOVE)));
}

#[test]
fn p2_a_task_above_it_goes_on_when_its_duty_is_done() {
    let mut pace = with_limit(1_024 * MIB);
    until_looked_at(&mut pace, 1, 0, 1_030 * MIB);
    // Half of what is written is the kernel thread's: a duty of 6 MiB takes 12.
    written(&mut pace, 11 * MIB);
    let Grant::Wait(at, _) = ask(&mut pace, 1, 10_000_000, 1_030 * MIB) else {
        panic!("its duty is not done")
    };
    written(&mut pace, MIB);
    assert_eq!(ask(&mut pace, 1, at.0 - 1, 1_030 * MIB), Grant::Wait(at, Reason::Dirty));
    // It dirties no more than 8 pages until it is looked at again.
    assert_eq!(ask(&mut pace, 1, at.0, 1_030 * MIB), Grant::Pass(Bytes(LOOK_ABOVE)));
    assert!(matches!(ask(&mut pace, 1, at.0, 1_030 * MIB), Grant::Wait(..)));
}

#[test]
fn p3_the_threshold_is_lower_for_who_dirties_more() {
    let of = |part: u64| task_limit(800, |eighth| eighth * part / 4);
    assert_eq!([of(4), of(1), of(0)], [700, 775, 800]);
    // Tasks 1 and 4 are on processors of their own: each is looked at for itself.
    let mut pace = with_limit(1_024 * MIB);
    for step in 0..40_000 {
        ask(&mut pace, 1, step, 0);
    }
    until_looked_at(&mut pace, 1, 50_000, 950 * MIB);
    for _ in 0..100 {
        assert!(matches!(ask(&mut pace, 4, 50_000, 950 * MIB), Grant::Pass(_)));
    }
}

#[test]
fn p4_the_more_tasks_wait_the_shorter_is_a_turn_and_the_longer_a_duty() {
    let mut pace = with_limit(1_024 * MIB);
    assert_eq!(pace.turn(0), Some(TURN));
    assert_eq!(pace.turn(16), Some(TURN));
    assert_eq!(pace.turn(64), Some(Bytes::from_mib(1)));
    assert_eq!(pace.turn(usize::MAX), Some(TURN_MIN));
    for task in 0..3 {
        until_looked_at(&mut pace, task, 0, 1_030 * MIB);
    }
    written(&mut pace, 23 * MIB);
    assert!(matches!(ask(&mut pace, 0, 10_000_000, 1_030 * MIB), Grant::Wait(..)));
    written(&mut pace, MIB);
    assert!(matches!(ask(&mut pace, 1, 10_000_000, 1_030 * MIB), Grant::Pass(_)));
}

#[test]
fn p5_the_device_s_part_grows_with_what_it_has_written() {
    let mut pace = fresh(1 << 30);
    let mut parts = vec![pace.device_limit() / MIB];
    for _ in 0..3 {
        written(&mut pace, 1 << 30);
        parts.push(pace.device_limit() / MIB);
    }
    assert_eq!(parts, [0, 512, 768, 896]);
    // Writes of another device take of its part.
    let mut budget = pace.budget;
    budget.written_elsewhere += Bytes(1 << 30);
    pace.set_budget(Instant::ZERO, &budget);
    assert_eq!(pace.device_limit() / MIB, 448);
    // Nothing of it is known, so only the free-run mark lets a task on.
    let mut pace = fresh(800 * MIB);
    until_looked_at(&mut pace, 1, 0, 601 * MIB);
    assert!(matches!(ask(&mut pace, 1, 10_000_000, 600 * MIB), Grant::Pass(_)));
}

#[test]
fn a_look_is_a_part_of_memory_within_its_bounds() {
    assert_eq!(look(u64::MAX), 4 * MIB);
    assert_eq!(look(800 * MIB), 4 * MIB);
    // 1 GiB, 4 processors: 8 MiB each would be due, 64 MiB: half a MiB.
    assert_eq!(look((64 * MIB).div_ceil(5)), MIB / 2);
    assert_eq!(look(0), LOOK_MIN);
}

#[test]
fn who_gives_up_is_not_counted_any_more() {
    let mut pace = with_limit(1_024 * MIB);
    until_looked_at(&mut pace, 1, 0, 1_030 * MIB);
    assert_eq!(pace.held_count, 1);
    pace.gave_up(TaskId(1));
    pace.gave_up(TaskId(1));
    pace.gave_up(TaskId(2));
    assert_eq!(pace.held_count, 0);
}
