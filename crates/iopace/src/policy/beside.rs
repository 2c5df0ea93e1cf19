//! A policy under a load in virtual time, beside the schedulers that it may replace.

use super::module::PolicySubject;
use crate::output::Failure;
use iopace_core::sched::{self, Algorithm};
use iopace_sim::scenario::Scenario;
use iopace_sim::study::compare::{Choices, variants};
use iopace_sim::study::outcomes;
use iopace_sim::study::summary::Summary;
use std::fs;
use std::path::{Path, PathBuf};

/// The load of a policy whose crate has none.
const BUILT_IN: &str = include_str!("load.toml");

/// The scheduler that takes requests as they come, and the recommended one.
pub(super) fn yardsticks() -> [&'static Algorithm; 2] {
    [sched::REGISTRY[0], sched::recommended()]
}

/// A load to see a policy under.
pub(super) struct Trial {
    /// The file, or a word for the one that is built in.
    pub(super) file: String,
    pub(super) scenario: Scenario,
    /// The policy, after those that it is seen beside.
    algorithms: Vec<&'static Algorithm>,
}

/// The load that was named, that of the crate, or the one that is built in.
///
/// # Errors
/// It cannot be read, or is no scenario.
pub(super) fn trial(subject: &PolicySubject, named: Option<&Path>) -> Result<Trial, Failure> {
    let own = subject.folder.as_ref().map(|folder| folder.join("scenario.toml"));
    let file: Option<PathBuf> = match named {
        Some(named) => Some(named.to_owned()),
        None => own.filter(|own| own.exists()),
    };
    let (name, text) = match &file {
        None => ("the built-in load".to_owned(), BUILT_IN.to_owned()),
        Some(file) => {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).map_err(|error| {
                Failure::usage(format!("the scenario {name} cannot be read: {error}"))
            })?;
            (name, text)
        }
    };
    let scenario = Scenario::parse(&name, &text).map_err(Failure::usage)?;
    let algorithms = yardsticks().into_iter().chain([subject.loaded.algorithm]).collect();
    Ok(Trial { file: name, scenario, algorithms })
}

impl Trial {
    /// Carries it out under each scheduler.
    pub(super) fn run(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Vec<Summary> {
        let schedulers = self.algorithms.iter().map(|one| Some(*one)).collect();
        let choices = Choices { schedulers, ..Choices::default() };
        let all = outcomes(&variants(&self.scenario, &choices), progress);
        all.into_iter().map(|outcome| outcome.summary).collect()
    }
}

/// The laws that the policy broke under the load; it is the last of the variants.
pub(super) fn failures(all: &[Summary]) -> Vec<String> {
    let Some(Summary { whole, .. }) = all.last() else { return Vec::new() };
    let mut failures = Vec::new();
    if whole.failed_over > 0 {
        failures.push("it failed, and fifo took over".into());
    }
    if whole.unfinished > 0 {
        failures.push(format!("{} requests never finished", whole.unfinished));
    }
    if whole.checks_held < whole.checks {
        let missed = whole.checks - whole.checks_held;
        failures.push(format!("{missed} of {} checks of the scenario do not hold", whole.checks));
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopace_sim::study::summary::WholeRow;

    #[test]
    fn the_built_in_load_keeps_all_of_its_tasks_busy() {
        let scenario = Scenario::parse("load.toml", BUILT_IN);
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        let algorithms = yardsticks().to_vec();
        let all = Trial { file: String::new(), scenario, algorithms }.run(&|_, _| ());
        assert_eq!(all.len(), 2);
        for summary in &all {
            assert!(summary.tasks.iter().all(|task| task.ops_s.0 > 0), "{summary:#?}");
        }
        assert_eq!(failures(&all), [""; 0]);
    }

    #[test]
    fn a_failure_under_the_load_is_told() {
        let checks = WholeRow { checks: 3, checks_held: 1, ..WholeRow::default() };
        let whole = WholeRow { failed_over: 1, unfinished: 2, ..checks };
        let (variant, settings, seeds) = (String::new(), Vec::new(), 1);
        let (tasks, by_seed) = (Vec::new(), Vec::new());
        let all = [Summary { variant, settings, seeds, tasks, whole, by_seed }];
        let told = failures(&all).join("; ");
        let wanted = "it failed, and fifo took over; 2 requests never finished; \
                      2 of 3 checks of the scenario do not hold";
        assert_eq!(told, wanted);
    }
}
