use super::*;
use crate::group::{Limits, Rates, Settings, Slots, Weight};
use crate::request::Lane;
use crate::request::{RequestId, TaskId};
use crate::time::Nanos;
use crate::units::Bytes;
use core::num::NonZeroU64;
use std::collections::BTreeMap;

const SEC: u64 = 1_000_000_000;

/// Admission with a disk that serves one request at a time, and groups that always ask.
struct World {
    slots: GuaranteedSlots,
    groups: Groups,
    now: Instant,
    number: u64,
    /// Admitted and not released, in order.
    taken: Vec<Ask>,
    asks: BTreeMap<RequestId, Ask>,
    admitted_bytes: BTreeMap<u32, u64>,
    reserved_count: BTreeMap<u32, u64>,
}

fn settings(weight: u32) -> Settings {
    Settings { weight: Weight::new(weight).expect("legal"), ..Settings::default() }
}

fn per_second(rate: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(rate)
}

impl World {
    fn new(nr_requests: u32, groups: &[(u32, u32, Settings)]) -> World {
        let mut world = World {
            slots: GuaranteedSlots::new(nr_requests),
            groups: Groups::default(),
            now: Instant::ZERO,
            number: 0,
            taken: Vec::new(),
            asks: BTreeMap::new(),
            admitted_bytes: BTreeMap::new(),
            reserved_count: BTreeMap::new(),
        };
        for (id, parent, settings) in groups {
            world.set(*id, *parent, settings);
        }
        world
    }

    fn set(&mut self, id: u32, parent: u32, settings: &Settings) {
        self.groups.set(GroupId(id), GroupId(parent), settings);
        self.slots.set_group(self.now, GroupId(id), &self.groups);
    }

    fn ask(&mut self, group: u32, lane: Lane, bytes: u64) {
        self.number += 1;
        let id = RequestId::forge(self.number);
        let task = TaskId(u64::from(group));
        let ask = Ask { id, group: GroupId(group), task, lane, bytes: Bytes(bytes), sync: true };
        self.groups.enter(ask.group);
        if self.slots.pass(ask.group, ask.bytes, &self.groups) {
            self.admitted(ask, false);
        } else {
            self.slots.enqueue(self.now, ask, &self.groups);
            self.asks.insert(id, ask);
        }
    }

    fn admitted(&mut self, ask: Ask, reserved: bool) {
        *self.admitted_bytes.entry(ask.group.0).or_default() += ask.bytes.get();
        *self.reserved_count.entry(ask.group.0).or_default() += u64::from(reserved);
        self.taken.push(ask);
    }

    /// Admits what may go on; the last answer.
    fn admit(&mut self) -> Admit {
        loop {
            match self.slots.admit(self.now, &self.groups) {
                Admit::Ready { id, reserved, .. } => {
                    let ask = self.asks.remove(&id).expect("named once");
                    self.admitted(ask, reserved);
                }
                other => return other,
            }
        }
    }

    fn release(&mut self, position: usize) -> Ask {
        let ask = self.taken.remove(position);
        self.slots.release(self.now, ask.group, ask.sync, &self.groups);
        ask
    }

    fn slots_of(&self, group: u32) -> u32 {
        self.slots.group(GroupId(group)).taken_count
    }

    /// Keeps `depth` requests of each group asked for and serves what is admitted at once.
    fn serve(&mut self, until: Instant, loads: &[(u32, Lane, u64, usize)]) {
        let mut open: BTreeMap<u32, usize> = BTreeMap::new();
        while self.now < until {
            for (group, lane, bytes, depth) in loads {
                while open.get(group).copied().unwrap_or(0) < *depth {
                    self.ask(*group, *lane, *bytes);
                    *open.entry(*group).or_default() += 1;
                }
            }
            let answer = self.admit();
            if self.taken.is_empty() {
                let Admit::At(at, Reason::Budget) = answer else { panic!("{answer:?}") };
                // A timer of a loaded host.
                self.now = Instant(at.0.max(self.now.0) + 60_000);
                continue;
            }
            while !self.taken.is_empty() {
                let ask = self.release(0);
                *open.get_mut(&ask.group.0).expect("it asked") -= 1;
            }
        }
    }
}

#[test]
fn p1_neither_slots_nor_caps_are_exceeded_through_all_ancestors() {
    let capped =
        |max| Settings { slots: Slots { max: Some(max), guaranteed: 0 }, ..Settings::default() };
    let mut world = World::new(20, &[(1, 0, capped(8)), (2, 1, capped(6)), (3, 1, capped(8))]);
    for _ in 0..30 {
        world.ask(2, Lane::Read, 4096);
        world.ask(3, Lane::Write, 4096);
    }
    assert_eq!(world.admit(), Admit::At(Instant::NEVER, Reason::Slot));
    assert_eq!((world.slots_of(1), world.slots.slots()), (8, (20, 8)));
    for _ in 0..50 {
        world.ask(4, Lane::Read, 4096);
    }
    world.admit();
    assert_eq!((world.slots_of(1), world.slots_of(4)), (8, 12));
    world.release(0);
    world.admit();
    assert_eq!((world.slots_of(1), world.slots_of(4)), (8, 12));
}

#[test]
fn p2_busy_slots_are_shared_by_weight_at_every_level() {
    // a:b = 1:3; below b: c:d = 1:2.
    let groups =
        [(1, 0, settings(100)), (2, 0, settings(300)), (3, 2, settings(50)), (4, 2, settings(100))];
    let mut world = World::new(240, &groups);
    for _ in 0..600 {
        for group in [1, 3, 4] {
            world.ask(group, Lane::Read, 4096);
        }
    }
    world.admit();
    for round in 0..2_000 {
        let ask = world.release(round * 7 % 240);
        world.ask(ask.group.0, Lane::Read, 4096);
        world.admit();
    }
    assert_eq!((world.slots_of(1), world.slots_of(2)), (60, 180));
    assert_eq!((world.slots_of(3), world.slots_of(4)), (60, 120));
}

#[test]
fn p3_a_newcomer_gets_the_next_slot_and_soon_its_share() {
    let mut world = World::new(500, &[]);
    for _ in 0..1_000 {
        world.ask(1, Lane::Read, 4096);
    }
    world.admit();
    assert_eq!(world.slots_of(1), 500);
    for _ in 0..500 {
        world.ask(2, Lane::Read, 4096);
    }
    for given_back in 1..=250 {
        world.release(0);
        world.admit();
        assert_eq!(world.slots_of(2), given_back);
    }
    world.release(0);
    world.admit();
    assert_eq!((world.slots_of(1), world.slots_of(2)), (250, 250));
}

#[test]
fn p4_no_slot_is_left_free_while_somebody_may_go_on() {
    let mut world = World::new(64, &[(1, 0, settings(1)), (2, 0, settings(10_000))]);
    for _ in 0..100 {
        world.ask(1, Lane::Write, 4096);
    }
    assert_eq!(world.admit(), Admit::At(Instant::NEVER, Reason::Slot));
    assert_eq!(world.slots_of(1), 64, "alone it gets everything, whatever its weight");
}

#[test]
fn p5_rates_hold_for_every_size_for_a_group_and_for_its_parent() {
    for bytes in [512, 4096, 65_536, 1 << 20] {
        let rate = (bytes * 500).max(1 << 20);
        let sustained = Rates { bps: per_second(rate), ..Rates::default() };
        let limited =
            Settings { max: Limits { sustained, ..Limits::default() }, ..Settings::default() };
        let mut world = World::new(64, &[(1, 0, limited), (2, 1, settings(100))]);
        world.serve(Instant(10 * SEC), &[(1, Lane::Read, bytes, 8), (2, Lane::Write, bytes, 8)]);
        let total = world.admitted_bytes[&1] + world.admitted_bytes[&2];
        assert!(total.abs_diff(10 * rate) <= rate / 100 + bytes, "{bytes}: {total} of {rate}/s");
        let half = world.admitted_bytes[&1];
        assert!(half.abs_diff(total / 2) <= total / 100 + bytes, "{bytes}: {half} of {total}");
    }
}

#[test]
fn p5_operations_can_be_counted_by_size() {
    let sustained = Rates { iops: per_second(100), ..Rates::default() };
    let iops_size = NonZeroU64::new(64 << 10);
    let max = Limits { sustained, iops_size, ..Limits::default() };
    let mut world = World::new(64, &[(1, 0, Settings { max, ..Settings::default() })]);
    world.serve(Instant(10 * SEC), &[(1, Lane::Read, 1 << 20, 4)]);
    // 16 operations each: 6.25 requests a second.
    let count = world.admitted_bytes[&1] >> 20;
    assert!((62..=64).contains(&count), "{count}");
}

#[test]
fn p5_a_burst_lasts_for_its_length_and_no_longer() {
    let sustained = Rates { rbps: per_second(1 << 20), ..Rates::default() };
    let burst = Rates { rbps: per_second(10 << 20), ..Rates::default() };
    let max = Limits { sustained, burst, burst_length: Nanos::from_secs(2), ..Limits::default() };
    let mut world = World::new(64, &[(1, 0, Settings { max, ..Settings::default() })]);
    let load = [(1, Lane::Read, 4096, 4)];
    world.serve(Instant(2 * SEC), &load);
    let in_burst = world.admitted_bytes[&1];
    assert!(in_burst.abs_diff(20 << 20) <= 200 << 10, "{in_burst}");
    world.serve(Instant(12 * SEC), &load);
    let after = world.admitted_bytes[&1] - in_burst;
    assert!(after.abs_diff(10 << 20) <= 200 << 10, "{after}");
}

#[test]
fn p6_a_guarantee_is_served_before_weights_count() {
    let min = Rates { riops: per_second(600), ..Rates::default() };
    let groups = [(1, 0, Settings { min, ..settings(1) }), (2, 0, settings(10_000))];
    let all = Rates { iops: per_second(1_000), ..Rates::default() };
    let max = Limits { sustained: all, ..Limits::default() };
    let mut world = World::new(16, &[(5, 0, Settings { max, ..settings(100) })]);
    for (id, _, settings) in &groups {
        world.set(*id, 5, settings);
    }
    world.serve(Instant(10 * SEC), &[(1, Lane::Read, 4096, 8), (2, Lane::Read, 4096, 8)]);
    let ops = world.admitted_bytes[&1] / 4096;
    assert!((5_950..6_100).contains(&ops), "{ops} of 6 000 guaranteed");
    assert!(world.reserved_count[&1] > 5_900 && world.reserved_count[&2] == 0);
}

#[test]
fn p6_guaranteed_slots_come_before_weights() {
    let slots = Slots { max: None, guaranteed: 20 };
    let mut world =
        World::new(64, &[(1, 0, Settings { slots, ..settings(1) }), (2, 0, settings(10_000))]);
    for _ in 0..200 {
        world.ask(2, Lane::Read, 4096);
    }
    world.admit();
    for _ in 0..200 {
        world.ask(1, Lane::Read, 4096);
    }
    for _ in 0..64 {
        world.release(0);
        world.admit();
    }
    assert_eq!((world.slots_of(1), world.slots_of(2)), (20, 44));
}

#[test]
fn p7_who_is_held_up_holds_up_nobody_else_and_no_flush() {
    let sustained = Rates { wbps: per_second(4096), ..Rates::default() };
    let max = Limits { sustained, ..Limits::default() };
    let mut world = World::new(64, &[(1, 0, Settings { max, ..Settings::default() })]);
    for _ in 0..10 {
        world.ask(1, Lane::Write, 40_960);
    }
    world.ask(1, Lane::Flush, 0);
    world.ask(1, Lane::Read, 4096);
    world.ask(2, Lane::Write, 4096);
    assert_eq!(world.admit(), Admit::At(Instant(10 * SEC), Reason::Budget));
    let lanes: Vec<(u32, Lane)> = world.taken.iter().map(|ask| (ask.group.0, ask.lane)).collect();
    assert_eq!(lanes.len(), 4, "one write, and all that no limit holds up: {lanes:?}");
    assert!(lanes.contains(&(1, Lane::Flush)) && lanes.contains(&(2, Lane::Write)));
}

#[test]
fn p5_the_root_group_limits_the_device() {
    let sustained = Rates { iops: per_second(100), ..Rates::default() };
    let max = Limits { sustained, ..Limits::default() };
    let mut world = World::new(64, &[(0, 0, Settings { max, ..Settings::default() })]);
    world.serve(Instant(10 * SEC), &[(0, Lane::Read, 4096, 4), (3, Lane::Write, 4096, 4)]);
    let count = (world.admitted_bytes[&0] + world.admitted_bytes[&3]) / 4096;
    assert!((999..=1_002).contains(&count), "{count}");
}

#[test]
fn a_limit_that_is_lifted_lets_the_waiting_go_at_once() {
    let sustained = Rates { iops: per_second(1), ..Rates::default() };
    let limited = Settings { max: Limits { sustained, ..Limits::default() }, ..settings(100) };
    let mut world = World::new(64, &[(1, 0, limited)]);
    for _ in 0..5 {
        world.ask(1, Lane::Read, 4096);
    }
    world.admit();
    assert_eq!(world.slots_of(1), 1);
    world.set(1, 0, &settings(100));
    assert_eq!(world.admit(), Admit::Empty);
    assert_eq!(world.slots_of(1), 5);
}

#[test]
fn one_request_at_a_time_gets_half_of_a_shared_limit_beside_sixty_four() {
    let sustained = Rates { iops: per_second(1_000), ..Rates::default() };
    let limited = Settings { max: Limits { sustained, ..Limits::default() }, ..settings(100) };
    let groups = [(1, 0, limited), (2, 1, settings(100)), (3, 1, settings(100))];
    let mut world = World::new(128, &groups);
    world.serve(Instant(10 * SEC), &[(2, Lane::Read, 4096, 1), (3, Lane::Read, 4096, 64)]);
    let share =
        world.admitted_bytes[&2] * 1_000 / (world.admitted_bytes[&2] + world.admitted_bytes[&3]);
    assert!((490..=510).contains(&share), "{share} of 1000");
}

/// The limit is what is scarce, not the slots: the larger weight must not always be first.
#[test]
fn a_shared_limit_is_divided_by_weight() {
    let sustained = Rates { iops: per_second(1_000), ..Rates::default() };
    let limited = Settings { max: Limits { sustained, ..Limits::default() }, ..settings(100) };
    let cases = [(100, 20, 1, 163..=170), (100, 20, 8, 163..=170), (100, 300, 1, 745..=755)];
    // One request of 4 KiB of so large a weight is less than one byte of the least.
    for (large, small, depth, parts) in cases.into_iter().chain([(10_000, 100, 1, 9..=11)]) {
        let groups = [(1, 0, limited), (2, 1, settings(large)), (3, 1, settings(small))];
        let mut world = World::new(128, &groups);
        world.serve(Instant(10 * SEC), &[(2, Lane::Write, 4096, 8), (3, Lane::Write, 4096, depth)]);
        let [large, small] = [2, 3].map(|id| world.admitted_bytes.get(&id).copied().unwrap_or(0));
        let share = small * 1_000 / (large + small);
        assert!(parts.contains(&share), "{share} of 1000");
    }
}

#[test]
fn a_narrowed_group_is_wide_again_at_once() {
    let mut world = World::new(64, &[(1, 0, settings(100))]);
    world.slots.narrow(world.now, GroupId(1), Some(2), &world.groups);
    for _ in 0..64 {
        world.ask(1, Lane::Read, 4096);
    }
    world.admit();
    assert_eq!(world.slots_of(1), 2);
    world.slots.narrow(world.now, GroupId(1), None, &world.groups);
    world.admit();
    assert_eq!(world.slots_of(1), 64);
}

#[test]
fn removed_groups_leave_nothing_behind() {
    let mut world = World::new(64, &[]);
    for id in 1..=10_000 {
        world.set(id, 0, &settings(7));
        world.ask(id, Lane::Read, 4096);
        world.admit();
        world.release(0);
    }
    for id in 1..=10_000 {
        world.slots.remove_group(GroupId(id));
    }
    assert_eq!(world.slots.slots(), (64, 0));
    assert_eq!(world.admit(), Admit::Empty);
}

/// Who is asked late lets a request wait for its limit, not for slots, of which there are plenty.
#[test]
fn a_late_timer_is_the_business_of_the_limit() {
    let mut limited = settings(100);
    limited.max.sustained.iops = per_second(10);
    let mut world = World::new(128, &[(1, 0, limited)]);
    world.ask(1, Lane::Read, 4096);
    world.ask(1, Lane::Read, 4096);
    let waited = |world: &mut World, now| match world.slots.admit(now, &world.groups) {
        Admit::Ready { budget, .. } => Some(budget),
        _ => None,
    };
    assert_eq!(waited(&mut world, Instant::ZERO), Some(Nanos::ZERO));
    assert_eq!(waited(&mut world, Instant(SEC / 10 - 1)), None);
    let late = SEC / 10 + SEC / 50;
    assert_eq!(waited(&mut world, Instant(late)), Some(Nanos(late)));
}
