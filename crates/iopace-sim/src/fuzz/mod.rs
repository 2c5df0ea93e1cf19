//! Searches for faults: random scenarios, put to a test; what fails is shrunk to a small file.
//!
//! # Model
//! A number gives a [`Draft`]: a disk with or without faults, memory, nested groups with weights,
//! classes, limits and guarantees, tasks of many kinds, in waves, by the clock or asleep for slots,
//! a policy for each stage, and schedulers exchanged under load. [`trial::put`] runs it in two
//! phases, faults on and faults off, and says what does not hold. A failure is shrunk ([`shrink`])
//! as long as a simpler draft fails in the same way, and becomes the text of a scenario file.
//!
//! # Properties
//! 1. The same seed and number of runs give the same outcome, whatever the number of processors.
//! 2. Shrinking ends after [`shrink::TRIALS_MAX`] trials, and what it gives fails as the
//!    original did.
//!
//! # Limits
//! Overflows are seen only in builds that check for them (`cargo test`). Slots are given as usual,
//! not as in 2009.
//!
//! # Sources
//! Two phases: VOPR, the simulator of TigerBeetle. Shrinking by dropping parts, greedily: A. Zeller
//! and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.

pub mod draft;
pub mod shrink;
pub mod text;
pub mod trial;

use crate::parallel;
use crate::random::Random;
use crate::scenario::Scenario;
use draft::Draft;
use trial::Fault;

/// Enough failures for one search: after a few they are the same.
pub const FOUND_MAX: usize = 4;

/// Scenarios that are tried before it is asked whether to go on: a few on each processor.
pub const BATCH: u64 = 16;

/// Changes every scenario before it is tried: so a broken policy is planted, to see that it is
/// found.
pub type Plant<'a> = &'a (dyn Fn(&mut Scenario) + Sync);

/// A scenario that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub seed: u64,
    /// What does not hold in the small one.
    pub fault: Fault,
    /// The text of the small scenario file.
    pub text: String,
    /// Lines of the file before it was shrunk.
    pub lines_before: usize,
    /// Trials that shrinking took.
    pub trials: usize,
}

/// What came out of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchOutcome {
    /// Scenarios tried.
    pub runs: u64,
    /// What failed.
    pub found: Vec<Found>,
}

/// Tries the scenarios `seed`, `seed + 1` and so on, `runs` of them if that is said, until `most`
/// have failed; before each batch `go_on` is told how many were tried and how many failed.
pub fn search(
    seed: u64,
    runs: Option<u64>,
    most: usize,
    plant: Plant<'_>,
    go_on: &dyn Fn(u64, usize) -> bool,
) -> SearchOutcome {
    let mut outcome = SearchOutcome::default();
    let left = |done: u64| runs.map_or(BATCH, |runs| runs.saturating_sub(done).min(BATCH));
    while left(outcome.runs) > 0
        && outcome.found.len() < most
        && go_on(outcome.runs, outcome.found.len())
    {
        let first = seed.wrapping_add(outcome.runs);
        let seeds: Vec<u64> = (0..left(outcome.runs)).map(|n| first.wrapping_add(n)).collect();
        let failed = parallel::map(&seeds, |seed| {
            let draft = draft_of(*seed);
            shrink::fault(&draft, plant).map(|fault| (draft, fault))
        });
        for (seed, failed) in seeds.iter().zip(failed) {
            let Some((draft, fault)) = failed else { continue };
            if outcome.found.len() < most {
                outcome.found.push(small(*seed, &draft, fault, plant));
            }
        }
        outcome.runs += seeds.len() as u64;
    }
    outcome
}

/// The scenario of a number.
pub fn draft_of(seed: u64) -> Draft {
    Draft::draw(seed, &mut Random::new(seed, "fuzz"))
}

fn small(seed: u64, draft: &Draft, fault: Fault, plant: Plant<'_>) -> Found {
    let lines_before = text::toml(draft, &fault.text).lines().count();
    let (draft, fault, trials) = shrink::shrink(draft.clone(), fault, plant);
    let text = text::toml(&draft, &fault.text);
    Found { seed, fault, text, lines_before, trials }
}
