//! Merging, under every scheduler, window and setting: nothing is lost or doubled, commands are
//! what the module says, and each part ends as the device has told for it.

#[path = "support/adjoining.rs"]
mod adjoining;

use adjoining::{BLOCK, MAX, World};
use iopace_core::engine::{Config, Engine, Input, Output};
use iopace_core::limits::MERGE_PARTS_MAX;
use iopace_core::request::{Extent, GroupId, Op, Outcome, Submit, Tag, TaskId};
use iopace_core::sched::{Algorithm, REGISTRY};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;

fn run(base: &'static Algorithm, seed: u64, merge_max: Bytes) -> World {
    let mut world = World::new(base, seed, merge_max);
    for _ in 0..1_500 {
        world.step();
        world.check_window();
    }
    world.end();
    assert_eq!(world.engine.status().merged_count, world.merged_count);
    world
}

#[test]
fn whatever_is_merged_everything_starts_and_ends_once() {
    let (mut merged, mut fronts, mut written_back) = (0, 0, 0);
    for base in REGISTRY {
        for seed in 1..12 {
            let world = run(base, seed, MAX);
            merged += world.merged_count;
            fronts += world.front_count;
            written_back += world.written_back_count;
        }
    }
    assert!(merged > 10_000, "{merged}");
    assert!(fronts > 1_000, "{fronts} before others");
    assert!(written_back > 20, "{written_back} of write-back");
}

#[test]
fn without_it_every_command_is_a_request() {
    for base in REGISTRY {
        assert_eq!(run(base, 3, Bytes::ZERO).merged_count, 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_commands() {
    for base in REGISTRY {
        let (one, two) = (run(base, 7, MAX), run(base, 7, MAX));
        assert_eq!((one.now, one.told), (two.now, two.told), "{}", base.name);
    }
}

fn read(tag: u64, task: u64, offset: u64, len: u64) -> Submit {
    let extent = Extent::new(Bytes(offset * BLOCK), Bytes(len * BLOCK)).expect("small");
    let (tag, task, group) = (Tag(tag), TaskId(task), GroupId::ROOT);
    Submit { tag, task, group, op: Op::Read, extent, fua: false, sync: true }
}

/// The commands, by the tags of their parts, of requests that come while the disk is busy.
fn commands(base: &'static Algorithm, merge_max: Bytes, requests: &[Submit]) -> Vec<Vec<u64>> {
    let config = Config { base, window_depth: 1, merge_max, ..Config::default() };
    let mut engine = Engine::new(config);
    engine.handle(Instant(0), Input::Submit(read(99, 9, 1_000_000, 1)));
    let (mut commands, mut parts, mut at_disk) = (Vec::new(), Vec::new(), Vec::new());
    let (mut now, mut is_first) = (0, true);
    loop {
        let wake = loop {
            match engine.poll(Instant(now)) {
                Output::Start(start) => {
                    parts.push(start.tag.0);
                    at_disk.push(start.id);
                    if !start.more {
                        commands.push(std::mem::take(&mut parts));
                    }
                }
                Output::Wait(at, _) => break at,
                _ => {}
            }
        };
        if std::mem::take(&mut is_first) {
            for request in requests {
                engine.handle(Instant(now), Input::Submit(*request));
            }
            continue;
        }
        if at_disk.is_empty() && wake == Instant::NEVER {
            break;
        }
        now = if at_disk.is_empty() { wake.0 } else { now + 1 };
        for id in at_disk.drain(..) {
            engine.handle(Instant(now), Input::Done { id, outcome: Outcome::Ok });
        }
    }
    commands.split_off(1)
}

fn fifo() -> &'static Algorithm {
    REGISTRY.iter().find(|algorithm| algorithm.name == "fifo").expect("there")
}

#[test]
fn back_and_front_and_between_others() {
    // Two streams in turns, and one that goes down.
    let mut requests: Vec<Submit> =
        (0..4).flat_map(|at| [read(at, 1, at, 1), read(10 + at, 2, 500 + at, 1)]).collect();
    requests.extend((0..4).map(|at| read(20 + at, 3, 300 - at, 1)));
    let expected = [vec![0, 1, 2, 3], vec![10, 11, 12, 13], vec![23, 22, 21, 20]];
    assert_eq!(commands(fifo(), MAX, &requests), expected);
    for base in REGISTRY {
        let mut commands = commands(base, MAX, &requests);
        commands.sort();
        assert_eq!(commands, expected, "{}", base.name);
    }
}

#[test]
fn neither_longer_than_the_most_nor_of_two_tasks_or_kinds() {
    let pieces: Vec<Submit> = (0..5).map(|at| read(at, 1, at * 6, 6)).collect();
    let all = commands(fifo(), MAX, &pieces);
    assert_eq!(all, [vec![0, 1], vec![2, 3], vec![4]], "16 blocks at most");
    let large = [read(0, 1, 0, 40), read(1, 1, 40, 1)];
    assert_eq!(commands(fifo(), MAX, &large).len(), 2);
    let many: Vec<Submit> = (0..200).map(|at| read(at, 1, at, 1)).collect();
    assert_eq!(commands(fifo(), Bytes(1 << 24), &many)[0].len(), MERGE_PARTS_MAX);
    let first = read(0, 1, 0, 1);
    let second = read(1, 1, 1, 1);
    for other in [
        Submit { task: TaskId(2), ..second },
        Submit { op: Op::Write, ..second },
        Submit { op: Op::Trim, ..second },
        Submit { sync: false, ..second },
        Submit { extent: read(0, 0, 2, 1).extent, ..second },
        Submit { extent: first.extent, ..second },
    ] {
        assert_eq!(commands(fifo(), MAX, &[first, other]).len(), 2, "{other:?}");
    }
    let write = |request| Submit { op: Op::Write, ..request };
    assert_eq!(commands(fifo(), MAX, &[write(first), write(second)]).len(), 1);
    let durable = Submit { fua: true, ..write(second) };
    assert_eq!(commands(fifo(), MAX, &[write(first), durable]).len(), 2);
}

#[test]
fn a_task_whose_requests_are_merged_pays_for_all_of_them() {
    // Two tasks of equal weight: one whose requests adjoin each other, and one that asks for large
    // ones. Served are equal bytes, as the disk takes a time for each byte.
    let fair = REGISTRY.iter().find(|algorithm| algorithm.name == "fair").expect("there");
    let mut engine = Engine::new(Config {
        base: fair,
        window_depth: 1,
        merge_max: Bytes(512 << 10),
        rotational: Some(false),
        ..Config::default()
    });
    let (mut tag, mut ends, mut served) = (0, [0u64, 1 << 40], [0u64; 2]);
    let mut ask = |engine: &mut Engine, now: u64, task: usize| {
        let len = [BLOCK, 256 << 10][task];
        let extent = Extent::new(Bytes(ends[task]), Bytes(len)).expect("small");
        // The second one leaves a gap.
        ends[task] += len + [0, BLOCK][task];
        let submit = Submit { extent, ..read(tag, task as u64, 0, 1) };
        tag += 1;
        engine.handle(Instant(now), Input::Submit(submit));
    };
    (0..128).for_each(|_| ask(&mut engine, 0, 0));
    (0..4).for_each(|_| ask(&mut engine, 0, 1));
    let (mut now, mut parts) = (0, Vec::new());
    while now < 20_000_000_000 {
        match engine.poll(Instant(now)) {
            Output::Start(start) => parts.push(start),
            Output::Finish(finish) => ask(&mut engine, now, finish.task.0 as usize),
            Output::Wait(..) => {
                let bytes: u64 = parts.iter().map(|part| part.extent.len().get()).sum();
                now += 50_000 + bytes * 10;
                for part in parts.drain(..) {
                    served[part.task.0 as usize] += part.extent.len().get();
                    let outcome = Outcome::Ok;
                    engine.handle(Instant(now), Input::Done { id: part.id, outcome });
                }
            }
            _ => {}
        }
    }
    let share = served[0] * 1000 / (served[0] + served[1]);
    assert!((470..=530).contains(&share), "{share} of 1000: {served:?}");
    assert!(engine.status().merged_count > 10_000);
}
