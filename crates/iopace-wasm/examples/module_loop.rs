//! The price of a policy as a module beside one that is compiled in:
//! `module_loop SCHEDULER FILE REQUESTS [GROUPS]` puts requests through two engines, 32 of them (or
//! one per group, if that is more) always there, round about, and prints a row of a table: the
//! nanoseconds per request of both, the least of some rounds, and their difference. FILE is a
//! module, as binary or as text (.wat).

use iopace_core::sched::{self, Algorithm};
use iopace_suites::cost::CostLoop;
use std::path::Path;

/// Rounds of each; the least counts, as other programs only add.
const ROUNDS: u64 = 7;
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
    let [mut built_in_ns, mut loaded_ns] = [u64::MAX; 2];
    for _ in 0..ROUNDS {
        built_in_ns = built_in_ns.min(round(built_in, requests, groups));
        loaded_ns = loaded_ns.min(round(loaded, requests, groups));
    }
    println!("| built in | loaded | groups | built in, ns | loaded, ns | more, ns | times |");
    println!("|---|---|---|---|---|---|---|");
    println!(
        "| {name} | {} | {groups} | {built_in_ns} | {loaded_ns} | {} | {:.2} |",
        loaded.name,
        loaded_ns.cast_signed() - built_in_ns.cast_signed(),
        loaded_ns as f64 / built_in_ns as f64
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
fn round(algorithm: &'static Algorithm, requests: u64, groups: u64) -> u64 {
    let tasks = if groups > 0 { groups } else { TASKS };
    let looped = CostLoop { groups, ..CostLoop::new(algorithm, tasks, requests) };
    looped.nanos().unwrap_or_else(|fault| panic!("{} {}", algorithm.name, fault.describe()))
}
