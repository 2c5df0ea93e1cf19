//! Caps of single tasks, through the engine.

use super::*;
use crate::limits::{TASK_CAP_MIN, TASK_CAPS_MAX};
use crate::pace;

fn cap(engine: &mut Engine, now: u64, task: u64, rate: u64) -> Result<(), ControlError> {
    engine.control(Instant(now), Control::TaskCap(TaskId(task), NonZeroU64::new(rate)))?;
    Ok(())
}

fn caps(engine: &Engine) -> Vec<(u64, u64)> {
    engine.task_caps().map(|(task, rate)| (task.0, rate.get())).collect()
}

fn paced() -> Engine {
    let memory = Thresholds { background: Bytes(64 << 20), limit: Bytes(128 << 20) };
    Engine::new(Config { memory, pace: &pace::rate::POLICY, ..Config::default() })
}

#[test]
fn a_write_that_waits_for_a_cap_goes_on_when_it_is_lifted() {
    let mut engine = paced();
    cap(&mut engine, 0, 1, TASK_CAP_MIN).expect("set");
    assert!(outputs(&mut engine, 0).is_empty());
    assert_eq!(write(&mut engine, 1, 1, 0, 8192).len(), 1, "a page of it");
    assert_eq!((engine.dirty(GroupId::ROOT).device, engine.live_count()), (Bytes(4096), 1));
    assert_eq!(engine.status().reason, Reason::Budget);
    assert_eq!(write(&mut engine, 2, 2, 1 << 20, 1 << 20).len(), 1, "no other task waits for it");
    cap(&mut engine, 3, 1, 0).expect("lifted");
    assert_eq!(outputs(&mut engine, 3).len(), 1);
    assert_eq!((engine.live_count(), caps(&engine)), (0, Vec::new()));
}

#[test]
fn caps_stay_with_the_device_when_its_policy_is_exchanged() {
    let mut engine = paced();
    cap(&mut engine, 0, 1, TASK_CAP_MIN).expect("set");
    engine.control(Instant(0), Control::Pace(&pace::none::POLICY)).expect("exchanged");
    assert!(outputs(&mut engine, 0).is_empty());
    write(&mut engine, 1, 1, 0, 64 << 10);
    assert_eq!((engine.live_count(), caps(&engine)), (0, vec![(1, TASK_CAP_MIN)]), "not held");
    let refused = cap(&mut engine, 2, 2, TASK_CAP_MIN).map_err(|error| error.to_string());
    let error = refused.expect_err("'none' holds no caps");
    assert_eq!(error, "pace policy 'none' holds no caps of tasks: 'rate' does");
    engine.control(Instant(2), Control::Pace(&pace::rate::POLICY)).expect("exchanged");
    outputs(&mut engine, 2);
    write(&mut engine, 3, 1, 1 << 20, 8192);
    assert_eq!(engine.live_count(), 1, "it holds again");
}

#[test]
fn a_cap_too_low_or_one_too_many_is_refused_and_changes_nothing() {
    let mut engine = paced();
    let error = cap(&mut engine, 0, 1, TASK_CAP_MIN - 1).expect_err("too low");
    assert!(matches!(error, ControlError::Cap(pace::CapError::TooLow(_))), "{error:?}");
    assert!(error.to_string().starts_with("a cap of 4095 bytes per second is too low"), "{error}");
    for task in 0..TASK_CAPS_MAX as u64 {
        cap(&mut engine, 0, task, 1 << 20).expect("room");
        outputs(&mut engine, 0);
    }
    assert_eq!(cap(&mut engine, 0, 1 << 40, 1 << 20), Err(ControlError::TooManyCaps));
    cap(&mut engine, 0, 7, 2 << 20).expect("one that has a cap may have another");
    cap(&mut engine, 0, 8, 0).expect("lifted");
    cap(&mut engine, 0, 1 << 40, 1 << 20).expect("there is room again");
    assert_eq!(caps(&engine).len(), TASK_CAPS_MAX);
}
