//! One request beside a stream that never ends: whoever it belongs to and whatever the legal
//! parameters, it is served within a bound. Closed loops do not show this, as their clients stop
//! when they are passed over.

mod support;

use iopace_core::request::{Extent, GroupId, Op, Submit, Tag, TaskId};
use iopace_core::sched::{Algorithm, Params, REGISTRY, Scheduler};
use iopace_core::table::Table;
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_core::verdict::Pop;
use support::{Random, chaos};

/// How many of the stream are queued at any time.
const STREAM_LEN: u64 = 8;

/// The longest that the disk takes for one.
const SERVICE_MAX: Nanos = Nanos::from_millis(9);

/// After this long it starves.
const PATIENCE: Nanos = Nanos::from_secs(3_600);

/// Who streams and who is the one.
#[derive(Clone, Copy, Debug)]
struct Cast {
    /// Tasks of the stream.
    tasks: u64,
    stream: Op,
    one: (TaskId, Op),
}

/// The longest wait that an algorithm may have beside `STREAM_LEN` others.
fn bound(algorithm: &Algorithm, params: &Params) -> Nanos {
    let value = |name| params.iter().find(|(spec, _)| spec.name == name).expect("it has it").1;
    let ms = |name| Nanos::from_millis(value(name));
    match algorithm.name {
        "fifo" => SERVICE_MAX.times(STREAM_LEN + 1),
        // Past its deadline, after the older ones of its direction: each begins a batch, and the
        // batches of the other direction come between.
        "deadline" => {
            let round = SERVICE_MAX.times(value("fifo_batch") * (value("writes_starved") + 2));
            ms("read_expire_ms").max(ms("write_expire_ms")) + round.times(STREAM_LEN + 1)
        }
        // Of its own: 5 s and one second for each older one. Of another: its turn.
        "rr" => {
            let slice = ms("quantum_ms") + ms("wait_ms") + SERVICE_MAX.times(2);
            Nanos::from_secs(5 + STREAM_LEN + 1) + slice.times(5)
        }
        // As rr; a go is counted in device time, with waits.
        "fair" => {
            let go = ms("quantum_ms") + ms("wait_ms") + SERVICE_MAX.times(2);
            ms("expire_ms") + Nanos::from_secs(STREAM_LEN + 1) + go.times(5)
        }
        "as" => (ms("expire_ms") + SERVICE_MAX + ms("antic_ms")).times(STREAM_LEN + 1),
        name => panic!("{name}: state its bound"),
    }
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
        while (table.queued_count() as u64) < STREAM_LEN + u64::from(one.is_some()) {
            let task = TaskId(random.below(cast.tasks));
            push(scheduler, &mut table, now, task, cast.stream, position);
            position += 65_536;
        }
        if served == 10 {
            // Behind the head, where C-LOOK does not come as long as there is something ahead.
            one = Some((push(scheduler, &mut table, now, cast.one.0, cast.one.1, 0), now));
        }
        if served == 20 {
            scheduler.configure(change, &table);
        }
        let id = loop {
            match scheduler.pop(now, &table) {
                Pop::Ready(id) => break id,
                Pop::At(at, reason) => {
                    assert_ne!(at, Instant::NEVER, "nothing is in flight: {reason:?}");
                    now = at.max(now + Nanos(1));
                }
                Pop::Empty => panic!("it holds {} requests", table.queued_count()),
            }
        };
        let waited = one.map(|(one, since)| (id == one, now.since(since)));
        let done = table[id].done(id, now, true);
        table.end(id);
        if let Some((is_one, waited)) = waited
            && (is_one || waited > PATIENCE)
        {
            return waited;
        }
        now = now + Nanos(1_000_000 + random.below(SERVICE_MAX.0 - 1_000_000));
        scheduler.on_done(now, &done);
    }
    unreachable!("it waits at most for PATIENCE")
}

fn casts() -> Vec<Cast> {
    let mut casts = Vec::new();
    for tasks in [1, 3] {
        for stream in [Op::Read, Op::Write] {
            for one in [Op::Read, Op::Write] {
                // One of the stream's own tasks, and another.
                casts.extend([0, 7].map(|task| Cast { tasks, stream, one: (TaskId(task), one) }));
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
    for algorithm in REGISTRY.iter().filter(|algorithm| algorithm.name != "elevator") {
        for seed in 1..9 {
            let mut random = Random(seed);
            let mut draw = || chaos::params(algorithm, &mut random, 4);
            let sets = [(algorithm.defaults(), algorithm.defaults()), (draw(), draw())];
            for (before, after) in sets {
                let bound = bound(algorithm, &before).max(bound(algorithm, &after));
                for cast in casts() {
                    let waited = wait_in(algorithm, &before, &after, cast, seed);
                    let name = algorithm.name;
                    assert!(waited <= bound, "{name} {before:?} {after:?} {cast:?}: {waited}");
                }
            }
        }
    }
}

/// The canary of this file: `elevator` says that it starves, and so it does.
#[test]
fn elevator_starves_as_its_page_says() {
    let elevator = REGISTRY.iter().find(|algorithm| algorithm.name == "elevator").expect("there");
    let params = elevator.defaults();
    for cast in casts() {
        assert!(wait_in(elevator, &params, &params, cast, 1) > PATIENCE, "{cast:?}");
    }
}
