//! How many requests per second the simulator carries out on one core:
//! `cargo run --release -p iopace-sim --example speed`.
//!
//! Each run is one thread. The figure counts the requests that tasks submitted; the write-back
//! requests of the page cache come on top.

use iopace_core::request::Extent;
use iopace_core::time::Nanos;
use iopace_core::units::Bytes;
use iopace_sim::run::run;
use iopace_sim::scenario::Scenario;
use iopace_sim::tables::geom;
use iopace_sim::task::{Task, TaskKind};
use std::time::Instant;

/// Sixteen lanes of 4 KiB random reads on a disk without delay: the loop and the engine alone.
fn bare() -> Scenario {
    let region = Extent::new(Bytes(0), Bytes(1 << 30)).expect("small");
    let mut task = Task::new("random", TaskKind::Random, region);
    task.depth = 16;
    task.think = Nanos::from_micros(10);
    let mut scenario = Scenario::new("speed of the simulator", "null");
    scenario.duration = Nanos::from_secs(2);
    scenario.warmup = Nanos::ZERO;
    scenario.tasks = vec![task];
    scenario
}

#[expect(clippy::disallowed_methods, reason = "it measures the simulator, from outside")]
fn main() {
    let hour = Nanos::from_secs(3_600);
    let stories = [
        ("null disk, depth 16, elevator", bare()),
        ("dd-read on the SATA disk, elevator", geom::scenario("dd-read", "none", 1, hour)),
        ("dd-read+cvs on the SATA disk, rr", geom::scenario("dd-read+cvs", "rr", 1, hour)),
        ("dd-write+cvs on the SATA disk, rr", geom::scenario("dd-write+cvs", "rr", 1, hour)),
    ];
    for (name, scenario) in stories {
        let begin = Instant::now();
        let report = run(&scenario);
        let spent = begin.elapsed();
        let rate = report.requests as f64 / spent.as_secs_f64();
        println!(
            "{name:36} {:>9} requests in {spent:>9.3?}: {rate:>10.0} requests/s",
            report.requests
        );
    }
}
