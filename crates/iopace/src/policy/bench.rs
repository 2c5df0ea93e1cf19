//! `iopace policy bench`: what a request costs in the core under a policy, beside others.

use super::beside::yardsticks;
use super::instructions::Counter;
use super::module::{self, PolicySubject};
use crate::cli::PolicyBenchArgs;
use crate::output::{Failure, Format, finish, note, print, print_json, right, table};
use crate::study_output::ProgressLine;
use comfy_table::Cell;
use iopace_core::sched::{self, Algorithm};
use iopace_suites::cost::CostLoop;
use serde::Serialize;
use std::path::Path;

/// A loop: its tasks, and groups, of which there are none or one for each task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Case {
    tasks: u64,
    groups: u64,
}

const CASES: [Case; 2] = [Case { tasks: 16, groups: 0 }, Case { tasks: 16, groups: 16 }];

/// The shortest of so many rounds counts, in each of which every scheduler has its turn: the others
/// were disturbed.
const ROUNDS: u64 = 5;

/// Requests of a round; a build for debugging takes ten times as long.
const REQUESTS: u64 = if cfg!(debug_assertions) { 20_000 } else { 200_000 };

/// The cost of one scheduler in one loop, for programs.
#[derive(Serialize)]
struct CostReport {
    scheduler: &'static str,
    #[serde(flatten)]
    case: Case,
    nanoseconds: u64,
    /// The difference to fifo, which all else is compared with.
    over_fifo_nanoseconds: i64,
    instructions: Option<u64>,
}

/// All of it.
#[derive(Serialize)]
struct BenchReport {
    policy: &'static str,
    version: &'static str,
    /// The program that counted instructions.
    counter: Option<&'static str>,
    costs: Vec<CostReport>,
}

/// Carries out the command.
///
/// # Errors
/// It does not build, is no policy, or fails in the loop.
pub(super) fn run(args: &PolicyBenchArgs) -> Result<(), Failure> {
    if let [scheduler, numbers @ ..] = args.counted.as_slice() {
        return counted(&args.path, scheduler, numbers);
    }
    let subject = module::load(&args.path)?;
    if cfg!(debug_assertions) {
        note(format_args!("warning: this iopace is built for debugging: release builds count"));
    }
    let counter = Counter::find();
    if let Err(why) = &counter {
        note(format_args!("{why}"));
    }
    let counter = counter.ok();
    let costs = measure(&subject, counter)?;
    let (policy, version) = (subject.loaded.algorithm.name, subject.loaded.version);
    let report = BenchReport { policy, version, counter: counter.map(Counter::name), costs };
    match args.format.format {
        Format::Json => print_json(&report),
        Format::Table => print(&text(&report)),
    }
}

/// Carries out one loop for a program that counts its instructions.
fn counted(module: &Path, scheduler: &str, numbers: &[String]) -> Result<(), Failure> {
    let algorithm = match sched::find(scheduler) {
        Some(algorithm) => algorithm,
        None => iopace_wasm::load(module).map_err(Failure::new)?.algorithm,
    };
    let numbers: Option<Vec<u64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    let Some(&[tasks, groups, requests]) = numbers.as_deref() else {
        return Err(Failure::usage("--counted takes a scheduler and three numbers"));
    };
    if tasks == 0 || requests == 0 || ![0, tasks].contains(&groups) {
        return Err(Failure::usage("--counted: tasks, none or as many groups, and requests"));
    }
    nanos(algorithm, Case { tasks, groups }, requests).map(|_| ())
}

fn cost_loop(algorithm: &'static Algorithm, case: Case, requests: u64) -> CostLoop {
    CostLoop { groups: case.groups, ..CostLoop::new(algorithm, case.tasks, requests) }
}

fn nanos(algorithm: &'static Algorithm, case: Case, requests: u64) -> Result<u64, Failure> {
    cost_loop(algorithm, case, requests).nanos().map_err(|fault| {
        let name = algorithm.name;
        Failure::new(format!(
            "{name} {} within {requests} requests: 'iopace policy test' says more",
            fault.describe()
        ))
    })
}

/// Measures all schedulers in all loops.
fn measure(subject: &PolicySubject, counter: Option<Counter>) -> Result<Vec<CostReport>, Failure> {
    let all: Vec<_> = yardsticks().into_iter().chain([subject.loaded.algorithm]).collect();
    let line = ProgressLine::begin();
    let mut costs = Vec::new();
    for case in CASES {
        let mut least = vec![u64::MAX; all.len()];
        for round in 1..=ROUNDS {
            for (algorithm, least) in all.iter().zip(&mut least) {
                let name = algorithm.name;
                line.say(|| format!("{}: {name}, round {round} of {ROUNDS}", words(case)));
                *least = nanos(algorithm, case, REQUESTS)?.min(*least);
            }
        }
        // The first yardstick is fifo.
        let fifo = least[0];
        for (algorithm, nanoseconds) in all.iter().zip(least) {
            let scheduler = algorithm.name;
            line.say(|| format!("{}: {scheduler}, counting instructions", words(case)));
            let count = |counter: Counter| {
                let looped = cost_loop(algorithm, case, REQUESTS);
                counter.per_request(&subject.loaded.path, &looped).map_err(Failure::new)
            };
            let instructions = counter.map(count).transpose()?;
            costs.push(CostReport {
                scheduler,
                case,
                nanoseconds,
                over_fifo_nanoseconds: nanoseconds.cast_signed() - fifo.cast_signed(),
                instructions,
            });
        }
    }
    line.end();
    Ok(costs)
}

fn words(case: Case) -> String {
    match case.groups {
        0 => format!("{} tasks", case.tasks),
        groups => format!("{groups} groups"),
    }
}

fn text(report: &BenchReport) -> String {
    let mut rows =
        table(["load", "scheduler", "ns per request", "beside fifo", "instructions per request"]);
    for cost in &report.costs {
        rows.add_row([
            Cell::new(words(cost.case)),
            Cell::new(cost.scheduler),
            right(cost.nanoseconds),
            right(match cost.over_fifo_nanoseconds {
                0 => "0".to_owned(),
                over => format!("{over:+}"),
            }),
            right(cost.instructions.map_or("not available".into(), |count| count.to_string())),
        ]);
    }
    let counted = report.counter.map_or(String::new(), |by| format!("; instructions by {by}"));
    format!(
        "{}\nAll of the engine, accounting included, {REQUESTS} requests, best of {ROUNDS}\
         {counted}\n",
        finish(&rows, 0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_core::sched::REGISTRY;

    #[test]
    fn a_count_that_is_not_there_is_said() {
        let cost = |instructions| CostReport {
            scheduler: "fifo",
            case: CASES[1],
            nanoseconds: 85,
            over_fifo_nanoseconds: -7,
            instructions,
        };
        let more = CostReport { over_fifo_nanoseconds: 110, ..cost(Some(7)) };
        let costs = vec![cost(None), cost(Some(912)), more];
        let text = text(&BenchReport { policy: "mine", version: "1", counter: None, costs });
        assert!(text.contains("16 groups") && text.contains("not available"), "{text}");
        assert!(text.contains("912"), "{text}");
        assert!(text.contains(" -7 ") && text.contains(" +110 "), "{text}");
    }

    #[test]
    fn a_loop_takes_time() {
        assert!(nanos(REGISTRY[0], CASES[1], 2_000).expect("fifo works") > 0);
    }

    #[test]
    fn a_loop_for_another_program_is_named_in_full() {
        let words = |all: [&str; 3]| all.map(str::to_owned).to_vec();
        let none = Path::new("none.wasm");
        assert!(counted(none, "fifo", &words(["16", "16", "100"])).is_ok());
        for wrong in [["16", "0", "0"], ["16", "4", "100"], ["0", "0", "1"], ["x", "0", "1"]] {
            assert_eq!(counted(none, "fifo", &words(wrong)).expect_err("wrong").status, 2);
        }
    }
}
