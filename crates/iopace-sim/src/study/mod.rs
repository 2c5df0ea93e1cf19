//! A study: one scenario in several variants, beside each other.
//!
//! [`compare`] makes the variants from lists of policies, [`sweep`] from values of keys of the
//! scenario file. [`carry_out`] runs them, over all processors; each run depends on its scenario
//! alone, so the outcome is the same on every machine. [`mod@print`], [`html`], [`plot`] and
//! [`columns`] say what came out.

pub mod columns;
pub mod compare;
pub mod fio;
pub mod html;
pub mod parquet;
pub mod plot;
pub mod print;
pub mod replay;
pub mod summary;
pub mod sweep;
pub mod view;

mod axis;
mod edit;
mod family;
mod idle;
mod interval;
mod page;
mod scale;
mod words;

use crate::judge::{check_all, set_shares};
use crate::parallel;
use crate::record::Recording;
use crate::report::RunReport;
use crate::run::{run, run_recorded};
use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use summary::Summary;

/// With more tasks than this nobody is run alone, unless a check asks for it: it would cost a run
/// for each.
pub const ALONE_MAX: usize = 32;

/// One way to carry out a scenario.
#[derive(Clone, Debug)]
pub struct StudyVariant {
    /// What it is called: the values in which it differs.
    pub name: String,
    /// The same as pairs of what was set and to which value.
    pub settings: Vec<(String, String)>,
    /// The scenario, once for each seed.
    pub scenarios: Vec<Scenario>,
    /// Where the tasks are run alone for comparison, once for each seed: without its scheduler.
    pub footing: Vec<Scenario>,
}

impl StudyVariant {
    /// A scenario as it is.
    pub fn plain(scenario: &Scenario) -> StudyVariant {
        let name = scenario.scheduler.as_ref().map_or("none", |chosen| chosen.algorithm.name);
        let scenarios = vec![scenario.clone()];
        StudyVariant {
            name: name.into(),
            settings: Vec::new(),
            footing: scenarios.clone(),
            scenarios,
        }
    }

    /// Whether its tasks are compared with the same tasks alone.
    fn has_shares(&self) -> bool {
        self.scenarios.iter().any(|one| one.needs_alone() || one.tasks.len() <= ALONE_MAX)
    }
}

/// A scenario once for each of `count` seeds, from `first` on.
pub fn seeded(scenario: &Scenario, first: u64, count: u64) -> Vec<Scenario> {
    let with = |n| Scenario { seed: first.wrapping_add(n), ..scenario.clone() };
    (0..count).map(with).collect()
}

/// What came out of a variant; can be written to a file and read again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VariantOutcome {
    /// The figures.
    pub summary: Summary,
    /// The plots of its first seed, see [`view::view`].
    pub view: Value,
}

/// How far a study has come: runs done, and runs in all.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// A run with its recording.
pub type Run = (RunReport, Recording);

/// The runs of a variant, one for each seed.
pub type Runs = Vec<Run>;

/// Carries out all variants, on as many threads as there are processors; `finished` is told of each
/// variant as soon as its last run is done, in no particular order.
pub fn carry_out(
    variants: &[StudyVariant],
    progress: Progress<'_>,
    finished: &(dyn Fn(usize, Runs) + Sync),
) {
    let alone = alone_scenarios(variants);
    let jobs: Vec<(usize, usize)> = variants
        .iter()
        .enumerate()
        .flat_map(|(place, variant)| (0..variant.scenarios.len()).map(move |seed| (place, seed)))
        .collect();
    let (total, done) = (alone.len() + jobs.len(), AtomicUsize::new(0));
    let tick = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
    let keys: Vec<&String> = alone.keys().collect();
    let reports = parallel::map(&keys, |key| {
        let report = run(&alone[*key]);
        tick();
        report
    });
    let reports: BTreeMap<&String, RunReport> = keys.iter().copied().zip(reports).collect();
    let slots = variants.iter().map(|variant| Mutex::new(vec![None; variant.scenarios.len()]));
    let slots: Vec<Mutex<Vec<Option<Run>>>> = slots.collect();
    parallel::map(&jobs, |(place, seed)| {
        let result = run_one(&variants[*place], *seed, &reports);
        let mut runs = slots[*place].lock().expect("no holder panics");
        runs[*seed] = Some(result);
        let all = runs.iter().all(Option::is_some).then(|| std::mem::take(&mut *runs));
        drop(runs);
        if let Some(all) = all {
            finished(*place, all.into_iter().flatten().collect());
        }
        tick();
    });
}

/// Carries out one scenario as it is, recorded, with shares and checks.
pub fn carry_out_one(variant: &StudyVariant) -> (RunReport, Recording) {
    let result = Mutex::new(None);
    carry_out(std::slice::from_ref(variant), &|_, _| (), &|_, runs| {
        *result.lock().expect("no holder panics") = runs.into_iter().next();
    });
    result.into_inner().expect("no holder panicked").expect("there is one scenario")
}

/// Carries out all variants; outcomes in their order.
pub fn outcomes(variants: &[StudyVariant], progress: Progress<'_>) -> Vec<VariantOutcome> {
    let outcomes: Vec<Mutex<Option<VariantOutcome>>> =
        variants.iter().map(|_| Mutex::default()).collect();
    carry_out(variants, progress, &|place, runs| {
        let outcome = VariantOutcome::of(&variants[place], &runs);
        *outcomes[place].lock().expect("no holder panics") = Some(outcome);
    });
    let all = outcomes.into_iter().map(|slot| slot.into_inner().expect("no holder panicked"));
    all.map(|outcome| outcome.expect("every variant has a scenario")).collect()
}

impl VariantOutcome {
    /// What the runs of a variant come to.
    ///
    /// # Panics
    /// There are no runs.
    pub fn of(variant: &StudyVariant, runs: &Runs) -> VariantOutcome {
        let (_, recording) = runs.first().expect("a variant has a scenario");
        VariantOutcome { summary: Summary::of(variant, runs), view: view::view(recording) }
    }
}

/// Every distinct run of one task alone, by all that it depends on.
fn alone_scenarios(variants: &[StudyVariant]) -> BTreeMap<String, Scenario> {
    let mut all = BTreeMap::new();
    for variant in variants.iter().filter(|variant| variant.has_shares()) {
        for footing in &variant.footing {
            for task in &footing.tasks {
                let alone = footing.alone(task);
                all.entry(key(&alone)).or_insert(alone);
            }
        }
    }
    all
}

fn key(scenario: &Scenario) -> String {
    format!("{scenario:?}")
}

fn run_one(
    variant: &StudyVariant,
    seed: usize,
    alone: &BTreeMap<&String, RunReport>,
) -> (RunReport, Recording) {
    let scenario = &variant.scenarios[seed];
    let (mut report, recording) = run_recorded(scenario);
    if variant.has_shares() {
        let footing = &variant.footing[seed];
        let of = |task| &alone[&key(&footing.alone(task))];
        let pairs: Vec<_> = footing.tasks.iter().map(|task| (task, of(task))).collect();
        set_shares(&mut report, &pairs);
    }
    check_all(scenario, &mut report);
    (report, recording)
}
