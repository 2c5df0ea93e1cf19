//! The file format of a scenario: TOML, one file a story.
//!
//! ```toml
//! why = "A reader must not starve beside a writer."   # required: a story says why it exists
//! seed = 1
//! duration = "60s"
//! warmup = "5s"                       # counts in no figure
//!
//! [disk]
//! preset = "hdd-sata-250g"
//! depth = 1                           # optional: fewer requests at the disk than it takes
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
//! kind = "dd-write"
//! offset = "64GiB"
//! size = "32GiB"
//!
//! [[step]]
//! at = "30s"
//! configure = "as"
//!
//! [[check]]
//! figure = "share"
//! task = "dd"
//! at_least = 0.4
//! ```

use super::groups;
use super::shape::{
    CheckTable, DiskTable, FaultsTable, File, MemoryTable, SchedulerTable, Settings, StepTable,
    TaskTable,
};
use super::{Change, Check, Chosen, Memory, Scenario, ScenarioError, Step};
use super::{DURATION_MAX, TASK_DEPTH_MAX, TASKS_MAX, plain_elevator};
use crate::disks;
use crate::figure::Figure;
use crate::task::{Kind, Task};
use crate::units::Size;
use core::ops::Range;
use iopace_core::group::tree::Tree;
use iopace_core::limits::{NR_REQUESTS_DEFAULT, NR_REQUESTS_MAX, NR_REQUESTS_MIN};
use iopace_core::request::Extent;
use iopace_core::sched::{self, Algorithm, REGISTRY};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_disk::faulty::FaultRates;
use toml::Spanned;

/// A message and the bytes of the file that it is about.
pub(super) type Mistake = (Range<usize>, String);

impl Scenario {
    /// Reads the text of a scenario file; `file` is its name in messages.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let fail = |(span, message)| ScenarioError::at(file, text, span, message);
        let parsed: File = toml::from_str(text).map_err(|error| {
            fail((error.span().unwrap_or(0..0), explain(error.message()).into()))
        })?;
        resolve(parsed).map_err(fail)
    }
}

/// Says what would be right where the parser only says what is missing.
fn explain(message: &str) -> &str {
    match message {
        "missing field `why`" => {
            "missing field `why`: a scenario says in one sentence which question it answers"
        }
        other => other,
    }
}

fn resolve(file: File) -> Result<Scenario, Mistake> {
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
    let capacity = resolve_disk(&file.disk)?;
    let faults = file.disk.faults.as_ref().map(resolve_faults).transpose()?;
    let memory = file.memory.as_ref().map(resolve_memory).transpose()?;
    let (base, scheduler) = resolve_scheduler(file.scheduler)?;
    let slots = groups::slots(file.disk.slots.as_ref())?;
    let groups = groups::resolve(&file.group)?;
    let tasks = resolve_tasks(&file.task, capacity, memory.is_some(), &groups)?;
    let steps = file.step.iter().map(|step| resolve_step(step, duration));
    let steps = steps.collect::<Result<Vec<Step>, Mistake>>()?;
    let checks = file.check.iter().map(|check| resolve_check(check, &tasks));
    let checks = checks.collect::<Result<Vec<Check>, Mistake>>()?;
    let nr_requests = file.disk.nr_requests.as_ref();
    Ok(Scenario {
        why: file.why.into_inner(),
        seed: file.seed,
        duration,
        warmup,
        disk: file.disk.preset.get_ref().clone(),
        faults,
        memory,
        nr_requests: nr_requests.map_or(NR_REQUESTS_DEFAULT, |n| *n.get_ref()),
        slots,
        groups,
        window_depth: file.disk.depth.as_ref().map(|depth| *depth.get_ref()),
        base,
        scheduler,
        tasks,
        steps,
        checks,
    })
}

/// Checks the disk and gives its capacity.
fn resolve_disk(disk: &DiskTable) -> Result<Bytes, Mistake> {
    let bounds = |value: &Option<Spanned<u32>>, min: u32, max: u32, what: &str| match value {
        Some(n) if !(min..=max).contains(n.get_ref()) => {
            Err((n.span(), format!("{what} is {min} to {max}")))
        }
        _ => Ok(()),
    };
    bounds(&disk.depth, 1, iopace_core::limits::WINDOW_DEPTH_MAX, "the depth")?;
    bounds(&disk.nr_requests, NR_REQUESTS_MIN, NR_REQUESTS_MAX, "nr_requests")?;
    let built = disks::build(disk.preset.get_ref());
    let built = built.map_err(|error| (disk.preset.span(), error))?;
    Ok(built.capacity())
}

fn resolve_faults(table: &Spanned<FaultsTable>) -> Result<FaultRates, Mistake> {
    let FaultsTable { error_permille, stall_permille, lost_permille, stall } = *table.get_ref();
    let sum = u64::from(error_permille) + u64::from(stall_permille) + u64::from(lost_permille);
    if sum > 1_000 {
        return Err((table.span(), "the rates sum to more than 1000 of 1000 commands".into()));
    }
    if (stall_permille > 0) != stall.is_some() {
        let message = "`stall_permille` and `stall` belong together: how many, and how late";
        return Err((table.span(), message.into()));
    }
    let stall = stall.map_or(Nanos::ZERO, |time| time.0);
    Ok(FaultRates { error_permille, stall_permille, stall, lost_permille })
}

fn resolve_memory(table: &Spanned<MemoryTable>) -> Result<Memory, Mistake> {
    let given = table.get_ref();
    let default = Memory::default();
    let or = |size: Option<Size>, default: Bytes| size.map_or(default, |size| size.0);
    let memory = Memory {
        size: or(given.size, default.size),
        dirty_background: or(given.dirty_background, default.dirty_background),
        dirty_limit: or(given.dirty_limit, default.dirty_limit),
        write_back_len: or(given.write_back_len, default.write_back_len),
        write_back_inflight: given.write_back_inflight.unwrap_or(default.write_back_inflight),
    };
    let page = Bytes::from_kib(4);
    let is_legal = page <= memory.write_back_len
        && memory.dirty_background <= memory.dirty_limit
        && memory.write_back_len <= memory.dirty_limit
        && memory.dirty_limit <= memory.size
        && memory.write_back_inflight > 0;
    if !is_legal {
        let message = "[memory] does not fit together: 4 KiB <= write_back_len <= dirty_limit, \
                       dirty_background <= dirty_limit <= size, write_back_inflight >= 1";
        return Err((table.span(), message.into()));
    }
    Ok(memory)
}

fn find_algorithm(name: &Spanned<String>) -> Result<&'static Algorithm, Mistake> {
    sched::find(name.get_ref()).ok_or_else(|| {
        let names: Vec<&str> = REGISTRY.iter().map(|algorithm| algorithm.name).collect();
        let message = format!("no scheduler '{}'; there are: {}", name.get_ref(), names.join(", "));
        (name.span(), message)
    })
}

fn choose(name: &Spanned<String>, set: &Settings) -> Result<Chosen, Mistake> {
    let algorithm = find_algorithm(name)?;
    let mut params = algorithm.defaults();
    for (parameter, value) in set {
        let result = params.set(parameter.get_ref(), *value.get_ref());
        result.map_err(|error| (parameter.span(), error.to_string()))?;
    }
    Ok(Chosen { algorithm, params })
}

fn resolve_scheduler(
    table: Option<SchedulerTable>,
) -> Result<(&'static Algorithm, Option<Chosen>), Mistake> {
    let Some(table) = table else {
        return Ok((plain_elevator(), None));
    };
    let base = table.base.as_ref().map(find_algorithm).transpose()?;
    let base = base.unwrap_or(plain_elevator());
    if table.name.get_ref() != "none" {
        return Ok((base, Some(choose(&table.name, &table.set)?)));
    }
    match table.set.keys().next() {
        Some(parameter) => {
            Err((parameter.span(), "the scheduler \"none\" has no parameters".into()))
        }
        None => Ok((base, None)),
    }
}

fn resolve_tasks(
    tables: &[Spanned<TaskTable>],
    capacity: Bytes,
    has_memory: bool,
    groups: &Tree,
) -> Result<Vec<Task>, Mistake> {
    if let Some(table) = tables.get(TASKS_MAX) {
        return Err((table.span(), format!("at most {TASKS_MAX} tasks")));
    }
    let mut tasks: Vec<Task> = Vec::with_capacity(tables.len());
    for table in tables {
        let mut task = resolve_task(table, capacity)?;
        task.group = groups::find(groups, table.get_ref().group.as_ref())?;
        groups::check_blocking(table, &task, &tasks)?;
        let name = &table.get_ref().name;
        if tasks.iter().any(|other| other.name == task.name) {
            return Err((name.span(), format!("a second task named '{}'", task.name)));
        }
        if task.buffered && !has_memory {
            let message = "a buffered task needs a [memory] table: the page cache is modelled";
            return Err((table.get_ref().kind.span(), message.into()));
        }
        tasks.push(task);
    }
    Ok(tasks)
}

fn resolve_task(table: &Spanned<TaskTable>, capacity: Bytes) -> Result<Task, Mistake> {
    let given = table.get_ref();
    let word = given.kind.get_ref();
    let Some((kind, ..)) = Kind::ALL.iter().find(|(_, name, _)| name == word) else {
        let names: Vec<&str> = Kind::ALL.iter().map(|(_, name, _)| *name).collect();
        let message = format!("no kind of task '{word}'; there are: {}", names.join(", "));
        return Err((given.kind.span(), message));
    };
    let offset = given.offset.map_or(Bytes::ZERO, |size| size.0);
    let len = given.size.map_or(capacity - offset, |size| size.0);
    let region = Extent::new(offset, len).filter(|region| region.end() <= capacity);
    let Some(region) = region else {
        let message = format!("offset + size is past the end of the disk, which has {capacity}");
        return Err((table.span(), message));
    };
    let mut task = Task::new(given.name.get_ref(), *kind, region);
    task.start = Instant::ZERO + given.start.map_or(Nanos::ZERO, |time| time.0);
    task.stop = given.stop.map_or(Instant::NEVER, |time| Instant::ZERO + time.0);
    apply_settings(&mut task, given)?;
    let least = match kind {
        Kind::DdRead | Kind::Cvs => Bytes::from_kib(128),
        Kind::DdWrite => Bytes::from_mib(64),
        Kind::Sequential | Kind::Random => task.block,
    };
    if region.len() < least {
        let message = format!("the region has {}, a {word} needs {least}", region.len());
        return Err((table.span(), message));
    }
    Ok(task)
}

/// Settings of the plain kinds; the others stand for one program and have their own.
fn apply_settings(task: &mut Task, given: &TaskTable) -> Result<(), Mistake> {
    let is_plain = matches!(task.kind, Kind::Sequential | Kind::Random);
    let spans = [
        ("block", given.block.as_ref().map(Spanned::span)),
        ("think", given.think.as_ref().map(Spanned::span)),
        ("write_percent", given.write_percent.as_ref().map(Spanned::span)),
        ("buffered", given.buffered.as_ref().map(Spanned::span)),
        ("fua", given.fua.as_ref().map(Spanned::span)),
        ("depth", given.depth.as_ref().map(Spanned::span)),
        ("blocking", given.blocking.as_ref().map(Spanned::span)),
    ];
    let foreign = spans.into_iter().find_map(|(name, span)| Some((name, span?)));
    if let (false, Some((name, span))) = (is_plain, foreign) {
        let message = format!(
            "a task of kind '{}' takes no `{name}`: it stands for one program; use the kinds \
             'sequential' or 'random'",
            task.kind.name()
        );
        return Err((span, message));
    }
    if let Some(depth) = &given.depth {
        if !(1..=TASK_DEPTH_MAX).contains(depth.get_ref()) {
            return Err((depth.span(), format!("the depth is 1 to {TASK_DEPTH_MAX}")));
        }
        task.depth = *depth.get_ref();
    }
    if let Some(block) = &given.block {
        let size = block.get_ref().0;
        if size.0 == 0 || !size.0.is_multiple_of(512) || size > Bytes::from_mib(32) {
            let message = "a block is a multiple of 512 B, at most 32 MiB";
            return Err((block.span(), message.into()));
        }
        task.block = size;
    }
    if let Some(percent) = &given.write_percent {
        if *percent.get_ref() > 100 {
            return Err((percent.span(), "write_percent is 0 to 100".into()));
        }
        task.write_percent = *percent.get_ref();
    }
    task.think = given.think.as_ref().map_or(task.think, |time| time.get_ref().0);
    task.buffered = given.buffered.as_ref().map_or(task.buffered, |b| *b.get_ref());
    task.blocking = given.blocking.as_ref().is_some_and(|blocking| *blocking.get_ref());
    task.fua = given.fua.as_ref().map_or(task.fua, |fua| *fua.get_ref());
    Ok(())
}

fn resolve_step(step: &Spanned<StepTable>, duration: Nanos) -> Result<Step, Mistake> {
    let given = step.get_ref();
    if given.at.get_ref().0 >= duration {
        return Err((given.at.span(), "the run has ended by then".into()));
    }
    let destroy = given.destroy.as_ref().is_some_and(|destroy| *destroy.get_ref());
    let change = match (&given.insert, &given.configure, destroy) {
        (Some(name), None, false) => Change::Insert(choose(name, &given.set)?),
        (None, Some(name), false) => Change::Configure(choose(name, &given.set)?),
        (None, None, true) if given.set.is_empty() => Change::Destroy,
        _ => {
            let message = "a step does one thing: insert = \"NAME\", configure = \"NAME\" (both \
                           with set = {} if wanted) or destroy = true";
            return Err((step.span(), message.into()));
        }
    };
    let at = Instant::ZERO + given.at.get_ref().0;
    Ok(Step { at, change })
}

fn resolve_check(check: &Spanned<CheckTable>, tasks: &[Task]) -> Result<Check, Mistake> {
    let given = check.get_ref();
    let word = given.figure.get_ref();
    let Some(figure) = Figure::find(word) else {
        let names: Vec<&str> = Figure::ALL.iter().map(|(_, name, _)| *name).collect();
        let message = format!("no figure '{word}'; there are: {}", names.join(", "));
        return Err((given.figure.span(), message));
    };
    match &given.task {
        Some(name) if !figure.is_of_a_task() => {
            let message = format!("'{word}' is a figure of the whole run: leave `task` out");
            return Err((name.span(), message));
        }
        Some(name) if !tasks.iter().any(|task| task.name == *name.get_ref()) => {
            let names: Vec<&str> = tasks.iter().map(|task| task.name.as_str()).collect();
            let message = format!("no task '{}'; there are: {}", name.get_ref(), names.join(", "));
            return Err((name.span(), message));
        }
        None if figure.is_of_a_task() => {
            let message = format!("'{word}' is a figure of one task: say which with `task`");
            return Err((given.figure.span(), message));
        }
        _ => {}
    }
    if given.at_least.is_none() && given.at_most.is_none() {
        let message = "a check needs `at_least`, `at_most` or both";
        return Err((check.span(), message.into()));
    }
    Ok(Check {
        figure,
        task: given.task.as_ref().map(|name| name.get_ref().clone()),
        at_least: given.at_least,
        at_most: given.at_most,
    })
}
