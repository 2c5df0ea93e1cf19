//! Whether schedulers divide the disk's time between groups as they say: one that does keeps
//! weights and classes, and under one that does not they change nothing.

use crate::bare::{PIECE, fenced};
use crate::outcome::{Outcome, Progress};
use crate::random::Random;
use iopace_core::group::{Class, Settings, Weight};
use iopace_core::request::{GroupId, Op, TaskId};
use iopace_core::sched::Algorithm;
use iopace_core::time::Nanos;

const GROUPS: [GroupId; 2] = [GroupId(1), GroupId(2)];

/// Requests that each group has queued at any time.
const QUEUED: usize = 8;

/// Requests served in a run.
const SERVED: usize = 4_000;

/// Each takes the same time of the disk, so that its time is divided as requests are.
const SERVICE: Nanos = Nanos::from_millis(1);

/// Of a thousand requests, by how many a group may be off: two parts in a hundred.
const OFF_MAX: usize = 20;

/// By index, the groups whose requests are served, on a disk without a head that takes one at a
/// time.
fn order(algorithm: &Algorithm, settings: [Settings; 2]) -> Result<Vec<usize>, String> {
    fenced(algorithm, &algorithm.defaults(), |bare| {
        bare.set_rotational(false);
        let mut random = Random(1);
        for (group, settings) in GROUPS.into_iter().zip(&settings) {
            bare.set_group(group, settings);
        }
        let (mut queued, mut order) = ([0; 2], Vec::new());
        while order.len() < SERVED {
            for (which, group) in GROUPS.into_iter().enumerate() {
                while queued[which] < QUEUED {
                    let offset = random.below(1 << 20) * PIECE;
                    bare.push(TaskId(which as u64), group, Op::Read, offset);
                    queued[which] += 1;
                }
            }
            let (id, request) = bare.pop()?;
            let which = request.task().0 as usize;
            queued[which] -= 1;
            order.push(which);
            bare.done(id, &request, SERVICE);
        }
        Ok(order)
    })
}

/// Of a thousand requests, how many are of the second group.
fn permille(order: &[usize]) -> usize {
    order.iter().sum::<usize>() * 1_000 / order.len()
}

fn of_weight(weight: u32) -> Settings {
    Settings { weight: Weight::new(weight).expect("1 to 10,000"), ..Settings::default() }
}

fn of_class(class: Class) -> Settings {
    Settings { class, ..Settings::default() }
}

/// Holds the scheduler to its answer.
pub fn run(algorithm: &'static Algorithm, progress: Progress<'_>) -> Outcome {
    match algorithm.profile.divides {
        true => keeps(algorithm, progress),
        false => ignores(algorithm, progress),
    }
}

/// Whether it keeps weights and classes within two parts in a hundred.
pub fn keeps(algorithm: &'static Algorithm, progress: Progress<'_>) -> Outcome {
    let rt = of_class(Class::RealTime);
    let cases = [
        ("weights 100 and 400", [of_weight(100), of_weight(400)], 800),
        ("weights 400 and 100", [of_weight(400), of_weight(100)], 200),
        ("weights 100 and 100", [of_weight(100), of_weight(100)], 500),
        ("best effort and real-time", [Settings::default(), rt], 1_000),
        ("real-time and best effort", [rt, Settings::default()], 0),
    ];
    let (mut outcome, all) = (Outcome::default(), cases.len() as u64);
    let mut off_most = 0;
    for (what, settings, due) in cases {
        match order(algorithm, settings).map(|order| permille(&order)) {
            Err(error) => outcome.failures.push(format!("{what}: {error}")),
            Ok(got) if got.abs_diff(due) > OFF_MAX => outcome.failures.push(format!(
                "{what}: the second group gets {got} of 1,000 requests, {due} are due"
            )),
            Ok(got) => off_most = off_most.max(got.abs_diff(due)),
        }
        outcome.runs += 1;
        progress(outcome.runs, all);
    }
    if outcome.holds() {
        outcome.notes.push(format!("off by {off_most} of 1,000 requests at most, of {OFF_MAX}"));
    }
    outcome
}

/// Whether weights and classes change nothing.
fn ignores(algorithm: &'static Algorithm, progress: Progress<'_>) -> Outcome {
    let cases = [
        ("weights 400 and 100", of_weight(400)),
        ("real-time and best effort", of_class(Class::RealTime)),
        ("idle and best effort", of_class(Class::Idle)),
    ];
    let (mut outcome, all) = (Outcome::default(), cases.len() as u64);
    let plain = order(algorithm, [Settings::default(); 2]);
    if let Err(error) = &plain {
        outcome.failures.push(format!("two groups of equal settings: {error}"));
    }
    for (what, first) in cases {
        match order(algorithm, [first, Settings::default()]) {
            Err(error) => outcome.failures.push(format!("{what}: {error}")),
            set if set != plain => outcome.unstated.push(format!(
                "{what}: the order is another one, though it says that it does not divide"
            )),
            Ok(_) => {}
        }
        outcome.runs += 1;
        progress(outcome.runs, all);
    }
    if outcome.holds() && outcome.unstated.is_empty() {
        outcome.notes.push("does not divide: settings of groups change nothing".into());
    }
    outcome
}
