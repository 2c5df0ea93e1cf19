//! What the policy costs:
//! `policy_loop SCHEDULER TASKS REQUESTS [GROUPS] [--no-accounting | --recommend]` puts
//! requests through an engine, 32 of them (or one per task, if that is more and there are groups)
//! always there, and prints the nanoseconds per request. Run by `scripts/policy_cost.sh`.
//! `policy_loop --cases` prints the loops whose instructions are counted (`cargo xtask
//! instructions`), `policy_loop --schedulers` the schedulers.

use iopace_core::sched::{self, Algorithm, REGISTRY};
use iopace_suites::cost::CostLoop;

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
        [name, tasks, requests] if is_known => (name, tasks, requests, None),
        [name, tasks, requests, groups] if is_known => (name, tasks, requests, Some(groups)),
        _ => {
            eprintln!(
                "usage: policy_loop SCHEDULER TASKS REQUESTS [GROUPS] \
                 [--no-accounting | --recommend] | --cases | --schedulers"
            );
            std::process::exit(2);
        }
    };
    let number = |word: &String| -> u64 { word.parse().expect("a number") };
    let looped = CostLoop {
        algorithm: sched::find(name).expect("a scheduler of the registry"),
        tasks: number(tasks),
        groups: groups.map_or(0, number),
        requests: number(requests),
        accounting,
        recommend,
    };
    println!("{}", looped.nanos().expect("the scheduler works"));
}
