//! One request beside a stream that never ends: whoever it belongs to and whatever the legal
//! parameters, it is served within a bound. Closed loops do not show this, as their clients stop
//! when they are passed over.

mod support;

use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use iopace_core::sched::{Algorithm, Load, Params, Pop, REGISTRY, Scheduler};
use iopace_core::table::Table;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use support::{Random, chaos};

/// The one that waits is beside this.
const LOAD: Load = Load::STREAM;

/// After this long it starves.
const PATIENCE: Nanos = Nanos::from_secs(3_600);

/// Who streams and who is the one.
#[derive(Clone, Copy, Debug)]
struct Cast {
    /// Tasks of the stream.
    tasks: u64,
    stream: Op,
    one: (TaskId, Op),
    /// How many of the stream come right behind the one, before anything is served.
    behind: u64,
}

/// How long the one waits. `change`: parameters that come into force after 20 requests.
fn wait(scheduler: &mut dyn Scheduler, cast: Cast, change: &Params, seed: u64) -> Nanos {
    let (mut now, mut table, mut random) = (Instant(0), Table::default(), Random(seed));
    let push = |scheduler: &mut dyn Scheduler, table: &mut Table, now, task, op, offset| {
        let extent = Extent::new(Bytes(offset), Bytes(65_536)).expect("small");
        let (tag, group) = (Tag(0), GroupId::ROOT);
        let submit = Submit { tag, task, group, op, extent, fua: false, sync: true };
        let id = table.queue(now, submit);
        scheduler.push(now, id, table);
        id
    };
    let mut position = 1 << 40;
    let mut one = None;
    for served in 0.. {
        let mut fill = |scheduler: &mut dyn Scheduler, table: &mut Table, count: u64| {
            while (table.queued_count() as u64) < count {
                let task = TaskId(random.below(cast.tasks));
                push(scheduler, table, now, task, cast.stream, position);
                position += 65_536;
            }
        };
        if served == 10 {
            fill(scheduler, &mut table, LOAD.requests - 1 - cast.behind);
            // Below the head, where C-LOOK does not come as long as there is something ahead.
            one = Some((push(scheduler, &mut table, now, cast.one.0, cast.one.1, 0), now));
        }
        fill(scheduler, &mut table, LOAD.requests - u64::from(one.is_none()));
        if served == 20 {
            scheduler.configure(change, &table);
        }
        let id = loop {
            match scheduler.pop(now, &table) {
                Pop::Ready(id) | Pop::Last(id, _) => break id,
                Pop::At(at, reason) => {
                    assert_ne!(at, Instant::NEVER, "nothing is in flight: {reason:?}");
                    now = at.max(now + Nanos(1));
                }
                Pop::Empty => panic!("it holds {} requests", table.queued_count()),
            }
        };
        let waited = one.map(|(one, since)| (id == one, now.since(since)));
        let request = table[id];
        table.end(id);
        if let Some((is_one, waited)) = waited
            && (is_one || waited > PATIENCE)
        {
            return waited;
        }
        now = now + Nanos(1_000_000 + random.below(LOAD.service.0 - 1_000_000));
        scheduler.on_done(now, id, &request, true);
    }
    unreachable!("it waits at most for PATIENCE")
}

fn casts() -> Vec<Cast> {
    let mut casts = Vec::new();
    for tasks in [1, LOAD.clients_count - 1] {
        for stream in [Op::Read, Op::Write] {
            for one in [Op::Read, Op::Write] {
                // One of the stream's own tasks, and another.
                for (task, behind) in [(0, 0), (7, 0), (0, 1), (7, 1)] {
                    casts.push(Cast { tasks, stream, one: (TaskId(task), one), behind });
                }
            }
        }
    }
    casts
}

/// The wait in a scheduler with parameters `before`, then `after`.
fn wait_in(algorithm: &Algorithm, before: &Params, after: &Params, cast: Cast, seed: u64) -> Nanos {
    let mut scheduler = (algorithm.build)(before);
    wait(&mut *scheduler, cast, after, seed)
}

#[test]
fn no_request_starves_beside_an_endless_stream() {
    for algorithm in REGISTRY {
        let Some(bound) = algorithm.profile.stream_wait else { continue };
        let bound = |params: &Params| bound(params, &LOAD);
        for seed in 1..9 {
            let mut random = Random(seed);
            let mut draw = || chaos::params(algorithm, &mut random, 4);
            let sets = [(algorithm.defaults(), algorithm.defaults()), (draw(), draw())];
            for (before, after) in sets {
                let bound = bound(&before).max(bound(&after));
                for cast in casts() {
                    let waited = wait_in(algorithm, &before, &after, cast, seed);
                    let name = algorithm.name;
                    assert!(waited <= bound, "{name} {before:?} {after:?} {cast:?}: {waited}");
                }
            }
        }
    }
}

/// A promise that would be kept is to be made: who makes none lets the one starve in some cast.
#[test]
fn a_scheduler_without_a_bound_starves_as_it_says() {
    let all = REGISTRY.iter().filter(|algorithm| algorithm.profile.stream_wait.is_none());
    for algorithm in all.chain([&&chaos::UNFAIR]) {
        let params = algorithm.defaults();
        let starves = |cast| wait_in(algorithm, &params, &params, cast, 1) > PATIENCE;
        assert!(casts().into_iter().any(starves), "{}: state its bound", algorithm.name);
    }
}

/// The canary of this file: `elevator` starves the one in every cast.
#[test]
fn elevator_starves_as_its_page_says() {
    let elevator = REGISTRY.iter().find(|algorithm| algorithm.name == "elevator").expect("there");
    let params = elevator.defaults();
    for cast in casts().into_iter().filter(|cast| cast.behind == 0) {
        assert!(wait_in(elevator, &params, &params, cast, 1) > PATIENCE, "{cast:?}");
    }
}
