//! Trade-off curves: what a parameter buys, and what it costs.
//!
//! [`quantum_wait`] runs both mixes of the geom table under rr for every pair of time slice and
//! waiting time. Long slices seek less and make the other program wait longer; a short wait gives
//! up a program that would have come back, a long one idles the disk.

mod plot;
pub mod slots;

pub use plot::svg;

use crate::parallel;
use crate::run::run;
use crate::scenario::{Chosen, Scenario};
use crate::tables::geom::{self, NONE, Outcome};
use iopace_core::sched::find;
use iopace_core::time::Nanos;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Time slices of the sweep in ms: rr's whole range (1 to 500), about doubling.
pub const QUANTUM_MS: [u64; 7] = [5, 10, 25, 50, 100, 250, 500];

/// Waiting times of the sweep in ms: rr's whole range.
pub const WAIT_MS: [u64; 5] = [1, 2, 5, 10, 30];

/// The mixes of the sweep.
pub const MIXES: [&str; 2] = ["dd-read+cvs", "dd-write+cvs"];

/// Length of the runs of the published curves.
pub const DURATION: Nanos = Nanos::from_secs(30);

/// One pair of parameters and what came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The mix.
    pub row: &'static str,
    /// Time slice.
    pub quantum_ms: u64,
    /// Longest anticipation.
    pub wait_ms: u64,
    /// The figures.
    pub outcome: Outcome,
}

/// rr over slice and wait, both mixes; ordered by mix, wait, slice.
///
/// The slice in bytes is set to its largest value, or it would end the slices of dd at 8 MiB (about
/// 120 ms) whatever the time slice is.
pub fn quantum_wait(seed: u64, duration: Nanos) -> Vec<Point> {
    let of = |wait_ms| QUANTUM_MS.map(|quantum_ms| (quantum_ms, wait_ms));
    pairs(&WAIT_MS.map(of).concat(), seed, duration)
}

/// The same for some pairs of slice and wait: both mixes, in the order of the pairs.
pub fn pairs(pairs: &[(u64, u64)], seed: u64, duration: Nanos) -> Vec<Point> {
    let of = |row| pairs.iter().map(move |(quantum_ms, wait_ms)| (row, *quantum_ms, *wait_ms));
    let points: Vec<_> = MIXES.into_iter().flat_map(of).collect();
    let programs = ["dd-read", "dd-write", "cvs"];
    let alone = parallel::map(&programs, |row| run(&geom::scenario(row, NONE, seed, duration)));
    let outcomes = parallel::map(&points, |(row, quantum_ms, wait_ms)| {
        let mut report = run(&scenario(row, *quantum_ms, *wait_ms, seed, duration));
        let tasks = geom::tasks(row);
        let of = |program| programs.iter().position(|p| *p == program);
        let pairs = tasks.iter().zip(row.split('+')).map(|(task, program)| {
            (task, &alone[of(program).expect("a mix is made of these programs")])
        });
        crate::judge::set_shares(&mut report, &pairs.collect::<Vec<_>>());
        Outcome::of(&report)
    });
    let points = points.into_iter().zip(outcomes);
    points
        .map(|((row, quantum_ms, wait_ms), outcome)| Point { row, quantum_ms, wait_ms, outcome })
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
    Scenario { scheduler: Some(chosen), ..geom::scenario(row, NONE, seed, duration) }
}

/// The points as comma-separated values with a header line.
pub fn csv(points: &[Point]) -> String {
    let mut text = String::from("row,quantum_ms,wait_ms");
    for (figure, _) in geom::FIGURES {
        let _ = write!(text, ",{figure}");
    }
    text.push('\n');
    for point in points {
        let Point { row, quantum_ms, wait_ms, outcome } = point;
        let _ = write!(text, "{row},{quantum_ms},{wait_ms}");
        for (figure, _) in geom::FIGURES {
            let value = outcome.figure(figure);
            let _ = write!(text, ",{}", value.map_or(String::new(), |n| n.to_string()));
        }
        text.push('\n');
    }
    text
}

/// Writes the curves of `points` into a directory: one CSV, and one SVG for each mix. Returns the
/// files.
///
/// # Errors
/// The directory or a file cannot be written; the message names it.
pub fn write(points: &[Point], directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = vec![("geom-quantum-wait.csv".to_string(), csv(points))];
    for row in MIXES {
        let name = format!("geom-quantum-wait-{}.svg", row.replace('+', "-"));
        files.push((name, svg(points, row)));
    }
    write_files(directory, files)
}

/// Writes named texts into a directory, which is made if it is missing.
fn write_files(directory: &Path, files: Vec<(String, String)>) -> std::io::Result<Vec<PathBuf>> {
    let named = |path: &Path, error: std::io::Error| {
        std::io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(directory).map_err(|error| named(directory, error))?;
    let written = files.into_iter().map(|(name, text)| {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| named(&path, error))?;
        Ok(path)
    });
    written.collect()
}
