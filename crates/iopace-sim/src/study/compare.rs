//! Variants of a scenario from lists of policies: their cross product.

use super::StudyVariant;
use crate::scenario::{Chosen, Scenario};
use iopace_core::pace;
use iopace_core::sched::Algorithm;
use iopace_core::window;

/// What is to be compared. An empty list leaves what the scenario says.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// Schedulers; `None` is the plain elevator.
    pub schedulers: Vec<Option<&'static Algorithm>>,
    /// Policies of stage window.
    pub windows: Vec<&'static window::WindowPolicy>,
    /// Policies of stage pace.
    pub paces: Vec<&'static pace::PacePolicy>,
    /// Seeds; each variant is run once with each.
    pub seeds: Vec<u64>,
}

/// One element of a list, or none if the list is empty.
fn each<T: Copy>(list: &[T]) -> Vec<Option<T>> {
    if list.is_empty() { vec![None] } else { list.iter().copied().map(Some).collect() }
}

/// All variants. Tasks alone are run with the window and the pace of the scenario itself, so that
/// every variant is measured by the same yardstick.
pub fn variants(scenario: &Scenario, choices: &Choices) -> Vec<StudyVariant> {
    let seeds = if choices.seeds.is_empty() { vec![scenario.seed] } else { choices.seeds.clone() };
    let seeded = |scenario: &Scenario| {
        let with = |seed: &u64| Scenario { seed: *seed, ..scenario.clone() };
        seeds.iter().map(with).collect::<Vec<Scenario>>()
    };
    let mut variants = Vec::new();
    for scheduler in each(&choices.schedulers) {
        for window in each(&choices.windows) {
            for pace in each(&choices.paces) {
                let mut changed = scenario.clone();
                let mut settings = Vec::new();
                if let Some(scheduler) = scheduler {
                    let name = scheduler.map_or("none", |algorithm| algorithm.name);
                    settings.push(("scheduler".into(), name.into()));
                    changed.scheduler = scheduler.map(|wanted| choose(scenario, wanted));
                }
                if let Some(window) = window {
                    settings.push(("window".into(), window.name.into()));
                    changed.window = window;
                }
                if let Some(pace) = pace {
                    settings.push(("pace".into(), pace.name.into()));
                    changed.pace = pace;
                }
                let name = match settings.is_empty() {
                    true => StudyVariant::plain(scenario).name,
                    false => name(&settings),
                };
                let (scenarios, footing) = (seeded(&changed), seeded(scenario));
                variants.push(StudyVariant { name, settings, scenarios, footing });
            }
        }
    }
    variants
}

/// The scheduler with the parameters that the scenario gives it, or its defaults.
pub fn choose(scenario: &Scenario, wanted: &'static Algorithm) -> Chosen {
    match &scenario.scheduler {
        Some(chosen) if chosen.algorithm.name == wanted.name => chosen.clone(),
        _ => Chosen::defaults(wanted),
    }
}

/// `rr`, `rr, window latency`: the scheduler needs no word before it.
fn name(settings: &[(String, String)]) -> String {
    let words = settings.iter().map(|(key, value)| match key.as_str() {
        "scheduler" => value.clone(),
        _ => format!("{key} {value}"),
    });
    words.collect::<Vec<String>>().join(", ")
}
