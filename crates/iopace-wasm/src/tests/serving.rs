//! Good modules serve as schedulers that are compiled in do.

use super::modules::module;
use super::{TRIED, run};
use iopace_core::sched::REGISTRY;
use iopace_suites::world::{Setup, World};

/// Several requests at once.
const AHEAD: (&str, &str) = ("\"run_ahead\": false", "\"run_ahead\": true");

/// A request joins if it is the oldest.
const JOIN: (&str, &str) = (
    ";; MORE",
    r#"(func (export "iopace_join") (param $now i64) (param $bytes i32) (param $slot i32)
        (param $sequence i64) (param $lead_slot i32) (param $lead_sequence i64) (result i32)
      (call $take (local.get $bytes))
      (if (i32.eq (global.get $head) (global.get $tail)) (then (return (i32.const 0))))
      (if (i64.ne (i64.load offset=8 (call $at (global.get $head))) (local.get $sequence))
        (then (return (i32.const 0))))
      (global.set $head (i32.add (global.get $head) (i32.const 1)))
      (i32.const 1))"#,
);

fn built_in(setup: Setup) -> World {
    let mut world = World::new(REGISTRY[0], setup);
    world.insert(REGISTRY[0]);
    world.run(|_| {});
    world
}

#[test]
fn a_module_does_what_the_same_policy_does_compiled_in() {
    for seed in 1..9 {
        let setup = Setup { requests: 600, ..Setup::new(seed) };
        let expected = built_in(setup);
        for changes in [&[][..], &[AHEAD], &[("\"learns\": false", "\"learns\": true")]] {
            let world = run(&module(changes), setup).expect("a good module");
            assert_eq!(world.report.faults, [], "seed {seed}, {changes:?}");
            assert_eq!(world.engine.status().algorithm.name, TRIED.name);
            let got = (world.now, world.report.longest_wait);
            assert_eq!(got, (expected.now, expected.report.longest_wait), "seed {seed}");
        }
    }
}

#[test]
fn requests_join_with_and_without_running_ahead() {
    for (changes, is_joining) in [(&[][..], false), (&[JOIN], true), (&[JOIN, AHEAD], true)] {
        let mut merged_count = 0;
        for seed in 1..9 {
            let setup = Setup { requests: 600, ..Setup::merging(seed) };
            let world = run(&module(changes), setup).expect("a good module");
            assert_eq!(world.report.faults, [], "seed {seed}, {changes:?}");
            merged_count += world.engine.status().merged_count;
        }
        assert_eq!(merged_count > 0, is_joining, "{changes:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let bytes = module(&[AHEAD]);
    let ends = [(); 2].map(|()| {
        let world = run(&bytes, Setup { requests: 600, ..Setup::new(5) }).expect("a good module");
        (world.now, world.report.longest_wait)
    });
    assert_eq!(ends[0], ends[1]);
}
