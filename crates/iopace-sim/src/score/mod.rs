//! A scorecard: how well a policy shares a disk, in six measures on six kinds of disk.
//!
//! # Model
//! A fixed set of mixes ([`mixes`]) is run on a fixed set of disks ([`BENCHES`]), each in virtual
//! time, and turned into one score in per cent per measure and disk ([`measures`]): 100 is the
//! best, whatever the measure. Scores of a measure are means over its mixes; the figures that they
//! come from are kept as [`Raw`].
//!
//! # Sources
//! The measures are those that are in use for I/O control in Linux, so that results can be read
//! beside theirs: isolation, latency impact and work conservation of resctl-bench
//! (`doc/protection.md`; the method of Heo et al., "IOCost", ASPLOS 2022); fairness, and response
//! to a newcomer, of isol-bench (Ren et al., "Does Linux Provide Performance Isolation for NVMe
//! SSDs?", IISWC 2025); efficiency as the README of geom_sched has it. Where ours differs,
//! [`measures`] says so. Neither of their loads is copied: both measure real machines.

pub mod measures;
pub mod mixes;
pub mod page;
pub mod print;

use crate::milli::Milli;
use crate::parallel;
use crate::run::run;
use crate::scenario::Scenario;
use iopace_core::sched::{self, Algorithm};
use iopace_core::time::Nanos;
use iopace_core::{pace, window};
use mixes::{BASES, Baseline, MIXES, ScoreMix};
use serde::Serialize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is scored.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The scheduler; `None` is the plain elevator.
    pub scheduler: Option<&'static Algorithm>,
    /// The policy of stage window.
    pub window: &'static window::WindowPolicy,
    /// The policy of stage pace.
    pub pace: &'static pace::PacePolicy,
}

impl Policy {
    /// A scheduler with window `fixed` and pace `rate`, as devices have them.
    pub fn of(scheduler: Option<&'static Algorithm>) -> Policy {
        let pace = pace::find("rate").expect("the registry has rate");
        Policy { scheduler, window: &window::fixed::POLICY, pace }
    }

    /// Every scheduler, none first.
    pub fn all() -> Vec<Policy> {
        let none = std::iter::once(None);
        none.chain(sched::all().into_iter().map(Some)).map(Policy::of).collect()
    }

    /// Its scheduler's name.
    pub fn name(&self) -> &'static str {
        self.scheduler.map_or("none", |algorithm| algorithm.name)
    }
}

/// A disk of the set, and how long it has to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// The preset.
    pub disk: &'static str,
    /// Length of a run; the first sixth counts in no figure but the rise.
    pub duration: Nanos,
    /// What the latency-sensitive reader thinks after each read: about four times what a read takes
    /// alone, so that it asks for a fifth of the disk.
    pub think: Nanos,
    /// Over how long a rate is taken when a rise is looked for: some ten requests.
    pub window: Nanos,
}

const fn bench(disk: &'static str, duration_ms: u64, think_us: u64, window_ms: u64) -> Bench {
    Bench {
        disk,
        duration: Nanos::from_millis(duration_ms),
        think: Nanos::from_micros(think_us),
        window: Nanos::from_millis(window_ms),
    }
}

/// The disks. Runs are as long as some thousand requests take: with less, the scores of one seed
/// and the next differ by more than a few per cent.
pub const BENCHES: [Bench; 6] = [
    bench("hdd-sata-250g", 24_000, 50_000, 500),
    bench("hdd-sata-250g-ncq", 24_000, 50_000, 500),
    bench("ssd-sata", 1_200, 500, 50),
    bench("ssd-nvme", 600, 400, 50),
    bench("nfs-gigabit", 6_000, 20_000, 500),
    bench("usb-key", 24_000, 5_000, 500),
];

/// A figure that a score comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Raw {
    /// The mix.
    pub mix: &'static str,
    /// What was measured.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What came out; `null` if it never came.
    pub value: Option<Milli>,
}

/// What a policy makes of a disk: scores in per cent, 100 is the best.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Score {
    /// The scheduler, or `none`.
    pub sched: &'static str,
    /// The policy of stage window.
    pub window: &'static str,
    /// The policy of stage pace.
    pub pace: &'static str,
    /// The disk.
    pub disk: &'static str,
    /// What a latency-sensitive reader keeps of its rate.
    pub isolation: Milli,
    /// What it keeps of its speed: its mean latency alone over that in the mix.
    pub latency: Milli,
    /// What a lone task of small weight or low class gets of the disk.
    pub conservation: Milli,
    /// What all together get, in shares of alone.
    pub efficiency: Milli,
    /// Jain's index of weighted rates.
    pub fairness: Milli,
    /// How soon a newcomer has its share.
    pub rise: Milli,
    /// Where the scores come from.
    pub raw: Vec<Raw>,
}

/// How far it has come: runs done, and runs in all.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// Scores each policy on each disk, policies first. The same input gives the same scores,
/// whatever the number of processors.
///
/// # Panics
/// If a bench names a disk that does not exist.
pub fn score(
    policies: &[Policy],
    benches: &[Bench],
    seed: u64,
    progress: Progress<'_>,
) -> Vec<Score> {
    let Some(first) = policies.first() else { return Vec::new() };
    let bases = benches.iter().flat_map(|bench| {
        // Whoever is alone needs no scheduler; its buffered writes are paced as in the mix.
        let plain = Policy { scheduler: None, window: &window::fixed::POLICY, ..*first };
        BASES.iter().map(move |base: &Baseline| base.scenario(bench, &plain, seed))
    });
    let mixed = policies.iter().flat_map(|policy| {
        benches.iter().flat_map(move |bench| {
            MIXES.iter().map(move |mix: &ScoreMix| mix.scenario(bench, policy, seed))
        })
    });
    let jobs: Vec<Scenario> = bases.chain(mixed).collect();
    let done = AtomicUsize::new(0);
    let reports = parallel::map(&jobs, |scenario| {
        let report = run(scenario);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, jobs.len());
        report
    });
    let (bases, mixed) = reports.split_at(benches.len() * BASES.len());
    let mut scores = Vec::new();
    let mut cells = mixed.chunks(MIXES.len());
    for policy in policies {
        for (bench, alone) in benches.iter().zip(bases.chunks(BASES.len())) {
            let mixed = cells.next().expect("one for each policy and disk");
            scores.push(measures::score(policy, bench, alone, mixed));
        }
    }
    scores
}
