//! Every scheduler of the registry divides the disk's time between groups as its profile says.

mod support;

use iopace_core::sched::REGISTRY;
use iopace_suites::division;
use support::UNFAIR;

#[test]
fn who_divides_keeps_weights_and_classes_and_who_does_not_knows_none() {
    for algorithm in REGISTRY {
        let outcome = division::run(algorithm, &|_, _| ());
        assert_eq!(outcome.failures, [""; 0], "{}", algorithm.name);
        assert_eq!(outcome.unstated, [""; 0], "{}", algorithm.name);
        assert!(outcome.runs >= 3);
    }
}

#[test]
fn a_scheduler_that_does_not_divide_is_caught() {
    let outcome = division::keeps(&UNFAIR, &|_, _| ());
    assert!(!outcome.holds());
    let text = &outcome.failures[0];
    assert!(text.contains("of 1,000 requests"), "{text}");
}
