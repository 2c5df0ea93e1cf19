//! The price of a policy as a module beside one that is compiled in:
//! `module_loop SCHEDULER FILE REQUESTS [GROUPS]` puts requests through two engines, 32 of them (or
//! one per group, if that is more) always there, round about, and prints a row of a table: the
//! nanoseconds per request of both, the least of some rounds, and their difference. FILE is a
//! module, as binary or as text (.wat).

use iopace_core::engine::{Config, Control, Engine, Input, Output};
use iopace_core::group::Settings;
use iopace_core::request::{Extent, GroupId, Op, Outcome, RequestId, Submit, Tag, TaskId};
use iopace_core::sched::{self, Algorithm};
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use std::collections::VecDeque;
use std::path::Path;

/// Rounds of each; the least counts, as other programs only add.
const ROUNDS: u64 = 7;
/// Requests in the engine at any time.
const OUTSTANDING: u64 = 32;
/// Bytes of each.
const PIECE: u64 = 65_536;
/// Most requests at the disk.
const DEPTH: u32 = 4;
/// Tasks where there are no groups.
const TASKS: u64 = 16;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (name, file, requests, groups) = match words.as_slice() {
        [name, file, requests] => (name, file, requests, 0),
        [name, file, requests, groups] => {
            (name, file, requests, groups.parse().expect("a number of groups"))
        }
        _ => {
            eprintln!("usage: module_loop SCHEDULER FILE REQUESTS [GROUPS]");
            std::process::exit(2);
        }
    };
    iopace_wasm::on_log(|policy, line| eprintln!("{policy}: {line}"));
    let requests = requests.parse().expect("a number of requests");
    let built_in = sched::find(name).expect("a scheduler of the registry");
    let loaded = load(Path::new(file));
    let [mut built_in_ns, mut loaded_ns] = [f64::MAX; 2];
    for _ in 0..ROUNDS {
        built_in_ns = built_in_ns.min(round(built_in, requests, groups));
        loaded_ns = loaded_ns.min(round(loaded, requests, groups));
    }
    println!("| built in | loaded | groups | built in, ns | loaded, ns | more, ns | times |");
    println!("|---|---|---|---|---|---|---|");
    println!(
        "| {name} | {} | {groups} | {built_in_ns:.0} | {loaded_ns:.0} | {:.0} | {:.2} |",
        loaded.name,
        loaded_ns - built_in_ns,
        loaded_ns / built_in_ns
    );
}

fn load(file: &Path) -> &'static Algorithm {
    let loaded = if file.extension().is_some_and(|of| of == "wat") {
        let module = wat::parse_file(file).expect("a module as text");
        iopace_wasm::load_bytes(file, &module, iopace_wasm::Caching::Off)
    } else {
        iopace_wasm::load(file)
    };
    loaded.unwrap_or_else(|error| panic!("{error}")).algorithm
}

/// Nanoseconds per request.
fn round(base: &'static Algorithm, requests: u64, groups: u64) -> f64 {
    let (nr_requests, tasks) = if groups > 0 { (32_768, groups) } else { (128, TASKS) };
    let outstanding = OUTSTANDING.max(groups);
    let config = Config { base, nr_requests, window_depth: DEPTH, ..Config::default() };
    let mut engine = Engine::new(config);
    for group in 1..=groups {
        let group = GroupId(u32::try_from(group).expect("few groups"));
        let control = Control::SetGroup(group, GroupId::ROOT, Settings::default());
        engine.control(Instant(0), control).expect("a group");
    }
    loop {
        match engine.poll(Instant(0)) {
            Output::Wait(..) => break,
            Output::Event(event) => eprintln!("{event}: {event:?}"),
            _ => {}
        }
    }
    let begin = std::time::Instant::now();
    turn(&mut engine, requests, outstanding, |number| submit(number, tasks, groups));
    let nanos = begin.elapsed().as_nanos() as f64 / requests as f64;
    assert_eq!(engine.status().algorithm.name, base.name, "it has failed");
    nanos
}

/// Puts so many requests through the engine, so many of them at a time.
fn turn(engine: &mut Engine, requests: u64, outstanding: u64, submit: impl Fn(u64) -> Submit) {
    let mut now = Instant(0);
    let mut at_disk: VecDeque<RequestId> = VecDeque::new();
    let (mut finished_count, mut number) = (0, 0);
    while finished_count < requests {
        now = Instant(now.0 + 1_000);
        while number < requests.min(finished_count + outstanding) {
            engine.handle(now, Input::Submit(submit(number)));
            number += 1;
        }
        let mut is_done = false;
        loop {
            match engine.poll(now) {
                Output::Start(start) => at_disk.push_back(start.id),
                Output::Finish(_) => finished_count += 1,
                Output::Wait(at, _) if at_disk.is_empty() && !at.is_never() => now = at,
                Output::Wait(..) if is_done => break,
                Output::Wait(..) => {
                    is_done = true;
                    if let Some(id) = at_disk.pop_front() {
                        engine.handle(now, Input::Done { id, outcome: Outcome::Ok });
                    }
                }
                Output::Event(event) => eprintln!("{event}: {event:?}"),
                Output::Resume(_) | Output::Cleaned(_) => {}
            }
        }
    }
}

fn submit(number: u64, tasks: u64, groups: u64) -> Submit {
    let (task, round) = (number % tasks, number / tasks);
    let jump = if number % 7 == 6 { 1_000_003 } else { 0 };
    let offset = Bytes((task << 32) + round * PIECE + jump);
    let group = number.checked_rem(groups).map_or(0, |group| group as u32 + 1);
    Submit {
        tag: Tag(number),
        task: TaskId(task),
        group: GroupId(group),
        op: if number.is_multiple_of(4) { Op::Write } else { Op::Read },
        extent: Extent::new(offset, Bytes(PIECE)).expect("small"),
        fua: false,
        sync: true,
    }
}
