use super::*;
use crate::group::{Settings, Slots};
use crate::request::Lane;
use crate::request::RequestId;
use crate::units::Bytes;

fn ask(number: u64, task: u64, group: u32) -> Ask {
    let (id, group) = (RequestId::forge(number), GroupId(group));
    Ask { id, group, task: TaskId(task), lane: Lane::Read, bytes: Bytes(4096), sync: true }
}

/// Puts in `count` requests of one task and counts how many get a slot.
fn fill(slots: &mut PlainSlots, first: u64, count: u64, task: u64, group: u32) -> Vec<Ask> {
    fill_of(slots, first, count, (task, group), &Groups::default())
}

fn fill_of(
    slots: &mut PlainSlots,
    first: u64,
    count: u64,
    (task, group): (u64, u32),
    groups: &Groups,
) -> Vec<Ask> {
    let asks: Vec<Ask> = (first..first + count).map(|number| ask(number, task, group)).collect();
    asks.iter().for_each(|ask| slots.enqueue(Instant::ZERO, *ask, groups));
    admit(slots, Instant::ZERO, &asks, groups)
}

fn admit(slots: &mut PlainSlots, now: Instant, asks: &[Ask], groups: &Groups) -> Vec<Ask> {
    let mut admitted = Vec::new();
    while let Admit::Ready { id, .. } = slots.admit(now, groups) {
        admitted.push(*asks.iter().find(|ask| ask.id == id).expect("asked for"));
    }
    admitted
}

#[test]
fn p1_whoever_finds_it_full_first_batches_and_then_waits() {
    let mut slots = PlainSlots::new(100);
    let taken = fill(&mut slots, 0, 300, 1, 1);
    assert_eq!(taken.len() as u32, 99 + BATCH_REQUESTS, "the one that found it full included");
    assert_eq!(slots.group(GroupId(1)).waiting_count, 300 - 131);
    let mut slots = PlainSlots::new(20);
    let taken = fill(&mut slots, 0, 300, 1, 1);
    assert_eq!(taken.len(), 30, "one and a half times, whatever the batch");
}

#[test]
fn p1_a_newcomer_takes_half_as_many_again_as_it_is_woken() {
    let mut slots = PlainSlots::new(100);
    let first = fill(&mut slots, 0, 100, 1, 1);
    assert_eq!(first.len(), 100);
    let asks: Vec<Ask> = (200..400).map(|number| ask(number, 2, 2)).collect();
    let mut taken = fill(&mut slots, 200, 200, 2, 2);
    assert_eq!(taken.len() as u32, BATCH_REQUESTS, "it finds its group full first");
    let mut now = Instant(1_000_000_000);
    while taken.len() < 50 {
        let ask = taken.remove(0);
        slots.release(now, ask.group, ask.sync, &Groups::default());
        taken.extend(admit(&mut slots, now, &asks, &Groups::default()));
        now = now + BATCH_TIME + BATCH_TIME;
    }
    assert_eq!((slots.slots().1, taken.len()), (150, 50));
}

#[test]
fn p2_first_come_first_served_and_a_full_group_holds_up_no_other() {
    let mut slots = PlainSlots::new(20);
    let five = Slots { max: Some(5), guaranteed: 0 };
    let capped = Settings { slots: five, ..Settings::default() };
    let mut groups = Groups::default();
    groups.set(GroupId(1), GroupId::ROOT, &capped);
    let first = fill_of(&mut slots, 0, 50, (1, 1), &groups);
    assert_eq!(first.len(), 7, "its cap, and half as much while it batches");
    let other = fill_of(&mut slots, 100, 10, (2, 2), &groups);
    assert_eq!(other.len(), 10);
    assert_eq!(
        first.iter().map(|ask| ask.id).collect::<Vec<_>>(),
        (0..7).map(RequestId::forge).collect::<Vec<_>>()
    );
}

#[test]
fn p3_everything_is_admitted_in_the_end() {
    let (mut slots, groups) = (PlainSlots::new(8), Groups::default());
    let mut asks: Vec<Ask> = Vec::new();
    for number in 0..400 {
        let ask = ask(number, number % 7, (number % 3) as u32);
        slots.enqueue(Instant(number), ask, &groups);
        asks.push(ask);
    }
    let (mut now, mut flying, mut done) = (1_000, VecDeque::new(), 0);
    while done < 400 {
        flying.extend(admit(&mut slots, Instant(now), &asks, &groups));
        let ask = flying.pop_front().expect("somebody always goes on");
        now += 30_000_000;
        slots.release(Instant(now), ask.group, ask.sync, &groups);
        done += 1;
    }
    assert_eq!(slots.slots(), (8, 0));
    assert_eq!(slots.admit(Instant(now), &groups), Admit::Empty);
}
