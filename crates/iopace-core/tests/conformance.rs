//! One suite for every scheduler of the registry: nothing lost, nothing twice, flushes and FUA
//! kept, bounded waits; under disks that fail and lose commands, in chaos, and while schedulers are
//! exchanged. Canaries show that the suite can fail.

mod support;

use iopace_core::engine::{Control, Input, Output};
use iopace_core::request::Op;
use iopace_core::sched::{Algorithm, Load, REGISTRY};
use iopace_core::time::Nanos;
use std::collections::BTreeSet;
use support::{Random, Setup, World, chaos};

const SEEDS: std::ops::Range<u64> = 1..25;

fn run(algorithm: &'static Algorithm, setup: Setup) -> World {
    let mut world = World::new(REGISTRY[0], setup);
    world.insert(algorithm);
    world.run(|_| {});
    world
}

#[test]
fn every_scheduler_finishes_everything_once_and_keeps_flushes() {
    for algorithm in REGISTRY {
        for seed in SEEDS {
            let world = run(algorithm, Setup::new(seed));
            let (name, report) = (algorithm.name, &world.report);
            assert_eq!(report.violations, [""; 0], "{name}, seed {seed}");
            assert_eq!(report.faults, [], "{name}, seed {seed}");
            assert_eq!(world.engine.status().algorithm.name, name);
        }
    }
}

#[test]
fn every_scheduler_does_so_with_merging() {
    for algorithm in REGISTRY {
        let mut merged_count = 0;
        for seed in SEEDS {
            let world = run(algorithm, Setup::merging(seed));
            let (name, report) = (algorithm.name, &world.report);
            assert_eq!(report.violations, [""; 0], "{name}, seed {seed}");
            assert_eq!(report.faults, [], "{name}, seed {seed}");
            merged_count += world.engine.status().merged_count;
        }
        assert!(merged_count > 500, "{}: {merged_count}", algorithm.name);
    }
    for algorithm in chaos::in_chaos() {
        for seed in SEEDS {
            let world = run(algorithm, Setup::merging(seed));
            let (name, report) = (algorithm.name, &world.report);
            assert_eq!(report.violations, [""; 0], "{name} in chaos, seed {seed}");
            assert_eq!(report.faults, [], "{name} in chaos, seed {seed}");
        }
    }
}

#[test]
fn every_scheduler_does_so_in_chaos() {
    for algorithm in chaos::in_chaos() {
        for seed in SEEDS {
            let world = run(algorithm, Setup::new(seed));
            let (name, report) = (algorithm.name, &world.report);
            assert_eq!(report.violations, [""; 0], "{name}, seed {seed}");
            assert_eq!(report.faults, [], "{name}, seed {seed}");
        }
    }
}

#[test]
fn schedulers_are_exchanged_in_the_middle() {
    let mut exchanges = 0;
    for seed in SEEDS {
        let mut random = Random(seed);
        let mut world = World::new(REGISTRY[0], Setup::new(seed));
        world.run(|world| {
            if random.below(3) > 0 {
                return;
            }
            let algorithm = REGISTRY[random.below(REGISTRY.len() as u64) as usize];
            let inserted = world.engine.status().inserted;
            let params = chaos::params(algorithm, &mut random, 8);
            let control = match (inserted, random.below(4)) {
                (false, _) => Control::Insert(algorithm, params),
                (true, 0) => Control::Destroy,
                (true, _) => Control::Configure(Some(algorithm), params.changes()),
            };
            world.engine.control(world.now, control).expect("a legal change");
            world.drain();
            exchanges += 1;
        });
        assert_eq!(world.report.violations, [""; 0], "seed {seed}");
        assert_eq!(world.report.faults, [], "seed {seed}");
    }
    assert!(exchanges > 5_000, "{exchanges} exchanges");
}

/// The longest wait for a start under [`Load::CLOSED_LOOP`], whatever window and slots.
fn longest_wait(algorithm: &'static Algorithm, seed: u64) -> Nanos {
    let (requests, nr_requests, clients) = (4_000, 32, Load::CLOSED_LOOP.clients_count);
    let without = Setup { fail_permille: 0, lose_permille: 0, ..Setup::new(seed) };
    run(algorithm, Setup { requests, nr_requests, clients, ..without }).report.longest_wait
}

/// What a scheduler promises there.
fn bound(algorithm: &Algorithm) -> Option<Nanos> {
    let bound = algorithm.profile.closed_loop_wait?;
    Some(bound(&algorithm.defaults(), &Load::CLOSED_LOOP))
}

/// The longest wait that any of them promises.
fn loosest_bound() -> Nanos {
    REGISTRY.iter().filter_map(|algorithm| bound(algorithm)).max().expect("fifo has one")
}

#[test]
fn waits_are_within_what_each_scheduler_promises() {
    for algorithm in REGISTRY {
        let waits = SEEDS.map(|seed| (longest_wait(algorithm, seed), seed));
        let (longest, seed) = waits.max().expect("seeds");
        let name = algorithm.name;
        match bound(algorithm) {
            Some(bound) => {
                assert!(longest <= bound, "{name}, seed {seed}: {longest}, promised {bound}");
            }
            // A promise that would be kept is to be made.
            None => assert!(longest > loosest_bound(), "{name} keeps {longest}: state its bound"),
        }
    }
}

#[test]
fn a_scheduler_that_lets_requests_wait_is_caught() {
    // Seed 4 has a window of one.
    assert!(longest_wait(&chaos::UNFAIR, 4) > loosest_bound());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for algorithm in REGISTRY {
        let (one, two) = (run(algorithm, Setup::new(5)), run(algorithm, Setup::new(5)));
        assert_eq!(one.now, two.now, "{}", algorithm.name);
        assert_eq!(one.report.longest_wait, two.report.longest_wait);
    }
}

#[test]
fn canaries_are_caught_and_nothing_is_lost_all_the_same() {
    for (canary, fault) in chaos::canaries() {
        let world = run(canary, Setup { requests: 3_000, ..Setup::new(4) });
        assert_eq!(world.report.faults, [fault], "the engine sees what it did");
        assert_eq!(world.report.violations, [""; 0], "{fault:?}: and recovers");
        assert_eq!(world.engine.status().algorithm.name, "fifo");
    }
}

#[test]
fn a_device_that_lies_about_flushes_is_caught_by_the_oracle() {
    let world = run(REGISTRY[0], Setup { lies: true, ..Setup::new(1) });
    let is_caught = world.report.violations.iter().any(|what| what.contains("volatile"));
    assert!(is_caught, "{:?}", world.report.violations);
}

/// C-LOOK against a list that is sorted anew for each request.
#[test]
fn elevator_agrees_with_a_sorted_list() {
    let elevator = REGISTRY.iter().find(|algorithm| algorithm.name == "elevator").expect("there");
    for seed in SEEDS {
        let mut random = Random(seed);
        let setup = Setup { window_depth: 1, nr_requests: 1_024, ..Setup::new(seed) };
        let mut world = World::new(elevator, setup);
        let (mut list, mut position) = (BTreeSet::<(u64, u64)>::new(), 0);
        let mut in_flight = None;
        for step in 0..600u64 {
            let now = world.now;
            if random.below(2) == 0 || list.is_empty() {
                let submit = submit(step, random.below(50) * 4096);
                list.insert((submit.extent.offset().get(), step));
                world.engine.handle(now, Input::Submit(submit));
            } else if let Some(id) = in_flight.take() {
                let outcome = iopace_core::request::Outcome::Ok;
                world.engine.handle(now, Input::Done { id, outcome });
            }
            while let Some(start) = next_start(&mut world) {
                let above = list.range((position, 0)..).next();
                let expected = *above.or_else(|| list.first()).expect("something was started");
                let got = (start.extent.offset().get(), start.tag.0);
                assert_eq!(got, expected, "seed {seed}, step {step}");
                list.remove(&expected);
                position = start.extent.end().get();
                in_flight = Some(start.id);
            }
        }
    }
}

fn submit(tag: u64, offset: u64) -> iopace_core::request::Submit {
    use iopace_core::request::{Extent, GroupId, Submit, Tag, TaskId};
    use iopace_core::units::Bytes;
    Submit {
        tag: Tag(tag),
        task: TaskId(0),
        group: GroupId::ROOT,
        op: Op::Read,
        extent: Extent::new(Bytes(offset), Bytes(4096)).expect("small"),
        fua: false,
        sync: true,
    }
}

fn next_start(world: &mut World) -> Option<iopace_core::engine::Start> {
    loop {
        match world.engine.poll(world.now) {
            Output::Start(start) => return Some(start),
            Output::Wait(..) => return None,
            _ => {}
        }
    }
}
