//! One request beside a stream that never ends, under every scheduler of the registry.

mod support;

use iopace_core::sched::{Algorithm, REGISTRY};
use iopace_core::time::Nanos;
use iopace_suites::starvation::{self, Cast, PATIENCE, casts};
use support::{UNFAIR, canaries};

#[test]
fn no_request_starves_beside_an_endless_stream() {
    for algorithm in REGISTRY.iter().filter(|one| one.profile.stream_wait.is_some()) {
        let outcome = starvation::run(algorithm, &|_, _| ());
        assert_eq!(outcome.failures, [""; 0], "{}", algorithm.name);
        assert_eq!(outcome.runs, 736, "{}", algorithm.name);
    }
}

/// A promise that would be kept is to be made: who makes none lets the one starve in some cast.
#[test]
fn a_scheduler_without_a_bound_starves_as_it_says() {
    let all = REGISTRY.iter().filter(|algorithm| algorithm.profile.stream_wait.is_none());
    for algorithm in all.chain([&&UNFAIR]) {
        let outcome = starvation::run(algorithm, &|_, _| ());
        assert!(outcome.holds(), "{}: {:?}", algorithm.name, outcome.failures);
        assert_eq!(outcome.unstated, [""; 0], "{}", algorithm.name);
        assert!(outcome.notes[0].starts_with("starves by design"), "{:?}", outcome.notes);
    }
}

fn wait(algorithm: &Algorithm, cast: Cast) -> Nanos {
    let params = algorithm.defaults();
    starvation::wait(algorithm, [&params, &params], cast, 1).expect("it keeps the contract")
}

/// The canary of this file: `elevator` starves the one in every cast.
#[test]
fn elevator_starves_as_its_page_says() {
    let elevator = REGISTRY.iter().find(|algorithm| algorithm.name == "elevator").expect("there");
    for cast in casts().into_iter().filter(|cast| cast.behind == 0) {
        assert!(wait(elevator, cast) > PATIENCE, "{cast:?}");
    }
}

#[test]
fn a_bound_that_is_too_short_is_caught() {
    let fifo = REGISTRY[0];
    let profile = iopace_core::sched::Profile {
        stream_wait: Some(&|_, _| Nanos::from_millis(10)),
        ..fifo.profile
    };
    let (params, counters, build) = (fifo.params, fifo.counters, fifo.build);
    let hasty = Algorithm { name: "hasty", summary: "", params, counters, profile, build };
    let outcome = starvation::run(Box::leak(Box::new(hasty)), &|_, _| ());
    assert_eq!(outcome.failures.len(), 3, "it ends soon: {outcome:?}");
    assert!(outcome.failures[0].contains("10.000 ms is promised"), "{:?}", outcome.failures);
}

#[test]
fn a_scheduler_that_breaks_the_contract_is_a_failure_and_no_panic() {
    for (canary, fault) in canaries(15) {
        let outcome = starvation::run(canary, &|_, _| ());
        assert!(!outcome.holds(), "{fault:?}: {outcome:?}");
    }
}
