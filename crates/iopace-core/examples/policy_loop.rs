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

/// Requests in the engine at any time.
const OUTSTANDING: u64 = 32;

/// Bytes of each.
const PIECE: u64 = 65_536;

/// Most requests at the disk: a power of two.
const DEPTH: usize = 4;

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
    let config =
        Config { base, nr_requests, window_depth: DEPTH as u32, accounting, ..Config::default() };
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
    let mut source = Source::new(tasks, groups);
    let now = Instant(0);
    while !matches!(engine.poll(now), Output::Wait(..)) {}
    #[expect(clippy::disallowed_methods, reason = "this program measures; it is not the core")]
    let begin = std::time::Instant::now();
    turn(&mut engine, now, &mut source, (requests, outstanding));
    println!("{}", begin.elapsed().as_nanos() / u128::from(requests));
}

/// Puts so many requests through the engine, so many of them at a time.
#[inline(never)]
fn turn(
    engine: &mut Engine,
    mut now: Instant,
    source: &mut Source,
    (requests, outstanding): (u64, u64),
) {
    let mut at_disk = AtDisk::default();
    let mut finished_count = 0;
    while finished_count < requests {
        now = Instant(now.0 + 1_000);
        let submitted_count = requests.min(finished_count + outstanding);
        while source.number < submitted_count {
            engine.handle(now, Input::Submit(source.next()));
        }
        // A drain after the requests that came, and one after the one that is done.
        let mut is_done = false;
        loop {
            match engine.poll(now) {
                Output::Start(start) => at_disk.push(start.id),
                Output::Finish(_) => finished_count += 1,
                // A scheduler that waits is given its time if nothing is at the disk.
                Output::Wait(at, _) if at_disk.is_empty() && !at.is_never() => now = at,
                Output::Wait(..) if is_done => break,
                Output::Wait(..) => {
                    is_done = true;
                    if let Some(id) = at_disk.pop() {
                        engine.handle(now, Input::Done { id, outcome: Outcome::Ok });
                    }
                }
                Output::Resume(_) | Output::Cleaned(_) | Output::Event(_) => {}
            }
        }
    }
}

/// Where the requests come from. They are made beforehand: all that is counted of one is its copy.
struct Source {
    /// After so many requests everything but the number and the offset comes again.
    period: Vec<Submit>,
    /// The next one of the period.
    at: usize,
    /// How far each task goes on in a period.
    step: u64,
    /// By how much the offset in this period is larger.
    passed: u64,
    /// The number of the next request.
    number: u64,
}

impl Source {
    fn new(tasks: u64, groups: u64) -> Source {
        let is_period = |rounds: &u64| (rounds * tasks).is_multiple_of(4 * 7);
        let rounds = (1..).find(is_period).expect("28 at most");
        let submit = |number: u64| {
            let (task, round) = (number % tasks, number / tasks);
            // Each task goes on in sequence most of the time.
            let jump = if number % 7 == 6 { 1_000_003 } else { 0 };
            let offset = Bytes((task << 32) + round * PIECE + jump);
            Submit {
                tag: Tag(0),
                task: TaskId(task),
                group: GroupId(number.checked_rem(groups).map_or(0, |group| group as u32 + 1)),
                op: if number.is_multiple_of(4) { Op::Write } else { Op::Read },
                extent: Extent::new(offset, Bytes(PIECE)).expect("small"),
                fua: false,
                sync: true,
            }
        };
        assert!(groups == 0 || groups == tasks, "a task for each group");
        let period = (0..rounds * tasks).map(submit).collect();
        Source { period, at: 0, step: rounds * PIECE, passed: 0, number: 0 }
    }

    #[inline(always)]
    fn next(&mut self) -> Submit {
        let submit = self.period[self.at];
        let offset = submit.extent.offset().get() + self.passed;
        let extent = Extent::new(Bytes(offset), Bytes(PIECE)).expect("small");
        let submit = Submit { tag: Tag(self.number), extent, ..submit };
        self.number += 1;
        self.at += 1;
        if self.at == self.period.len() {
            (self.at, self.passed) = (0, self.passed + self.step);
        }
        submit
    }
}

/// What is at the disk, which does one after the other.
struct AtDisk {
    ids: [RequestId; DEPTH],
    first: usize,
    end: usize,
}

impl Default for AtDisk {
    fn default() -> AtDisk {
        AtDisk { ids: [RequestId::forge(0); DEPTH], first: 0, end: 0 }
    }
}

impl AtDisk {
    fn is_empty(&self) -> bool {
        self.first == self.end
    }

    #[inline(always)]
    fn push(&mut self, id: RequestId) {
        self.ids[self.end % self.ids.len()] = id;
        self.end += 1;
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<RequestId> {
        if self.is_empty() {
            return None;
        }
        self.first += 1;
        Some(self.ids[(self.first - 1) % self.ids.len()])
    }
}
