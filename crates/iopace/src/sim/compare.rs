//! `iopace sim compare`: policies beside each other.

use super::scenario_text;
use crate::cli::CompareArgs;
use crate::output::Failure;
use crate::study_output::{ProgressLine, Study, all_schedulers, prepare, put, spelt_out};
use iopace_core::{pace, sched, window};
use iopace_sim::scenario::Scenario;
use iopace_sim::study::compare::{Choices, variants};
use iopace_sim::study::outcomes;

/// Carries out the command.
///
/// # Errors
/// A wrong scenario, nothing to compare, or a file that cannot be written.
pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let (file, text) = scenario_text(&args.file)?;
    let scenario = Scenario::parse(&file, &text).map_err(Failure::usage)?;
    let choices = choices(args, &scenario);
    let variants = variants(&scenario, &choices);
    if variants.len() < 2 && args.seeds == 1 {
        return Err(Failure::usage(
            "there is nothing to compare: name several policies, as --sched none,rr,fair, or \
             several seeds, as --seeds 5",
        ));
    }
    prepare("compare", args.output.out.as_deref(), args.output.files(), &[&args.file])?;
    let line = ProgressLine::begin();
    let all = outcomes(&variants, &|done, all| line.show(done, all));
    line.end();
    let study = Study { name: "compare", file: &file, scenario: &scenario, swept: &[] };
    put(&study, &all, &args.output)
}

fn choices(args: &CompareArgs, scenario: &Scenario) -> Choices {
    let windows = || window::REGISTRY.iter().map(|policy| policy.name).collect();
    let paces = || pace::REGISTRY.iter().map(|policy| policy.name).collect();
    let window = |name: &&str| window::REGISTRY.iter().find(|policy| policy.name == *name);
    let pace = |name: &&str| pace::REGISTRY.iter().find(|policy| policy.name == *name);
    let first = args.seed.unwrap_or(scenario.seed);
    Choices {
        schedulers: spelt_out(&args.sched, all_schedulers).into_iter().map(sched::find).collect(),
        windows: spelt_out(&args.window, windows).iter().filter_map(window).copied().collect(),
        paces: spelt_out(&args.pace, paces).iter().filter_map(pace).copied().collect(),
        seeds: (0..args.seeds).map(|n| first.wrapping_add(n)).collect(),
    }
}
