//! What the policy costs:
//! `policy_loop SCHEDULER TASKS REQUESTS [GROUPS] [--no-accounting | --recommend]` puts
//! requests through an engine, 32 of them (or one per task, if that is more and there are groups)
//! always there, and prints the nanoseconds per request. Run by `scripts/policy_cost.sh`.
//! `policy_loop --cases` prints the loops whose instructions are counted (`cargo xtask
//! instructions`), `policy_loop --schedulers` the schedulers.

use iopace_core::engine::{Config, Control, Engine, Input, Output};
use iopace_core::group::Settings;
use iopace_core::request::{Extent, GroupId, Op, Outcome, RequestId, Submit, Tag, TaskId};
use iopace_core::sched::{self, Algorithm, REGISTRY};
use iopace_core::shadow::Plan;
use iopace_core::time::Instant;
use iopace_core::units::Bytes;
use std::collections::VecDeque;

/// Requests in the engine at any time.
const OUTSTANDING: u64 = 32;

/// Tasks and groups of the loops that are counted of a scheduler; with groups there is a task for
/// each. How many tasks there are costs next to nothing, which the baseline shows; how many groups
/// there are matters to one that divides the disk between them.
fn cases(algorithm: &Algorithm) -> &'static [(u64, u64)] {
    match algorithm.profile.divides {
        _ if std::ptr::eq(algorithm, REGISTRY[0]) => &[(1, 0), (16, 0), (1_000, 0)],
        true => &[(16, 16), (1_000, 1_000), (10_000, 10_000)],
        false => &[(16, 0)],
    }
}

/// Answers a question about the registry; false if it was none.
fn is_told(flags: &[String]) -> bool {
    match flags {
        [flag] if flag == "--schedulers" => {
            REGISTRY.iter().for_each(|algorithm| println!("{}", algorithm.name));
        }
        [flag] if flag == "--cases" => {
            for algorithm in REGISTRY {
                for (tasks, groups) in cases(algorithm) {
                    println!("{} {tasks} {groups}", algorithm.name);
                }
            }
        }
        _ => return false,
    }
    true
}

fn main() {
    let (flags, words): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    if is_told(&flags) {
        return;
    }
    let (accounting, recommend) = (flags != ["--no-accounting"], flags == ["--recommend"]);
    let is_known = flags.is_empty() || !accounting || recommend;
    let (name, tasks, requests, groups) = match words.as_slice() {
        [name, tasks, requests] if is_known => (name, tasks, requests, 0),
        [name, tasks, requests, groups] if is_known => {
            (name, tasks, requests, groups.parse().expect("a number of groups"))
        }
        _ => {
            eprintln!(
                "usage: policy_loop SCHEDULER TASKS REQUESTS [GROUPS] \
                 [--no-accounting | --recommend] | --cases | --schedulers"
            );
            std::process::exit(2);
        }
    };
    let base = sched::find(name).expect("a scheduler of the registry");
    let tasks: u64 = tasks.parse().expect("a number of tasks");
    let requests: u64 = requests.parse().expect("a number of requests");
    let outstanding = if groups > 0 { OUTSTANDING.max(tasks) } else { OUTSTANDING };
    let nr_requests = if groups > 0 { 32_768 } else { 128 };
    let config = Config { base, nr_requests, window_depth: 4, accounting, ..Config::default() };
    let mut engine = Engine::new(config);
    for group in 1..=groups {
        let settings = Settings::default();
        let control = Control::SetGroup(GroupId(group as u32), GroupId::ROOT, settings);
        engine.control(Instant(0), control).expect("a group");
    }
    if recommend {
        let plan = Plan { nr_requests: Some(64), ..Plan::default() };
        engine.control(Instant(0), Control::Recommend(Some(plan))).expect("a plan");
    }
    drain(&mut engine, &mut 0, &mut VecDeque::new());
    let mut flying = VecDeque::new();
    #[expect(clippy::disallowed_methods, reason = "this program measures; it is not the core")]
    let begin = std::time::Instant::now();
    let (mut now, mut finished) = (0, 0);
    let mut source = Source::new(tasks, groups);
    while finished < requests {
        now += 1_000;
        while source.number < requests && source.number - finished < outstanding {
            engine.handle(Instant(now), Input::Submit(source.next()));
        }
        finished += drain(&mut engine, &mut now, &mut flying);
        if let Some(id) = flying.pop_front() {
            engine.handle(Instant(now), Input::Done { id, outcome: Outcome::Ok });
        }
        finished += drain(&mut engine, &mut now, &mut flying);
    }
    println!("{}", begin.elapsed().as_nanos() / u128::from(requests));
}

/// Where the requests come from. It counts on instead of dividing: a division per request would be
/// counted as the engine's.
struct Source {
    tasks: u64,
    groups: u64,
    /// The number of the next request, then that by seven, tasks and groups what is left of it.
    number: u64,
    seventh: u64,
    task: u64,
    group: u64,
    /// How often each task has come.
    round: u64,
}

impl Source {
    fn new(tasks: u64, groups: u64) -> Source {
        Source { tasks, groups, number: 0, seventh: 0, task: 0, group: 0, round: 0 }
    }

    fn next(&mut self) -> Submit {
        // Each task goes on in sequence most of the time.
        let jump = if self.seventh == 6 { 1_000_003 } else { 0 };
        let offset = (self.task << 32) + self.round * 65_536 + jump;
        let submit = Submit {
            tag: Tag(self.number),
            task: TaskId(self.task),
            group: GroupId(if self.groups > 0 { self.group as u32 + 1 } else { 0 }),
            op: if self.number.is_multiple_of(4) { Op::Write } else { Op::Read },
            extent: Extent::new(Bytes(offset), Bytes(65_536)).expect("small"),
            fua: false,
            sync: true,
        };
        self.number += 1;
        self.seventh = if self.seventh == 6 { 0 } else { self.seventh + 1 };
        self.group = if self.group + 1 >= self.groups { 0 } else { self.group + 1 };
        self.task += 1;
        if self.task == self.tasks {
            (self.task, self.round) = (0, self.round + 1);
        }
        submit
    }
}

/// Drains; a scheduler that waits is given its time if nothing is at the disk.
fn drain(engine: &mut Engine, now: &mut u64, flying: &mut VecDeque<RequestId>) -> u64 {
    let mut finished = 0;
    loop {
        match engine.poll(Instant(*now)) {
            Output::Start(start) => flying.push_back(start.id),
            Output::Finish(_) => finished += 1,
            Output::Resume(_) | Output::Cleaned(_) | Output::Event(_) => {}
            Output::Wait(at, _) => {
                if flying.is_empty() && !at.is_never() {
                    *now = at.0;
                    continue;
                }
                return finished;
            }
        }
    }
}
