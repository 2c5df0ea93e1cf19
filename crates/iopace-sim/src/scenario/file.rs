//! The file format of a scenario: TOML, one file a story.
//!
//! ```toml
//! why = "A reader must not starve beside a writer."   # required: a story says why it exists
//! seed = 1
//! duration = "60s"
//! warmup = "5s"                       # counts in no figure
//! until_done = false                  # optional: true ends the run when all tasks have ended
//!
//! [disk]
//! preset = "hdd-sata-250g"            # or kind = "hdd" or model = "FILE"; see `disk.rs`
//! depth = 1                           # optional: fewer requests at the disk than it takes
//! merge = "512KiB"                    # optional: requests that adjoin each other go as one
//! slots = "guaranteed"                # or "plain", the single pool of 2009
//! faults = { error_permille = 1 }     # optional: also stall_permille, stall = "2s", lost_permille
//!
//! [memory]                            # optional: without it there is no page cache
//! size = "1GiB"
//! dirty_background = "32MiB"
//! dirty_limit = "100MiB"
//!
//! [scheduler]                         # optional: without it, or with "none", the plain elevator
//! name = "rr"
//! set = { wait_ms = 5 }
//!
//! [group."/backup"]                   # optional: who pays; see `groups.rs`
//! "io.weight" = "50"
//!
//! [[task]]
//! name = "dd"
//! kind = "dd-write"                   # which settings a kind takes: see `tasks.rs`
//! offset = "64GiB"
//! size = "32GiB"
//!
//! [[step]]
//! at = "30s"
//! configure = "as"                    # what else a step does: see `steps.rs`
//!
//! [[check]]
//! figure = "share"
//! task = "dd"
//! at_least = 0.4
//! ```

use super::error::{Mistake, ScenarioError};
use super::shape::{CheckTable, ScenarioFile};
use super::{Check, DURATION_MAX, Scenario};
use super::{disk, groups, memory, policies, scheduler, steps, tasks};
use crate::figure::Figure;
use crate::spelling;
use crate::task::Task;
use iopace_core::limits::NR_REQUESTS_DEFAULT;
use iopace_core::time::Nanos;
use iopace_groups::tree::Tree;
use toml::Spanned;

impl Scenario {
    /// Reads the text of a scenario file; `file` is its name in messages.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let fail = |(span, message)| ScenarioError::at(file, text, span, message);
        let mut parsed: ScenarioFile = toml::from_str(text)
            .map_err(|error| fail((error.span().unwrap_or(0..0), explain(error.message()))))?;
        policies::load(file, &mut parsed).map_err(fail)?;
        resolve(file, parsed).map_err(fail)
    }
}

/// Says what would be right where the parser only says what is missing.
fn explain(message: &str) -> String {
    match message {
        "missing field `why`" => {
            "missing field `why`: a scenario says in one sentence which question it answers".into()
        }
        other => spelling::explain(other),
    }
}

fn resolve(file_name: &str, file: ScenarioFile) -> Result<Scenario, Mistake> {
    if file.why.get_ref().trim().is_empty() {
        return Err((file.why.span(), "`why` is empty: say which question it answers".into()));
    }
    let duration = file.duration.get_ref().0;
    if duration == Nanos::ZERO || duration > DURATION_MAX {
        return Err((
            file.duration.span(),
            format!("a run lasts more than 0 s, at most {DURATION_MAX}"),
        ));
    }
    let warmup = match &file.warmup {
        Some(time) if time.get_ref().0 >= duration => {
            let message = "the warm-up must be shorter than the duration";
            return Err((time.span(), message.into()));
        }
        Some(time) => time.get_ref().0,
        None => Nanos::ZERO,
    };
    let (disk, model, capacity) = disk::resolve(file_name, &file.disk)?;
    let file_disk = file.disk.get_ref();
    let faults = file_disk.faults.as_ref().map(disk::faults).transpose()?;
    let memory = file.memory.as_ref().map(memory::resolve).transpose()?;
    let (base, scheduler) = scheduler::resolve(file.scheduler)?;
    let slots = groups::slots(file_disk.slots.as_ref())?;
    let (window, pace) = disk::policies(file_disk)?;
    let groups = groups::resolve(&file.group, file_disk)?;
    let mut tasks = tasks::resolve(&file.task, capacity, memory.is_some(), &groups, pace)?;
    let steps = steps::resolve(&file.step, duration, &mut tasks, &groups, memory)?;
    let checks =
        file.check.iter().map(|check| resolve_check(check, &tasks, &groups, memory.is_some()));
    let checks = checks.collect::<Result<Vec<Check>, Mistake>>()?;
    Ok(Scenario {
        why: file.why.into_inner(),
        seed: file.seed,
        duration,
        warmup,
        until_done: file.until_done,
        disk,
        model,
        faults,
        memory,
        nr_requests: file_disk.nr_requests.as_ref().map_or(NR_REQUESTS_DEFAULT, |n| *n.get_ref()),
        slots,
        groups,
        device: super::DEVICE,
        window_depth: file_disk.depth.as_ref().map(|depth| *depth.get_ref()),
        merge_max: disk::merge(file_disk)?,
        window,
        pace,
        pause_target: disk::pause_target(file_disk, pace)?,
        base,
        scheduler,
        tasks,
        steps,
        keeps_timeline: false,
        counts_reads: false,
        checks,
    })
}

/// Whether a figure is that of a task, of a group, or of the whole run, as the check has it.
fn check_owner(
    given: &CheckTable,
    figure: Figure,
    tasks: &[Task],
    tree: &Tree,
) -> Result<(), Mistake> {
    let word = figure.name();
    match (&given.task, &given.group) {
        (Some(_), Some(group)) => {
            Err((group.span(), "a check is of a task or of a group: leave one out".into()))
        }
        (Some(name), None) if !figure.is_of_a_task() => {
            let message = format!("'{word}' is a figure of the whole run: leave `task` out");
            Err((name.span(), message))
        }
        (Some(name), None) if !tasks.iter().any(|task| task.name == *name.get_ref()) => {
            let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
            let message = spelling::unknown("task", name.get_ref(), &names);
            Err((name.span(), message))
        }
        (None, Some(path)) if !figure.is_of_a_group() => {
            Err((path.span(), format!("'{word}' is no figure of a group: those are mb_s, part")))
        }
        (None, Some(path)) => groups::find(tree, Some(path)).map(drop),
        (None, None) if figure.is_of_a_task() => {
            let message = format!("'{word}' is a figure of one task: say which with `task`");
            Err((given.figure.span(), message))
        }
        _ => Ok(()),
    }
}

fn resolve_check(
    check: &Spanned<CheckTable>,
    tasks: &[Task],
    groups: &Tree,
    has_memory: bool,
) -> Result<Check, Mistake> {
    let given = check.get_ref();
    let word = given.figure.get_ref();
    let Some(figure) = Figure::find(word) else {
        let names: Vec<&str> = Figure::ALL.iter().map(|(_, name, _)| *name).collect();
        let message = spelling::unknown("figure", word, &names);
        return Err((given.figure.span(), message));
    };
    check_owner(given, figure, tasks, groups)?;
    if figure.needs_memory() && !has_memory {
        let message = format!("'{word}' is a figure of the page cache: add a [memory] table");
        return Err((given.figure.span(), message));
    }
    if given.at_least.is_none() && given.at_most.is_none() {
        let message = "a check needs `at_least`, `at_most` or both";
        return Err((check.span(), message.into()));
    }
    Ok(Check {
        figure,
        task: given.task.as_ref().map(|name| name.get_ref().clone()),
        group: given.group.as_ref().map(|path| path.get_ref().clone()),
        at_least: given.at_least,
        at_most: given.at_most,
    })
}
