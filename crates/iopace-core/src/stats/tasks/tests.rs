use super::*;
use crate::request::{Extent, Op, Outcome, Submit, Tag};
use std::collections::{BTreeMap, VecDeque};

const LITTLE: StageTimes = StageTimes {
    dirty: Nanos::ZERO,
    memory: Nanos::ZERO,
    pace_budget: Nanos::ZERO,
    slot: Nanos::ZERO,
    budget: Nanos::ZERO,
    turn: Nanos::ZERO,
    anticipation: Nanos::ZERO,
    window: Nanos::ZERO,
    disk: Nanos(1),
};

fn finish(tasks: &mut Tasks, now: u64, place: TaskPlace) {
    let extent = Extent::new(Bytes(0), Bytes(1)).expect("small");
    let (tag, task, group) = (Tag(0), TaskId(0), GroupId::ROOT);
    let submit = Submit { tag, task, group, op: Op::Read, extent, fua: false, sync: true };
    let finished = Finished::new(&submit, &LITTLE, Outcome::Ok, LITTLE.disk);
    tasks.finished(Instant(now), place, &finished);
}

fn count_of(tasks: &Tasks, task: u64) -> Option<u64> {
    let mut place = *tasks.chains.get(Tasks::chain(TaskId(task)))?;
    while place != NONE {
        let slot = &tasks.slots[place as usize];
        if slot.account.task == Some(TaskId(task)) {
            return Some(slot.account.counts.reads_count);
        }
        place = slot.chain;
    }
    None
}

#[test]
fn the_one_idle_for_longest_is_forgotten() {
    let mut tasks = Tasks::default();
    let max = TASK_ACCOUNTS_MAX as u64;
    for task in 0..max {
        let place = tasks.arrived(Instant(task), TaskId(task), GroupId::ROOT).0;
        finish(&mut tasks, task, place);
    }
    let busy = tasks.arrived(Instant(max), TaskId(0), GroupId::ROOT).0;
    let place = tasks.arrived(Instant(max), TaskId(1 << 40), GroupId(3)).0;
    finish(&mut tasks, max, place);
    assert_eq!((count_of(&tasks, 0), count_of(&tasks, 1)), (Some(1), None));
    assert_eq!((count_of(&tasks, 2), count_of(&tasks, 1 << 40)), (Some(1), Some(1)));
    finish(&mut tasks, max, busy);
    assert_eq!(count_of(&tasks, 0), Some(2));
    assert_eq!(tasks.since(Instant(max)).count(), 2);
}

#[test]
fn tasks_without_a_place_are_counted_together() {
    let mut tasks = Tasks::default();
    let max = TASK_ACCOUNTS_MAX as u64;
    let places: Vec<TaskPlace> =
        (0..max + 5).map(|task| tasks.arrived(Instant(0), TaskId(task), GroupId::ROOT).0).collect();
    for place in places {
        finish(&mut tasks, 1, place);
    }
    let others = tasks.since(Instant(0)).find(|account| account.task.is_none()).expect("some");
    assert_eq!((others.counts.reads_count, others.live_count), (5, 0));
    assert_eq!(tasks.since(Instant(0)).count(), TASK_ACCOUNTS_MAX + 1);
    assert_eq!(tasks.since(Instant(2)).count(), 0);
    // A part of the places after the other: all of them, each once.
    let count = |places| tasks.since_in(places, Instant(0)).count();
    let parts: Vec<usize> = (0..12).map(|part| count(part * 100..(part + 1) * 100)).collect();
    assert_eq!(parts.iter().sum::<usize>(), TASK_ACCOUNTS_MAX + 1);
    assert_eq!((parts[0], parts[10], parts[11]), (100, 25, 0));
    assert_eq!(tasks.places_count(), TASK_ACCOUNTS_MAX + 1);
}

/// Against a map and a list in place of chains and links.
#[test]
fn it_keeps_what_a_map_keeps() {
    let (mut tasks, mut map) = (Tasks::default(), BTreeMap::<u64, u64>::new());
    let (mut idle, mut live) = (VecDeque::<u64>::new(), VecDeque::new());
    let mut random = 1u64;
    for step in 0..100_000u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step | 1);
        let task = (random >> 33) % 3_000 * 4096;
        if !live.iter().any(|(other, _)| *other == task) {
            if !map.contains_key(&task) && map.len() == TASK_ACCOUNTS_MAX {
                map.remove(&idle.pop_front().expect("not all are busy"));
            }
            idle.retain(|other| *other != task);
            map.entry(task).or_default();
            live.push_back((task, tasks.arrived(Instant(step), TaskId(task), GroupId::ROOT).0));
        }
        if live.len() > 50 {
            let (task, place) = live.pop_front().expect("some are");
            finish(&mut tasks, step, place);
            *map.get_mut(&task).expect("it is there") += 1;
            idle.push_back(task);
        }
        assert_eq!(count_of(&tasks, task), map.get(&task).copied(), "step {step}");
    }
    let all = tasks.slots.iter().filter_map(|slot| slot.account.task.map(|task| task.0));
    let mut all: Vec<u64> = all.collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(map.into_keys()));
}
