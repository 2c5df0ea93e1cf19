//! Policies that are exchanged on devices, and what is put back where that fails.

use super::*;
use crate::control::fake_device;
use iopace_core::sched::{ParamSpec, Scheduler, fifo};
use iopace_core::trace::{Event, Fault};
use std::sync::atomic::{AtomicUsize, Ordering};

const PARAMS: &[ParamSpec] = &[
    ParamSpec::new("limit", "requests", [1, 8, 64], "kept"),
    ParamSpec::new("wait", "ms", [0, 0, 9], "kept where it is legal"),
];

/// One build of a policy.
const BUILD: Algorithm = Algorithm { name: "renewed", params: PARAMS, ..fifo::ALGORITHM };

static FIRST: Algorithm = BUILD;

static SECOND: Algorithm = BUILD;

/// A device on which this is inserted.
fn having(name: &str, algorithm: &'static Algorithm, set: &[(&str, u64)]) -> Arc<dyn Device> {
    let device = fake_device(name);
    let mut params = algorithm.defaults();
    set.iter().for_each(|(name, value)| params.set(name, *value).expect("it is legal"));
    device.control(Control::Insert(algorithm, params)).expect("none was inserted");
    device
}

/// A device on which fifo stands in for a policy that failed.
fn failed(name: &str, params: &[(&'static str, u64)]) -> Arc<dyn Device> {
    let device = having(name, &fifo::ALGORITHM, &[]);
    device.look(&mut |_, events| {
        events.add(Event::SchedulerFailed {
            name: FIRST.name,
            params: params.to_vec(),
            fault: Fault::Trapped,
            recovered_count: 0,
            dump: String::new(),
        });
    });
    device
}

/// The scheduler at work, its parameters, and the one that failed.
fn stand(device: &Arc<dyn Device>) -> (*const Algorithm, Changes, Option<FailedScheduler>) {
    let DeviceStatus { engine, failed, .. } = device.status();
    (std::ptr::from_ref(engine.algorithm), engine.params.changes(), failed)
}

fn changes(limit: u64, wait: u64) -> Changes {
    [("limit".into(), limit), ("wait".into(), wait)].into()
}

#[test]
fn every_other_build_is_exchanged_with_its_parameters_and_the_same_one_where_it_failed() {
    let devices = [
        having("has-it", &SECOND, &[("limit", 3)]),
        having("stale", &FIRST, &[("limit", 4), ("wait", 5)]),
        failed("failed", &[("limit", 7), ("wait", 10), ("gone", 1)]),
        having("fifo", &fifo::ALGORITHM, &[]),
    ];
    exchange_policy(&devices, &SECOND).expect("it starts");
    let second = std::ptr::from_ref(&SECOND);
    assert_eq!(stand(&devices[0]), (second, changes(3, 0), None));
    assert_eq!(devices[0].status().stats.exchanged_count, 1, "it is not touched");
    assert_eq!(stand(&devices[1]), (second, changes(4, 5), None));
    assert_eq!(stand(&devices[2]), (second, changes(7, 0), None), "legal values are kept");
    assert_eq!(stand(&devices[3]), (std::ptr::from_ref(&fifo::ALGORITHM), [].into(), None));
}

/// Builds one, and panics from the second build with the limit 6 on.
fn build_once(params: &Params) -> Box<dyn Scheduler> {
    static BUILT_COUNT: AtomicUsize = AtomicUsize::new(0);
    let is_again = params.value("limit") == 6 && BUILT_COUNT.fetch_add(1, Ordering::Relaxed) > 0;
    assert!(!is_again, "no second one");
    (fifo::ALGORITHM.build)(params)
}

static ONCE: Algorithm = Algorithm { build: &build_once, ..BUILD };

fn build_never(params: &Params) -> Box<dyn Scheduler> {
    assert_ne!(params.value("limit"), 6, "it does not start with this");
    (fifo::ALGORITHM.build)(params)
}

static NEVER: Algorithm = Algorithm { build: &build_never, ..BUILD };

#[test]
fn a_device_where_fifo_stands_in_is_as_it_was_after_a_refusal() {
    let devices = [failed("failed", &[("limit", 7)]), having("last", &FIRST, &[("limit", 6)])];
    let before = devices.each_ref().map(stand);
    let counts = || devices.each_ref().map(|device| device.status().stats.exchanged_count);
    let counts_before = counts();
    let refusal = exchange_policy(&devices, &NEVER).expect_err("it does not start");
    assert!(refusal.to_string().contains("failed to start; device 'last'"), "{refusal}");
    assert_eq!(devices.each_ref().map(stand), before);
    assert_eq!(counts(), counts_before, "no device was touched");

    // It could be built once, and not again: what was exchanged is put back.
    exchange_policy(&devices, &ONCE).expect_err("it does not start again");
    assert_eq!(devices.each_ref().map(stand), before);
    assert_eq!(counts(), [counts_before[0] + 2, counts_before[1]]);
}
