//! Whether schedulers divide the disk's time between groups as they say: one that does keeps
//! weights and classes, and under one that does not they change nothing.

mod support;

use iopace_core::group::table::Groups;
use iopace_core::group::{Class, Settings, Weight};
use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use iopace_core::sched::{Algorithm, Pop, REGISTRY};
use iopace_core::table::Table;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use support::{Random, chaos};

const GROUPS: [GroupId; 2] = [GroupId(1), GroupId(2)];

/// Requests that each group has queued at any time.
const QUEUED: usize = 8;

/// Requests served in a run.
const SERVED: usize = 4_000;

/// Each takes the same time of the disk, so that its time is divided as requests are.
const SERVICE: Nanos = Nanos::from_millis(1);

/// Whose requests are served, by index, on a disk without a head that takes one at a time.
fn order(algorithm: &Algorithm, settings: [Settings; 2]) -> Vec<usize> {
    let mut scheduler = (algorithm.build)(&algorithm.defaults());
    scheduler.set_rotational(false);
    let (mut now, mut table, mut random) = (Instant::ZERO, Table::default(), Random(1));
    let mut groups = Groups::default();
    for (group, settings) in GROUPS.into_iter().zip(&settings) {
        groups.set(group, GroupId::ROOT, settings);
        scheduler.set_group(now, group, &groups);
    }
    let (mut queued, mut order) = ([0; 2], Vec::new());
    while order.len() < SERVED {
        for (which, group) in GROUPS.into_iter().enumerate() {
            while queued[which] < QUEUED {
                let offset = Bytes(random.below(1 << 20) * 65_536);
                let extent = Extent::new(offset, Bytes(65_536)).expect("small");
                let (tag, task, op) = (Tag(0), TaskId(which as u64), Op::Read);
                let submit = Submit { tag, task, group, op, extent, fua: false, sync: true };
                let id = table.queue(now, submit);
                scheduler.push(now, id, &table);
                queued[which] += 1;
            }
        }
        match scheduler.pop(now, &table) {
            Pop::Ready(id) | Pop::Last(id, _) => {
                let request = table[id];
                let which = request.task().0 as usize;
                table.end(id);
                queued[which] -= 1;
                order.push(which);
                now = now + SERVICE;
                scheduler.on_done(now, id, &request, true);
            }
            Pop::At(at, _) if !at.is_never() => now = at.max(now + Nanos(1)),
            other => panic!("{}: {other:?} with requests queued", algorithm.name),
        }
    }
    order
}

/// Of a thousand requests, how many are of the second group.
fn permille(order: &[usize]) -> usize {
    order.iter().sum::<usize>() * 1_000 / order.len()
}

fn of_weight(weight: u32) -> Settings {
    Settings { weight: Weight::new(weight).expect("legal"), ..Settings::default() }
}

fn of_class(class: Class) -> Settings {
    Settings { class, ..Settings::default() }
}

/// Whether it keeps weights and classes within two parts in a hundred.
fn keeps(algorithm: &Algorithm) -> bool {
    let rt = of_class(Class::RealTime);
    let expected = [
        ([of_weight(100), of_weight(400)], 800),
        ([of_weight(400), of_weight(100)], 200),
        ([of_weight(100), of_weight(100)], 500),
        ([Settings::default(), rt], 1_000),
        ([rt, Settings::default()], 0),
    ];
    let is_kept = |(settings, due): ([Settings; 2], usize)| {
        permille(&order(algorithm, settings)).abs_diff(due) <= 20
    };
    expected.into_iter().all(is_kept)
}

#[test]
fn who_divides_keeps_weights_and_classes_and_who_does_not_knows_none() {
    for algorithm in REGISTRY {
        let name = algorithm.name;
        if algorithm.profile.divides {
            assert!(keeps(algorithm), "{name} divides, says its profile");
            continue;
        }
        let plain = order(algorithm, [Settings::default(); 2]);
        for first in [of_weight(400), of_class(Class::RealTime), of_class(Class::Idle)] {
            let set = order(algorithm, [first, Settings::default()]);
            assert!(set == plain, "{name} does not divide, says its profile: {first:?}");
        }
    }
}

#[test]
fn a_scheduler_that_does_not_divide_is_caught() {
    assert!(!keeps(&chaos::UNFAIR));
}
