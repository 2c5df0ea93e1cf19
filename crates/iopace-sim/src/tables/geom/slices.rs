//! The mixes of the table under `rr` with a slice and a wait of one's own.

use super::{GeomOutcome, NONE};
use crate::judge::set_shares;
use crate::parallel;
use crate::run::run;
use crate::scenario::{Chosen, Scenario};
use iopace_core::sched::find;
use iopace_core::time::Nanos;

/// The mixes, each of two programs.
pub const MIXES: [&str; 2] = ["dd-read+cvs", "dd-write+cvs"];

/// One pair of parameters and what came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlicePoint {
    /// The mix.
    pub row: &'static str,
    /// Time slice.
    pub quantum_ms: u64,
    /// Longest anticipation.
    pub wait_ms: u64,
    /// The figures.
    pub outcome: GeomOutcome,
}

/// Both mixes for some pairs of slice and wait, in the order of the pairs.
///
/// The slice in bytes is set to its largest value, or it would end the slices of dd at 8 MiB (about
/// 120 ms) whatever the time slice is.
pub fn pairs(pairs: &[(u64, u64)], seed: u64, duration: Nanos) -> Vec<SlicePoint> {
    let of = |row| pairs.iter().map(move |(quantum_ms, wait_ms)| (row, *quantum_ms, *wait_ms));
    let points: Vec<_> = MIXES.into_iter().flat_map(of).collect();
    let programs = ["dd-read", "dd-write", "cvs"];
    let alone = parallel::map(&programs, |row| run(&super::scenario(row, NONE, seed, duration)));
    let outcomes = parallel::map(&points, |(row, quantum_ms, wait_ms)| {
        let mut report = run(&scenario(row, *quantum_ms, *wait_ms, seed, duration));
        let tasks = super::tasks(row);
        let of = |program| programs.iter().position(|p| *p == program);
        let pairs = tasks.iter().zip(row.split('+')).map(|(task, program)| {
            (task, &alone[of(program).expect("a mix is made of these programs")])
        });
        set_shares(&mut report, &pairs.collect::<Vec<_>>());
        GeomOutcome::of(&report)
    });
    let points = points.into_iter().zip(outcomes);
    points
        .map(|((row, quantum_ms, wait_ms), outcome)| SlicePoint {
            row,
            quantum_ms,
            wait_ms,
            outcome,
        })
        .collect()
}

fn scenario(row: &str, quantum_ms: u64, wait_ms: u64, seed: u64, duration: Nanos) -> Scenario {
    let mut chosen = Chosen::defaults(find("rr").expect("the registry has rr"));
    let quantum_kb = chosen.algorithm.params.iter().find(|spec| spec.name == "quantum_kb");
    let settings = [
        ("quantum_ms", quantum_ms),
        ("wait_ms", wait_ms),
        ("quantum_kb", quantum_kb.expect("rr has a slice in bytes").max),
    ];
    for (name, value) in settings {
        let set = chosen.params.set(name, value);
        set.expect("the sweep stays within rr's bounds");
    }
    Scenario { scheduler: Some(chosen), ..super::scenario(row, NONE, seed, duration) }
}
