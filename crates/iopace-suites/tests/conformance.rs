//! Every scheduler of the registry conforms; canaries show that the suite can fail.

mod support;

use iopace_core::engine::{Input, Output};
use iopace_core::request::Op;
use iopace_core::sched::{Algorithm, REGISTRY};
use iopace_suites::conformance::{self, SEEDS, history, longest_wait, loosest_bound};
use iopace_suites::outcome::Outcome;
use iopace_suites::random::Random;
use iopace_suites::world::{Setup, World};
use std::collections::BTreeSet;
use support::{UNFAIR, canaries};

fn each(part: fn(&'static Algorithm, &mut dyn FnMut()) -> Outcome) -> Vec<Outcome> {
    let mut all = Vec::new();
    for algorithm in REGISTRY {
        let mut ticks = 0;
        let outcome = part(algorithm, &mut || ticks += 1);
        assert_eq!(outcome.failures, [""; 0], "{}", algorithm.name);
        assert_eq!(outcome.unstated, [""; 0], "{}", algorithm.name);
        assert!(ticks > 0, "{}", algorithm.name);
        all.push(outcome);
    }
    all
}

#[test]
fn every_scheduler_finishes_everything_once_and_keeps_flushes() {
    for outcome in each(conformance::histories) {
        assert_eq!((outcome.runs, outcome.counts["requests"]), (24, 24 * 1_500));
    }
}

#[test]
fn every_scheduler_does_so_with_merging() {
    for outcome in each(conformance::merging) {
        assert!(outcome.counts["merged"] > 500, "{outcome:?}");
    }
    each(conformance::merging_in_chaos);
}

#[test]
fn every_scheduler_does_so_in_chaos() {
    each(conformance::in_chaos);
}

#[test]
fn schedulers_are_exchanged_in_the_middle() {
    let exchanges = each(conformance::exchanged);
    let exchanges: u64 = exchanges.iter().map(|outcome| outcome.counts["exchanges"]).sum();
    assert!(exchanges > 5_000, "{exchanges} exchanges");
}

#[test]
fn waits_are_within_what_each_scheduler_promises() {
    each(conformance::waits);
}

#[test]
fn a_scheduler_that_lets_requests_wait_is_caught() {
    // Seed 4 has a window of one.
    assert!(longest_wait(&UNFAIR, 4) > loosest_bound());
}

#[test]
fn the_same_seed_gives_the_same_run() {
    each(conformance::repeated);
}

#[test]
fn canaries_are_caught_and_nothing_is_lost_all_the_same() {
    for (canary, fault) in canaries(1_000) {
        let world = history(canary, Setup { requests: 3_000, ..Setup::new(4) });
        assert_eq!(world.report.faults, [fault], "the engine sees what it did");
        assert_eq!(world.report.violations, [""; 0], "{fault:?}: and recovers");
        assert_eq!(world.engine.status().algorithm.name, "fifo");
        let outcome = conformance::histories(canary, &mut || ());
        assert!(outcome.runs < 24 && outcome.failures.len() >= 3, "it ends soon: {outcome:?}");
        assert!(outcome.failures[0].contains(fault.describe()), "{:?}", outcome.failures);
    }
}

#[test]
fn a_device_that_lies_about_flushes_is_caught_by_the_oracle() {
    let world = history(REGISTRY[0], Setup { lies: true, ..Setup::new(1) });
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
